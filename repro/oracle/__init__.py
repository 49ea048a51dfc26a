"""The oracle: the update rule of every method as one plain program, beside the engine that it judges."""

from repro.oracle.net import Weights
from repro.oracle.program import Oracle, OracleResult

__all__ = ["Oracle", "OracleResult", "Weights"]
