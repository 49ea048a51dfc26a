"""Each kernel against the library's dense filter gradient, per shape."""

from __future__ import annotations

from repro.report.stored.bench_rows import Row, measured, stored_table
from repro.report.stored.source import Source
from repro.report.table import Column, Table, Value

DESCRIPTION = "time of each top1 kernel per shape against the library's dense filter gradient"
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
    """A row per shape, layout and kernel; the rows of whole networks are left out."""
    caption = [
        "Medians of interleaved repeats; brackets: lower and upper quartile; (n/N): repeats. Dense: the library's filter "
        "gradient in the layout that is fastest for it at that shape.",
        "Relative error against the reference (dense mask and the library's gradient). Chosen: faster than the library in "
        "the row's own layout, which need not be the library's fastest.",
    ]
    return stored_table(
        source, "kernels", COLUMNS, row, caption, wanted=lambda found: bool(found.get("kernel"))
    )


def row(found: Row) -> dict[str, Value]:
    """A stored row as cells."""
    cells: dict[str, Value] = {name: found.get(name) for name in ("shape", "layout", "kernel", "error")}
    cells.update({name: measured(found, name, "n") for name in ("dense_ms", "ms", "ratio")})
    chosen = found.get("chosen")
    cells["chosen"] = None if chosen is None else "yes" if chosen else "no"
    return cells
