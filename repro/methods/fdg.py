"""FDG / ADL: fully decoupled delayed gradients.

What: m_k = 2(K-1-k) with an output queue of one, so forward, backward and update are all unlocked; the
forward's graph and weights are kept (stashed), nothing is recomputed. DSP(1,..;2(K-1-k),..) with stashing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from repro.methods.method import Method
from repro.schedule import Schedule, Staleness
from repro.schedule.decoupled import by_staleness


class FDG(Method):
    """Fully decoupled delayed gradients (no settings)."""

    name: Literal["fdg"] = "fdg"

    def schedule(self, blocks: int, num_batches: int, evaluations: Mapping[int, int]) -> Schedule:
        """p = q = 1 at every boundary, graphs kept."""
        setting = Staleness.uniform(blocks, 1, 1)
        return by_staleness(setting, num_batches, evaluations, recompute=False)
