"""Every method at K up to 16 with waits in place of compute, beside the simulator: the rows of `repro bench pipeline`."""

from __future__ import annotations

from repro.report.stored.bench_rows import Row, measured, stored_table
from repro.report.stored.source import Source
from repro.report.table import Column, Table, Value

DESCRIPTION = "timing only: speed-up against K, beside the simulator and real training (repro bench pipeline)"
COLUMNS = [
    Column("model", "model", context=True),
    Column("part", "part"),
    Column("blocks", "K", number=True),
    Column("method", "method"),
    Column("stretch", "stretch", decimals=1, number=True),
    Column("seconds_per_batch", "s / batch", ratio=True, number=True),
    Column("real_seconds_per_batch", "s / batch, real training", ratio=True, number=True),
    Column("timed_over_real", "/ real", decimals=2, ratio=True, number=True),
    Column("simulated_over_timed", "simulated /", decimals=2, ratio=True, number=True),
    Column("speedup", "times one device", decimals=2, ratio=True, number=True),
    Column("bound", "bound (modelled)", decimals=2, number=True),
    Column("slowdown_percent", "slow-down %", decimals=1, ratio=True, number=True),
    Column("simulated_percent", "simulated %", decimals=1, ratio=True, number=True),
]
_PLAIN = ("model", "part", "blocks", "method", "stretch", "bound")
_MEASURED = (
    "seconds_per_batch",
    "real_seconds_per_batch",
    "timed_over_real",
    "simulated_over_timed",
    "speedup",
    "slowdown_percent",
    "simulated_percent",
)


def build(source: Source, select: str) -> Table:
    """A row per part, K and method."""
    caption = [
        "Timing only: real processes, messages and queues, blocks that wait as long as they would compute; nothing is "
        "trained. Medians over rounds; brackets: smallest and largest round; (n/N): rounds.",
        "check: K = 2, waits of the durations that real training recorded just before. scaling: waits of measured layer "
        "times. delays: before a batch in ten a block sleeps three times its compute (as in the straggler experiment).",
        "Stretch: factor on all waits where the messages of many blocks would fill the few cores; times are without it.",
    ]
    return stored_table(source, "pipeline", COLUMNS, row, caption)


def row(found: Row) -> dict[str, Value]:
    """A stored row as cells."""
    return {
        **{name: found.get(name) for name in _PLAIN},
        **{name: measured(found, name) for name in _MEASURED},
    }
