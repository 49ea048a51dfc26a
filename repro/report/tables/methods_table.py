"""Seconds per batch of all methods in turn: the rows of `repro bench methods`."""

from __future__ import annotations

from repro.report.stored.bench_rows import Row, measured, stored_table
from repro.report.stored.source import Source
from repro.report.table import Column, Table, Value

DESCRIPTION = "all methods in turn: real training at K = 2, timing only at K = 3 and 4 (repro bench methods)"
_PLAIN = (
    "model", "image_size", "batch_size", "memory_format", "part", "blocks", "method", "slack", "num_batches", "bound",
)  # fmt: skip
COLUMNS = [
    Column("model", "model", context=True),
    Column("image_size", "pixels a side", context=True, number=True),
    Column("batch_size", "batch", context=True, number=True),
    Column("memory_format", "memory format", context=True),
    Column("part", "part"),
    Column("blocks", "K", number=True),
    Column("method", "method"),
    Column("slack", "slack, batches", number=True),
    Column("num_batches", "batches a run", number=True),
    Column("seconds_per_batch", "s / batch", ratio=True, number=True),
    Column("speedup_over_bp", "over BP", decimals=3, ratio=True, number=True),
    Column("bound", "bound (modelled)", decimals=2, number=True),
]


def build(source: Source, select: str) -> Table:
    """A row per part, K and method."""
    caption = [
        "real: training, a core a block. timed: real processes, messages and queues, blocks that wait as long as their "
        "measured layers take; nothing is trained. All take turns, round after round.",
        "s / batch: median over rounds of the runs' own, and the smallest and largest. over BP: ratio of the same round, "
        "geometric mean and 95 % t interval over rounds; (n/N): rounds. Slack: batches block 0 may run ahead of block 1.",
    ]
    return stored_table(source, "methods", COLUMNS, row, caption)


def row(found: Row) -> dict[str, Value]:
    """A stored row as cells; blocks that shared a core have no speed-up."""
    shared = bool(found.get("oversubscribed"))
    return {
        **{name: found.get(name) for name in _PLAIN},
        "seconds_per_batch": measured(found, "seconds_per_batch"),
        "speedup_over_bp": None if shared else measured(found, "speedup_over_bp"),
    }
