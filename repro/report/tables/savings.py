"""What each schedule saves of a whole training step, beside what `zero` saves on it: rows of `repro bench kernels`."""

from __future__ import annotations

from repro.report.benchmark import Row, measured, stored_table
from repro.report.source import Source
from repro.report.table import Column, Measured, Table, Value

DESCRIPTION = "what each estimator and schedule saves of a training step, beside the ceiling that zero sets"
COLUMNS = [
    Column("model", "model"),
    Column("layout", "layout"),
    Column("estimator", "estimator"),
    Column("schedule", "schedule"),
    Column("seconds", "s / step", number=True),
    Column("saved", "saved %", decimals=1, ratio=True, number=True),
    Column("share_of_zero", "of what zero saves, %", decimals=0, ratio=True, number=True),
]


def build(source: Source, select: str) -> Table:
    """A row per network, layout, estimator and schedule."""
    caption = [
        "A step is forward, backward and SGD with momentum on a batch of 128 random images of 32x32, on batches on which "
        "the schedule is active. Everything takes turns with the plain network; medians of the paired differences; "
        "brackets: 95 % bootstrap interval over the rounds; (n/N): rounds.",
        "zero computes nothing in place of the filter gradient: no estimator can save more on the same schedule.",
    ]
    table = stored_table(source, "kernels", COLUMNS, row, caption, wanted=lambda found: bool(found.get("model")))
    table.name = "savings"
    return table


def row(found: Row) -> dict[str, Value]:
    """A stored row as cells."""
    cells: dict[str, Value] = {name: found.get(name) for name in ("model", "layout", "estimator", "schedule", "seconds")}
    cells.update({name: _percent(measured(found, name, "n")) for name in ("saved", "share_of_zero")})
    return cells


def _percent(value: Measured | None) -> Measured | None:
    return None if value is None or value.estimate is None else Measured(value.estimate.scaled(100.0), value.started)
