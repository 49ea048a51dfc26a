"""The losses of the last block: by batch, by epoch, and the times between them.

They stay on the device, and come to the host in one copy for TOGETHER batches there, for each batch on the CPU; at an
evaluation all of them are here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from repro.engine.block.late_read import LateRead, Read
from repro.engine.processes.reporter import Reporter

TOGETHER = 16  # batches


@dataclass(frozen=True)
class _Row:
    batch: int
    samples: int
    parts: int  # micro-batches


class Losses:
    """Adds up the micro-batches of a batch and the batches of an epoch, and reports both (None: to nobody)."""

    def __init__(
        self,
        reporter: Reporter | None,
        device: torch.device,
        read: Callable[[Tensor], Read] = LateRead,
    ) -> None:
        self._reporter, self._read = reporter, read
        self._together = 1 if device.type == "cpu" else TOGETHER
        self._open: dict[int, list[Tensor]] = {}
        self._closed: list[tuple[_Row, list[Tensor]]] = []
        self._under_way: deque[tuple[list[_Row], Read]] = deque()
        self._sum, self._samples = 0.0, 0
        self.times: list[float] = []  # seconds, evaluations taken out

    def add(self, batch: int, loss: Tensor) -> None:
        """The (weighted) loss of one micro-batch; nothing is read here."""
        self._open.setdefault(batch, []).append(loss)

    def taken(self, batch: int) -> list[Tensor]:
        """The losses added for a batch so far, which are added no more: those of all replicas come in their place."""
        return self._open.pop(batch)

    def close(self, batch: int, samples: int, now: float) -> None:
        """All micro-batches of a batch are in: report it, or the batches that have come to the host by now."""
        parts = self._open.pop(batch)
        self._closed.append((_Row(batch, samples, len(parts)), parts))
        self.times.append(now)
        if len(self._closed) >= self._together:
            self._start()
        self._report(wait=False)

    def end_epoch(self) -> float:
        """Report all that are closed; returns the mean training loss since the last call."""
        self._start()
        self._report(wait=True)
        mean = self._sum / max(1, self._samples)
        self._sum, self._samples = 0.0, 0
        return mean

    def _start(self) -> None:
        if self._closed:
            copied = self._read(torch.stack([part for _, parts in self._closed for part in parts]))
            self._under_way.append(([row for row, _ in self._closed], copied))
            self._closed = []

    def _report(self, wait: bool) -> None:
        while self._under_way and (wait or self._under_way[0][1].here):
            rows, copied = self._under_way.popleft()
            values = iter(copied.values())
            for row in rows:
                loss = 0.0  # added up one by one: sum() would round otherwise
                for _ in range(row.parts):
                    loss += next(values)
                self._sum += loss * row.samples
                self._samples += row.samples
                if self._reporter is not None:
                    self._reporter.step(row.batch, loss, row.samples)
