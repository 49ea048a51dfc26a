"""The stored runs as claims see them: sorted into places, the most telling place first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from repro.recipe.load import PROFILES
from repro.report import stats
from repro.report.stored.context import order
from repro.report.stored.group import Group, data_label, shares_start
from repro.report.stored.made_of import made_of
from repro.report.stored.source import Source, experiment, in_group, on_text
from repro.report.stored.variants import judged
from repro.report.table import Measured
from repro.store import StoredRun

Places = list[list[Group]]
_SAME = ("model", "profile", "device", "blocks", "replicas", "length")  # what decides the numbers of a run
_TIMED = ("machine", "threads")  # and its times


@dataclass
class Evidence:
    """All runs of a source, by experiment; `smoke`: those of profile smoke too, which show that things run, not more."""

    source: Source
    smoke: bool = True
    problems: dict[str, None] = field(default_factory=dict)  # of the runs that were looked at, in order
    left_out: dict[str, None] = field(
        default_factory=dict
    )  # rows with other settings than their recipe's own

    def training(self, group: str = "dsp") -> list[Group]:
        """Training runs of one paper, split by machine and thread count."""
        return self._find(
            lambda run: experiment(run) == "train" and in_group(run, group) and not on_text(run)
        )

    def asynchronous(self) -> list[Group]:
        """Finished training runs of the recipes on asynchronous pipelines."""
        found = self._find(lambda run: experiment(run) == "train" and in_group(run, "asynchronous"))
        return [g for g in found if g.complete]

    def of(self, name: str) -> list[Group]:
        """Runs of experiment `name`."""
        return self._find(lambda run: experiment(run) == name)

    def _find(self, wanted: Callable[[StoredRun], bool]) -> list[Group]:
        found = self.source.find(wanted)
        self.problems.update(dict.fromkeys(found.problems))
        groups = [g for g in found.groups if self.smoke or g.profile != "smoke"]
        self.left_out.update(dict.fromkeys(g.title for g in groups if not judged(g)))
        return sorted((part for g in _own(groups) for part in g.split()), key=order)


def _own(groups: Iterable[Group]) -> list[Group]:
    """Groups with their recipe's own settings; of several of one recipe and size that with the fewest changes."""
    found: dict[tuple[Any, ...], Group] = {}
    for g in sorted(filter(judged, groups), key=lambda g: (not g.complete, len(g.changed))):
        found.setdefault((g.recipe, *setting(g)), g)
    return list(found.values())


def places(groups: Iterable[Group], needed: Callable[[list[Group]], bool]) -> Places:
    """Groups that may be compared (the same setting, machine and threads) and hold what is `needed`.

    Those with enough seeds for a verdict first, then the nearest to the paper: in the order of PROFILES, then
    the longest training, then the most methods.
    """
    sorted_groups: dict[tuple[Any, ...], list[Group]] = {}
    for g in groups:
        if g.complete:
            key = (*setting(g), *(getattr(g, name) for name in _TIMED))
            sorted_groups.setdefault(key, []).append(g)
    found = [members for members in sorted_groups.values() if needed(members)]

    def rank(members: list[Group]) -> tuple[Any, ...]:
        ready = needed([g for g in members if len(g.complete) > 1])
        steps = max(int(g.fact("num_steps", 0)) for g in members)
        return not ready, closeness(members[0]), -steps, -len(members), order(members[0])

    return sorted(found, key=rank)


def setting(group: Group) -> tuple[Any, ...]:
    """What groups must share besides the method for their numbers to be comparable; times also need the machine."""
    return data_label(group), repr(group.settings.get("straggler")), *(getattr(group, name) for name in _SAME)


def closeness(group: Group) -> int:
    """0 for the papers' own profile, more the farther from it."""
    return PROFILES.index(group.profile) if group.profile in PROFILES else len(PROFILES)


def where(group: Group) -> str:
    """The place of a group in words, with what a reader must know of its runs."""
    place = f"{group.model}, {data_label(group)}, K = {group.blocks}, profile {group.profile}, {group.device}"
    return "; ".join((place, *group.marks))


def labelled(groups: Iterable[Group], label: str) -> Group | None:
    """The group with that label."""
    return next((g for g in groups if g.label == label), None)


def having(groups: Iterable[Group], method: str) -> list[Group]:
    """Groups of a method with nothing approximated."""
    return [g for g in groups if g.method == method and "," not in g.label.split(")")[-1]]


def difference(a: Group, b: Group, read: str | Callable[[StoredRun], Any]) -> Measured:
    """Mean of a - b."""
    left, right = a.values(read), b.values(read)
    change = stats.difference(left, right, paired=shares_start(a, b))
    return Measured(change, max(len(a.started), len(b.started)), made_of(change, (a, left), (b, right)))


def ratio(a: Group, b: Group, read: str | Callable[[StoredRun], Any]) -> Measured:
    """Geometric mean of a / b."""
    above, below = ({s: v for s, v in g.values(read).items() if v > 0} for g in (a, b))
    found = stats.ratio(above, below, paired=shares_start(a, b))
    return Measured(found, max(len(a.started), len(b.started)), made_of(found, (a, above), (b, below)))


def trend(group: Group, late: Callable[[StoredRun], Any], early: Callable[[StoredRun], Any]) -> Measured:
    """Geometric mean over seeds of late / early."""
    above, below = ({s: v for s, v in group.values(read).items() if v > 0} for read in (late, early))
    found = stats.ratio(above, below, paired=True)
    return Measured(found, len(group.started), made_of(found, (group, above), (group, below)))


def queue_length(recipe: Mapping[str, Any]) -> int:
    """m_0: batches between the forward and the update of the first block."""
    from repro.methods import stored_method

    return stored_method(recipe.get("method")).schedule(int(recipe.get("blocks", 1)), 1, {}).staleness[0]


def queue_ends(groups: Iterable[Group]) -> tuple[Group, Group] | None:
    """DSP with the shortest and with the longest queues under one optimiser; None where there are not two lengths.

    Of several optimisers the one with momentum, which is the papers' own, comes first.
    """
    found = [g for g in having(groups, "dsp") if g.complete]
    for optimizer in sorted({repr(g.settings.get("optimizer")) for g in found}, key=_without_momentum):
        members = [g for g in found if repr(g.settings.get("optimizer")) == optimizer]
        by_length = sorted(members, key=lambda g: queue_length(g.settings))
        if queue_length(by_length[0].settings) < queue_length(by_length[-1].settings):
            return by_length[0], by_length[-1]
    return None


def _without_momentum(optimizer: str) -> tuple[bool, str]:
    return "'momentum': 0.0" in optimizer, optimizer
