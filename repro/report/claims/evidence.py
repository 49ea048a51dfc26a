"""The stored runs as claims see them: sorted into places, the most telling place first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from repro.recipe.load import PROFILES
from repro.report import stats
from repro.report.context import data_label, order
from repro.report.group import Group, shares_start
from repro.report.source import Source, experiment, in_group
from repro.report.table import Measured
from repro.store import StoredRun

Places = list[list[Group]]


@dataclass
class Evidence:
    """All runs of a source, by experiment."""

    source: Source

    def training(self, group: str = "dsp") -> list[Group]:
        """Training runs of one paper, split by machine and thread count."""
        found = self.source.find(lambda run: experiment(run) == "train" and in_group(run, group))
        return sorted((part for g in found.groups for part in g.split()), key=order)

    def of(self, name: str) -> list[Group]:
        """Runs of experiment `name`."""
        found = self.source.find(lambda run: experiment(run) == name)
        return sorted((part for g in found.groups for part in g.split()), key=order)


def places(groups: Iterable[Group], needed: Callable[[list[Group]], bool]) -> Places:
    """Groups that may be compared (same network, data, profile, device, K, machine, threads) and hold what is `needed`.

    The nearest to the paper first: in the order of PROFILES, then the most seeds.
    """
    sorted_groups: dict[tuple[Any, ...], list[Group]] = {}
    for g in groups:
        if g.complete:
            key = (g.model, data_label(g), g.profile, g.device, g.blocks, g.machine, g.threads)
            sorted_groups.setdefault(key, []).append(g)
    found = [members for members in sorted_groups.values() if needed(members)]

    def rank(members: list[Group]) -> tuple[Any, ...]:
        profile = members[0].profile
        closeness = PROFILES.index(profile) if profile in PROFILES else len(PROFILES)
        return closeness, -len(members), -sum(len(g.complete) for g in members), order(members[0])

    return sorted(found, key=rank)


def where(group: Group) -> str:
    """The place of a group in words."""
    return f"{group.model}, {data_label(group)}, K = {group.blocks}, {group.profile}, {group.device}"


def labelled(groups: Iterable[Group], label: str) -> Group | None:
    """The group with that label."""
    return next((g for g in groups if g.label == label), None)


def having(groups: Iterable[Group], method: str) -> list[Group]:
    """Groups of a method with nothing approximated."""
    return [g for g in groups if g.method == method and "," not in g.label.split(")")[-1]]


def difference(a: Group, b: Group, read: str | Callable[[StoredRun], Any]) -> Measured:
    """Mean of a - b."""
    change = stats.difference(a.values(read), b.values(read), paired=shares_start(a, b))
    return Measured(change, max(len(a.started), len(b.started)))


def ratio(a: Group, b: Group, read: str | Callable[[StoredRun], Any]) -> Measured:
    """Geometric mean of a / b."""
    above, below = ({s: v for s, v in g.values(read).items() if v > 0} for g in (a, b))
    return Measured(stats.ratio(above, below, paired=shares_start(a, b)), max(len(a.started), len(b.started)))


def trend(group: Group, late: Callable[[StoredRun], Any], early: Callable[[StoredRun], Any]) -> Measured:
    """Geometric mean over seeds of late / early."""
    above, below = ({s: v for s, v in group.values(read).items() if v > 0} for read in (late, early))
    return Measured(stats.ratio(above, below, paired=True), len(group.started))
