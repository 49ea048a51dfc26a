"""PipeDream: weight stashing (Narayanan et al., SOSP 2019; arXiv 1806.03377).

What: block k forwards batch i at W^(i-m), m_k = K-1-k, and sends the late gradient through the same weights, which it
has stashed: K-k versions in block k. The schedule is DDG's under the rule `free`, and so is every number; the name is
the one that the field knows. Differences from the authors' system: no data parallelism within a block, no vertical
sync, blocks cut by this project's measured costs; a batch's update follows its own backward in each block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from repro.methods.ddg import DDG
from repro.methods.method import Method
from repro.schedule import Schedule


class PipeDream(Method):
    """PipeDream with weight stashing (no settings)."""

    name: Literal["pipedream"] = "pipedream"

    def schedule(self, blocks: int, num_batches: int, evaluations: Mapping[int, int]) -> Schedule:
        """DDG's without locking."""
        return DDG(locking="free").schedule(blocks, num_batches, evaluations)

    def label(self, blocks: int) -> str:
        """PipeDream."""
        return "PipeDream"
