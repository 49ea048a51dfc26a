"""Curves over seeds for the figures: the mean and its 95 % t band at each epoch, from the same module as the tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from repro.report.stats import Estimate, mean, mean_interval
from repro.report.stored.group import Group
from repro.store import StoredRun

Reader = Callable[[dict[str, Any]], Any]


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


def over_epochs(group: Group, field: str, *, geometric: bool = False) -> Curve:
    """`field` of the epoch rows over the complete seeds; x is the epoch. `geometric`: as `over_steps`."""
    return _over_seeds([_series(run, field) for run in group.complete], geometric)


def over_steps(group: Group, read: Reader, kind: str = "gap", *, geometric: bool = False) -> Curve:
    """A number of the rows of `kind`, averaged per seed over bins of steps (ten a decade); x is the bin's step, from 1.

    `geometric`: mean and band over seeds are taken on the log scale, and bins that are not positive left out; for
    curves on a logarithmic axis.
    """
    binned: list[dict[float, float]] = []
    for run in group.complete:
        bins: dict[int, list[float]] = {}
        for row in run.metrics():
            value = read(row) if row.get("kind") == kind else None
            if isinstance(value, (int, float)) and math.isfinite(value):
                bins.setdefault(bin_of(int(row["step"])), []).append(float(value))
        binned.append({_centre(b): mean(values) for b, values in bins.items()})
    return _over_seeds(binned, geometric)


def _exponential(e: Estimate) -> Estimate:
    low, high = (None if x is None else math.exp(min(x, 700.0)) for x in (e.low, e.high))
    return Estimate(math.exp(e.mean), low, high, e.n)


def bin_of(step: int) -> int:
    """The bin of a step (from 0): ten bins a decade of step + 1."""
    return round(10 * math.log10(step + 1))


def _centre(number: int) -> float:
    return 10 ** (number / 10)


def _series(run: StoredRun, field: str) -> dict[float, float]:
    found = {}
    for row in run.epochs():
        value = row.get(field)
        if isinstance(value, (int, float)) and math.isfinite(value):
            found[float(row["epoch"])] = float(value)
    return found


def _over_seeds(series: list[dict[float, float]], geometric: bool) -> Curve:
    if not geometric:
        return _curve(series)
    curve = _curve([{x: math.log(y) for x, y in one.items() if y > 0} for one in series])
    return Curve(curve.x, tuple(_exponential(e) for e in curve.y))


def _curve(series: list[dict[float, float]]) -> Curve:
    if not series:
        return Curve((), ())
    common = sorted(set.intersection(*(set(s) for s in series)))
    estimates = [mean_interval([s[x] for s in series]) for x in common]
    return Curve(tuple(common), tuple(e for e in estimates if e is not None))
