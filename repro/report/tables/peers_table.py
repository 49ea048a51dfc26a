"""Our BP and GPipe beside torch.distributed.pipelining: the rows of `repro bench peers`."""

from __future__ import annotations

from repro.report.stored.bench_rows import Row, measured, stored_table
from repro.report.stored.source import Source
from repro.report.table import Column, Table, Value

DESCRIPTION = "our BP and GPipe beside torch.distributed.pipelining on the same blocks (repro bench peers)"
COLUMNS = [
    Column("model", "model", context=True),
    Column("blocks", "K", context=True, number=True),
    Column("system", "system"),
    Column("method", "method"),
    Column("micro_batches", "micro-batches", number=True),
    Column("images_per_second", "images / s", ratio=True, number=True),
    Column("ratio_to_bp", "speed-up over our BP", decimals=2, ratio=True, number=True),
    Column("bound", "bound (modelled)", decimals=2, number=True),
    Column("share_of_bound", "share of bound", decimals=2, ratio=True, number=True),
]


def build(source: Source, select: str) -> Table:
    """A row per system and method."""
    caption = [
        "Medians over rounds in which all take turns; brackets: smallest and largest round; (n/N): rounds."
    ]
    return stored_table(source, "peers", COLUMNS, row, caption)


def row(found: Row) -> dict[str, Value]:
    """A stored row as cells."""
    return {
        **{
            name: found.get(name)
            for name in ("model", "blocks", "system", "method", "micro_batches", "bound")
        },
        **{name: measured(found, name) for name in ("images_per_second", "ratio_to_bp", "share_of_bound")},
    }
