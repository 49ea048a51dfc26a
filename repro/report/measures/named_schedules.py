"""The schedules that have a name, on a network, and what they really approximate."""

from __future__ import annotations

from typing import Any

PUBLISHED = {"s1": "published", "alternate": "published", "early": "suggested in the paper"}
RULES = {
    "s1": "every 4th convolution from the 2nd, every batch",
    "s2": "every convolution, every 4th batch",
    "s3": "every 2nd convolution from the 2nd, every 2nd batch",
    "early": "s1 in the first half of the epochs, full after",
    "all": "every convolution, every batch",
    "alternate": "the second convolution, every 2nd batch",
    "measured": "where measured faster than the library on this device",
}


def realised(result: dict[str, Any]) -> float | None:
    """Percent of the uses of all convolutions that were approximated, as the run counted them."""
    uses = (result.get("gradient") or {}).get("uses") or {}
    total = sum(uses.values())
    return 100.0 * (1.0 - uses.get("full", 0) / total) if total else None


def named_schedules(profile: str) -> dict[tuple[str, str], Any]:
    """One recipe for each (network, named schedule), in a stable order."""
    from repro.recipe import catalogue, load

    found: dict[tuple[str, str], Any] = {}
    for entry in catalogue().values():
        if entry.group != "gradient-approximation" or not entry.name.startswith("top1-"):
            continue
        recipe = load(entry.name, profile)
        if isinstance(recipe.gradient.schedule, str):
            found.setdefault((recipe.model.name, recipe.gradient.schedule), recipe)
    names = list(RULES)
    return dict(sorted(found.items(), key=lambda item: (item[0][0], names.index(item[0][1]))))
