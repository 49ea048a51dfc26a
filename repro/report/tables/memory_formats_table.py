"""Which layout `memory_format: auto` has taken, per network, batch shape and machine, and what it gained."""

from __future__ import annotations

from typing import Any

from repro.report.stored.context import CONTEXT, PLACE, context, order
from repro.report.stored.source import Source
from repro.report.table import Column, Table, Value

DESCRIPTION = "what memory_format: auto has taken in each run, and both measured times"
COLUMNS = [
    *CONTEXT,
    *PLACE,
    Column("batch_size", "batch", number=True),
    Column("contiguous_ms", "contiguous, ms a batch", number=True),
    Column("channels_last_ms", "channels_last, ms a batch", number=True),
    Column("gain_percent", "channels_last faster by %", decimals=1, number=True),
    Column("taken", "taken"),
]
NOTHING = (
    "No run with memory_format: auto found. Make one with: "
    "repro run bp-resnet98 --profile quick --set memory_format=auto"
)


def build(source: Source, select: str) -> Table:
    """A row per network, data, device, K and machine."""
    found = source.find(lambda run: bool((run.result or {}).get("format_seconds")))
    table = Table("memory-formats", COLUMNS)
    rows: dict[tuple[Any, ...], dict[str, Value]] = {}
    for group in sorted((part for g in found.groups for part in g.split()), key=order):
        seconds = group.fact("format_seconds", {})
        plain, last = float(seconds["contiguous"]), float(seconds["channels_last"])
        row: dict[str, Value] = {
            **context(group),
            "batch_size": group.fact("batch_size", None),
            "contiguous_ms": 1e3 * plain,
            "channels_last_ms": 1e3 * last,
            "gain_percent": 100 * (plain / last - 1),
            "taken": group.fact("memory_format"),
        }
        rows.setdefault(
            tuple(row.get(name) for name in ("model", "data", "batch_size", "machine", "threads", "device")),
            row,
        )
    table.rows = list(rows.values())
    table.caption = [
        *found.caption(),
        "Seconds of all layers, forward and backward, as blocks are cut by; channels_last is taken from a gain of 3 % on.",
    ]
    if not table.rows:
        table.caption, table.problems = [NOTHING], [NOTHING]
    table.environment = found.environment()
    return table
