"""Slow-down under random delays of several kinds, in turn: the rows of `repro bench delays`."""

from __future__ import annotations

from repro.report.stored.bench_rows import Row, measured, stored_table
from repro.report.stored.source import Source
from repro.report.table import Column, Table, Value

DESCRIPTION = "slow-down against probability and length of random delays, timing only (repro bench delays)"
_PLAIN = (
    "model", "image_size", "batch_size", "stretch", "num_batches", "blocks", "probability", "delay", "method", "slack",
)  # fmt: skip
COLUMNS = [
    Column("model", "model", context=True),
    Column("image_size", "pixels a side", context=True, number=True),
    Column("batch_size", "batch", context=True, number=True),
    Column("stretch", "waits times", context=True, number=True),
    Column("num_batches", "batches a run", context=True, number=True),
    Column("blocks", "K", number=True),
    Column("probability", "probability", number=True),
    Column("delay", "length, x compute", number=True),
    Column("method", "method"),
    Column("slack", "slack, batches", number=True),
    Column("clean_seconds", "s without delays", ratio=True, number=True),
    Column("slowdown_percent", "slow-down %", decimals=1, ratio=True, number=True),
]


def build(source: Source, select: str) -> Table:
    """A row per K, kind of delay and method, so that methods stand beside each other."""
    caption = [
        "Timing only: real processes, messages and queues, blocks that wait as long as their measured layers take, "
        "shortened alike with the delays by one factor; nothing is trained. A round's draws are the same for all.",
        "Slow-down = 100 (seconds with delays / seconds without - 1), from the logarithms of the ratios, with the 95 % t "
        "interval over rounds; (n/N): rounds. Slack: batches that block 0 may run ahead of block 1.",
    ]
    table = stored_table(source, "delays", COLUMNS, row, caption)
    table.rows.sort(
        key=lambda r: tuple(float(str(r.get(n) or 0)) for n in ("blocks", "probability", "delay"))
    )
    return table


def row(found: Row) -> dict[str, Value]:
    """A stored row as cells."""
    return {
        **{name: found.get(name) for name in _PLAIN},
        **{name: measured(found, name) for name in ("clean_seconds", "slowdown_percent")},
    }
