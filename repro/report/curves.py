"""Curves over seeds for the figures: the mean and its 95 % t band at each epoch, from the same module as the tables."""

from __future__ import annotations

import math
from dataclasses import dataclass

from repro.report.group import Group
from repro.report.stats import Estimate, mean_interval
from repro.store import StoredRun


@dataclass(frozen=True)
class Curve:
    """Estimates at the places `x` where every complete seed has a value."""

    x: tuple[float, ...]
    y: tuple[Estimate, ...]

    @property
    def means(self) -> list[float]:
        """Mean at each x."""
        return [e.mean for e in self.y]

    @property
    def band(self) -> tuple[list[float], list[float]] | None:
        """Lower and upper edge of the 95 % band; None for one seed."""
        if not self.y or any(e.low is None for e in self.y):
            return None
        return [e.low for e in self.y if e.low is not None], [e.high for e in self.y if e.high is not None]


def over_epochs(group: Group, field: str) -> Curve:
    """`field` of the epoch rows over the complete seeds; x is the epoch."""
    return _curve([_series(run, field) for run in group.complete])


def _series(run: StoredRun, field: str) -> dict[float, float]:
    found = {}
    for row in run.epochs():
        value = row.get(field)
        if isinstance(value, (int, float)) and math.isfinite(value):
            found[float(row["epoch"])] = float(value)
    return found


def _curve(series: list[dict[float, float]]) -> Curve:
    if not series:
        return Curve((), ())
    common = sorted(set.intersection(*(set(s) for s in series)))
    estimates = [mean_interval([s[x] for s in series]) for x in common]
    return Curve(tuple(common), tuple(e for e in estimates if e is not None))
