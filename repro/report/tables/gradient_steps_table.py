"""Training steps of the recipes with approximated gradients, in turn in one process: rows of `repro bench gradient`."""

from __future__ import annotations

from repro.report.stored.bench_rows import Row, measured, percent, stored_table
from repro.report.stored.source import Source
from repro.report.table import Column, Table, Value

DESCRIPTION = "time per training step of each filter gradient, in turn in one process (repro bench gradient)"
_PLAIN = ("model", "data", "batch_size", "layout", "threads", "estimator", "schedule", "scale")
COLUMNS = [
    Column("model", "model"),
    Column("data", "data", context=True),
    Column("batch_size", "batch", context=True, number=True),
    Column("layout", "layout", context=True),
    Column("threads", "threads", context=True, number=True),
    Column("estimator", "estimator"),
    Column("schedule", "schedule"),
    Column("scale", "scale"),
    Column("seconds", "s / step", ratio=True, number=True),
    Column("saved", "saved %", decimals=1, ratio=True, number=True),
]


def build(source: Source, select: str) -> Table:
    """A row per recipe."""
    caption = [
        "Blocks of training steps under one recipe, the same batches under the next, round after round, each round "
        "beginning with another one; data, network, optimiser and threads of the recipes, one set of weights for all.",
        "s / step: median over rounds and the smallest and largest one. saved: against full of the round (ResNet-20's for "
        "ResNet-14), from the logarithms, with the 95 % t interval over rounds; (n/N): rounds.",
    ]
    return stored_table(source, "gradient", COLUMNS, row, caption)


def row(found: Row) -> dict[str, Value]:
    """A stored row as cells."""
    cells: dict[str, Value] = {name: found.get(name) for name in _PLAIN}
    return {**cells, "seconds": measured(found, "seconds"), "saved": percent(found, "saved")}
