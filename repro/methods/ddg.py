"""DDG: Decoupled Delayed Gradients (Huo, Gu, Yang, Huang; arXiv 1804.10574); PipeDream's weight stashing.

What: as FR, m_k = K-1-k, but the graph of the forward is kept, with the weights of that time, and the late
gradient is sent through it: no recompute, m_k + 1 graphs in memory. Updates make new weight tensors, so the
kept graphs stay valid with autograd's version check on. Differences from the authors' code: no `.data`
trick. Locking rules as in FR.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from repro.methods.method import LockingRule, Method
from repro.schedule import Schedule, Staleness
from repro.schedule.decoupled import by_staleness


class DDG(Method):
    """Decoupled Delayed Gradients with a locking rule."""

    name: Literal["ddg"] = "ddg"
    locking: LockingRule = "mailbox"

    def schedule(self, blocks: int, num_batches: int, evaluations: Mapping[int, int]) -> Schedule:
        """m_k = K-1-k, graphs kept."""
        setting = Staleness.uniform(blocks, 0, 1)
        return by_staleness(setting, num_batches, evaluations, recompute=False, locking=self.locking)

    def label(self, blocks: int) -> str:
        """DDG (mailbox)."""
        return f"DDG ({self.locking})"
