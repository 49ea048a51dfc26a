"""DSP(p; m): Diversely Stale Parameters (Xu, Huo, Huang; arXiv 1909.02625).

What: each block keeps its own fixed staleness m_k, so that no block waits for a whole forward or backward
sweep. Equations: Eq. 5 (the forward's weights below, the update's weights in the block itself and above, by
replaying the stored input) and Eq. 6 (queue lengths). Queues p and q decide only when things run.
Differences from the paper as printed: m = 0 is allowed in the last block (the paper's own settings need it).
`queues` (ours, changes no number): with the paper's `split` the queues between two blocks hold p outputs and q
gradients, and as there are always p + q messages between the two, both are always full: the blocks stay within a
batch of each other and longer queues absorb no more jitter. `shared` gives either queue all p + q places; the
memory of both blocks together stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from repro.methods.method import Method
from repro.schedule import Schedule, Staleness
from repro.schedule.decoupled import by_staleness


class DSP(Method):
    """DSP with `staleness` "p_0,..,p_{K-1};m_0,..,m_{K-1}", or "p=1 q=1" for any K."""

    name: Literal["dsp"] = "dsp"
    staleness: str = "p=1 q=1"
    queues: Literal["split", "shared"] = "split"

    def check(self, blocks: int, batch_size: int) -> None:
        """Eq. 6 must hold for `blocks` blocks."""
        Staleness.parse(self.staleness, blocks)

    def resolve(self, blocks: int) -> DSP:
        """The uniform form written out, so that both forms name the same run."""
        return self.model_copy(update={"staleness": str(Staleness.parse(self.staleness, blocks))})

    def schedule(self, blocks: int, num_batches: int, evaluations: Mapping[int, int]) -> Schedule:
        """Free-running blocks bounded by the queues p and q."""
        setting = Staleness.parse(self.staleness, blocks)
        return by_staleness(setting, num_batches, evaluations, recompute=True, shared=self.queues == "shared")

    def label(self, blocks: int) -> str:
        """DSP(1,1,0;4,2,0), or DSP(1,1,0;4,2,0 shared)."""
        shared = " shared" if self.queues == "shared" else ""
        return f"DSP({Staleness.parse(self.staleness, blocks)}{shared})"
