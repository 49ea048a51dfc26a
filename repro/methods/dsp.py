"""DSP(p; m): Diversely Stale Parameters (Xu, Huo, Huang; arXiv 1909.02625).

What: each block keeps its own fixed staleness m_k, so that no block waits for a whole forward or backward
sweep. Equations: Eq. 5 (the forward's weights below, the update's weights in the block itself and above, by
replaying the stored input) and Eq. 6 (queue lengths). Queues p and q decide only when things run.
Differences from the paper as printed: m = 0 is allowed in the last block (the paper's own settings need it).
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

    def check(self, blocks: int, batch_size: int) -> None:
        """Eq. 6 must hold for `blocks` blocks."""
        Staleness.parse(self.staleness, blocks)

    def resolve(self, blocks: int) -> DSP:
        """The uniform form written out, so that both forms name the same run."""
        return self.model_copy(update={"staleness": str(Staleness.parse(self.staleness, blocks))})

    def schedule(self, blocks: int, num_batches: int, evaluations: Mapping[int, int]) -> Schedule:
        """Free-running blocks bounded by the queues p and q."""
        setting = Staleness.parse(self.staleness, blocks)
        return by_staleness(setting, num_batches, evaluations, recompute=True)

    def label(self, blocks: int) -> str:
        """DSP(1,1,0;4,2,0)."""
        return f"DSP({Staleness.parse(self.staleness, blocks)})"
