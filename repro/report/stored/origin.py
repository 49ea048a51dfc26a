"""Where a run's settings come from: its recipe as it stands today, and what its command changed.

A run is stale where its recipe as it stands, with the same changes, would give other settings than those stored.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from repro.errors import UserError
from repro.report.stored.group import Group
from repro.store import StoredRun, to_json

_NAMES = ("name", "group", "reproduces", "profile", "data.num_workers", "data.path")
Changes = dict[str, tuple[Any, Any]]


def with_origin(group: Group, *, forgiving: bool = False) -> Group:
    """The group with `counted`, `changed`, `stale` and a mark in words that says what its recipe has otherwise.

    `forgiving`: nothing is stale (the project's reference runs stand until they are made again).
    """
    known = numbers(group.settings)
    stored = known or _plain(group.settings)
    group = replace(group, counted=stored)
    today = resolved(recipe_of(group.runs[-1]), group.profile)
    if today is None:
        asked = overrides(group.runs[-1])
        return replace(group, changed={k: (None, v) for k, v in stored.items() if _covers(asked, k)})
    today = _with_format(today, stored)
    if stored == today:
        return group
    whole = differences(today, stored)
    for run in reversed(group.runs):
        asked = overrides(run)
        changed = {key: pair for key, pair in whole.items() if _covers(asked, key)}
        again = resolved(recipe_of(run), group.profile, to_json(asked))
        again = again and _with_format(again, stored)
        if again == stored or known is None or forgiving:
            return replace(group, changed=changed).marked(f"with {describe(whole)}")
    stale = replace(group, changed=changed, stale=describe(differences(again or today, stored)))
    return stale.marked("stale: the recipe has changed since")


def _with_format(settings: dict[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Where a recipe says `memory_format: auto`, a run made with either layout is what it asks for."""
    if settings.get("memory_format") != "auto" or "memory_format" not in stored:
        return settings
    return {**settings, "memory_format": stored["memory_format"]}


def overrides(run: StoredRun) -> dict[str, Any]:
    """What the command changed: as recorded with the run, else (older runs) as its --set words say."""
    from repro.recipe import parse_overrides

    given = run.environment.get("given")
    if isinstance(given, Mapping) and isinstance(given.get("overrides"), Mapping):
        return dict(given["overrides"])
    words = [str(word) for word in run.environment.get("command") or ()]
    pairs = [after for word, after in itertools.pairwise(words) if word == "--set"]
    pairs += [word.removeprefix("--set=") for word in words if word.startswith("--set=")]
    return parse_overrides([pair for pair in pairs if "=" in pair.lstrip("=")])


def recipe_of(run: StoredRun) -> str:
    """What to call the run's recipe by: its name, or the file that the command named."""
    given = run.environment.get("given")
    if isinstance(given, Mapping) and given.get("recipe"):
        return str(given["recipe"])
    words = [str(word) for word in run.environment.get("command") or ()]
    files = [w for w in words if w.endswith((".yaml", ".yml")) and Path(w).stem == run.recipe_name]
    return files[0] if files else run.recipe_name


def resolved(recipe: str, profile: str, asked: str = "{}") -> dict[str, Any] | None:
    """The settings that count of a recipe as it stands, flat; None where it is not there or refuses the changes."""
    path = Path(recipe)
    is_file = path.suffix in (".yaml", ".yml")
    try:
        changed_at = path.stat().st_mtime_ns if is_file else 0
    except OSError:
        return None
    return _resolved(recipe, profile, asked, changed_at)


@lru_cache(maxsize=1024)
def _resolved(recipe: str, profile: str, asked: str, _changed_at: int) -> dict[str, Any] | None:
    from repro.methods import files_refused
    from repro.recipe import counted, load

    try:
        with files_refused():  # the results folder says which recipe, and could say any
            return flatten(counted(load(recipe, profile, json.loads(asked))))
    except UserError:
        return None


def numbers(settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """The stored settings that can change a number, flat.

    None where they cannot be read today: another schema, or a method in a Python file, which no report runs.
    """
    from repro.methods import files_refused
    from repro.recipe import counted, validate

    try:
        with files_refused():
            return flatten(counted(validate(settings)))
    except (UserError, ValueError, TypeError):
        return None


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that cannot be read today, as they are stored."""
    from repro.recipe.identity import came_later

    found = flatten(settings).items()
    return {
        k: v for k, v in found if k not in _NAMES and not k.startswith("runtime.") and not came_later(k, v)
    }


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Changes:
    """{key: (old, new)} of two flat settings; of one that is left out its default."""
    from repro.recipe.identity import default_of

    pairs = {k: (old.get(k, default_of(k)), new.get(k, default_of(k))) for k in {**old, **new}}
    return {k: (a, b) for k, (a, b) in pairs.items() if a != b}


def describe(changes: Mapping[str, tuple[Any, Any]], most: int = 3) -> str:
    """ "optimizer.lr 0.1 -> 0.05": the first `most` changes, and how many more there are."""
    words = [f"{key} {_short(old)} -> {_short(new)}" for key, (old, new) in sorted(changes.items())]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as {dotted key: value}."""
    return dict(_pairs(values, prefix))


def _pairs(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _pairs(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _covers(asked: Mapping[str, Any], key: str) -> bool:
    return any(key == word or key.startswith(f"{word}.") for word in asked)


def _short(value: Any) -> str:
    return "none" if value is None else str(value)
