"""What each schedule saves of a whole training step, beside what `zero` saves on it: rows of `repro bench kernels`."""

from __future__ import annotations

from repro.report.stored.bench_rows import Row, percent, stored_table
from repro.report.stored.source import Source
from repro.report.table import Column, Table, Value

DESCRIPTION = "what each estimator and schedule saves of a training step, beside the ceiling that zero sets"
COLUMNS = [
    Column("model", "model"),
    Column("layout", "layout"),
    Column("estimator", "estimator"),
    Column("schedule", "schedule"),
    Column("seconds", "s / step", number=True),
    Column("saved", "saved %", decimals=1, ratio=True, number=True),
    Column("share_of_zero", "of what zero saves, %", decimals=0, ratio=True, number=True),
    Column("filter_ms", "filter gradients, ms", decimals=2, number=True),
    Column("filter_share_of_zero", "of what zero saves of them, %", decimals=0, ratio=True, number=True),
]


def build(source: Source, select: str) -> Table:
    """A row per network, layout, estimator and schedule."""
    caption = [
        "A step is forward, backward and SGD with momentum on a batch of 128 random images of 32x32, on batches on which "
        "the schedule is active. Everything takes turns with the plain network; medians of the paired differences; "
        "brackets: 95 % bootstrap interval over the rounds; (n/N): rounds.",
        "zero computes nothing in place of the filter gradient: no estimator can save more on the same schedule.",
        "Filter gradients: a clock, in the same steps, around those of the schedule's layers alone; full on a schedule is "
        "the library's gradient there. The last column leaves out the rest of the step, and with it most of the scatter.",
    ]
    table = stored_table(
        source, "kernels", COLUMNS, row, caption, wanted=lambda found: bool(found.get("model"))
    )
    table.name = "savings"
    return table


def row(found: Row) -> dict[str, Value]:
    """A stored row as cells."""
    cells: dict[str, Value] = {
        name: found.get(name) for name in ("model", "layout", "estimator", "schedule", "seconds")
    }
    shares = ("saved", "share_of_zero", "filter_share_of_zero")
    cells.update({name: percent(found, name, "n") for name in shares})
    seconds = found.get("filter_seconds")
    cells["filter_ms"] = None if seconds is None else 1e3 * seconds
    return cells
