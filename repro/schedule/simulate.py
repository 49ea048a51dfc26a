"""Runs a schedule in simulated time: finds deadlocks before processes start, and gives timelines and bounds.

Blocks run in a fixed order and meet only through first-in-first-out queues, so the times do not depend on
the order in which blocks are advanced here (a Kahn network); communication is free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from repro.schedule.actions import Action, Kind, Schedule

Duration = Callable[[int, Action], float]


@dataclass(frozen=True, slots=True)
class Span:
    """One action of one block, from `start` to `end` (seconds)."""

    block: int
    action: Action
    start: float
    end: float


@dataclass
class Timeline:
    """All spans of a simulated or recorded run."""

    num_blocks: int
    spans: list[Span]

    def of(self, block: int) -> list[Span]:
        """Block `block`'s spans in order."""
        return [span for span in self.spans if span.block == block]

    @property
    def end(self) -> float:
        """When the last block has finished."""
        return max((span.end for span in self.spans), default=0.0)

    def period(self) -> float:
        """Seconds per batch in the steady state: mean interval of the last block's updates in the middle half."""
        ends = [s.end for s in self.of(self.num_blocks - 1) if s.action.kind is Kind.UPDATE]
        if len(ends) < 3:
            return self.end / max(1, len(ends))
        low, high = len(ends) // 4, 3 * len(ends) // 4
        return (ends[high] - ends[low]) / (high - low)


class Deadlock(Exception):
    """The blocks wait for each other; the message says who waits for what."""


@dataclass
class _Queue:
    """Messages from one block to its neighbour: when each was handed over and when it was taken."""

    put: list[float] = field(default_factory=list)
    taken: list[float] = field(default_factory=list)


@dataclass
class _Block:
    index: int
    actions: Iterator[Action]
    clock: float = 0.0
    current: Action | None = None
    waiting_room: tuple[_Queue, int] | None = None  # (queue, number of messages that must have been taken)
    reason: str = ""


def simulate(schedule: Schedule, duration: Duration) -> Timeline:
    """Return when each action runs if action a of block k takes `duration(k, a)` seconds.

    Raises Deadlock where no block can go on.
    """
    count = schedule.num_blocks
    up = [_Queue() for _ in range(count)]  # up[k]: from block k to k+1
    down = [_Queue() for _ in range(count)]  # down[k]: from block k to k-1
    forwarded: dict[int, float] = {}  # batch -> when the last block had forwarded it
    evaluated: list[dict[int, float]] = [{} for _ in range(count)]
    blocks = [_Block(k, schedule.actions(k)) for k in range(count)]
    spans: list[Span] = []

    def ready(block: _Block, action: Action) -> float | None:
        """Time from which the action's message is there, or None while it is not known."""
        k, kind = block.index, action.kind
        if kind is Kind.FORWARD and k > 0:
            return _arrival(block, up[k - 1], f"the output of batch {action.batch} of block {k - 1}")
        takes_gradient = Kind.MODULE if schedule.synthetic else Kind.BACKWARD
        if kind in (takes_gradient, Kind.AWAIT_GRADIENT) and k < count - 1:
            return _arrival(block, down[k + 1], f"the gradient of batch {action.batch} of block {k + 1}")
        if kind is Kind.AWAIT_FORWARDS:
            block.reason = f"the forward of batch {action.batch} in block {count - 1}"
            return forwarded.get(action.batch)
        if kind is Kind.EVALUATE and k > 0:
            block.reason = f"the evaluation of epoch {action.batch} in block {k - 1}"
            return evaluated[k - 1].get(action.batch)
        return 0.0

    def advance(block: _Block) -> bool:
        """Run one action or one wait of `block`; False where it must wait."""
        k = block.index
        if block.waiting_room is not None:
            queue, number = block.waiting_room
            if len(queue.taken) < number:
                return False
            block.clock = max(block.clock, queue.taken[number - 1])
            block.waiting_room = None
            return True
        if block.current is None:
            block.current = next(block.actions, None)
            if block.current is None:
                return False
        action = block.current
        arrival = ready(block, action)
        if arrival is None:
            return False
        start = max(block.clock, arrival)
        end = start + duration(k, action)
        block.clock, block.current = end, None
        if action.kind not in (Kind.AWAIT_GRADIENT, Kind.AWAIT_FORWARDS):
            spans.append(Span(k, action, start, end))
        takes_gradient = Kind.MODULE if schedule.synthetic else Kind.BACKWARD
        if action.kind is Kind.FORWARD:
            if k > 0:
                up[k - 1].taken.append(start)
            if k < count - 1:
                _hand_over(block, up[k], end, schedule.output_room[k], action, k + 1)
            else:
                forwarded[action.batch] = end
        if action.kind is takes_gradient and k < count - 1:
            down[k + 1].taken.append(start)
        if action.kind is Kind.BACKWARD and k > 0:
            _hand_over(block, down[k], end, schedule.gradient_room[k], action, k - 1)
        if action.kind is Kind.EVALUATE:
            evaluated[k][action.batch] = end
        return True

    pending = deque(blocks)
    idle = 0
    while pending and idle < len(pending):
        block = pending.popleft()
        moved = False
        while advance(block):
            moved = True
        if block.current is None and block.waiting_room is None:
            idle = 0
            continue  # this block has finished
        pending.append(block)
        idle = 0 if moved else idle + 1
    if pending:
        waits = "; ".join(
            f"block {b.index} waits for {b.reason} (at {b.current or 'a full queue'})"
            for b in sorted(pending, key=lambda b: b.index)
        )
        raise Deadlock(f"the schedule deadlocks: {waits}")
    spans.sort(key=lambda s: (s.start, s.block))
    return Timeline(count, spans)


def _arrival(block: _Block, queue: _Queue, what: str) -> float | None:
    number = len(queue.taken)
    block.reason = what
    return queue.put[number] if number < len(queue.put) else None


def _hand_over(block: _Block, queue: _Queue, now: float, room: int, action: Action, taker: int) -> None:
    queue.put.append(now)
    limit = room if action.room is None else action.room
    if len(queue.put) > limit:
        block.waiting_room = (queue, len(queue.put) - limit)
        block.reason = f"room in its queue to block {taker} ({limit} may wait)"
