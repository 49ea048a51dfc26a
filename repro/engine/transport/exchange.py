"""The queues between blocks that live in one process: a tensor changes hands, nothing is copied and nothing waits.

Who runs the blocks asks `ready` first. No block writes into a tensor that it was handed: a layer that would
gets a copy of its input (`Block`), and autograd and the optimiser write to tensors of their own.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from repro.engine.transport.message import Envelope
from repro.engine.transport.ports import RowSum
from repro.errors import RunFailed

Messages = deque[tuple[Envelope, Tensor]]


@dataclass
class Exchange:
    """All queues of a run, by (sender, receiver, stream), and how far the last block has forwarded."""

    queues: dict[tuple[int, int, str], Messages] = field(default_factory=lambda: defaultdict(deque))
    forwarded: int = -1


@dataclass
class MemoryOutbox:
    """The sending end. Its queue has no bound: who takes the messages is run first."""

    messages: Messages

    @property
    def held_bytes(self) -> int:
        """Bytes of the messages that have not been taken yet."""
        return sum(envelope.payload_bytes for envelope, _ in self.messages)

    def put(self, envelope: Envelope, tensor: Tensor) -> None:
        """Hand `tensor` over, in plain order as a message between processes is."""
        self.messages.append((envelope, tensor.detach().contiguous()))

    def make_room(self, room: int) -> None:
        """Nothing: there is room."""

    def waiting(self) -> list[tuple[Envelope, Tensor]]:
        """Untaken messages, oldest first: part of a block's state in a checkpoint."""
        return list(self.messages)


class MemoryInbox:
    """The receiving end; holds nothing itself."""

    held_bytes = 0

    def __init__(self, messages: Messages, peer: int, expected: Iterator[Envelope]) -> None:
        self.messages, self.peer = messages, peer
        self._expected = expected
        self.order = 0  # digest that came with the last message taken

    @property
    def ready(self) -> bool:
        """Whether the next message is here."""
        return bool(self.messages)

    def wait(self) -> Envelope:
        """The next message's envelope."""
        if not self.messages:
            raise RunFailed(
                f"no message from block {self.peer} is here: the blocks were run in a wrong order"
            )
        return self.messages[0][0]

    def take(self) -> Tensor:
        """The next message's tensor; RunFailed where it is not the one expected."""
        found = self.wait()
        expected = next(self._expected, None)
        _, tensor = self.messages.popleft()
        if expected is None or replace(found, order=expected.order) != expected:
            raise RunFailed(f"a message from block {self.peer} is {found}, expected {expected}")
        if tuple(tensor.shape) != expected.shape or tensor.dtype != expected.dtype:
            raise RunFailed(
                f"a message from block {self.peer} has shape {tuple(tensor.shape)} and dtype {tensor.dtype}, "
                f"expected {expected}"
            )
        self.order = found.order
        return tensor

    def finish(self) -> None:
        """Nothing is under way."""


class MemoryNetwork:
    """Block `rank`'s ends of an exchange."""

    sum_replicas: RowSum | None = None  # whoever runs the blocks adds up

    def __init__(self, rank: int, exchange: Exchange) -> None:
        self.rank, self.exchange = rank, exchange

    def outbox(self, peer: int, stream: str) -> MemoryOutbox:
        """The queue to a neighbour."""
        return MemoryOutbox(self.exchange.queues[self.rank, peer, stream])

    def inbox(self, peer: int, stream: str, expected: Iterator[Envelope]) -> MemoryInbox:
        """The queue from a neighbour."""
        return MemoryInbox(self.exchange.queues[peer, self.rank, stream], peer, expected)

    def start_together(self) -> float:
        """Now: the blocks are in one process."""
        return time.monotonic()

    def finish(self, batches: int) -> None:
        """Nobody waits."""

    def announce_forward(self, batch: int) -> None:
        """Last block: `batch` has been forwarded."""
        self.exchange.forwarded = batch

    def await_forward(self, batch: int) -> None:
        """Whoever runs the blocks has looked at `forwarded` before."""

    def send_now(self, peer: int, envelope: Envelope, tensor: Tensor, number: int) -> Any:
        """Hand a tensor over outside the queues."""
        self.outbox(peer, "evaluation").put(envelope, tensor)

    def wait(self, sent: Any, peer: int) -> None:
        """It has been handed over."""

    def receive_now(self, peer: int, envelope: Envelope, number: int) -> Tensor:
        """Take what the neighbour handed over."""
        return self.inbox(peer, "evaluation", iter([envelope])).take()
