"""PipeMare: asynchronous training without stashing (Yang et al.; arXiv 1910.05124).

What: block k forwards batch i at W^(i-m), m_k = K-1-k; the late gradient goes back through the graph of that forward,
with the activations of then but the weights of now, W^(i): one copy of the weights, and no replay. So the gradient is
of no function: each operation's vector-Jacobian product is taken at (its input then, its weight now). At K = 1 it is BP.
The paper's corrections are settings of their own: rate rescheduling (T1), discrepancy correction (T2); its warm-up
(T3) is synchronous. Differences from the paper: whole batches, where the paper counts delays in micro-batches; BN's
backward uses the statistics of then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from repro.methods.method import Method
from repro.schedule import Schedule, Staleness
from repro.schedule.decoupled import by_staleness


class PipeMare(Method):
    """PipeMare without its corrections (no settings)."""

    name: Literal["pipemare"] = "pipemare"

    def schedule(self, blocks: int, num_batches: int, evaluations: Mapping[int, int]) -> Schedule:
        """The order of DDG without locking; graphs read the weights of now."""
        setting = Staleness.uniform(blocks, 0, 1)
        return replace(by_staleness(setting, num_batches, evaluations, recompute=False), present_weights=True)

    def label(self, blocks: int) -> str:
        """PipeMare."""
        return "PipeMare"
