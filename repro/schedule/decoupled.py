"""Builds the schedules of all methods that run whole batches with a fixed staleness per block.

Order inside block k, after dsp.md "weight versions": F_0 .. F_m, B_0, F_{m+1}, B_1, ... and, after the last
forward, the remaining backwards. U_i follows B_i at once, so update j -> j+1 always uses batch j and the
forward of batch i meets the weights after max(0, i-m) updates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from repro.schedule.actions import Action, Kind, Schedule
from repro.schedule.staleness import Staleness

Locking = Literal["free", "mailbox", "barrier"]


def by_staleness(
    setting: Staleness,
    num_batches: int,
    evaluations: Mapping[int, int],
    *,
    recompute: bool,
    locking: Locking = "free",
    shared: bool = False,
) -> Schedule:
    """Return the schedule of blocks whose staleness and queues are those of `setting`, q after Eq. 6.

    Between blocks k and k+1 wait p_k + q_{k+1} messages at any time, outputs and gradients together. `shared`: each
    of the two queues may take all of these places, else p_k and q_{k+1} of them.
    """
    slack = setting.slack
    return decoupled(
        num_batches=num_batches,
        m=setting.m,
        p=(*slack, 0) if shared else setting.p,
        q=(0, *slack) if shared else setting.q,
        recompute=recompute,
        locking=locking,
        evaluations=evaluations,
    )


def decoupled(
    *,
    num_batches: int,
    m: tuple[int, ...],
    p: tuple[int, ...],
    q: tuple[int, ...],
    recompute: bool,
    locking: Locking = "free",
    evaluations: Mapping[int, int] | None = None,
    grow_at_evaluation: bool = True,
) -> Schedule:
    """Return the schedule of blocks with staleness `m`, output queues `p` and gradient queues `q`.

    `evaluations` maps a number of updates to the epoch that is evaluated right after it, in every block.
    Before an evaluation block k hands over m_k - m_{k+1} outputs that block k+1, already waiting in its own
    evaluation, does not take: the queue may grow to that number, else the blocks deadlock (shown by
    `grow_at_evaluation=False` in the tests).
    """
    num_blocks = len(m)
    places = dict(evaluations or {})

    def block(k: int) -> Iterator[Action]:
        last = k == num_blocks - 1
        for i in range(num_batches + m[k]):
            due = i - m[k]  # the batch whose backward belongs to this round
            if i < num_batches:
                if locking == "mailbox" and not last and due >= 0:
                    yield Action(Kind.AWAIT_GRADIENT, due)
                room = None
                if not last and grow_at_evaluation and _waits_above(i, m[k], m[k + 1]):
                    room = m[k] - m[k + 1]
                yield Action(Kind.FORWARD, i, room=room)
                if locking == "barrier" and not last and not _last_evaluates_before(i, m[k]):
                    yield Action(Kind.AWAIT_FORWARDS, i)
            if due >= 0:
                if recompute and m[k] > 0:
                    yield Action(Kind.RECOMPUTE, due)
                yield Action(Kind.BACKWARD, due)
                yield Action(Kind.UPDATE, due)
                if due + 1 in places:
                    yield Action(Kind.EVALUATE, places[due + 1])

    def _waits_above(i: int, mine: int, above: int) -> bool:
        # Block k+1 stops after update u, having taken batches below u + above; block k still sends up to u +
        # mine.
        return any(u + above <= i < u + mine for u in range(i - mine + 1, i - above + 1) if u in places)

    def _last_evaluates_before(i: int, mine: int) -> bool:
        # The last block forwards batch i only after an evaluation that this block has yet to reach: no
        # barrier there.
        return any(u <= i < u + mine for u in range(i - mine + 1, i + 1) if u in places)

    return Schedule(
        num_blocks=num_blocks,
        num_batches=num_batches,
        staleness=m,
        output_room=p,
        gradient_room=q,
        recompute=tuple(recompute and m_k > 0 for m_k in m),
        block_actions=block,
    )
