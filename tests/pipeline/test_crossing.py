"""Queues on a GPU, with streams and events that only write down what is asked of them: who waits for whom, and where."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from repro.engine.transport.channel import Inbox, Link, Outbox
from repro.engine.transport.crossing import Courier, Crossing, PinnedBuffers
from repro.engine.transport.message import Envelope
from repro.errors import RunFailed

SHAPE = (2, 3)


class FakeMark:
    """An event that the test lets the device reach."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name, self.reached = log, name, threading.Event()

    def query(self) -> bool:
        return self.reached.is_set()

    def synchronize(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self.log.append(f"HOST WAITS FOR {self.name}")
        assert self.reached.wait(10)


class FakeStream:
    """A stream that keeps a log; `current` while work goes to it."""

    def __init__(self, log: list[str]) -> None:
        self.log, self.marks, self.current = log, [], False

    def follow_compute(self, tensor: torch.Tensor) -> None:
        self.log.append("side follows compute")

    @contextmanager
    def running(self) -> Iterator[None]:
        self.current = True
        yield
        self.current = False

    def mark(self) -> FakeMark:
        self.marks.append(FakeMark(self.log, f"mark {len(self.marks)}"))
        self.log.append(self.marks[-1].name)
        return self.marks[-1]

    def lead_compute(self, tensor: torch.Tensor, mark: FakeMark) -> None:
        self.log.append(f"compute follows {mark.name}")


class FakeLink(Link):
    """Messages that go nowhere; a received buffer holds what the test has put into `arriving`."""

    log: list[str]
    arriving: list[torch.Tensor]
    fails = False

    def _where(self, group: Any) -> str:
        return "nccl" if group else "gloo"

    def _side(self) -> str:
        return " beside" if self.crossing.stream.current else ""  # type: ignore[union-attr]

    def send(self, tensor: torch.Tensor, tag: int, group: Any = None) -> Any:
        if self.fails:
            raise RunFailed("the neighbour has gone")
        side = self._side() if threading.current_thread() is threading.main_thread() else " by courier"
        self.log.append(f"send {self._where(group)} {tensor.numel()}{side}")
        return "sent " + self._where(group)

    def receive(self, tensor: torch.Tensor, tag: int, group: Any = None) -> Any:
        if tensor.dtype == torch.int64:
            return "acknowledged"
        self.log.append(f"receive {self._where(group)} {tensor.numel()}{self._side()}")
        if group is None:
            self.posted = tensor
        return "received " + self._where(group)

    def wait(self, work: Any) -> None:
        if work == "received gloo" and self.arriving:
            self.posted[:] = self.arriving.pop(0)[: self.posted.numel()]
        self.log.append(f"wait {work}{self._side()}")


def link(direct: bool = False) -> FakeLink:
    log: list[str] = []
    allocate = lambda size: torch.empty(size, dtype=torch.uint8)  # noqa: E731
    crossing = Crossing(FakeStream(log), PinnedBuffers(allocate), Courier())  # type: ignore[arg-type]
    found = FakeLink(1, "output", torch.device("cpu"), "group" if direct else None, crossing)
    found.log, found.arriving = log, []
    return found


def envelope(batch: int) -> Envelope:
    return Envelope("output", batch, 0, SHAPE)


def message(batch: int) -> torch.Tensor:
    buffer = envelope(batch).buffer()
    envelope(batch).write(buffer)
    envelope(batch).payload(buffer).fill_(batch)
    return buffer


def eventually(log: list[str], count: int) -> None:
    deadline = time.monotonic() + 10
    while len(log) < count and time.monotonic() < deadline:
        time.sleep(0.001)


def test_a_staged_message_leaves_when_the_copy_is_done_and_the_block_goes_on_before() -> None:
    way = link()
    box = Outbox(way)
    for batch in (0, 1):
        box.put(envelope(batch), torch.full(SHAPE, float(batch)))
    assert way.log == ["side follows compute", "mark 0", "side follows compute", "mark 1"]
    stream: Any = way.crossing.stream  # type: ignore[union-attr]
    stream.marks[1].reached.set()  # the second first: order is kept
    time.sleep(0.01)
    assert len(way.log) == 4
    stream.marks[0].reached.set()
    eventually(way.log, 6)
    size = envelope(0).message_bytes
    assert way.log[4:] == [f"send gloo {size} by courier"] * 2
    box.make_room(0)
    assert not [line for line in way.log if line.startswith("HOST")]
    assert box.held_bytes == 0


def test_a_sent_buffer_is_used_again_when_its_message_was_taken() -> None:
    way = link()
    box, stream = Outbox(way), way.crossing.stream  # type: ignore[union-attr]
    places = []
    for batch in range(4):
        box.put(envelope(batch), torch.zeros(SHAPE))
        places.append(box._sent[-1].buffer.data_ptr())
        stream.marks[-1].reached.set()  # type: ignore[attr-defined]
        box.make_room(1)
    assert places[0] != places[1]
    assert places[2] == places[0]
    assert places[3] == places[1]


def test_a_checkpoint_waits_for_the_copies_of_what_is_under_way() -> None:
    way = link()
    box, stream = Outbox(way), way.crossing.stream  # type: ignore[union-attr]
    box.put(envelope(0), torch.full(SHAPE, 7.0))
    stream.marks[0].reached.set()  # type: ignore[attr-defined]
    ((_, tensor),) = box.waiting()
    assert torch.equal(tensor, torch.full(SHAPE, 7.0))
    assert "HOST WAITS FOR mark 0" in way.log


def test_a_neighbour_that_has_gone_is_told_by_make_room() -> None:
    way = link()
    way.fails = True
    box = Outbox(way)
    box.put(envelope(0), torch.zeros(SHAPE))
    way.crossing.stream.marks[0].reached.set()  # type: ignore[union-attr,attr-defined]
    with pytest.raises(RunFailed, match="the neighbour has gone"):
        box.make_room(0)


def test_a_received_buffer_is_used_again_when_the_device_has_read_it() -> None:
    way = link()
    way.arriving = [message(batch) for batch in range(3)]
    inbox = Inbox(way, iter([envelope(batch) for batch in range(3)]))
    stream: Any = way.crossing.stream  # type: ignore[union-attr]
    places, size = [way.posted.data_ptr()], envelope(0).message_bytes
    assert torch.equal(inbox.take(), torch.zeros(SHAPE))
    assert way.log == [
        f"receive gloo {size}",
        "wait received gloo beside",
        "send gloo 1",  # the acknowledgement
        "mark 0",
        "compute follows mark 0",
        f"receive gloo {size}",
    ]
    places.append(way.posted.data_ptr())
    assert places[1] != places[0]  # the device has not come to mark 0
    stream.marks[0].reached.set()
    assert torch.equal(inbox.take(), torch.ones(SHAPE))
    assert way.posted.data_ptr() == places[0]
    assert not [line for line in way.log if line.startswith("HOST")]


def test_nccl_runs_beside_compute_both_ways() -> None:
    """A receive posted ahead follows nothing that compute has been given; compute waits for it, and no host does."""
    way = link(direct=True)
    way.arriving = [message(0), message(1)]
    inbox = Inbox(way, iter([envelope(0), envelope(1)]))
    posted = ["receive gloo 128", "receive nccl 6 beside"]
    assert way.log == posted
    inbox.take()
    assert way.log[2:] == [
        "wait received gloo beside",
        "wait received nccl beside",
        "send gloo 1",
        "mark 0",
        "compute follows mark 0",
        *posted,
    ]
    way = link(direct=True)
    box = Outbox(way)
    box.put(envelope(0), torch.zeros(SHAPE))
    assert way.log == ["side follows compute", "send gloo 128", "send nccl 6 beside"]
    box.make_room(0)
    assert way.log[3:] == [
        "wait acknowledged",
        "wait sent gloo beside",
        "wait sent nccl beside",
    ]
