"""A table before it is text: columns, rows, caption and what is wrong with the runs behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from repro.report.rounding import decimals_for, fixed
from repro.report.stats import Estimate

NOTHING = "-"


@dataclass(frozen=True)
class Runs:
    """Where a number comes from: the seeds of one recipe under one hash, or (no hash, no seeds) a stored benchmark."""

    recipe: str
    hash: str = ""
    profile: str = ""
    seeds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Measured:
    """A number from runs: its estimate (None: no seed has it) out of `started` seeds, and the runs it is made of."""

    estimate: Estimate | None
    started: int
    made_of: tuple[Runs, ...] = field(default=(), compare=False)

    @property
    def n(self) -> int:
        """Seeds that it was computed from."""
        return 0 if self.estimate is None else self.estimate.n


Value = str | int | float | None | Measured


@dataclass(frozen=True)
class Column:
    """A column: `name` in JSON and CSV, `header` for readers.

    `decimals` None shows three significant digits. `ratio`: the interval is written as [low, high] instead of +-.
    `context` columns (where and on what a row was made) move into the caption where all rows agree. `number` aligns
    to the right. `wrap`: width at which the txt form breaks lines. `hidden`: in JSON and CSV only. `once`:
    left blank for readers where it repeats the row above and the first column does too. `head`: in txt not a column, but
    part of a line above its rows, so that the others have room.
    """

    name: str
    header: str
    decimals: int | None = None
    ratio: bool = False
    context: bool = False
    number: bool = False
    wrap: int | None = None
    hidden: bool = False
    once: bool = False
    head: bool = False


@dataclass
class Table:
    """Rows are mappings by column name; `problems` make `--strict` exit with 1."""

    name: str
    columns: list[Column]
    rows: list[dict[str, Value]] = field(default_factory=list)
    caption: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)

    def shown(self) -> tuple[list[Column], list[str]]:
        """Columns to print, and a caption line that holds the context that all rows share."""
        same, kept = [], []
        for column in (c for c in self.columns if not c.hidden):
            values = {row.get(column.name) for row in self.rows} if column.context else set()
            if column.context and len(values) == 1:
                value = values.pop()
                if value not in (None, ""):
                    same.append(f"{column.header}: {value}")
            else:
                kept.append(column)
        return kept, [f"All rows: {'; '.join(same)}."] if same else []


def cells(table: Table, columns: list[Column]) -> list[list[str]]:
    """All rows as readers see them."""
    rows = [[text(row.get(c.name), c) for c in columns] for row in table.rows]
    shown = [list(row) for row in rows]
    for above, row, out in zip(rows, rows[1:], shown[1:], strict=False):
        for i, column in enumerate(columns):
            if column.once and row[0] == above[0] and row[i] == above[i]:
                out[i] = ""
    return shown


def grid(table: Table) -> tuple[list[Column], list[list[str]], list[str]]:
    """Columns, cells and caption lines as every form for readers shows them."""
    columns, shared = table.shown()
    return columns, cells(table, columns), [*shared, *table.caption]


def text(value: Value, column: Column) -> str:
    """A value as readers see it: `93.12 ± 0.40 (5/5)`, `1.62 [1.55, 1.70] (5/5)`, `-`."""
    if isinstance(value, Measured):
        return _measured(value, column)
    if value is None:
        return NOTHING
    if isinstance(value, float):
        if column.decimals is None and 0 < abs(value) < 1e-4:
            return f"{value:.1e}"
        return fixed(value, decimals_for(value) if column.decimals is None else column.decimals)
    return str(value)


def flat(row: Mapping[str, Value], columns: list[Column]) -> dict[str, Any]:
    """A row for machines: beside each measured `x` its `x_low`, `x_high`, `x_n`, and `n` and `started` of the row."""
    found: dict[str, Any] = {}
    first: Measured | None = None
    for column in columns:
        value = row.get(column.name)
        if not isinstance(value, Measured):
            found[column.name] = value
            continue
        estimate = value.estimate
        found[column.name] = None if estimate is None else estimate.mean
        found[f"{column.name}_low"] = None if estimate is None else estimate.low
        found[f"{column.name}_high"] = None if estimate is None else estimate.high
        found[f"{column.name}_n"] = value.n
        first = first or value
    if first is not None:
        found.setdefault("n", first.n)
        found.setdefault("started", first.started)
    return found


def _measured(value: Measured, column: Column) -> str:
    count = f"({value.n}/{value.started})"
    estimate = value.estimate
    if estimate is None:
        return f"{NOTHING} {count}"
    decimals = _decimals(estimate) if column.decimals is None else column.decimals
    centre = fixed(estimate.mean, decimals)
    if estimate.low is None or estimate.high is None or estimate.half is None:
        return f"{centre} {count}"
    if column.ratio:
        return f"{centre} [{fixed(estimate.low, decimals)}, {fixed(estimate.high, decimals)}] {count}"
    return f"{centre} ± {fixed(estimate.half, decimals)} {count}"


def _decimals(estimate: Estimate) -> int:
    """Three significant digits of the mean, but not far beyond the first two of the interval's lower half."""
    enough = decimals_for(estimate.mean)
    if estimate.low is None or estimate.low == estimate.mean:
        return enough
    return min(enough, decimals_for(estimate.mean - estimate.low, 2) + 1)
