"""Corrections of staleness: settings and arithmetic, one file each, found by name; no torch is imported.

A user's own needs no change here: give its name as "path/to/file.py:Class", or register a class under the
entry-point group "repro.corrections" (docs/own-method.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.corrections.compensation import Compensation
from repro.corrections.correction import Correction, Facts, Place
from repro.corrections.discrepancy import Discrepancy
from repro.corrections.rescheduling import Rescheduling
from repro.corrections.weight_prediction import Prediction
from repro.errors import nearest
from repro.own_classes import checked, from_file, registered

BUILT_IN: dict[str, type[Correction]] = {
    "prediction": Prediction,
    "rescheduling": Rescheduling,
    "discrepancy": Discrepancy,
    "compensation": Compensation,
}
ENTRY_POINTS = "repro.corrections"

__all__ = ["BUILT_IN", "Correction", "Facts", "Place", "find_correction", "parse_corrections"]


def find_correction(name: Any) -> type[Correction]:
    """The class of a correction by name, entry point or "file.py:Class"; ValueError lists the names."""
    if not isinstance(name, str):
        raise ValueError(f"a correction needs a name, one of: {', '.join(BUILT_IN)}")
    if name in BUILT_IN:
        return BUILT_IN[name]
    if ":" in name:
        return from_file(name, Correction, "correction")
    plugins = registered(ENTRY_POINTS)
    if name in plugins:
        return checked(plugins[name].load(), name, Correction, "correction")
    names = [*BUILT_IN, *plugins]
    raise ValueError(
        f"unknown correction '{name}'.{nearest(name, names)} Allowed: {', '.join(names)}, or path/to/file.py:Class"
    )


def parse_corrections(value: Any) -> tuple[Correction, ...]:
    """Turn a name, or a list of names and of mappings with `name` and settings, into corrections, each at most once."""
    rows = [value] if isinstance(value, (str, Mapping)) else value
    if not isinstance(rows, (list, tuple)):
        raise ValueError(f"corrections = {value!r}: give a list, as in [{{name: prediction}}]")
    found = tuple(_parsed(row) for row in rows)
    names = [correction.name for correction in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"corrections name '{twice}' more than once")
    return found


def _parsed(row: Any) -> Correction:
    if isinstance(row, Correction):
        return row
    given = {"name": row} if isinstance(row, str) else row
    if not isinstance(given, Mapping):
        raise ValueError(f"correction {row!r} is neither a name nor settings with a name")
    return find_correction(given.get("name")).model_validate(dict(given))
