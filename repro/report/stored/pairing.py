"""Which run another is compared with: of the same changed settings where there is one, else of the recipe's own."""

from __future__ import annotations

from collections.abc import Iterable

from repro.report.stored.group import Group, value_words
from repro.report.stored.variants import SIZE, swept


def partner(group: Group, candidates: Iterable[Group]) -> Group | None:
    """Of groups that may be compared with `group`, the one with equal values in all that a command changed.

    Else one of its recipe's own settings (`pairing_note` says so), else None. The nearest in size comes first.
    """
    found = [g for g in candidates if _same(group, g) or not _compared(g)]

    def rank(other: Group) -> tuple[bool, int, bool]:
        keys = {k for k in (*group.changed, *other.changed) if k in SIZE}
        return not _same(group, other), len(_apart(group, other, keys)), bool(other.changed)

    return min(found, key=rank, default=None)


def pairing_note(group: Group, base: Group | None) -> str:
    """What a reader must know where `base` has not the changed settings of `group`; "" where it has."""
    if base is None or base is group or _same(group, base):
        return ""
    words = (f"{key.split('.')[-1]} {value_words(base.counted.get(key))}" for key in _compared(group))
    return f"against {base.label} at its recipe's own settings: {', '.join(words)}"


def _compared(group: Group) -> list[str]:
    """Changed keys that every method has."""
    return [key for key in swept(group) if key.split(".")[0] not in ("method", "gradient")]


def _same(a: Group, b: Group) -> bool:
    return not _apart(a, b, {*_compared(a), *_compared(b)})


def _apart(a: Group, b: Group, keys: Iterable[str]) -> list[str]:
    return [key for key in keys if a.counted.get(key) != b.counted.get(key)]
