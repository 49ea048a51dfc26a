"""What a block needs of whatever carries its messages: two ends of a queue, and a network that opens them.

Two carriers fill this in: `channel` and `process_group` between processes, `exchange` inside one process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from torch import Tensor

from repro.engine.transport.message import Envelope


class SendingEnd(Protocol):
    """Keeps every message until it has been taken."""

    @property
    def held_bytes(self) -> int:
        """Bytes of the messages that have not been taken yet."""

    def put(self, envelope: Envelope, tensor: Tensor) -> None:
        """Hand a tensor over; returns at once."""

    def make_room(self, room: int) -> None:
        """Wait until at most `room` messages are untaken."""

    def waiting(self) -> list[tuple[Envelope, Tensor]]:
        """Untaken messages, oldest first."""


class ReceivingEnd(Protocol):
    """Gives the messages of a sequence of envelopes known in advance."""

    order: int  # digest that came with the last message taken

    @property
    def held_bytes(self) -> int:
        """Bytes held for the next message."""

    def wait(self) -> Envelope:
        """Wait until the next message is here, without taking it."""

    def take(self) -> Tensor:
        """Wait for the next message, check what it is, return its tensor."""

    def finish(self) -> None:
        """Nothing more will be taken."""


class RowSum(Protocol):
    """Adds up the rows [n] of all replicas of a block."""

    @property
    def held_bytes(self) -> int:
        """Bytes of its buffers."""

    def __call__(self, row: Tensor) -> Tensor:
        """The sum, this replica's row being `row`."""


class BlockNetwork(Protocol):
    """A rank's way to the other blocks of its pipeline, and to its block's other replicas.

    `sum_replicas`: None where there is one replica, or whoever runs the blocks adds up.
    """

    sum_replicas: RowSum | None

    def outbox(self, peer: int, stream: str) -> SendingEnd:
        """The sending end of a queue to a neighbour."""

    def inbox(self, peer: int, stream: str, expected: Iterator[Envelope]) -> ReceivingEnd:
        """The receiving end of a queue from a neighbour."""

    def start_together(self) -> float:
        """Wait for all blocks; returns the common start (monotonic seconds)."""

    def finish(self, batches: int) -> None:
        """Wait for all blocks, then leave."""

    def announce_forward(self, batch: int) -> None:
        """Last block: `batch` has been forwarded."""

    def await_forward(self, batch: int) -> None:
        """Other blocks: wait until the last block has forwarded `batch`."""

    def send_now(self, peer: int, envelope: Envelope, tensor: Tensor, number: int) -> Any:
        """Start to send a tensor outside the queues; returns what `wait` needs."""

    def wait(self, sent: Any, peer: int) -> None:
        """Wait for a send that `send_now` started."""

    def receive_now(self, peer: int, envelope: Envelope, number: int) -> Tensor:
        """Receive a tensor outside the queues."""
