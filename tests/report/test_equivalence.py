"""Equal is a verdict: two one-sided tests within a margin fixed in one place; undecided findings name their n."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from repro.report import stats
from repro.report.claims import margins
from repro.report.claims.claim import Finding, Rule, above, at_least, below
from repro.report.claims.dsp_paper import CLAIMS as DSP
from repro.report.claims.power import MOST, deciding_n
from repro.report.claims.verdicts import CONTEXT, EQUALS, VERDICTS
from repro.report.pages.behind import Behind
from repro.report.pages.cells import html_table
from repro.report.pages.glance import claims_in_rows
from repro.report.pages.outcome import MEANING, outcome
from repro.report.pages.paper import _limits
from repro.report.stats import Estimate
from repro.report.table import Measured, Table
from repro.report.tables.claims_table import COLUMNS, _rows

FASTER = above(1.0, margins.TIMES)


def ratios(values: list[float]) -> Estimate:
    found = stats.ratio(dict(enumerate(values)), dict.fromkeys(range(len(values)), 1.0), paired=True)
    assert found is not None
    return found


def finding(e: Estimate, rule: Rule, **fields: Any) -> Finding:
    return Finding("DSP over FR", "here", Measured(e, e.n), "x", rule, **fields)


@pytest.mark.parametrize("seed", range(20))
def test_equal_is_what_two_one_sided_tests_say(seed: int) -> None:
    """Against scipy's one-sided t tests of the logarithms at 5 % each."""
    logs = np.random.default_rng(seed).normal(0.003, 0.025, 8)
    low, high = (math.log(x) for x in (margins.TIMES.low, margins.TIMES.high))
    p = max(
        scipy_stats.ttest_1samp(logs, low, alternative="greater").pvalue,
        scipy_stats.ttest_1samp(logs, high, alternative="less").pvalue,
    )
    e = ratios(np.exp(logs).tolist())
    assert e.low is not None
    assert e.high is not None
    if e.low <= 1.0 <= e.high:
        assert (finding(e, FASTER).verdict == "equal within 2 %") == (p < 0.05)


def test_welch_and_plain_means_have_the_inner_interval_too() -> None:
    a, b = {0: 1.0, 1: 2.0, 2: 4.0}, {0: 2.0, 1: 2.5, 2: 3.5, 3: 3.0}
    found = stats.difference(a, b, paired=False)
    expected = scipy_stats.ttest_ind(list(a.values()), list(b.values()), equal_var=False)
    interval = expected.confidence_interval(0.90)
    assert found is not None
    assert found.inner == pytest.approx((interval.low, interval.high))
    assert found.freedom == pytest.approx(expected.df)
    middle = stats.mean_interval([1.0, 2.0, 4.0])
    assert middle is not None
    assert middle.freedom == 2
    flipped = middle.moved(lambda x: 100 * (1 - x))
    assert flipped.low is not None
    assert flipped.inner is not None
    assert flipped.low < flipped.inner[0] < flipped.mean < flipped.inner[1]


@pytest.mark.parametrize(
    ("values", "rule", "verdict"),
    [
        ([0.995, 1.004, 1.001, 0.999], FASTER, "equal within 2 %"),
        ([0.9, 1.1, 1.0, 1.0], FASTER, "not reproduced"),  # too wide to say
        ([1.005, 1.006, 1.004, 1.005], FASTER, "reproduced"),  # small, but faster
        ([0.993, 0.994, 0.995, 0.994], FASTER, "not reproduced"),  # slower, however little
        ([0.995, 1.004, 1.001, 0.999], above(1.0), "not reproduced"),  # a rule without a margin
        ([0.995, 1.004, 1.001, 0.999], at_least(1.0, 0.5), "not reproduced"),
    ],
)
def test_where_equal_is_said(values: list[float], rule: Rule, verdict: str) -> None:
    assert finding(ratios(values), rule).verdict == verdict


def test_margins_stand_only_where_no_difference_is_the_limit() -> None:
    assert (margins.TIME, margins.ACCURACY) == (2.0, 0.5)
    assert set(EQUALS) == {"equal within 2 %", "equal within 0.5 points"} < set(VERDICTS)
    assert above(1.0).margin is None
    assert {c.name: c.statistic for c in DSP}["D2"].endswith("0.5 points (ours)")


def test_the_n_that_would_decide_does() -> None:
    """With the same mean and spread, n values decide and n - 1 do not."""

    def made(n: int, mean: float, deviation: float) -> Estimate:
        found = stats.mean_interval(mean + deviation * x for x in (-1, 1) * (n // 2))
        assert found is not None
        assert found.freedom is not None
        scale = math.sqrt((n - 1) / n)  # of a sample whose deviation is exactly `deviation`
        return found if n % 2 else replace(found.moved(lambda x: mean + (x - mean) * scale))

    few = made(4, 1.0, 2.0)
    assert few.low is not None
    assert few.low < 0
    n = deciding_n(few, 0.0)
    assert n is not None

    def half(count: int) -> float:
        return stats.quantile(count - 1) * 2.0 / math.sqrt(count)

    assert half(n) < 1.0 <= half(n - 1)
    margin = margins.POINTS
    at_limit = made(4, 0.0, 2.0)
    n = deciding_n(at_limit, 0.0, margin)
    assert n is not None

    def inner(count: int) -> float:
        return stats.quantile(count - 1, 0.90) * 2.0 / math.sqrt(count)

    assert inner(n) < margin.high <= inner(n - 1)
    assert deciding_n(at_limit, 0.0) is None
    assert deciding_n(Estimate(1.0, 0.9, 1.1, 5), 1.0) is None


def test_an_undecided_finding_names_its_n() -> None:
    wide = finding(ratios([0.9, 1.1, 1.3, 1.0]), FASTER)
    assert wide.verdict == "not reproduced"
    assert wide.undecided == f"undecided, the interval includes 1; {wide.enough} would decide"
    assert 4 < int(wide.enough.removeprefix("n = ")) < MOST
    level = finding(ratios([0.5, 2.0]), above(1.0))
    assert level.undecided.endswith(f"n > {MOST} would decide")
    bootstrap = finding(Estimate(1.0, 0.9, 1.1, 5), above(1.0))
    assert (bootstrap.undecided, bootstrap.enough) == ("undecided, the interval includes 1", "")
    assert finding(ratios([2.0, 2.1, 2.2]), below(1.0)).undecided == ""


def rows(*findings: Finding) -> list[dict[str, Any]]:
    return [dict(row) for row in _rows(DSP[0], findings, from_project=False)]


EQUAL = finding(ratios([0.995, 1.004, 1.001, 0.999]), FASTER)
SLOWER = finding(ratios([0.5, 0.51, 0.52]), FASTER)
WIDE = finding(ratios([0.9, 1.1, 1.3, 1.0]), FASTER)
FAST = finding(ratios([1.5, 1.51, 1.52]), FASTER)


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        ((EQUAL,), "equal"),
        ((EQUAL, FAST), "in part"),
        ((EQUAL, SLOWER), "not reproduced"),
        ((EQUAL, WIDE), "undecided"),
        ((FAST, replace(SLOWER, context=True)), "reproduced"),
        ((SLOWER, replace(WIDE, context=True)), "not reproduced"),
    ],
)
def test_the_outcome_of_a_claim(parts: tuple[Finding, ...], word: str) -> None:
    assert outcome(rows(*parts)) == word
    assert word in MEANING


def test_context_is_shown_and_never_counted() -> None:
    table = Table("claims", COLUMNS, rows(FAST, EQUAL, replace(WIDE, context=True)))
    shown: Mapping[str, Any] = table.rows[2]
    assert shown["verdict"] == CONTEXT
    assert "does not decide; by itself: not reproduced; undecided" in str(shown["note"])
    (row,) = claims_in_rows(table).rows
    assert row["verdict"] == "reproduced: 1 of 2, equal within 2 %: 1 of 2"
    assert _limits(table) == ["equal within 2 %: D1"]
    page = html_table(table, Behind({}, {}))
    assert page.count('<td class="equal"') == page.count('<td class="context"') == 1
    assert 'class="undecided"' not in page
    undecided = Table("claims", COLUMNS, rows(WIDE))
    assert _limits(undecided)[-1].endswith(f"D1 ({WIDE.enough} would decide)")
    assert str(claims_in_rows(undecided).rows[0]["measured"]).endswith(f"{WIDE.enough} would decide")
