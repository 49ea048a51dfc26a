"""An estimator's bias at a layer, put together over seeds."""

from __future__ import annotations

import math
from typing import Any

from repro.report.stats import Estimate, mean_interval


def over_seeds(seeds: list[dict[str, Any]], name: str) -> Estimate | None:
    """Mean and t interval of a number over the rows of several seeds; with one row its own interval over pairs.

    Norms are averaged as signed squares where these are stored, and the root is taken last: a mean of roots,
    none of them below zero, would call every unbiased estimate biased.
    """
    rows = [s for s in seeds if isinstance(s.get(name), (int, float))]
    if len(rows) == 1:
        return Estimate(float(rows[0][name]), rows[0].get(f"{name}_low"), rows[0].get(f"{name}_high"), 1)
    squares = [
        float(s[f"{name}_squared"]) for s in rows if isinstance(s.get(f"{name}_squared"), (int, float))
    ]
    if len(squares) < len(rows) or not rows:
        return mean_interval([float(s[name]) for s in rows])
    found = mean_interval(squares)
    assert found is not None
    mean, low, high = (
        None if v is None else math.sqrt(max(0.0, v)) for v in (found.mean, found.low, found.high)
    )
    return Estimate(mean or 0.0, low, high, found.n)
