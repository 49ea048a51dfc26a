"""What the DSP paper claims of accuracy and memory: D2, D5 and D8."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from repro.report.claims.claim import Finding, Rule, above, below, within
from repro.report.claims.evidence import Evidence, difference, having, places, queue_ends, where
from repro.report.claims.margins import ACCURACY, POINTS
from repro.report.measures.accuracy import accuracy
from repro.report.measures.memory import MIB, activation_bytes, activation_formula, activation_ratio
from repro.report.stats import Estimate, mean_interval
from repro.report.stored.group import Group, Reader
from repro.report.table import Measured

AS_FORMULA = within(0.85, 1.15)


def as_accurate(evidence: Evidence) -> Sequence[Finding]:
    """D2: best test accuracy of each DSP setting against BP."""
    return _against_bp(evidence, "dsp", above(-ACCURACY))


def dni_loses(evidence: Evidence) -> Sequence[Finding]:
    """D8: best test accuracy of DNI against BP."""
    return _against_bp(evidence, "dni", below(0.0, POINTS))


def _against_bp(evidence: Evidence, method: str, rule: Rule) -> Sequence[Finding]:
    found = places(evidence.training(), lambda groups: bool(having(groups, method) and having(groups, "bp")))
    for groups in found[:1]:
        base = having(groups, "bp")[0]
        return [
            Finding(f"{g.label} - BP, best", where(g), difference(g, base, accuracy("best")), "points", rule)
            for g in having(groups, method)
        ]
    return []


def memory_as_formula(evidence: Evidence) -> Sequence[Finding]:
    """D5: counted over formula, the block farthest from 1; and how much more the longest queues hold, likewise."""
    findings = []
    for groups in places(evidence.training(), lambda groups: bool(having(groups, "dsp")))[:1]:
        for g in having(groups, "dsp"):
            blocks = [g.measured(activation_ratio(k)) for k in range(g.blocks)]
            known = [(abs(m.estimate.mean - 1), k) for k, m in enumerate(blocks) if m.estimate is not None]
            if known:
                k = max(known)[1]
                findings.append(
                    Finding(f"{g.label}, block {k}", where(g), _exact(blocks[k]), "x", AS_FORMULA)
                )
        ends = queue_ends(groups)
        if ends is not None:
            findings.append(_growth(*ends))
    return findings


def _growth(short: Group, long: Group) -> Finding:
    """What the longest queues add to block 0, where they are longest, in bytes counted over those of the formula."""

    def added(read: Callable[[int], Reader]) -> dict[int, float]:
        before, after = (g.values(read(0)) for g in (short, long))
        return {s: after[s] - before[s] for s in set(before) & set(after)}

    counted, formula = added(activation_bytes), added(activation_formula)
    seeds = sorted(s for s in counted if formula.get(s))
    growth = mean_interval(counted[s] / formula[s] for s in seeds)
    behind = (short.behind(seeds), long.behind(seeds))
    value = Measured(growth, max(len(short.started), len(long.started)), behind)
    what = f"growth from {short.label} to {long.label}, block 0"
    sizes = [sum(side[s] for s in seeds) / max(1, len(seeds)) / MIB for side in (counted, formula)]
    words = f"counted {sizes[0]:+.3g} MiB, formula {sizes[1]:+.3g} MiB; before an evaluation p + q outputs wait, not p"
    return Finding(what, where(long), _exact(value), "x", AS_FORMULA, words=words)


def _exact(value: Measured) -> Measured:
    """A counted size does not vary with the seed: one seed is enough, its interval is a point."""
    e = value.estimate
    if e is not None and e.low is None:
        return replace(value, estimate=Estimate(e.mean, e.mean, e.mean, e.n))
    return value
