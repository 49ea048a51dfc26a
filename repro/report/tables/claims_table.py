"""Every claim of both papers with its verdict."""

from __future__ import annotations

from dataclasses import replace

from repro.report.stats import small_sample_warning
from repro.report.stored.published import claimed
from repro.report.stored.source import Source
from repro.report.table import Column, Measured, Table, Value

DESCRIPTION = "the claims of both papers, each with a verdict, the measured value and the published one"
COLUMNS = [
    Column("claim", "claim", once=True),
    Column("statement", "statement", wrap=30, once=True),
    Column("verdict", "verdict", wrap=12),
    Column("what", "compared", wrap=30),
    Column("measured", "measured", ratio=True, number=True),
    Column("unit", "unit"),
    Column("rule", "counts as reproduced", wrap=20),
    Column("published", "published", wrap=26, once=True),
    Column("note", "where, or what would run it", wrap=34),
    Column("source", "source", hidden=True),
    Column("statistic", "statistic", hidden=True),
]


def build(source: Source, select: str) -> Table:
    """A row per claim and part of it; the reference runs stand in, claim by claim, where the user's say nothing."""
    from repro.report.claims import CLAIMS, Claim, Evidence, Finding
    from repro.report.claims.claim import NOT_RUN

    users = replace(source, fallback=False)
    own, project = Evidence(users, smoke=source.profile == "smoke"), Evidence(replace(source, reference=True))
    last_resort = Evidence(users)

    def findings(claim: Claim) -> tuple[list[Finding], bool]:
        """The claim's parts, and whether they come from the project's runs; a user's smoke runs come after those."""
        found: list[Finding] = []
        for evidence in (project,) if source.reference else (own, project, last_resort):
            parts = list(claim.measure(evidence))
            if any(f.verdict != NOT_RUN for f in parts):
                return parts, evidence is project
            found = found or parts
        return found, False

    table = Table("claims", COLUMNS)
    missing, reference = [], False
    for claim in CLAIMS:
        found, from_project = findings(claim)
        reference = reference or from_project
        base: dict[str, Value] = {
            "claim": claim.name,
            "statement": claim.statement,
            "published": claimed(claim.name, claim.anchor),
            "source": claim.source,
            "statistic": claim.statistic,
        }
        for finding in found:
            unrun = finding.verdict == NOT_RUN
            words = [finding.where, finding.untestable, finding.undecided, finding.words]
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
            }
            table.rows.append({**base, **cells})
        if not found or any(f.verdict == NOT_RUN for f in found):
            missing.append(claim.name)
        if not found:
            table.rows.append(
                {**base, "verdict": NOT_RUN, "measured": Measured(None, 0), "note": claim.command}
            )
    judged = [
        v for row in table.rows if row["verdict"] != NOT_RUN and isinstance(v := row["measured"], Measured)
    ]
    warning = small_sample_warning([value.n for value in judged])
    stand_in = "Reference runs of the project, not yours." if source.reference else (
        "Reference runs of the project stand in where you have none, or smoke runs only (marked)."
    )  # fmt: skip
    table.caption = [
        *([stand_in] if reference else []),
        "Verdicts are computed: reproduced or not by the rule beside it, from the 95 % interval; not testable here where "
        "blocks share a device or core (modelled: simulated from the measured compute times, with free messages); not run "
        "yet with the command that makes the runs. (n/N): n seeds of N begun.",
        "Only profile paper is the published setting: a verdict holds for the place named in its row.",
        *(f"{claim.name} ({claim.source}): {claim.statistic}." for claim in CLAIMS),
        *([warning] if warning else []),
    ]
    table.problems = [*own.problems, *(project.problems if reference else ())]
    if missing:
        table.problems.append(f"not run yet: {', '.join(missing)}")
    table.environment = {"source": "reference" if source.reference else "runs"}
    return table
