"""First-in-first-out queues between neighbouring blocks, over torch.distributed point to point.

    block k                         block k+1
    Outbox --(message n, tag)-----> Inbox      receives are posted ahead, so transfers overlap with compute
           <-(n was taken, tag)----            the acknowledgement bounds how many finished messages wait

An Outbox keeps every message until it has been taken: that is the output (or gradient) queue of the paper.
gloo carries CPU tensors; a CUDA tensor passes through pinned memory, or through NCCL where every block has
its own GPU (the header always travels by gloo). Either way on a stream beside the compute stream (crossing.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from repro.engine.transport.crossing import Crossing, Mark
from repro.engine.transport.message import HEADER_BYTES, Envelope
from repro.errors import RunFailed

_TAGS = 1 << 20  # tags repeat after this many messages; far more than can be in flight
_KEPT_MARKS = 1024
_STREAM_TAGS = {"output": 0, "gradient": 1, "evaluation": 2}


class PeerLost(RunFailed):
    """The neighbouring process is gone: the reason lies there, not here."""


@dataclass
class Link:
    """One direction between this block and block `peer`; `payload_group` is set where NCCL carries the tensors.

    `rank`: of the peer's process, where it is not `peer` (a run with several replicas). `group`: where the stream has a
    connection of its own. `ahead`: receives posted at once; gloo sends a message when it has heard of its receive.
    """

    peer: int
    stream: str
    device: torch.device
    payload_group: Any = None
    crossing: Crossing | None = None  # on a GPU
    rank: int | None = None
    group: Any = None
    ahead: int = 1

    def tag(self, number: int, acknowledgement: bool = False) -> int:
        """A tag unique to (stream, kind, message) among everything in flight between two blocks."""
        return ((number % _TAGS) * 4 + _STREAM_TAGS[self.stream]) * 2 + int(acknowledgement)

    @property
    def _rank(self) -> int:
        return self.peer if self.rank is None else self.rank

    def wait(self, work: Any) -> None:
        """Wait for a send or receive; raises PeerLost where the other process has gone."""
        try:
            work.wait()
        except (RuntimeError, ValueError) as error:
            raise self._lost(error) from error

    def _lost(self, error: Exception) -> PeerLost:
        words = (str(error).splitlines() or [""])[0]  # below it torch lists its own native stack
        if "timed out" in words.lower():
            return PeerLost(
                f"waited longer than runtime.message_seconds for block {self.peer} ({self.stream}): {words}"
            )
        return PeerLost(f"lost the connection to block {self.peer} ({self.stream}): {words}")

    def send(self, tensor: Tensor, tag: int, group: Any = None) -> Any:
        """Start a send."""
        try:
            return dist.isend(tensor, self._rank, group=group or self.group, tag=tag)
        except (RuntimeError, ValueError) as error:
            raise self._lost(error) from error

    def receive(self, tensor: Tensor, tag: int, group: Any = None) -> Any:
        """Post a receive."""
        try:
            return dist.irecv(tensor, self._rank, group=group or self.group, tag=tag)
        except (RuntimeError, ValueError) as error:
            raise self._lost(error) from error


@dataclass
class _Sent:
    envelope: Envelope
    buffer: Tensor  # header and, unless NCCL carries it, payload
    tensor: Tensor  # the payload as sent
    works: Future[list[Any]]
    acknowledgement: Any
    mark: Tensor
    copied: Mark | None = None  # where the device writes the buffer


def _done(works: list[Any]) -> Future[list[Any]]:
    found: Future[list[Any]] = Future()
    found.set_result(works)
    return found


class Outbox:
    """The sending end. `put` hands a tensor over and waits while more than `room` messages are untaken."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._sent: deque[_Sent] = deque()
        self._number = 0

    @property
    def held_bytes(self) -> int:
        """Bytes of the messages that have not been taken yet."""
        return sum(
            s.buffer.numel() + (0 if s.tensor.device.type == "cpu" else s.envelope.payload_bytes)
            for s in self._sent
        )

    def put(self, envelope: Envelope, tensor: Tensor) -> None:
        """Start to send `tensor`; returns at once. Call `make_room` to wait for the queue's bound."""
        crossing = self.link.crossing
        if crossing is None:
            self._sent.append(self._plain(envelope, tensor))
        elif self.link.payload_group is None:
            self._sent.append(self._staged(envelope, tensor, crossing))
        else:
            self._sent.append(self._direct(envelope, tensor, crossing))
        self._number += 1

    def _plain(self, envelope: Envelope, tensor: Tensor) -> _Sent:
        """From the CPU: header and tensor in one buffer."""
        buffer = envelope.buffer()
        envelope.write(buffer)
        payload = envelope.payload(buffer)
        payload.copy_(tensor)
        works = _done([self.link.send(buffer, self.link.tag(self._number))])
        return _Sent(envelope, buffer, payload, works, *self._expect())

    def _staged(self, envelope: Envelope, tensor: Tensor, crossing: Crossing) -> _Sent:
        """From a GPU by way of pinned memory: the courier sends the buffer when the device has written it."""
        link, stream, number = self.link, crossing.stream, self._number
        buffer = crossing.buffers.take(envelope.message_bytes)
        envelope.write(buffer)
        payload = envelope.payload(buffer)
        stream.follow_compute(tensor)
        with stream.running():
            payload.copy_(tensor, non_blocking=True)
        copied = stream.mark()
        works = crossing.courier.send(copied, lambda: [link.send(buffer, link.tag(number))])
        return _Sent(envelope, buffer, payload, works, *self._expect(), copied)

    def _direct(self, envelope: Envelope, tensor: Tensor, crossing: Crossing) -> _Sent:
        """From GPU to GPU; the header goes over the host."""
        link, stream = self.link, crossing.stream
        buffer = torch.empty(HEADER_BYTES, dtype=torch.uint8)
        envelope.write(buffer)
        payload = tensor.contiguous()
        stream.follow_compute(payload)
        works = [link.send(buffer, link.tag(self._number))]
        with stream.running():
            works.append(link.send(payload, 0, link.payload_group))
        return _Sent(envelope, buffer, payload, _done(works), *self._expect())

    def _expect(self) -> tuple[Any, Tensor]:
        """Post the receive of the acknowledgement."""
        mark = torch.empty(1, dtype=torch.int64)
        return self.link.receive(mark, self.link.tag(self._number, acknowledgement=True)), mark

    def make_room(self, room: int) -> None:
        """Wait until at most `room` messages are untaken (0: until the last one has been taken)."""
        crossing = self.link.crossing
        while len(self._sent) > room:
            oldest = self._sent[0]
            self.link.wait(oldest.acknowledgement)
            # NCCL's wait holds up the current stream: here the one beside, so that compute goes on.
            with nullcontext() if crossing is None else crossing.stream.running():
                for work in oldest.works.result():
                    self.link.wait(work)
            if crossing is not None and oldest.copied is not None:
                crossing.buffers.give_back(oldest.buffer)  # written, sent and taken
            self._sent.popleft()

    def waiting(self) -> list[tuple[Envelope, Tensor]]:
        """Untaken messages, oldest first: part of a block's state in a checkpoint."""
        for sent in self._sent:
            if sent.copied is not None:
                sent.copied.synchronize()
        return [(s.envelope, s.tensor) for s in self._sent]


class Inbox:
    """The receiving end. `take` returns the next message of a sequence of envelopes known in advance."""

    def __init__(self, link: Link, expected: Iterator[Envelope]) -> None:
        self.link = link
        self._expected = expected
        self._number = 0  # of the next message to take
        self._posted: deque[tuple[Envelope, Tensor, Tensor | None, list[Any]]] = deque()
        self._acknowledgements: deque[tuple[Any, Tensor]] = deque()
        self.order = 0  # digest that came with the last message taken
        for _ in range(link.ahead):
            self._post()

    @property
    def held_bytes(self) -> int:
        """Bytes of the receives that are posted ahead."""
        return sum(buffer.numel() for _, buffer, _, _ in self._posted)

    def _post(self) -> None:
        envelope = next(self._expected, None)
        if envelope is None:
            return
        link, crossing, payload = self.link, self.link.crossing, None
        if crossing is None:
            buffer = envelope.buffer()
        elif link.payload_group is None:
            buffer = crossing.buffers.take(envelope.message_bytes)
        else:
            buffer = torch.empty(HEADER_BYTES, dtype=torch.uint8)
        works = [link.receive(buffer, link.tag(self._number + len(self._posted)))]
        if crossing is not None and link.payload_group is not None:
            # On the stream beside: it waits for nothing that compute has been given.
            with crossing.stream.running():
                payload = torch.empty(envelope.shape, dtype=envelope.dtype, device=link.device)
                works.append(link.receive(payload, 0, link.payload_group))
        self._posted.append((envelope, buffer, payload, works))

    def wait(self) -> Envelope:
        """Wait until the next message is here, without taking it; returns what it should be."""
        if not self._posted:
            raise RunFailed(f"no further {self.link.stream} is expected from block {self.link.peer}")
        envelope, _, _, works = self._posted[0]
        crossing = self.link.crossing
        with nullcontext() if crossing is None else crossing.stream.running():
            while works:  # NCCL's holds up the stream beside, the header's the host
                self.link.wait(works.pop(0))
        return envelope

    def take(self) -> Tensor:
        """Wait for the next message, check its header, acknowledge it, post a receive; returns the tensor."""
        envelope = self.wait()
        _, buffer, payload, _ = self._posted.popleft()
        self.order = envelope.check(buffer, self.link.peer)
        mark = torch.tensor([self._number], dtype=torch.int64)
        work = self.link.send(mark, self.link.tag(self._number, acknowledgement=True))
        self._acknowledgements.append((work, mark))
        if len(self._acknowledgements) > _KEPT_MARKS:  # received long ago: no queue is that long
            self.link.wait(self._acknowledgements.popleft()[0])
        self._number += 1
        found = self._on_device(envelope, buffer, payload)
        self._post()  # behind it: the stream beside must not wait for the next message first
        return found

    def _on_device(self, envelope: Envelope, buffer: Tensor, payload: Tensor | None) -> Tensor:
        """The tensor where the block computes; its compute waits on the device for what is still under way."""
        crossing = self.link.crossing
        if crossing is None:
            return envelope.payload(buffer)
        stream = crossing.stream
        if payload is not None:
            stream.lead_compute(payload, stream.mark())
            return payload
        with stream.running():
            received = envelope.payload(buffer).to(self.link.device, non_blocking=True)
        copied = stream.mark()
        stream.lead_compute(received, copied)
        crossing.buffers.give_back(buffer, copied)
        return received

    def finish(self) -> None:
        """Wait until all acknowledgements have reached the sender, at the end of the run."""
        while self._acknowledgements:
            work, _ = self._acknowledgements.popleft()
            self.link.wait(work)
