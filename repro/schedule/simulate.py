"""Runs a schedule in simulated time: finds deadlocks before processes start, and gives timelines and bounds.

Blocks run in a fixed order and meet only through first-in-first-out queues, so the times do not depend on
the order in which blocks are advanced here (a Kahn network). Messages are free unless `links` says what they
cost (repro/schedule/links.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from repro.schedule.actions import Action, Kind, Schedule
from repro.schedule.links import Links, free

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
    """Messages from one block to its neighbour: when each was handed over, had passed, and was taken."""

    occupied: float  # seconds for which a message occupies the way
    copy: float  # seconds for which a message holds up its sender
    notice: float  # seconds of a word, and of a message's end
    sent_when_put: bool  # the sender has waited for the transfer
    ahead: int  # receives posted at once
    put: list[float] = field(default_factory=list)
    passed: list[float] = field(default_factory=list)  # when the sender's end was free again
    taken: list[float] = field(default_factory=list)

    def arrival(self) -> float | None:
        """When the next message is here; None while it is not known."""
        number = len(self.taken)
        if number >= len(self.put):
            return None
        if self.sent_when_put:
            return max(self.put[number], self.taken[-1] if self.taken else 0.0)
        if number == len(self.passed):
            posted = self.taken[number - self.ahead] + self.notice if number >= self.ahead else 0.0
            free = self.passed[-1] if self.passed else 0.0
            self.passed.append(max(self.put[number], posted, free) + self.occupied)
        return self.passed[number] + self.notice


@dataclass
class _Block:
    index: int
    actions: Iterator[Action]
    clock: float = 0.0
    current: Action | None = None
    waiting_room: tuple[_Queue, int] | None = None  # (queue, number of messages that must have been taken)
    reason: str = ""


def simulate(schedule: Schedule, duration: Duration, links: Links | None = None) -> Timeline:
    """Return when each action runs if action a of block k takes `duration(k, a)` seconds.

    Raises Deadlock where no block can go on.
    """
    return _Simulation(schedule, duration, links or free(schedule.num_blocks)).run()


class _Simulation:
    """The queues, the blocks and how far each has come."""

    def __init__(self, schedule: Schedule, duration: Duration, links: Links) -> None:
        count = schedule.num_blocks
        self.schedule, self.duration, self.links, self.count = schedule, duration, links, count
        self.takes_gradient = Kind.MODULE if schedule.synthetic else Kind.BACKWARD
        self.up = [self._queue(k) for k in range(count - 1)]  # up[k]: from block k to k+1
        self.down = [self._queue(k) for k in range(count - 1)]  # down[k]: from block k+1 to k
        self.forwarded: dict[int, float] = {}  # batch -> when the last block had forwarded it
        self.evaluated: list[dict[int, float]] = [{} for _ in range(count)]
        self.blocks = [_Block(k, schedule.actions(k)) for k in range(count)]
        self.spans: list[Span] = []

    def _queue(self, boundary: int) -> _Queue:
        links = self.links
        notice = links.notice(boundary)
        return _Queue(links.occupied(boundary), links.copy(boundary), notice, not links.overlaps, links.ahead)

    def run(self) -> Timeline:
        """Advance every block as far as it goes, in turn, until all have finished."""
        pending = deque(self.blocks)
        idle = 0
        while pending and idle < len(pending):
            block = pending.popleft()
            moved = False
            while self._advance(block):
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
        self.spans.sort(key=lambda s: (s.start, s.block))
        return Timeline(self.count, self.spans)

    def _advance(self, block: _Block) -> bool:
        """Run one action or one wait of `block`; False where it must wait."""
        if block.waiting_room is not None:
            queue, number = block.waiting_room
            if len(queue.taken) < number:
                return False
            block.clock = max(block.clock, queue.taken[number - 1] + queue.notice)
            block.waiting_room = None
            return True
        if block.current is None:
            block.current = next(block.actions, None)
            if block.current is None:
                return False
        action = block.current
        arrival = self._ready(block, action)
        if arrival is None:
            return False
        start = max(block.clock, arrival)
        end = start + self.duration(block.index, action)
        block.clock, block.current = end, None
        if action.kind not in (Kind.AWAIT_GRADIENT, Kind.AWAIT_FORWARDS):
            self.spans.append(Span(block.index, action, start, end))
        self._take(block.index, action, start)
        self._give(block, action, end)
        return True

    def _ready(self, block: _Block, action: Action) -> float | None:
        """Time from which the action's message is there, or None while it is not known."""
        k, kind, last = block.index, action.kind, self.count - 1
        if kind is Kind.FORWARD and k > 0:
            block.reason = f"the output of batch {action.batch} of block {k - 1}"
            return self.up[k - 1].arrival()
        if kind in (self.takes_gradient, Kind.AWAIT_GRADIENT) and k < last:
            block.reason = f"the gradient of batch {action.batch} of block {k + 1}"
            return self.down[k].arrival()
        if kind is Kind.AWAIT_FORWARDS:
            block.reason = f"the forward of batch {action.batch} in block {last}"
            done = self.forwarded.get(action.batch)
            return None if done is None else done + self.links.latency
        if kind is Kind.EVALUATE and k > 0:
            block.reason = f"the evaluation of epoch {action.batch} in block {k - 1}"
            return self.evaluated[k - 1].get(action.batch)
        return 0.0

    def _take(self, k: int, action: Action, now: float) -> None:
        if action.kind is Kind.FORWARD and k > 0:
            self.up[k - 1].taken.append(now)
        if action.kind is self.takes_gradient and k < self.count - 1:
            self.down[k].taken.append(now)

    def _give(self, block: _Block, action: Action, now: float) -> None:
        k = block.index
        if action.kind is Kind.FORWARD:
            if k < self.count - 1:
                _hand_over(block, self.up[k], now, self.schedule.output_room[k], action, k + 1)
            else:
                self.forwarded[action.batch] = now
        if action.kind is Kind.BACKWARD and k > 0:
            _hand_over(block, self.down[k - 1], now, self.schedule.gradient_room[k], action, k - 1)
        if action.kind is Kind.EVALUATE:
            self.evaluated[k][action.batch] = now


def _hand_over(block: _Block, queue: _Queue, now: float, room: int, action: Action, taker: int) -> None:
    block.clock = now + queue.copy
    queue.put.append(block.clock)
    limit = room if action.room is None else action.room
    if len(queue.put) > limit:
        block.waiting_room = (queue, len(queue.put) - limit)
        block.reason = f"room in its queue to block {taker} ({limit} may wait)"
