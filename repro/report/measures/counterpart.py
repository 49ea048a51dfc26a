"""Runs of one network, text or images and length, whatever trains it; and which of them another is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from repro.report.stored.group import Group, data_label, numbers_of_data
from repro.report.stored.variants import judged

Place = tuple[Any, ...]


def place(group: Group) -> Place:
    """What groups share whose losses may be compared: network, data, batch, profile, device, K and length."""
    data = repr(sorted(numbers_of_data(group).items(), key=lambda item: item[0]))
    size = repr(group.settings.get("model")), data, group.settings.get("group")
    return group.model, data_label(group), group.profile, group.device, group.blocks, *size, group.length


def optimizer(group: Group) -> Mapping[str, Any]:
    """Settings of the optimiser."""
    found = group.settings.get("optimizer")
    return found if isinstance(found, Mapping) else {}


def optimizer_name(group: Group) -> str:
    """sgd, adamw, nadam or muon."""
    return str(optimizer(group).get("name") or "sgd")


def corrections(group: Group) -> tuple[str, ...]:
    """Names of the corrections of staleness, in their order."""
    found = group.settings.get("corrections")
    given = found if isinstance(found, list) else []
    return tuple(str(c.get("name", "") if isinstance(c, Mapping) else c) for c in given)


def counterpart(group: Group, groups: Iterable[Group], method: str = "bp") -> Group | None:
    """The group of `method` in the same place: with the same optimiser where there is one, else the recipe's plain one.

    Of several with the optimiser's name, equal settings of it come first; none with corrections.
    """
    found = [g for g in groups if g.method == method and place(g) == place(group) and not corrections(g)]

    def rank(other: Group) -> tuple[Any, ...]:
        return (
            optimizer_name(other) != optimizer_name(group),
            optimizer(other) != optimizer(group),
            not judged(other),
            len(other.recipe),
            other.recipe,
        )

    return min(found, key=rank, default=None)
