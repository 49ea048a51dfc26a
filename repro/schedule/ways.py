"""The simulator for links between hosts, where words wait behind tensors: events in the order of time.

A boundary between two hosts has a way for each direction, and a way carries one thing after the other:

    up      | output 3 ............... | gradient 1 was taken | send gradient 3 | output 4 ...
    down    | gradient 1 .......... | output 2 was taken | send output 4 | gradient 2 ...

gloo sends a message once it has heard that its receive is posted, and an outbox has room once it has heard that a message
was taken. Both words go the way of the other direction's tensors, over the same connection and the same cable, and wait
behind what is under way there. `simulate` (simulate.py) knows only their latency.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import count

from repro.schedule.actions import Action, Kind, Schedule
from repro.schedule.links import Links

Duration = Callable[[int, Action], float]
Record = Callable[[int, Action, float, float], None]
Wait = float | Callable[[], bool]  # seconds, or until something holds


class Clock:
    """What happens next, and when."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        """Have `do` done in so many seconds."""
        heapq.heappush(self._events, (self.now + seconds, next(self._number), do))

    def run(self) -> None:
        """Until nothing is left to happen."""
        while self._events:
            self.now, _, do = heapq.heappop(self._events)
            do()


@dataclass
class Way:
    """One direction between two blocks: what is sent first arrives first. Inside a host all arrives at once."""

    clock: Clock
    near: bool
    latency: float
    free_at: float = 0.0

    def send(self, seconds: float, arrived: Callable[[], None]) -> None:
        """Something that takes so many seconds to go out; a word takes none, but waits for what went before."""
        if self.near:
            arrived()
            return
        self.free_at = max(self.clock.now, self.free_at) + seconds
        self.clock.after(self.free_at + self.latency - self.clock.now, arrived)


@dataclass
class Stream:
    """The messages of one direction: `way` carries them, `back` the words about them."""

    way: Way
    back: Way
    seconds: float  # of a message on the way
    wake: Callable[[], None]
    ready: int  # receives that the sender has heard of
    put: int = 0
    sent: int = 0
    here: int = 0
    taken: int = 0
    heard: int = 0  # messages that the sender knows to have been taken

    def hand_over(self) -> None:
        """The sender has finished the next message."""
        self.put += 1
        self._send()

    def take(self) -> None:
        """The receiver takes the next message: two words go back, that it was taken and that a receive is posted."""
        self.taken += 1
        self.back.send(0.0, self._was_taken)
        self.back.send(0.0, self._is_ready)

    def _send(self) -> None:
        while self.sent < min(self.put, self.ready):
            self.sent += 1
            self.way.send(self.seconds, self._arrived)

    def _arrived(self) -> None:
        self.here += 1
        self.wake()

    def _was_taken(self) -> None:
        self.heard += 1
        self.wake()

    def _is_ready(self) -> None:
        self.ready += 1
        self._send()


@dataclass
class WaySimulation:
    """A schedule over such links; `record` is told of every action with its start and end."""

    schedule: Schedule
    duration: Duration
    links: Links
    record: Record
    clock: Clock = field(default_factory=Clock)
    forwarded: int = -1  # what the last block has forwarded, as the others know
    waiting: dict[int, Action] = field(
        default_factory=dict
    )  # of blocks that have not finished, what they are at

    def run(self) -> None:
        """To the end; `waiting` then holds the blocks that could not go on."""
        blocks, links = self.schedule.num_blocks, self.links
        self._held: dict[int, tuple[Generator[Wait, None, None], Callable[[], bool]]] = {}
        self.up, self.down = [], []
        for k in range(blocks - 1):
            ways = [Way(self.clock, k in links.near, links.latency) for _ in range(2)]
            seconds = links.transfer(k) - links.latency if k not in links.near else 0.0
            self.up.append(Stream(ways[0], ways[1], seconds, self._wake, links.ahead))
            self.down.append(Stream(ways[1], ways[0], seconds, self._wake, links.ahead))
        for k in range(blocks):
            self._go_on(k, self._block(k))
        self.clock.run()

    def _go_on(self, k: int, block: Generator[Wait, None, None]) -> None:
        wait = next(block, None)
        if wait is None:
            self.waiting.pop(k, None)
        elif isinstance(wait, float):
            self.clock.after(wait, lambda: self._go_on(k, block))
        elif wait():
            self._go_on(k, block)
        else:
            self._held[k] = (block, wait)

    def _wake(self) -> None:
        for k, held in list(self._held.items()):
            block, wait = held
            if (
                self._held.get(k) is held and wait()
            ):  # who was woken first may have woken it, to wait for more
                del self._held[k]
                self._go_on(k, block)

    def _block(self, k: int) -> Generator[Wait, None, None]:
        schedule, last = self.schedule, self.schedule.num_blocks - 1
        taken_by = Kind.MODULE if schedule.synthetic else Kind.BACKWARD
        for action in schedule.actions(k):
            self.waiting[k] = action
            source = None
            if action.kind is Kind.FORWARD and k > 0:
                source = self.up[k - 1]
            elif action.kind in (taken_by, Kind.AWAIT_GRADIENT) and k < last:
                source = self.down[k]
            if source is not None:
                yield lambda stream=source: stream.here > stream.taken  # type: ignore[misc]
            if action.kind is Kind.AWAIT_FORWARDS:
                yield lambda batch=action.batch: self.forwarded >= batch  # type: ignore[misc]
                continue
            if action.kind is Kind.AWAIT_GRADIENT:
                continue
            start = self.clock.now
            if source is not None:
                source.take()
            yield self.duration(k, action)
            self.record(k, action, start, self.clock.now)
            if action.kind is Kind.FORWARD and k == last:
                self.clock.after(self.links.latency, lambda batch=action.batch: self._forwarded(batch))  # type: ignore[misc]
            target, room = None, 0
            if action.kind is Kind.FORWARD and k < last:
                target, room = self.up[k], schedule.output_room[k]
            elif action.kind is Kind.BACKWARD and k > 0:
                target, room = self.down[k - 1], schedule.gradient_room[k]
            if target is not None:
                yield self.links.copy(k if action.kind is Kind.FORWARD else k - 1)
                target.hand_over()
                room = room if action.room is None else action.room
                yield lambda stream=target, room=room: stream.put - stream.heard <= room  # type: ignore[misc]

    def _forwarded(self, batch: int) -> None:
        self.forwarded = max(self.forwarded, batch)
        self._wake()
