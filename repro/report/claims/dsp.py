"""The claims of the DSP paper, D1 to D8 (arXiv 1909.02625)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from repro.report.bound import bound
from repro.report.claims.claim import Claim, Finding, above, at_least, below, within
from repro.report.claims.evidence import Evidence, difference, having, labelled, places, ratio, trend, where
from repro.report.group import Group
from repro.report.stats import Estimate, holm
from repro.report.table import Measured
from repro.report.tables.accuracy import accuracy
from repro.report.tables.memory import activation_ratio
from repro.report.tables.straggler import slowdown
from repro.store import StoredRun

PAPER = "arXiv 1909.02625"
MARGIN = 0.5  # points of accuracy that count as "not below" (ours)
_EARLY = 20  # recorded steps averaged at either end of a trend


def faster(evidence: Evidence) -> Sequence[Finding]:
    """D1: DSP over BP, and over FR under each locking rule."""

    def both(groups: list[Group]) -> bool:
        return bool(having(groups, "dsp") and having(groups, "bp"))

    found = places(evidence.training(), both)
    fair = [p for p in found if not any(g.oversubscribed for g in p)]
    if not found:
        return []
    groups = (fair or found)[0]
    base, dsp = having(groups, "bp")[0], having(groups, "dsp")[0]
    crowded, modelled = "", ""
    if not fair:
        limit = bound(dsp, base)
        modelled = f"modelled over BP: {limit:.2f}" if limit else ""
        crowded = f"{base.blocks} blocks on fewer devices or cores"
    findings = []
    for other in (base, *having(groups, "fr")):
        value = Measured(None, len(dsp.started)) if crowded else ratio(other, dsp, "seconds_per_batch")
        rule = at_least(1.5, 1.0) if other is base else above(1.0)
        what = f"{dsp.label} over {other.label}"
        findings.append(Finding(what, where(dsp), value, "x", rule, crowded, words=modelled if other is base else ""))
    return findings


def as_accurate(evidence: Evidence) -> Sequence[Finding]:
    """D2: best test accuracy of each DSP setting against BP."""
    return _against_bp(evidence, "dsp", above(-MARGIN))


def dni_loses(evidence: Evidence) -> Sequence[Finding]:
    """D8: best test accuracy of DNI against BP."""
    return _against_bp(evidence, "dni", below(0.0))


def _against_bp(evidence: Evidence, method: str, rule: Any) -> Sequence[Finding]:
    found = places(evidence.training(), lambda groups: bool(having(groups, method) and having(groups, "bp")))
    for groups in found[:1]:
        base = having(groups, "bp")[0]
        return [
            Finding(f"{g.label} - BP, best", where(g), difference(g, base, accuracy("best")), "points", rule)
            for g in having(groups, method)
        ]
    return []


def less_slowdown(evidence: Evidence) -> Sequence[Finding]:
    """D3: slow-down of each DSP setting against FR (mailbox), the family adjusted after Holm."""
    found = places(
        evidence.of("straggler"),
        lambda groups: bool(having(groups, "dsp") and labelled(groups, "FR (mailbox)")),
    )
    for groups in found[:1]:
        base = labelled(groups, "FR (mailbox)")
        assert base is not None
        settings = having(groups, "dsp")
        changes = [difference(g, base, slowdown) for g in settings]
        adjusted = holm([c.estimate.p if c.estimate and c.estimate.p is not None else 1.0 for c in changes])
        return [
            Finding(
                f"{g.label} - FR (mailbox)", where(g), c, "points", below(0.0),
                holds=None if c.estimate is None or c.estimate.p is None else c.estimate.mean < 0 and p < 0.05,
                words=f"Holm p = {p:.2g}",
            )
            for g, c, p in zip(settings, changes, adjusted, strict=True)
        ]  # fmt: skip
    return []


def gap_shrinks(evidence: Evidence) -> Sequence[Finding]:
    """D4: the gradient difference late against early, within the first hundred steps and to the end."""
    findings = []
    for groups in places(evidence.of("gradient-gap"), lambda groups: bool(having(groups, "dsp")))[:1]:
        for g in having(groups, "dsp"):
            for span, last in (("first 100 steps", 100), ("whole training", None)):
                value = trend(g, _end(_mean_gap, last), _start(_mean_gap))
                findings.append(Finding(f"{g.label}, {_optimizer(g)}, {span}", where(g), value, "x", below(1.0)))
    return findings


def norm_falls(evidence: Evidence) -> Sequence[Finding]:
    """D6: the norm of the true gradient late against early, with SGD and with momentum."""
    findings = []
    for groups in places(evidence.of("gradient-gap"), lambda groups: bool(having(groups, "dsp")))[:1]:
        for g in having(groups, "dsp"):
            value = trend(g, _end(_norm, None), _start(_norm))
            findings.append(Finding(f"{g.label}, {_optimizer(g)}", where(g), value, "x", below(1.0)))
    return findings


def memory_as_formula(evidence: Evidence) -> Sequence[Finding]:
    """D5: counted activations and queues over the formula, the block farthest from 1."""
    findings = []
    for groups in places(evidence.training(), lambda groups: bool(having(groups, "dsp")))[:1]:
        for g in having(groups, "dsp"):
            blocks = [g.measured(activation_ratio(k)) for k in range(g.blocks)]
            known = [(abs(m.estimate.mean - 1), k) for k, m in enumerate(blocks) if m.estimate is not None]
            if known:
                k = max(known)[1]
                value = _exact(blocks[k])
                findings.append(Finding(f"{g.label}, block {k}", where(g), value, "x", within(0.85, 1.15)))
    return findings


def queues_trade(evidence: Evidence) -> Sequence[Finding]:
    """D7: the longest queues against the shortest: less slow-down, and a larger gradient difference."""
    findings = []
    for groups in places(evidence.of("straggler"), lambda groups: _ends(groups) is not None)[:1]:
        short, long = _ends(groups) or (groups[0], groups[0])
        value = difference(long, short, slowdown)
        findings.append(Finding(f"slow-down, {long.label} - {short.label}", where(long), value, "points", below(0.0)))
    for groups in places(evidence.of("gradient-gap"), lambda groups: _ends(groups) is not None)[:1]:
        short, long = _ends(groups) or (groups[0], groups[0])
        value = ratio(long, short, _end(_mean_gap, 100))
        what = f"gradient difference, {long.label} / {short.label}, {_optimizer(long)}"
        findings.append(Finding(what, where(long), value, "x", above(1.0)))
    return findings


def _ends(groups: list[Group]) -> tuple[Group, Group] | None:
    """DSP with the shortest and with the longest queues under momentum SGD; None where there are not two lengths."""
    settings = sorted((_queue_length(g.settings), i) for i, g in enumerate(groups) if g in having(groups, "dsp"))
    settings = [(length, i) for length, i in settings if _optimizer(groups[i]) == "momentum SGD"]
    if len(settings) < 2 or settings[0][0] == settings[-1][0]:
        return None
    return groups[settings[0][1]], groups[settings[-1][1]]


def _queue_length(recipe: Mapping[str, Any]) -> int:
    """m_0: batches between the forward and the update of the first block."""
    from repro.methods import parse_method

    return parse_method(recipe.get("method")).schedule(int(recipe.get("blocks", 1)), 1, {}).staleness[0]


def _exact(value: Measured) -> Measured:
    """A counted size does not vary with the seed: one seed is enough, its interval is a point."""
    e = value.estimate
    if e is not None and e.low is None:
        return Measured(Estimate(e.mean, e.mean, e.mean, e.n), value.started)
    return value


def _optimizer(group: Group) -> str:
    return "momentum SGD" if (group.settings.get("optimizer") or {}).get("momentum") else "SGD"


def _mean_gap(row: dict[str, Any]) -> float | None:
    values = [v for v in row.get("difference") or [] if isinstance(v, (int, float))]
    return sum(values) / len(values) if values else None


def _norm(row: dict[str, Any]) -> float | None:
    value = row.get("gradient_norm")
    return float(value) if isinstance(value, (int, float)) else None


def _recorded(run: StoredRun, read: Callable[[dict[str, Any]], float | None], last: int | None) -> list[float]:
    """Values by step; the first steps, in which the queues fill and nothing is stale yet, are left out."""
    skip = _queue_length(run.recipe)
    rows = sorted((r for r in run.metrics() if r.get("kind") == "gap"), key=lambda r: int(r["step"]))
    kept = [r for r in rows if r["step"] > skip and (last is None or r["step"] < last)]
    return [v for r in kept if (v := read(r)) is not None]


def _start(read: Callable[[dict[str, Any]], float | None]) -> Callable[[StoredRun], float | None]:
    def value(run: StoredRun) -> float | None:
        found = _recorded(run, read, None)[:_EARLY]
        return sum(found) / len(found) if found else None

    return value


def _end(read: Callable[[dict[str, Any]], float | None], last: int | None) -> Callable[[StoredRun], float | None]:
    def value(run: StoredRun) -> float | None:
        found = _recorded(run, read, last)
        found = found[max(0, len(found) - _EARLY) :] if len(found) > _EARLY else []
        return sum(found) / len(found) if found else None

    return value


CLAIMS = (
    Claim(
        "D1", "DSP trains faster than BP, and than FR under each locking rule", f"{PAPER}, abstract",
        "ratio of seconds per batch, interval on the log scale; blocks on devices of their own only",
        "repro run bp-resnet98-k2 fr-resnet98-k2 dsp-resnet98-k2 --seeds 5", faster,
    ),
    Claim(
        "D2", "best test accuracy of DSP is not below that of BP", f"{PAPER}, body",
        f"difference of best test accuracy in pairs by seed; a margin of {MARGIN} points (ours)",
        "repro run bp-resnet98 dsp-resnet98 dsp-resnet98-s630 dsp-resnet98-s1470 --seeds 5", as_accurate,
    ),
    Claim(
        "D3", "DSP slows down less than FR under the same random delays", f"{PAPER}, Table 2",
        "difference of slow-downs in points, in pairs by seed; Holm over the settings",
        "repro run straggler-fr-resnet98 straggler-dsp-resnet98 straggler-dsp-resnet98-s1470 --seeds 5", less_slowdown,
    ),
    Claim(
        "D4", "the gradient difference to BP per parameter shrinks during training", f"{PAPER}, Fig. 5",
        "||G_DSP - G_BP|| / parameters, mean over blocks: last 20 recorded steps over the first 20 stale ones",
        "repro run gradient-gap-dsp-resnet98 gradient-gap-dsp-resnet98-s1470 --seeds 5", gap_shrinks,
    ),
    Claim(
        "D5", "memory grows with the queues as the formula says", "formula of dsp.md, section 4",
        "counted activations, queues and graphs over the formula, the block farthest from 1",
        "repro run dsp-resnet98 dsp-resnet98-s630 dsp-resnet98-s1470 --seeds 5", memory_as_formula,
    ),
    Claim(
        "D6", "SGD and momentum SGD drive the true gradient's norm down under DSP", f"{PAPER}, Theorems 1 and 2",
        "norm of BP's gradient at the same weights: last 20 recorded steps over the first 20 stale ones",
        "repro run gradient-gap-dsp-resnet98 gradient-gap-dsp-resnet98-sgd --seeds 5", norm_falls,
    ),
    Claim(
        "D7", "longer queues absorb more jitter, and cost staleness", f"{PAPER}, body",
        "slow-down in points, and gradient difference as a ratio, of the longest against the shortest queues",
        "repro run straggler-dsp-resnet98 straggler-dsp-resnet98-s1470 gradient-gap-dsp-resnet98 "
        "gradient-gap-dsp-resnet98-s1470 --seeds 5", queues_trade,
    ),
    Claim(
        "D8", "DNI loses accuracy against BP", f"{PAPER} and public reruns",
        "difference of best test accuracy in pairs by seed",
        "repro run bp-resnet98 dni-resnet98 cdni-resnet98 --seeds 5", dni_loses,
    ),
)  # fmt: skip
