"""What benchmarks measured in turn, as claims read it: round by round, so that no drift of the machine decides.

A round stands where elsewhere a seed does: the ratio of two systems is formed within it, and its logarithm's t interval
is over the rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from repro.report import stats
from repro.report.claims.claim import Finding
from repro.report.claims.evidence import Evidence
from repro.report.stored.bench_rows import benchmark
from repro.report.table import Measured

Row = Mapping[str, Any]


def rows(evidence: Evidence, name: str) -> tuple[list[Row], str]:
    """The rows of the last `repro bench <name>`, and the machine that they are from."""
    stored, _ = evidence.source.bench(name)
    document = stored or {}
    machine = (document.get("environment") or {}).get("processor") or "unknown machine"
    return list(document.get("rows", [])), str(machine)


def by_round(row: Row, field: str) -> dict[int, float]:
    """{round: number}; rounds that gave none are left out."""
    values = row.get(f"{field}_rounds") or []
    return {i: float(v) for i, v in enumerate(values) if isinstance(v, (int, float))}


def ratio(above: Row, below: Row, field: str, name: str) -> Measured:
    """Geometric mean over rounds of one row's number over another's; `name`: of the benchmark."""
    a, b = by_round(above, field), by_round(below, field)
    return Measured(stats.ratio(a, b, paired=True), max(len(a), len(b)), (benchmark(name),))


def difference(above: Row, below: Row, field: str, name: str) -> Measured:
    """Mean over rounds of one row's number less another's."""
    a, b = by_round(above, field), by_round(below, field)
    return Measured(stats.difference(a, b, paired=True), max(len(a), len(b)), (benchmark(name),))


def saved(own: Row, full: Row, name: str) -> Measured:
    """Per cent of the time of `full` that `own` saves."""
    found = ratio(own, full, "seconds", name)
    e = found.estimate
    return found if e is None else replace(found, estimate=e.moved(lambda x: 100.0 * (1.0 - x)))


def first_decides(*findings: Finding | None) -> list[Finding]:
    """Of measurements of the same, the most telling first: the first that says anything decides, others are context."""
    made = [f for f in findings if f is not None]
    known = [f for f in made if _says_something(f)]
    if not known:
        return made[-1:]
    return [known[0], *(replace(f, context=True) for f in known[1:])]


def beside(turns: Sequence[Finding], runs: Sequence[Finding]) -> list[Finding]:
    """As `first_decides` for families: where the parts in turn say anything, those of whole runs are context.

    What whole runs cannot say (not run, too few cores) is left out beside it.
    """
    telling = [f for f in turns if _says_something(f)]
    if all(f.context for f in telling):
        return [*runs, *telling]
    return [*telling, *(replace(f, context=True) for f in runs if _says_something(f))]


def _says_something(finding: Finding) -> bool:
    e = finding.value.estimate
    return not finding.untestable and e is not None and e.low is not None


def found(rows: Sequence[Row], **wanted: Any) -> Row | None:
    """The first row with these values."""
    return next((r for r in rows if all(r.get(k) == v for k, v in wanted.items())), None)
