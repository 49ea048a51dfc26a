"""Statistics against scipy, by hand, and by simulation."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from repro.report import stats

A = {0: 90.1, 1: 91.4, 2: 92.0, 3: 90.9, 4: 93.3}
B = {0: 89.0, 1: 91.0, 2: 90.5, 3: 90.0, 4: 91.9}


def test_one_function_for_deviation_and_error() -> None:
    values = [90.0, 92.0, 94.0]
    assert stats.mean(values) == 92.0
    assert stats.standard_deviation(values) == pytest.approx(2.0)
    assert stats.standard_error(values) == pytest.approx(1.1547, abs=1e-4)
    found = stats.mean_interval(values)
    assert found is not None
    assert found.half == pytest.approx(4.303 * 1.1547, abs=1e-3)


@pytest.mark.parametrize("count", [2, 3, 5, 30])
def test_interval_is_scipys(count: int) -> None:
    values = np.random.default_rng(count).normal(5, 2, count).tolist()
    found = stats.mean_interval(values)
    expected = scipy_stats.t.interval(0.95, count - 1, loc=np.mean(values), scale=scipy_stats.sem(values))
    assert found is not None
    assert (found.low, found.high) == pytest.approx(expected)
    assert found.n == count


def test_no_value_gives_nothing_and_one_value_no_interval() -> None:
    assert stats.mean_interval([]) is None
    assert stats.mean_interval([3.0]) == stats.Estimate(3.0, None, None, 1)
    assert stats.difference({0: 1.0}, {}, paired=True) is None
    single = stats.ratio({0: 2.0}, {0: 1.0}, paired=True)
    assert single is not None
    assert (single.mean, single.low, single.p) == (2.0, None, None)


def test_paired_difference_is_scipys() -> None:
    found = stats.difference(A, B, paired=True)
    expected = scipy_stats.ttest_rel(list(A.values()), list(B.values()))
    interval = expected.confidence_interval(0.95)
    assert found is not None
    assert (found.low, found.high, found.p) == pytest.approx((interval.low, interval.high, expected.pvalue))
    assert found.paired is True


def test_welch_difference_is_scipys() -> None:
    short = {s: B[s] for s in (0, 1, 2)}
    found = stats.difference(A, short, paired=False)
    expected = scipy_stats.ttest_ind(list(A.values()), list(short.values()), equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert found is not None
    assert (found.low, found.high, found.p) == pytest.approx((interval.low, interval.high, expected.pvalue))
    assert (found.paired, found.n) == (False, 3)


def test_pairing_uses_common_seeds_only_and_falls_back_without_them() -> None:
    shifted = {s + 10: v for s, v in B.items()}
    fallen = stats.difference(A, shifted, paired=True)
    assert fallen is not None
    assert fallen.paired is False
    part = stats.difference(A, {1: 91.0, 2: 90.5, 9: 50.0}, paired=True)
    assert part is not None
    assert part.n == 2
    assert part.mean == pytest.approx((91.4 - 91.0 + 92.0 - 90.5) / 2)


def test_ratio_is_the_interval_of_the_logarithms() -> None:
    found = stats.ratio(A, B, paired=True)
    logs = [math.log(A[s] / B[s]) for s in A]
    low, high = scipy_stats.t.interval(0.95, 4, loc=np.mean(logs), scale=scipy_stats.sem(logs))
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx(
        (np.exp(np.mean(logs)), np.exp(low), np.exp(high))
    )
    back = stats.ratio(B, A, paired=True)
    assert back is not None
    assert back.low == pytest.approx(1 / found.high)


def test_order_of_values_changes_no_bit() -> None:
    values = np.random.default_rng(1).normal(1e3, 1, 20).tolist()
    assert (
        stats.mean_interval(values)
        == stats.mean_interval(sorted(values))
        == stats.mean_interval(values[::-1])
    )


def test_holm() -> None:
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([0.6, 0.9]) == pytest.approx([1.0, 1.0])
    assert stats.holm([]) == []


def test_warning_below_five() -> None:
    assert stats.small_sample_warning([5, 7, 0]) is None
    assert "n = 1, 3" in str(stats.small_sample_warning([3, 1, 5]))


@pytest.mark.parametrize("kind", ["mean", "paired ratio", "welch"])
def test_coverage_is_95_percent(kind: str) -> None:
    """2500 experiments of five seeds: the interval holds the truth in 95 % of them (+-1.5 points, over 3 deviations)."""
    generator = np.random.default_rng(7)
    trials, hits = 2500, 0
    for _ in range(trials):
        base, noise = generator.normal(0, 0.2, (2, 5))
        if kind == "mean":
            found, truth = stats.mean_interval(base.tolist()), 0.0
        elif kind == "paired ratio":  # a seed's own level is shared by both sides
            above = {s: math.exp(b + 0.5 + 0.1 * e) for s, (b, e) in enumerate(zip(base, noise, strict=True))}
            found = stats.ratio(above, {s: math.exp(b) for s, b in enumerate(base)}, paired=True)
            truth = math.exp(0.5)
        else:
            found = stats.difference(dict(enumerate(base)), dict(enumerate(4 * noise)), paired=False)
            truth = 0.0
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= truth <= found.high
    assert abs(hits / trials - 0.95) < 0.015
