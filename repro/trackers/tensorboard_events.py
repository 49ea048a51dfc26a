"""`--log tensorboard`: event files in the run's folder, for `tensorboard --logdir results/runs`."""

from __future__ import annotations

from typing import Any

from repro.trackers.numbers import numbers
from repro.trackers.tracker import Row, Run, Tracker

FOLDER = "tensorboard"


class TensorBoard(Tracker):
    """Every number of a row at the batch that it was written behind; a resumed run takes the place of what it repeats."""

    def __init__(self) -> None:
        self._writer: Any = None
        self._step = 0

    def begin(self, run: Run) -> None:
        """Open an event file."""
        from torch.utils.tensorboard import SummaryWriter

        self._step = run.first
        self._writer = SummaryWriter(str(run.folder / FOLDER), purge_step=run.first)

    def row(self, row: Row) -> None:
        """Write its numbers."""
        if isinstance(row.get("step"), int):
            self._step = row["step"]
        for name, value in numbers(row):
            self._writer.add_scalar(name, value, self._step)
        if row.get("kind") == "epoch":
            self._writer.flush()

    def end(self, result: Row) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
