"""What a claim is: a statement, the runs that it needs, a statistic, and a rule that turns the statistic into a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from repro.report.claims.evidence import Evidence
from repro.report.claims.margins import Margin
from repro.report.claims.power import MOST, deciding_n
from repro.report.claims.verdicts import (
    CONTEXT,
    NOT_REPRODUCED,
    NOT_RUN,
    NOT_TESTABLE,
    REPRODUCED,
    UNDECIDED,
)
from repro.report.stats import Estimate
from repro.report.table import Measured


@dataclass(frozen=True)
class Rule:
    """When an estimate counts as a reproduction: in words, and as a test of the estimate.

    `margin`, only where the limit is no difference of two times or accuracies: what an interval around the limit must
    keep to for the verdict that both sides are equal.
    """

    words: str
    test: Callable[[Estimate], bool]
    limit: float | None = None
    margin: Margin | None = None


@dataclass(frozen=True)
class Finding:
    """One measured part of a claim: what was compared, where, the number, its unit, and the rule it must meet.

    `untestable`: a reason why this machine cannot say. `holds` overrides the rule where the verdict needs more than
    one number (a family of comparisons); `words` is added to the note; `command`, where it is not the whole
    claim's, makes the runs of this part. `context`: stands beside a finding that decides, and does not count.
    """

    what: str
    where: str
    value: Measured
    unit: str
    rule: Rule
    untestable: str = ""
    holds: bool | None = None
    words: str = ""
    command: str = ""
    context: bool = False

    @property
    def verdict(self) -> str:
        """The verdict that counts for the claim: its own, or "context" where another finding decides."""
        return CONTEXT if self.context and self.own_verdict != NOT_RUN else self.own_verdict

    @property
    def own_verdict(self) -> str:
        """By the rule: reproduced, equal within its margin, not reproduced; not testable here, or not run yet where no
        interval can be had."""
        if self.untestable:
            return NOT_TESTABLE
        estimate = self.value.estimate
        if estimate is None or estimate.low is None:
            return NOT_RUN
        holds = self.rule.test(estimate) if self.holds is None else self.holds
        if holds:
            return REPRODUCED
        margin, inner = self.rule.margin, estimate.inner
        if margin is not None and inner is not None and self._straddles:
            return margin.equal if margin.low < inner[0] and inner[1] < margin.high else NOT_REPRODUCED
        return NOT_REPRODUCED

    @property
    def undecided(self) -> str:
        """In words, where the claim is not reproduced only because the interval is too wide to tell; with the n that
        would decide it."""
        if self.own_verdict != NOT_REPRODUCED or not self._straddles:
            return ""
        assert self.rule.limit is not None
        words = f"{UNDECIDED}, the interval includes {self.rule.limit:.3g}"
        return "; ".join(w for w in (words, f"{self.enough} would decide" if self.enough else "") if w)

    @property
    def enough(self) -> str:
        """ "n = 23": how many seeds or rounds would decide an undecided finding; "" where that cannot be told."""
        e, limit = self.value.estimate, self.rule.limit
        if self.own_verdict != NOT_REPRODUCED or not self._straddles or e is None or limit is None:
            return ""
        if e.freedom is None:
            return ""
        n = deciding_n(e, limit, self.rule.margin)
        return f"n > {MOST}" if n is None else f"n = {n}"

    @property
    def _straddles(self) -> bool:
        """Whether the interval includes the limit of the rule."""
        e, limit = self.value.estimate, self.rule.limit
        if e is None or limit is None or e.low is None or e.high is None:
            return False
        return e.low <= limit <= e.high


@dataclass(frozen=True)
class Claim:
    """A published statement and how it is tested.

    `command` makes the runs that it needs, at a size for a laptop. `anchor`: (quantity, method) of the nearest published
    numbers, shown where the paper itself has none.
    """

    name: str
    statement: str
    source: str
    statistic: str
    command: str
    measure: Callable[[Evidence], Sequence[Finding]]
    anchor: tuple[str, str] | None = None


def above(limit: float, margin: Margin | None = None) -> Rule:
    """The whole interval lies above `limit`."""
    words = f"interval above {limit:.4g}"
    return Rule(words, lambda e: e.low is not None and e.low > limit, limit, margin)


def below(limit: float, margin: Margin | None = None) -> Rule:
    """The whole interval lies below `limit`."""
    words = f"interval below {limit:.4g}"
    return Rule(words, lambda e: e.high is not None and e.high < limit, limit, margin)


def within(low: float, high: float) -> Rule:
    """The whole interval lies between the limits."""
    return Rule(
        f"interval within {low:.4g} to {high:.4g}",
        lambda e: e.low is not None and e.high is not None and low <= e.low and e.high <= high,
    )


def at_least(value: float, zero: float) -> Rule:
    """The interval lies above `zero` (no effect) and the mean reaches the published `value`."""
    return Rule(
        f"interval above {zero:.4g} and mean at least {value:.4g}",
        lambda e: e.low is not None and e.low > zero and e.mean >= value,
        value,
    )


def missing(what: str, rule: Rule, command: str, words: str = "") -> Finding:
    """A part of a claim for which there is no run."""
    return Finding(what, "", Measured(None, 0), "", rule, words=words, command=command)
