"""Our methods beside what a user would run instead: the rows of `repro bench peers`."""

from __future__ import annotations

from repro.report.stored.bench_rows import Row, measured, stored_table
from repro.report.stored.source import Source
from repro.report.table import Column, Table, Value

DESCRIPTION = "our methods beside torch.distributed.pipelining and a plain PyTorch loop (repro bench peers)"
COLUMNS = [
    Column("model", "model", context=True),
    Column("image_size", "pixels a side", context=True, number=True),
    Column("batch_size", "batch", context=True, number=True),
    Column("memory_format", "memory format", context=True),
    Column("blocks", "processes", number=True),
    Column("threads", "threads each", number=True),
    Column("system", "system"),
    Column("method", "method"),
    Column("micro_batches", "micro-batches", number=True),
    Column("images_per_second", "samples / s", ratio=True, number=True),
    Column("ratio_to_bp", "over our BP", decimals=2, ratio=True, number=True),
    Column("ratio_to_best_peer", "over torch's best", decimals=2, ratio=True, number=True),
    Column("ratio_to_loop", "over the loop with all threads", decimals=2, ratio=True, number=True),
    Column("grown_mib", "MiB grown", number=True),
    Column("bound", "bound (modelled)", decimals=2, number=True),
    Column("share_of_bound", "share of bound", decimals=2, ratio=True, number=True),
]
_PLAIN = (
    "model",
    "image_size",
    "batch_size",
    "memory_format",
    "blocks",
    "threads",
    "system",
    "method",
    "micro_batches",
    "bound",
)
_MEASURED = ("images_per_second", "ratio_to_bp", "ratio_to_best_peer", "ratio_to_loop", "share_of_bound")


def build(source: Source, select: str) -> Table:
    """A row per system and method."""
    caption = [
        "Medians over rounds in which all take turns; brackets: smallest and largest round; (n/N): rounds. torch's "
        "slower numbers of micro-batches take part in the first round only.",
        "MiB grown: how far the resident memory of all processes of a system rose above what they held before they built "
        "the network. Bound: speed-up over BP with free messages and updates; for a loop, its number of threads.",
    ]
    return stored_table(source, "peers", COLUMNS, row, caption)


def row(found: Row) -> dict[str, Value]:
    """A stored row as cells."""
    grown = found.get("grown_bytes")
    return {
        **{name: found.get(name) for name in _PLAIN},
        **{name: measured(found, name) for name in _MEASURED},
        "grown_mib": round(grown / 2**20) if isinstance(grown, (int, float)) else None,
    }
