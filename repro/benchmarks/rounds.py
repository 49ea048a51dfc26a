"""Medians and intervals over interleaved rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from repro.report import stats


def with_interval(name: str, values: Sequence[float]) -> dict[str, Any]:
    """`name`: the median over rounds; `name_low` / `name_high`: the smallest and largest round; `name_n`: rounds."""
    finite = [v for v in values if math.isfinite(v)]
    if not finite:
        return {name: None, f"{name}_low": None, f"{name}_high": None, f"{name}_n": 0}
    return {
        name: median(finite),
        f"{name}_low": min(finite),
        f"{name}_high": max(finite),
        f"{name}_n": len(finite),
    }


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Round by round, so that a slow moment of the machine touches both sides; an interrupted round has one side only."""
    return [a / b for a, b in zip(above, below, strict=False)]


def ratio_in_turn(name: str, above: Sequence[float], below: Sequence[float]) -> dict[str, Any]:
    """Geometric mean over rounds of above / below, with the 95 % t interval of the logarithms."""
    rounds = range(min(len(above), len(below)))
    a, b = ({i: side[i] for i in rounds} for side in (above, below))
    return t_interval(name, stats.ratio(a, b, paired=True))


def t_interval(name: str, found: stats.Estimate | None) -> dict[str, Any]:
    """An estimate over rounds as a row holds it."""
    if found is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None, f"{name}_n": 0}
    return {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high, f"{name}_n": found.n}
