"""Networks as lists of layers that can be cut between any two of them, never inside a residual block."""

from repro.models.inspection import (
    estimated_cost,
    mutates_input,
    normalises_one_value,
    shapes,
    shared_parameters,
)
from repro.models.layer import LayerFactory, run_layer
from repro.models.networks import layers, names
from repro.models.objective import cross_entropy
from repro.models.precision import FLOAT32, Precision, typed

__all__ = [
    "FLOAT32",
    "LayerFactory",
    "Precision",
    "cross_entropy",
    "estimated_cost",
    "layers",
    "mutates_input",
    "names",
    "normalises_one_value",
    "run_layer",
    "shapes",
    "shared_parameters",
    "typed",
]
