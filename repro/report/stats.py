"""All statistics of tables and figures: t intervals, differences, ratios on the log scale, Holm.

An interval is a 95 % t interval. Values come by seed (`{seed: value}`); where two sides share their initial
weights and their data order seed by seed they are compared in pairs, otherwise after Welch. One value has no
interval, and below `ENOUGH` values a table warns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

CONFIDENCE = 0.95
ONE_SIDED_TWICE = 0.90  # two one-sided tests at 5 % each: this interval inside a margin
ENOUGH = 5  # fewer seeds than this and a table says so


@dataclass(frozen=True)
class Estimate:
    """A mean (or a difference, or a ratio) with its 95 % interval from `n` values; no interval for n = 1.

    `p` is the two-sided p value against no difference (ratio 1); None where it has no meaning. `paired` says how a
    difference or ratio was computed, None for a plain mean. `inner` is the 90 % interval, by which two one-sided tests
    at 5 % ask whether there is no difference beyond a margin; `freedom` its degrees. Both None where the interval is
    no t interval.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    paired: bool | None = None
    p: float | None = None
    inner: tuple[float, float] | None = field(default=None, compare=False)
    freedom: float | None = field(default=None, compare=False)

    @property
    def half(self) -> float | None:
        """Half-width of the interval (upper side where it is not symmetric)."""
        return None if self.high is None else self.high - self.mean

    def scaled(self, factor: float, offset: float = 0.0) -> Estimate:
        """The estimate of factor * x + offset; factor > 0."""

        return self.moved(lambda x: factor * x + offset)

    def moved(self, move: Callable[[float], float]) -> Estimate:
        """The estimate of move(x), which rises or falls throughout."""

        def ends(low: float, high: float) -> tuple[float, float]:
            a, b = move(low), move(high)
            return min(a, b), max(a, b)

        low, high = (None, None) if self.low is None or self.high is None else ends(self.low, self.high)
        inner = None if self.inner is None else ends(*self.inner)
        return replace(self, mean=move(self.mean), low=low, high=high, inner=inner)


def mean(values: Iterable[float]) -> float:
    """Arithmetic mean, the same bits whatever the order of `values`."""
    found = list(values)
    return math.fsum(found) / len(found)


def standard_deviation(values: Iterable[float]) -> float:
    """Sample standard deviation (n - 1); ValueError below two values."""
    found = list(values)
    if len(found) < 2:
        raise ValueError("a standard deviation needs two values")
    centre = mean(found)
    return math.sqrt(math.fsum((x - centre) ** 2 for x in found) / (len(found) - 1))


def standard_error(values: Iterable[float]) -> float:
    """Standard error of the mean: standard deviation / sqrt(n)."""
    found = list(values)
    return standard_deviation(found) / math.sqrt(len(found))


def quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Two-sided t quantile for `freedom` degrees of freedom (4.303 for 2 at 95 %)."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + confidence / 2))


def mean_interval(values: Iterable[float], confidence: float = CONFIDENCE) -> Estimate | None:
    """Mean with its t interval; None without values, no interval for one."""
    found = list(values)
    if not found:
        return None
    centre = mean(found)
    if len(found) == 1:
        return Estimate(centre, None, None, 1)
    return _around(centre, standard_error(found), len(found) - 1, len(found), confidence)


def difference(
    above: Mapping[int, float], below: Mapping[int, float], *, paired: bool, confidence: float = CONFIDENCE
) -> Estimate | None:
    """Mean of `above` minus mean of `below` with its interval.

    `paired`: seeds that both sides have are subtracted one by one; falls back to Welch where fewer than two are shared
    although both sides have two. For Welch `n` is the smaller side's. None where a side is empty.
    """
    common = sorted(set(above) & set(below))
    if paired and common and (len(common) > 1 or min(len(above), len(below)) < 2):
        changes = [above[s] - below[s] for s in common]
        found = mean_interval(changes, confidence)
        assert found is not None
        p = None if len(changes) < 2 else _p_value(found.mean, standard_error(changes), len(changes) - 1)
        return replace(found, paired=True, p=p)
    if not above or not below:
        return None
    return _welch(list(above.values()), list(below.values()), confidence)


def ratio(
    above: Mapping[int, float], below: Mapping[int, float], *, paired: bool, confidence: float = CONFIDENCE
) -> Estimate | None:
    """Ratio of the geometric means with an interval from the logarithms; values must be positive."""
    found = difference(
        {s: math.log(x) for s, x in above.items()},
        {s: math.log(x) for s, x in below.items()},
        paired=paired,
        confidence=confidence,
    )
    if found is None:
        return None
    return found.moved(math.exp)


def holm(p_values: Sequence[float]) -> list[float]:
    """p values adjusted after Holm for a family of comparisons, in the order given."""
    count = len(p_values)
    order = sorted(range(count), key=lambda i: p_values[i])
    adjusted = [0.0] * count
    largest = 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (count - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def small_sample_warning(counts: Iterable[int]) -> str | None:
    """A sentence where any of `counts` (seeds behind a mean) is too small to lean on; None otherwise."""
    few = sorted({n for n in counts if 0 < n < ENOUGH})
    if not few:
        return None
    single = " One seed has no interval." if few[0] == 1 else ""
    return f"Warning: n = {', '.join(map(str, few))} is below {ENOUGH} seeds: read these intervals with care.{single}"


def _welch(a: list[float], b: list[float], confidence: float) -> Estimate:
    change, n = mean(a) - mean(b), min(len(a), len(b))
    if n < 2:
        return Estimate(change, None, None, n, False)
    parts = [standard_error(x) ** 2 for x in (a, b)]
    error = math.sqrt(sum(parts))
    if error == 0.0:
        p = 1.0 if change == 0.0 else 0.0
        return Estimate(change, change, change, n, False, p, (change, change))
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (len(a) - 1) + parts[1] ** 2 / (len(b) - 1))
    found = _around(change, error, freedom, n, confidence)
    return replace(found, paired=False, p=_p_value(change, error, freedom))


def _around(centre: float, error: float, freedom: float, n: int, confidence: float) -> Estimate:
    """`centre` with the t interval of a standard error, and the 90 % interval."""
    half, inner = (quantile(freedom, c) * error for c in (confidence, ONE_SIDED_TWICE))
    return Estimate(
        centre, centre - half, centre + half, n, inner=(centre - inner, centre + inner), freedom=freedom
    )


def _p_value(change: float, error: float, freedom: float) -> float:
    from scipy.special import stdtr

    if error == 0.0:
        return 1.0 if change == 0.0 else 0.0
    return float(2.0 * stdtr(freedom, -abs(change / error)))
