"""Time a block spends computing, and what it does when; waits are kept apart from work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch

from repro.schedule import Action

RECENT = 64  # batches from which a block's typical compute time is taken


@dataclass
class Stopwatch:
    """Measures actions. On CUDA by events, read later, so that measuring never waits for the GPU."""

    device: torch.device
    keep_batches: int = 0
    waited: float = 0.0  # seconds of all waits for messages so far
    _open: list[tuple[Any, Any]] = field(default_factory=list)  # of the batch under way
    _batches: list[float | list[tuple[Any, Any]]] = field(default_factory=list)
    _spans: list[tuple[str, float, float, bool]] = field(default_factory=list)

    @contextmanager
    def measure(self, action: Action) -> Iterator[None]:
        """Count what runs inside as work of the batch under way."""
        cuda = self.device.type == "cuda"
        begin = time.perf_counter()
        wall = time.monotonic()
        first = self._event() if cuda else None
        yield
        if cuda:
            self._open.append((first, self._event()))
        else:
            self._open.append((begin, time.perf_counter()))
        if action.batch < self.keep_batches:
            self._spans.append((str(action), wall, time.monotonic(), False))

    @contextmanager
    def waiting(self, action: Action) -> Iterator[None]:
        """Record what runs inside as waiting for `action`'s messages."""
        wall = time.monotonic()
        yield
        end = time.monotonic()
        self.waited += end - wall
        if action.batch < self.keep_batches:
            self._spans.append((str(action), wall, end, True))

    def _event(self) -> Any:
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def finish_batch(self) -> None:
        """Close the batch under way: the work since the last close belongs to it."""
        if self.device.type == "cuda":
            self._batches.append(self._open)
            self._open = []
        else:
            self._batches.append(sum(end - begin for begin, end in self._open))
            self._open.clear()

    def busy_per_batch(self) -> list[float]:
        """Seconds of work per batch, in order."""
        for i, batch in enumerate(self._batches):
            if isinstance(batch, list):
                for _, end in batch:
                    end.synchronize()
                self._batches[i] = _seconds(batch)
        return [b for b in self._batches if isinstance(b, float)]

    def typical(self) -> float:
        """Median seconds of work of the recent batches that are done; 0 before the first one. Waits for nothing."""
        for i in range(max(0, len(self._batches) - RECENT), len(self._batches)):
            batch = self._batches[i]
            if isinstance(batch, list) and all(end.query() for _, end in batch):
                self._batches[i] = _seconds(batch)
        recent = [b for b in self._batches[-RECENT:] if isinstance(b, float)]
        return median(recent) if recent else 0.0

    def settle(self) -> None:
        """Wait until the device has done all that it was given: the end of a run."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def spans(self, start: float) -> list[tuple[str, float, float, bool]]:
        """Recorded (action, begin, end, waiting) of the first batches, in seconds after `start`."""
        return [(name, begin - start, end - start, waiting) for name, begin, end, waiting in self._spans]


def _seconds(batch: list[tuple[Any, Any]]) -> float:
    """Of the pairs of CUDA events, all done."""
    return float(sum(begin.elapsed_time(end) for begin, end in batch)) / 1000.0
