"""Builds the schedule of micro-batches that follow each other through the blocks without a flush between batches (1F1B).

Micro-batches are numbered on over the batches: n = i M + j. Block k has forwarded w_k = K-1-k of them more than it has
back-propagated, then takes turns. K = 2, M = 2, delay 1 (E.F: batch E, micro-batch F):

    block 0   F0 F0.1 B0 F1 B0.1 U0 F1.1 B1 F2 B1.1 U1 ...
    block 1   F0 B0 F0.1 B0.1 U0 F1 B1 F1.1 B1.1 U1 ...

U_i follows the last backward of batch i, so no gradient of another batch has been added by then; F1.1 of block 0 comes
after U0, and yet meets W^(0) as F1 did (`Schedule.kept_versions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from repro.schedule.actions import Action, Kind, Schedule


def one_forward_one_backward(
    *,
    blocks: int,
    num_batches: int,
    micro: int,
    delay: int,
    recompute: bool,
    evaluations: Mapping[int, int],
) -> Schedule:
    """Return the schedule of batches of `micro` micro-batches, all blocks `delay` >= 1 updates late.

    ValueError where the pipeline does not fill: a forward would meet weights that are not made yet.
    """
    if blocks - 1 > micro * delay:
        raise ValueError(f"{blocks} blocks need micro x delay >= {blocks - 1}, not {micro} x {delay}")
    total = num_batches * micro

    def block(k: int) -> Iterator[Action]:
        ahead = blocks - 1 - k
        for n in range(total + ahead):
            if n < total:
                yield Action(Kind.FORWARD, *divmod(n, micro))
            if n < ahead:
                continue
            batch, part = divmod(n - ahead, micro)
            if recompute:
                yield Action(Kind.RECOMPUTE, batch, part)
            yield Action(Kind.BACKWARD, batch, part)
            if part == micro - 1:
                yield Action(Kind.UPDATE, batch)
                if batch + 1 in evaluations:
                    yield Action(Kind.EVALUATE, evaluations[batch + 1])

    return Schedule(
        num_blocks=blocks,
        num_batches=num_batches,
        staleness=(delay,) * blocks,
        output_room=(1,) * blocks,  # what block k is ahead of k+1 by: before an evaluation it waits there
        gradient_room=(1,) * blocks,
        recompute=(recompute,) * blocks,
        block_actions=block,
        kept_versions=True,
    )
