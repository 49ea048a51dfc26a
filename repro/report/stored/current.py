"""Which sets of seeds stand in tables and figures: one for each setting that a recipe was run with.

Seeds are grouped by (recipe, hash, profile). Sets of one recipe whose commands changed the same settings to the
same values compete: a complete one comes before others, one of the recipe as it stands before a stale one, then
the one begun last. The rest are named and enter no number; so are stale sets where the recipe as it stands has a
complete one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime

from repro.report.stored.group import Group, text_words
from repro.report.stored.origin import describe, differences
from repro.store import StoredRun


def current(groups: Iterable[Group]) -> tuple[list[Group], list[str]]:
    """Choose one group for each setting; returns them in order of their names, and a line for each one left out."""
    groups = list(groups)
    chosen: dict[tuple[str, ...], list[Group]] = defaultdict(list)
    lines = []
    for (bucket, _), rivals in _by_setting(groups).items():
        best, said = _best(rivals)
        chosen[bucket].append(best)
        lines += said
    kept = []
    for members in chosen.values():
        fresh = [g for g in members if g.complete and not g.stale]
        for group in members:
            if fresh and group.stale:
                seeds = ", ".join(map(str, group.started))
                lines.append(
                    f"{_name(group)}: stale, left out (seeds {seeds}; the recipe has changed since: {group.stale})"
                )
            else:
                kept.append(group)
    return sorted(kept, key=lambda g: (g.recipe, g.profile, g.hash)), sorted(lines)


def _by_setting(groups: list[Group]) -> dict[tuple[tuple[str, ...], str], list[Group]]:
    """Groups of one recipe, profile, device, data set and K whose commands changed the same to the same."""
    found: dict[tuple[tuple[str, ...], str], list[Group]] = defaultdict(list)
    for group in groups:
        changed = repr(sorted((key, here) for key, (_, here) in group.changed.items()))
        found[_bucket(group, groups), changed].append(group)
    return found


def _best(rivals: list[Group]) -> tuple[Group, list[str]]:
    best = max(rivals, key=lambda g: (bool(g.complete), not g.stale, begun(g), len(g.complete), g.hash))
    newer_than, lines = begun(best), []
    for other in sorted(rivals, key=lambda g: g.hash):
        if other.hash == best.hash:
            continue
        found = differences(other.counted, best.counted)
        changes = describe(found) or "cut, data or numerics"
        seeds = ", ".join(map(str, other.started))
        if begun(other) > newer_than and not other.complete:
            lines.append(f"{_name(other)}: newer, but no seed is complete yet (seeds {seeds}; {changes})")
            best = best.marked(f"a newer set of runs ({other.hash}) is not complete yet")
        else:
            lines.append(f"{_name(other)}: stale, left out (seeds {seeds}; against {best.hash}: {changes})")
    return best, lines


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
    return group.recipe, group.profile, device, group.data + text_words(group), str(group.blocks)
