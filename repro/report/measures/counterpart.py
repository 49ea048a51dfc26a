"""Runs of one network, text or images and length, whatever trains it; and which of them another is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from repro.report.stored.group import Group, data_label, numbers_of_data
from repro.report.stored.variants import judged

Place = tuple[Any, ...]


def place(group: Group) -> Place:
    """What groups share whose times to a loss may be compared: `training_of` and K."""
    return *training_of(group), group.blocks


def training_of(group: Group) -> Place:
    """What groups share whose losses may be compared: network, data, batch, replicas, profile, device and length."""
    data = repr(sorted(numbers_of_data(group).items(), key=lambda item: item[0]))
    size = repr(group.settings.get("model")), data, group.settings.get("group")
    return group.model, data_label(group), group.profile, group.device, *size, group.length, group.replicas


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


def synchronous_of(group: Group, groups: Iterable[Group]) -> Group | None:
    """GPipe of the same K and optimiser, else BP of that optimiser, whose numbers do not depend on K; None without."""
    found = [
        g
        for g in groups
        if not corrections(g)
        and training_of(g) == training_of(group)
        and optimizer_name(g) == optimizer_name(group)
        and (g.method == "bp" or (g.method == "gpipe" and g.blocks == group.blocks))
    ]
    return min(
        found,
        key=lambda g: (
            optimizer(g) != optimizer(group),
            g.method == "bp",
            g.blocks != group.blocks,
            g.blocks,
        ),
        default=None,
    )
