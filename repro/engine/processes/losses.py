"""The losses of the last block: by batch, by epoch, and the times between them."""

from __future__ import annotations

from torch import Tensor

from repro.engine.processes.reporter import Reporter


class Losses:
    """Adds up the micro-batches of a batch and the batches of an epoch, and reports both."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._open: dict[int, float] = {}
        self._sum, self._samples = 0.0, 0
        self.times: list[float] = []  # seconds, evaluations taken out

    def add(self, batch: int, loss: Tensor) -> None:
        """The (weighted) loss of one micro-batch."""
        self._open[batch] = self._open.get(batch, 0.0) + float(loss)

    def close(self, batch: int, samples: int, now: float) -> None:
        """All micro-batches of a batch are in: report its loss."""
        loss = self._open.pop(batch)
        self._sum += loss * samples
        self._samples += samples
        self.times.append(now)
        self._reporter.step(batch, loss, samples)

    def end_epoch(self) -> float:
        """Mean training loss since the last call."""
        mean = self._sum / max(1, self._samples)
        self._sum, self._samples = 0.0, 0
        return mean
