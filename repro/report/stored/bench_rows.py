"""Tables of what `repro bench NAME` stored: the user's own, or the project's reference measurement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from repro.report.stats import Estimate
from repro.report.stored.source import Source
from repro.report.table import Column, Measured, Runs, Table, Value

Row = Mapping[str, Any]


def stored_table(
    source: Source,
    name: str,
    columns: list[Column],
    row: Callable[[Row], dict[str, Value]],
    caption: list[str],
    *,
    wanted: Callable[[Row], bool] = lambda row: True,
) -> Table:
    """The `wanted` rows of the last `repro bench <name>`; without any, the command that makes them."""
    stored, reference = source.bench(name)
    table = Table(name, columns)
    if stored is None:
        missing = f"No stored benchmark '{name}' found. Make it with: repro bench {name}"
        table.caption, table.problems = [missing], [missing]
        return table
    table.rows = [_from(name, row(found)) for found in stored["rows"] if wanted(found)]
    environment = stored.get("environment") or {}
    machine = ", ".join([environment.get("processor", "unknown machine"), *(environment.get("gpus") or [])])
    source_words = [f"Reference measurement of the project (results/reference/bench/{name}.json), not yours."]
    table.caption = [*(source_words if reference else []), f"Machine: {machine}.", *caption]
    table.environment = {"source": "reference" if reference else "runs", **environment}
    return table


def benchmark(name: str) -> Runs:
    """What a number of a stored benchmark names as its source."""
    return Runs(f"bench {name}")


def _from(name: str, cells: dict[str, Value]) -> dict[str, Value]:
    """The cells of a row, each number with its source."""
    return {
        key: replace(value, made_of=(benchmark(name),)) if isinstance(value, Measured) else value
        for key, value in cells.items()
    }


def percent(row: Row, name: str, count: str | None = None) -> Measured | None:
    """As `measured`, of a fraction."""
    value = measured(row, name, count)
    return (
        None
        if value is None or value.estimate is None
        else replace(value, estimate=value.estimate.scaled(100.0))
    )


def measured(row: Row, name: str, count: str | None = None) -> Measured | None:
    """A stored number with the range beside it and how many repeats it came from (field `count`, else `<name>_n`).

    One repeat has no range.
    """
    middle = row.get(name)
    if not isinstance(middle, (int, float)):
        return None
    repeats = int(row.get(count or f"{name}_n") or 1)
    low, high = (row.get(f"{name}_low"), row.get(f"{name}_high")) if repeats > 1 else (None, None)
    return Measured(Estimate(float(middle), low, high, repeats), repeats)
