"""How many seeds (or rounds) would decide a finding whose interval includes the limit of its rule."""

from __future__ import annotations

from repro.report.claims.margins import Margin
from repro.report.stats import CONFIDENCE, ONE_SIDED_TWICE, Estimate, quantile

MOST = 1000  # beyond, a number says nothing


def deciding_n(estimate: Estimate, limit: float, margin: Margin | None = None) -> int | None:
    """Smallest n at which the interval would leave the limit out, or, with a margin, lie inside it.

    The mean and the spread are taken to stay as measured: a half-width goes with t(n) / sqrt(n). For a mean at the
    limit that is the n at which the 90 % interval is narrower than the margin. None beyond `MOST`, and where the
    spread is not known (medians, quartiles).
    """
    e = estimate
    if e.low is None or e.high is None or e.inner is None or not e.freedom:
        return None
    half = e.mean - e.low if limit <= e.mean else e.high - e.mean
    distance = abs(e.mean - limit)
    spare = None if margin is None else (e.mean - margin.low, margin.high - e.mean)
    inner = e.mean - e.inner[0], e.inner[1] - e.mean
    for n in range(e.n + 1, MOST + 1):
        if half * _shrunk(e, n, CONFIDENCE) < distance:
            return n
        if spare is not None:
            share = _shrunk(e, n, ONE_SIDED_TWICE)
            if all(width * share < room for width, room in zip(inner, spare, strict=True)):
                return n
    return None


def _shrunk(e: Estimate, n: int, confidence: float) -> float:
    """A half-width with n values over that with `e.n`; degrees of freedom grow in proportion to n - 1."""
    assert e.freedom is not None
    more = e.freedom * (n - 1) / (e.n - 1)
    return quantile(more, confidence) / quantile(e.freedom, confidence) * float((e.n / n) ** 0.5)
