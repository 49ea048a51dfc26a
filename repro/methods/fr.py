"""FR: Features Replay (Huo, Gu, Huang; arXiv 1807.04511).

What: block k replays the input it stored m_k = K-1-k batches ago through its present weights and uses the
gradient that the block above computed for the same batch. Locking (the numbers are the same under all three):
`mailbox`: the authors' program order, a block waits for the gradient from above before its next forward;
`barrier`: the algorithm as written, every backward waits until the batch has passed all blocks;
`free`: receives posted ahead, waits only where data is needed.
Differences from the authors' code: BN statistics are updated once a batch, not twice; the first block does
not train with twice the learning rate unless `double_first_lr` asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from repro.methods.method import LockingRule, Method
from repro.schedule import Schedule, Staleness
from repro.schedule.decoupled import by_staleness


class FR(Method):
    """Features Replay with a locking rule."""

    name: Literal["fr"] = "fr"
    locking: LockingRule = "mailbox"
    double_first_lr: bool = False

    def schedule(self, blocks: int, num_batches: int, evaluations: Mapping[int, int]) -> Schedule:
        """m_k = K-1-k, no output queue, one gradient may wait."""
        setting = Staleness.uniform(blocks, 0, 1)
        return by_staleness(setting, num_batches, evaluations, recompute=True, locking=self.locking)

    def lr_factor(self, block: int, blocks: int) -> float:
        """The authors' code doubles the first block's rate; off by default."""
        return 2.0 if self.double_first_lr and block == 0 else 1.0

    def label(self, blocks: int) -> str:
        """FR (mailbox)."""
        return f"FR ({self.locking})"
