"""PipeDream-2BW: double-buffered weights (Narayanan et al.; arXiv 2006.09503).

What: a batch is M >= K micro-batches, whose gradients are summed, weighted by their sizes; every block, the last one
too, is late by one update: W^(t+1) = W^(t) - lr g_t(W^(t-1)), with W^(-1) = W^(0). Micro-batches follow each other one
forward, one backward, without a flush between batches; a block keeps two versions of its weights, and an update writes
the new version over the older one, which nothing needs any more. `rematerialise` keeps inputs instead of graphs and
replays each before its backward at the version of its forward. BN normalises per micro-batch; its running statistics
are updated once a batch, with its update, from the moments of the whole batch (as GPipe here).
Differences from the authors' system: no data parallelism, BN (their models have none) as above, and the planner that
chooses K and M is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from repro.methods.method import Method, PositiveInt
from repro.schedule import Schedule
from repro.schedule.one_forward_one_backward import one_forward_one_backward


class TwoBW(Method):
    """PipeDream-2BW with M = `micro` micro-batches, graphs kept or re-materialised."""

    name: Literal["2bw"] = "2bw"
    micro: PositiveInt = 4
    rematerialise: bool = False

    def check(self, blocks: int, batch_size: int) -> None:
        """At least as many micro-batches as blocks, and a sample in each."""
        if self.micro < blocks:
            raise ValueError(
                f"method.micro = {self.micro} micro-batches are fewer than blocks = {blocks}, so two versions of the "
                f"weights would not do: give {blocks}..{batch_size}"
            )
        if self.micro > batch_size:
            raise ValueError(
                f"method.micro = {self.micro} micro-batches are more than data.batch_size = {batch_size} samples: "
                f"give {blocks}..{batch_size}"
            )

    def micro_batches(self, size: int) -> int:
        """M, or one sample each where a smaller last batch has fewer than M."""
        return min(self.micro, size)

    def schedule(self, blocks: int, num_batches: int, evaluations: Mapping[int, int]) -> Schedule:
        """One forward, one backward over micro-batches; delay 1 in every block."""
        return one_forward_one_backward(
            blocks=blocks,
            num_batches=num_batches,
            micro=self.micro,
            delay=1,
            recompute=self.rematerialise,
            evaluations=evaluations,
        )

    def label(self, blocks: int) -> str:
        """2BW(M=4)."""
        return f"2BW(M={self.micro}{', re-materialised' if self.rematerialise else ''})"
