"""Every claim of both papers, and of those on asynchronous pipelines, with its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repro.report.stats import small_sample_warning
from repro.report.stored.published import claimed
from repro.report.stored.source import Source
from repro.report.table import Column, Measured, Table, Value

if TYPE_CHECKING:
    from repro.report.claims import Claim, Evidence, Finding

DESCRIPTION = "the claims of the papers, each with a verdict, the measured value and the published one"
COLUMNS = [
    Column("claim", "claim", once=True, head=True),
    Column("statement", "statement", wrap=30, once=True, head=True),
    Column("verdict", "verdict", wrap=10),
    Column("what", "compared", wrap=20),
    Column("measured", "measured", ratio=True, number=True, wrap=23),
    Column("unit", "unit", wrap=9),
    Column("rule", "reproduced if", wrap=14),
    Column("published", "published", wrap=26, once=True, head=True),
    Column("note", "where, or what would run it", wrap=34),
    Column("source", "source", hidden=True),
    Column("statistic", "statistic", hidden=True),
    Column("enough", "n that would decide", hidden=True),
]


def build(source: Source, select: str) -> Table:
    """A row per claim and part of it; the reference runs stand in, claim by claim, where the user's say nothing."""
    from repro.report.claims import CLAIMS, Evidence
    from repro.report.claims.verdicts import NOT_RUN

    users = replace(source, fallback=False)
    own, project = Evidence(users, smoke=source.profile == "smoke"), Evidence(replace(source, reference=True))
    order = [own, *([project] if source.fallback else []), Evidence(users)]  # smoke runs come last
    if source.reference:
        order = [project]
    table = Table("claims", COLUMNS)
    missing, stands_in = [], False
    for claim in CLAIMS:
        found, evidence = _findings(claim, order)
        from_project = evidence is project
        stands_in = stands_in or from_project
        table.rows += _rows(claim, found, from_project)
        if not found or any(f.verdict == NOT_RUN for f in found):
            missing.append(claim.name)
    table.caption = [*_caption(table, source.reference, stands_in), *_left_out(order)]
    table.problems = [*own.problems, *(project.problems if stands_in else ())]
    if missing:
        table.problems.append(f"not run yet: {', '.join(missing)}")
    table.environment = {"source": "reference" if source.reference else "runs"}
    return table


def _findings(claim: Claim, order: Sequence[Evidence]) -> tuple[list[Finding], Evidence | None]:
    """The claim's parts from the first evidence that says anything of it, and which one that was."""
    from repro.report.claims.verdicts import NOT_RUN

    found: list[Finding] = []
    for evidence in order:
        parts = list(claim.measure(evidence))
        if any(f.verdict != NOT_RUN for f in parts):
            return parts, evidence
        found = found or parts
    return found, None


def _rows(claim: Claim, found: Sequence[Finding], from_project: bool) -> list[dict[str, Value]]:
    from repro.report.claims.verdicts import NOT_RUN

    base: dict[str, Value] = {
        "claim": claim.name,
        "statement": claim.statement,
        "published": claimed(claim.name, claim.anchor),
        "source": claim.source,
        "statistic": claim.statistic,
    }
    if not found:
        return [{**base, "verdict": NOT_RUN, "measured": Measured(None, 0), "note": claim.command}]
    rows = []
    for finding in found:
        unrun = finding.verdict == NOT_RUN
        words = [finding.where, finding.untestable, _standing(finding), finding.undecided, finding.words]
        if from_project and not unrun:
            words.append("reference runs")
        if unrun:
            needs = "needs at least two finished seeds, long enough: " if finding.where else ""
            words.append(needs + (finding.command or claim.command))
        cells: dict[str, Value] = {
            "verdict": finding.verdict,
            "what": finding.what,
            "measured": finding.value,
            "unit": finding.unit,
            "rule": finding.rule.words,
            "note": "; ".join(w for w in words if w),
            "enough": finding.enough or None,
        }
        rows.append({**base, **cells})
    return rows


def _standing(finding: Finding) -> str:
    """What a number beside one that decides would say by itself."""
    return f"does not decide; by itself: {finding.own_verdict}" if finding.context else ""


def _left_out(order: Sequence[Evidence]) -> list[str]:
    rows = dict.fromkeys(row for evidence in order for row in evidence.left_out)
    words = "Not judged, because their commands changed the recipes' settings (--set, --sweep)"
    return [f"{words}: {'; '.join(rows)}."] if rows else []


def _caption(table: Table, asked_for: bool, stands_in: bool) -> list[str]:
    from repro.report.claims import CLAIMS
    from repro.report.claims.margins import ACCURACY, TIME
    from repro.report.claims.verdicts import NOT_RUN

    judged = [row["measured"] for row in table.rows if row["verdict"] != NOT_RUN]
    warning = small_sample_warning([value.n for value in judged if isinstance(value, Measured)])
    stand_in = "Reference runs of the project, not yours." if asked_for else (
        "Reference runs of the project stand in where you have none, or smoke runs only (marked)."
    )  # fmt: skip
    return [
        *([stand_in] if stands_in else []),
        "Verdicts are computed: reproduced or not by the rule beside it, from the 95 % interval; not testable here where "
        "blocks share a device or core (modelled: simulated from the measured compute times, with free messages); not run "
        "yet with the command that makes the runs. (n/N): n seeds of N begun.",
        f"Equal within {TIME:g} % of a time, {ACCURACY:g} points of accuracy: the interval includes no difference, and two "
        "one-sided tests at 5 % find none beyond that margin, which was fixed before the runs. Context: beside a number "
        "that decides. Undecided with the n (seeds or rounds) that would decide at the measured spread.",
        "Only profile paper is the published setting: a verdict holds for the place named in its row.",
        *(f"{claim.name} ({claim.source}): {claim.statistic}." for claim in CLAIMS),
        *([warning] if warning else []),
    ]
