"""Each kernel against the library's dense filter gradient, per shape."""

from __future__ import annotations

from typing import Any

from repro.report.source import Source
from repro.report.stats import Estimate
from repro.report.table import Column, Measured, Table, Value

DESCRIPTION = "time of each top1 kernel per shape against the library's dense filter gradient"
COMMAND = "repro bench kernels"
COLUMNS = [
    Column("shape", "shape"),
    Column("layout", "layout"),
    Column("kernel", "kernel"),
    Column("dense_ms", "dense ms", ratio=True, number=True),
    Column("ms", "kernel ms", ratio=True, number=True),
    Column("ratio", "dense / kernel", decimals=2, ratio=True, number=True),
    Column("error", "relative error", number=True),
    Column("chosen", "chosen by `measured`"),
]


def build(source: Source, select: str) -> Table:
    """The stored rows of the last `repro bench kernels`."""
    stored, reference = source.bench("kernels")
    table = Table("kernels", COLUMNS)
    if stored is None:
        missing = f"No stored benchmark of the kernels found. Make it with: {COMMAND}"
        table.caption, table.problems = [missing], [missing]
        return table
    table.rows = [row(found) for found in stored["rows"] if found.get("kernel")]
    machine = (stored.get("environment") or {}).get("processor", "unknown machine")
    gpus = (stored.get("environment") or {}).get("gpus") or []
    table.caption = [
        *(["Reference measurement of the project, not yours."] if reference else []),
        f"Machine: {', '.join([machine, *gpus])}. Medians of interleaved repeats; brackets: lower and upper quartile; "
        "(n/N): repeats. Dense: the library's filter gradient in the layout that is fastest for it at that shape.",
        "Relative error against the reference (dense mask and the library's gradient).",
    ]
    table.environment = {"source": "reference" if reference else "runs", **(stored.get("environment") or {})}
    return table


def row(found: dict[str, Any]) -> dict[str, Value]:
    """A stored row as cells."""
    count = int(found.get("n", 1))
    cells: dict[str, Value] = {name: found.get(name) for name in ("shape", "layout", "kernel", "error")}
    for name in ("dense_ms", "ms", "ratio"):
        middle = found.get(name)
        if isinstance(middle, (int, float)):
            estimate = Estimate(float(middle), found.get(f"{name}_low"), found.get(f"{name}_high"), count)
            cells[name] = Measured(estimate, count)
    chosen = found.get("chosen")
    cells["chosen"] = None if chosen is None else "yes" if chosen else "no"
    return cells
