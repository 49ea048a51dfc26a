"""How many times faster one group of runs is than another, by seconds per batch."""

from __future__ import annotations

from repro.report import stats
from repro.report.stored.group import Group, shares_start
from repro.report.stored.made_of import made_of
from repro.report.table import Measured

SAME = ("profile", "device", "machine", "threads", "blocks")


def over(base: Group, group: Group) -> Measured:
    """How many times faster `group` is than `base`."""
    before, own = positive(base), positive(group)
    ratio = stats.ratio(before, own, paired=shares_start(base, group))
    return Measured(ratio, len(group.started), made_of(ratio, (group, own), (base, before)))


def positive(group: Group) -> dict[int, float]:
    """Seconds per batch by seed, where there are any."""
    return {seed: value for seed, value in group.values("seconds_per_batch").items() if value > 0}
