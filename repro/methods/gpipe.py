"""GPipe: synchronous micro-batches (Huang et al.; arXiv 1811.06965).

What: a batch is cut into M micro-batches that follow each other through the blocks; one update per batch with
the micro-batches' gradients weighted by their size, so without BN and dropout it equals BP. With
re-materialisation a block keeps only its inputs and replays each before its backward. BN normalises per
micro-batch; its running statistics are updated once, from the moments of the whole batch (deferred).
Differences from the paper: backwards run in the order 0..M-1, and with re-materialisation on every block
replays every micro-batch (the paper spares the last one). Bubble (K-1)/(M+K-1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from repro.methods.method import Method, PositiveInt
from repro.schedule import Action, Kind, Schedule


class GPipe(Method):
    """GPipe with M = `micro_batches_per_batch`, with or without re-materialisation."""

    synchronous: ClassVar[bool] = True
    name: Literal["gpipe"] = "gpipe"
    micro: PositiveInt = 4
    rematerialise: bool = True

    def check(self, blocks: int, batch_size: int) -> None:
        """A micro-batch holds at least one sample."""
        if self.micro > batch_size:
            raise ValueError(
                f"method.micro = {self.micro} micro-batches are more than data.batch_size = {batch_size} samples: "
                f"give 1..{batch_size}"
            )

    def micro_batches(self, size: int) -> int:
        """M, or one sample each where a smaller last batch has fewer than M."""
        return min(self.micro, size)

    def schedule(self, blocks: int, num_batches: int, evaluations: Mapping[int, int]) -> Schedule:
        """All forwards of a batch, then all its backwards, then the update."""
        micro, rematerialise = self.micro, self.rematerialise

        def block(k: int) -> Iterator[Action]:
            for i in range(num_batches):
                for j in range(micro):
                    yield Action(Kind.FORWARD, i, j)
                for j in range(micro):
                    if rematerialise:
                        yield Action(Kind.RECOMPUTE, i, j)
                    yield Action(Kind.BACKWARD, i, j)
                yield Action(Kind.UPDATE, i)
                if i + 1 in evaluations:
                    yield Action(Kind.EVALUATE, evaluations[i + 1])

        return Schedule(
            num_blocks=blocks,
            num_batches=num_batches,
            staleness=(0,) * blocks,
            output_room=(micro,) * blocks,
            gradient_room=(micro,) * blocks,
            recompute=(rematerialise,) * blocks,
            block_actions=block,
        )

    def label(self, blocks: int) -> str:
        """GPipe(M=4)."""
        return f"GPipe(M={self.micro}{'' if self.rematerialise else ', kept'})"
