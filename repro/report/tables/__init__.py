"""The tables, one file each: `DESCRIPTION` and `build(source, select)`. A new file here is a new table."""

from __future__ import annotations

from pathlib import Path

from repro.errors import UserError
from repro.report.folder import Folder
from repro.report.stored.source import Source
from repro.report.table import Table

SELECT = ("last", "best")
_tables = Folder(__name__, __file__, "table")


def names() -> dict[str, str]:
    """Every table's name and what it shows, in one line; imports nothing heavy."""
    return _tables.descriptions()


def build(
    name: str,
    runs_root: Path,
    *,
    profile: str | None = None,
    select: str = "last",
    reference: bool = False,
    fallback: bool = True,
    at: float | None = None,
) -> Table:
    """Return the table `name` from the runs under `runs_root`.

    The project's reference runs stand in where there are none, and the caption says so; `reference` asks for
    them, without `fallback` they do not. `select` states the last or the best test accuracy, `at` the loss that
    time-to-loss is about. UserError for an unknown name or selection.
    """
    return build_from(name, Source(runs_root, profile, reference, fallback), select, at)


def build_from(name: str, source: Source, select: str = "last", at: float | None = None) -> Table:
    """As `build`, from a source that several tables share."""
    module = _tables.module(name)
    if select not in SELECT:
        raise UserError(f"--select {select!r} is unknown. Allowed: {', '.join(SELECT)}")
    if at is not None and not hasattr(module, "AT"):
        raise UserError(f"--at {at:g} belongs to the table time-to-loss: leave it out for '{name}'")
    if at is not None and not 0.0 < at < float("inf"):
        raise UserError(f"--at {at:g}: give a test loss larger than 0")
    table: Table = module.build(source, select) if at is None else module.build(source, select, at)
    return table
