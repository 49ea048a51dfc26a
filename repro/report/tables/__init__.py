"""The tables, one file each: `DESCRIPTION` and `build(source, select)`. A new file here is a new table."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from repro.errors import UserError, nearest
from repro.report.source import Source
from repro.report.table import Table

SELECT = ("last", "best")


def names() -> dict[str, str]:
    """Every table's name and what it shows, in one line; imports nothing heavy."""
    return {name: str(_module(name).DESCRIPTION) for name in _files()}


def build(name: str, runs_root: Path, *, profile: str | None = None, select: str = "last", reference: bool = False) -> Table:
    """Return the table `name` from the runs under `runs_root`.

    The project's reference runs stand in where there are none, and the caption says so; `reference` asks for them.
    `select` states the last or the best test accuracy. UserError for an unknown name or selection.
    """
    return build_from(name, Source(runs_root, profile, reference), select)


def build_from(name: str, source: Source, select: str = "last") -> Table:
    """As `build`, from a source that several tables share."""
    if name not in _files():
        raise UserError(f"unknown table '{name}'.{nearest(name, _files())} Allowed: {', '.join(_files())}")
    if select not in SELECT:
        raise UserError(f"--select {select!r} is unknown. Allowed: {', '.join(SELECT)}")
    table: Table = _module(name).build(source, select)
    return table


@lru_cache(maxsize=1)
def _files() -> tuple[str, ...]:
    here = [str(Path(__file__).parent)]
    return tuple(sorted(m.name.replace("_", "-") for m in iter_modules(here) if not m.name.startswith("_")))


def _module(name: str) -> Any:
    return import_module(f"{__name__}.{name.replace('-', '_')}")
