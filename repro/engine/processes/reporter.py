"""What a block tells the parent process: losses, epochs, checkpoints, and whom it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

WAITS = ("nothing", "output", "gradient", "room", "forwards", "evaluation", "replicas")


class Reporter:
    """Sends messages up a pipe; `status` is shared memory that the parent reads when the run stalls."""

    def __init__(self, connection: Connection, status: Any, rank: int) -> None:
        self._connection, self._status, self._rank = connection, status, rank

    def _send(self, *message: Any) -> None:
        self._connection.send(message)

    def step(self, batch: int, loss: float, samples: int) -> None:
        """The loss of a batch at the last block."""
        self._send("step", batch, loss, samples)

    def epoch(self, epoch: int, **numbers: float) -> None:
        """An evaluation at the last block."""
        self._send("epoch", epoch, numbers)

    def saved(self, epoch: int, updates: int, file: str, digest: str) -> None:
        """This block's part of a checkpoint is on disk."""
        self._send("saved", self._rank, epoch, updates, file, digest)

    def done(self, summary: dict[str, Any]) -> None:
        """The block has finished."""
        self._send("done", self._rank, summary)

    def failed(self, trace: str, message: str, secondary: bool, code: int) -> None:
        """The block has raised; `secondary`: only because a neighbour went away."""
        self._send("failed", self._rank, trace, message, secondary, code)

    def diverged(self, batch: int, tensor: str, value: float) -> None:
        """A tensor of this block is not finite."""
        self._send("diverged", self._rank, batch, tensor, value)

    @contextmanager
    def waiting(self, what: str, batch: int, peer: int) -> Iterator[None]:
        """Note whom the block waits for while the context is open."""
        place = 3 * self._rank
        self._status[place : place + 3] = [WAITS.index(what), batch, peer]
        yield
        self._status[place] = 0


def describe(status: Any, names: Sequence[str]) -> str:
    """Who waits for what, in words, from the shared memory; `names`: of the ranks."""
    words = []
    for rank, name in enumerate(names):
        what, batch, peer = status[3 * rank : 3 * rank + 3]
        if what:
            words.append(f"{name} waits for {WAITS[what]} (batch or epoch {batch}, block {peer})")
        else:
            words.append(f"{name} computes")
    return "; ".join(words)
