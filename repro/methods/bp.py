"""BP: plain back-propagation with the blocks run one after the other.

Forward and backward of batch i use W^(i) and the same graph; one batch is in flight. Through the engine it
is the baseline of every speed-up: the same processes and messages, with all three lockings in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from repro.methods.method import Method
from repro.schedule import Schedule
from repro.schedule.decoupled import decoupled


class BP(Method):
    """Back-propagation (no settings)."""

    synchronous: ClassVar[bool] = True
    name: Literal["bp"] = "bp"

    def schedule(self, blocks: int, num_batches: int, evaluations: Mapping[int, int]) -> Schedule:
        """All queues are empty and nothing is stale: each block waits for its neighbours."""
        zeros = (0,) * blocks
        return decoupled(
            num_batches=num_batches, m=zeros, p=zeros, q=zeros, recompute=False, evaluations=evaluations
        )
