"""What the engine costs and how near each method comes to its bound: the rows of `repro bench engine`."""

from __future__ import annotations

from repro.report.stored.bench_rows import Row, measured, stored_table
from repro.report.stored.source import Source
from repro.report.table import Column, Table, Value

DESCRIPTION = "the engine's own cost, and each method's speed-up beside its bound (repro bench engine)"
COLUMNS = [
    Column("model", "model", context=True),
    Column("blocks", "K", number=True),
    Column("method", "method"),
    Column("seconds_per_batch", "s / batch", ratio=True, number=True),
    Column("overhead", "/ busy of slowest block", decimals=2, ratio=True, number=True),
    Column("speedup_over_bp", "speed-up over BP", decimals=2, ratio=True, number=True),
    Column("bound", "bound (modelled)", decimals=2, number=True),
    Column("share_of_bound", "share of bound", decimals=2, ratio=True, number=True),
    Column("memory", "counted / formula memory", number=True),
    Column("note", "note", context=True),
]


def build(source: Source, select: str) -> Table:
    """A row per method, and one for the engine with a single block."""
    caption = [
        "Medians over rounds in which all methods take turns; brackets: smallest and largest round; (n/N): rounds.",
        "Bound: the simulator's speed-up for the layer times measured in the same command, with free communication. "
        "With K = 1 the cost is that over a bare PyTorch loop on the same threads.",
    ]
    return stored_table(source, "engine", COLUMNS, row, caption)


def row(found: Row) -> dict[str, Value]:
    """A stored row as cells; no speed-up where blocks shared a core."""
    crowded = bool(found.get("oversubscribed"))
    numbers = ("seconds_per_batch", "overhead", *(() if crowded else ("speedup_over_bp", "share_of_bound")))
    memory = found.get("memory_over_formula") or []
    return {
        **{name: found.get(name) for name in ("model", "blocks", "bound")},
        "method": "BP, over a bare loop" if "bare_loop_seconds" in found else found.get("method"),
        **{name: measured(found, name) for name in numbers},
        "memory": ", ".join(f"{value:.2f}" for value in memory) or None,
        "note": "more blocks than devices or cores: no speed-up stated" if crowded else "",
    }
