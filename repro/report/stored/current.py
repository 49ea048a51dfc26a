"""Which set of seeds stands for a recipe where its settings have changed between runs.

Seeds are grouped by (recipe, hash, profile). Of several hashes of one recipe with the same profile, device,
data set
and K, the one begun last that has a complete seed is shown; the others are named as stale and enter no
number. A set
that was made under other settings than the recipe has today is named too, unless its command changed them by
--set.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from repro.report.stored.group import Group
from repro.store import StoredRun


def current(groups: Iterable[Group]) -> tuple[list[Group], list[str]]:
    """Choose one group of each bucket; returns them in order of their names, and a line for each one left out."""
    buckets: dict[tuple[str, ...], list[Group]] = defaultdict(list)
    groups = list(groups)
    for group in groups:
        buckets[_bucket(group, groups)].append(group)
    chosen, stale = [], []
    for bucket in buckets.values():
        best = max(bucket, key=lambda g: (bool(g.complete), begun(g), len(g.complete), g.hash))
        for other in sorted(bucket, key=lambda g: g.hash):
            if other is best:
                continue
            changes = describe(_differences(other.settings, best.settings)) or "cut, data or numerics"
            seeds = ", ".join(map(str, other.started))
            if begun(other) > begun(best):
                stale.append(f"{_name(other)}: newer, but no seed is complete yet (seeds {seeds}; {changes})")
                best_mark = f"a newer set of runs ({other.hash}) is not complete yet"
                best = best.marked(best_mark)
            else:
                stale.append(
                    f"{_name(other)}: stale, left out (seeds {seeds}; against {best.hash}: {changes})"
                )
        chosen.append(best)
    return sorted(chosen, key=lambda g: (g.recipe, g.profile, g.hash)), sorted(stale)


def begun(group: Group) -> tuple[bool, float]:
    """When the newest seed was begun, to compare groups by: (whether env.json says so, seconds since 1970).

    The times of files stand in only where no seed of the group says it, and lose against any that does: a git
    checkout gives every file the time of the checkout, so that a clone would show another set than the tree
    it was made from.
    """
    recorded = [time for run in group.runs if (time := _started(run)) is not None]
    if recorded:
        return True, max(recorded)
    times = [0.0]
    for run in group.runs:
        with suppress(OSError):
            times.append((run.folder.path / "recipe.yaml").stat().st_mtime)
    return False, max(times)


def _started(run: StoredRun) -> float | None:
    """`started` of env.json (ISO 8601; UTC where it names no zone) in seconds since 1970; None where it is not there."""
    try:
        time = datetime.fromisoformat(str(run.environment.get("started")))
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def compare_with_recipe(group: Group) -> tuple[str, bool]:
    """How the group's settings differ from its recipe as it stands, in words, and whether --set asked for it."""
    asked = any("--set" in str(word) for run in group.runs for word in run.environment.get("command") or ())
    today = _today(group.recipe, group.profile)
    stored = _fingerprint(group.settings)
    if today is None or stored is None or stored == _fingerprint(today):
        return "", asked
    return describe(_differences(today, group.settings)), asked


def describe(changes: Mapping[str, tuple[Any, Any]], most: int = 3) -> str:
    """ "optimizer.lr 0.1 -> 0.05": the first `most` changes, and how many more there are."""
    words = [f"{key} {_short(old)} -> {_short(new)}" for key, (old, new) in sorted(changes.items())]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def _short(value: Any) -> str:
    return "none" if value is None else str(value)


def _name(group: Group) -> str:
    return f"{group.recipe} ({group.profile}, {group.hash})"


def _bucket(group: Group, groups: list[Group]) -> tuple[str, ...]:
    device = group.device
    if not device:  # no seed has a result: it competes with the only device that the recipe has run on
        known = {
            g.device
            for g in groups
            if (g.recipe, g.profile, g.data) == (group.recipe, group.profile, group.data)
        }
        known.discard("")
        device = known.pop() if len(known) == 1 else ""
    return group.recipe, group.profile, device, group.data, str(group.blocks)


@lru_cache(maxsize=512)
def _today(name: str, profile: str) -> dict[str, Any] | None:
    """The recipe's settings as the tree has them now; None for a recipe that is not in the tree."""
    from repro.errors import UserError
    from repro.recipe import load

    try:
        found: dict[str, Any] = load(name, profile).model_dump(mode="json")
    except UserError:
        return None
    return found


def _fingerprint(settings: Mapping[str, Any]) -> str | None:
    """A hash over the settings that can change a number; None where today's schema does not know them."""
    from repro.errors import UserError
    from repro.recipe import run_hash, validate

    try:
        return run_hash(validate(settings), device="", data_identity="", cut=())
    except (UserError, ValueError, TypeError):
        return None


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    left, right = flatten(old), flatten(new)
    skipped = ("name", "group", "reproduces", "profile")
    keys = [k for k in {**left, **right} if k not in skipped and not k.startswith("runtime.")]
    return {k: (left.get(k), right.get(k)) for k in keys if left.get(k) != right.get(k)}


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as {dotted key: value}."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found.update(flatten(value, f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = value
    return found
