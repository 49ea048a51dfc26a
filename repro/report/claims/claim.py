"""What a claim is: a statement, the runs that it needs, a statistic, and a rule that turns the statistic into a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from repro.report.claims.evidence import Evidence
from repro.report.stats import Estimate
from repro.report.table import Measured

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
NOT_TESTABLE = "not testable here"
NOT_RUN = "not run yet"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, NOT_TESTABLE, NOT_RUN)


@dataclass(frozen=True)
class Rule:
    """When an estimate counts as a reproduction: in words, and as a test of the estimate."""

    words: str
    test: Callable[[Estimate], bool]
    limit: float | None = None


@dataclass(frozen=True)
class Finding:
    """One measured part of a claim: what was compared, where, the number, its unit, and the rule it must meet.

    `untestable`: a reason why this machine cannot say. `holds` overrides the rule where the verdict needs more than
    one number (a family of comparisons); `words` is added to the note; `command`, where it is not the whole
    claim's, makes the runs of this part.
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

    @property
    def verdict(self) -> str:
        """Reproduced, not reproduced, not testable here, or not run yet where no interval can be had."""
        if self.untestable:
            return NOT_TESTABLE
        estimate = self.value.estimate
        if estimate is None or estimate.low is None:
            return NOT_RUN
        holds = self.rule.test(estimate) if self.holds is None else self.holds
        return REPRODUCED if holds else NOT_REPRODUCED

    @property
    def undecided(self) -> str:
        """A word where the claim is not reproduced only because the interval is too wide to tell."""
        e, limit = self.value.estimate, self.rule.limit
        if self.verdict != NOT_REPRODUCED or e is None or limit is None or e.low is None or e.high is None:
            return ""
        return f"undecided, the interval includes {limit:.3g}" if e.low <= limit <= e.high else ""


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


def above(limit: float) -> Rule:
    """The whole interval lies above `limit`."""
    return Rule(f"interval above {limit:.4g}", lambda e: e.low is not None and e.low > limit, limit)


def below(limit: float) -> Rule:
    """The whole interval lies below `limit`."""
    return Rule(f"interval below {limit:.4g}", lambda e: e.high is not None and e.high < limit, limit)


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
