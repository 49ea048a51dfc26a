"""The suite's recipes: what is listed, and the one that a name means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from repro import paths
from repro.errors import MissingError
from repro.recipe.matrix import Choice, Matrix
from repro.recipe.reading import SETTINGS
from repro.recipe.unknown import refuse


@dataclass(frozen=True)
class Entry:
    """A recipe as `repro list` shows it, before validation."""

    name: str
    group: str
    path: Path
    method: str
    model: str
    data: str
    blocks: int
    reproduces: str
    word: str  # the method as the name has it: cdni, top1


def catalogue() -> dict[str, Entry]:
    """All listed recipes by name, sorted by paper and name; reads YAML only."""
    entries = [_entry(matrix, choice) for matrix in matrices() for choice in _choices(matrix)]
    return {entry.name: entry for entry in sorted(entries, key=lambda e: (e.group, e.name))}


def matrices() -> tuple[Matrix, ...]:
    """The networks' files, sorted by paper and network. MissingError where the installation has none."""
    root = paths.recipes()
    if not root.is_dir():
        raise MissingError(
            f"the recipes are not where this installation looks for them, {root}: install the project by pip "
            "(recipes are files: it does not run out of a zip archive)"
        )
    found = [path for path in root.glob("*/*.yaml") if path.parent.name != SETTINGS]
    state = tuple((path, path.stat().st_mtime_ns) for path in [*found, *(root / SETTINGS).glob("*.yaml")])
    return _matrices(tuple(sorted(found)), state)


@lru_cache(maxsize=4)
def _matrices(found: tuple[Path, ...], _state: tuple[tuple[Path, int], ...]) -> tuple[Matrix, ...]:
    return tuple(Matrix(path) for path in found)


def is_recipe(name: str) -> bool:
    """Whether the suite has a recipe of that name, listed or with another K."""
    return _find(name) is not None


def recipe_settings(name: str) -> dict[str, Any]:
    """Settings of the recipe called `name`, with `name`, `group` and `profiles`.

    UserError with the nearest name where there is no such recipe.
    """
    matrix, choice = _find(name) or refuse(name, matrices())
    return {**matrix.recipe(choice), "name": matrix.name(choice), "group": matrix.group}


def _find(name: str) -> tuple[Matrix, Choice] | None:
    found = ((matrix, matrix.find(name)) for matrix in matrices())
    return next(((matrix, choice) for matrix, choice in found if choice is not None), None)


def _choices(matrix: Matrix) -> Iterator[Choice]:
    for row in matrix.listed.values():
        yield from row


def _entry(matrix: Matrix, choice: Choice) -> Entry:
    raw = matrix.recipe(choice)
    return Entry(
        name=matrix.name(choice),
        group=matrix.group,
        path=matrix.path,
        method=str(raw.get("method", {}).get("name", "")),
        model=str(raw.get("model", {}).get("name", "")),
        data=str(raw.get("data", {}).get("name", "")),
        blocks=int(raw.get("blocks", 1)),
        reproduces=str(raw["reproduces"]),
        word=matrix.words(choice.key)[1],
    )
