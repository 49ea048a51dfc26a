"""A clock around the filter gradients of a step, which the rest of the step does not blur."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from repro.gradient.estimators import Estimator
from repro.gradient.geometry import Geometry


class Clock:
    """Adds up the time inside the estimators that stand under it; on a GPU by events, so that nothing has to wait."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.events: list[tuple[Any, Any]] = []  # (start, end) on the current stream

    def take(self) -> float:
        """Seconds since the last take. Waits for the GPU where one was used."""
        seconds, self.seconds = self.seconds, 0.0
        for start, end in self.events:
            end.synchronize()
            seconds += start.elapsed_time(end) / 1e3
        self.events.clear()
        return seconds


class Clocked:
    """An estimator under a clock; its results are those of the estimator."""

    def __init__(self, estimator: Estimator, clock: Clock) -> None:
        self.name, self.needs_input, self.draws = estimator.name, estimator.needs_input, estimator.draws
        self._estimator, self._clock = estimator, clock

    def __call__(self, x: Tensor | None, dy: Tensor, weight: Tensor, geometry: Geometry, seed: int) -> Tensor:
        """See Estimator."""
        if dy.is_cuda:
            event: Any = torch.cuda.Event
            events = event(enable_timing=True), event(enable_timing=True)
            events[0].record()
            result = self._estimator(x, dy, weight, geometry, seed)
            events[1].record()
            self._clock.events.append(events)
            return result
        start = time.perf_counter()
        result = self._estimator(x, dy, weight, geometry, seed)
        self._clock.seconds += time.perf_counter() - start
        return result
