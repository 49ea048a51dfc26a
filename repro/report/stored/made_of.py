"""Which runs a number is made of that compares two groups, or joins several."""

from __future__ import annotations

from collections.abc import Iterable

from repro.report.stats import Estimate
from repro.report.stored.group import Group
from repro.report.table import Runs


def made_of(estimate: Estimate | None, *sides: tuple[Group, Iterable[int]]) -> tuple[Runs, ...]:
    """The runs of `sides`, each a group and the seeds that have a value; where seeds were paired, those all sides share.

    A group that stands on both sides is named once. Without an estimate the runs are those that were looked at.
    """
    known = [(group, set(seeds)) for group, seeds in sides]
    if estimate is not None and estimate.paired:
        shared = set.intersection(*(seeds for _, seeds in known))
        known = [(group, shared) for group, _ in known]
    return tuple(dict.fromkeys(group.behind(seeds) for group, seeds in known))
