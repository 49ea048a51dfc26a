"""What the DSP paper claims of gradients: D4, D6 and the second half of D7, from the gradient-gap experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from repro.report.claims.claim import Finding, above, below, missing
from repro.report.claims.evidence import (
    Evidence,
    having,
    places,
    queue_ends,
    queue_length,
    ratio,
    setting,
    trend,
    where,
)
from repro.report.stats import Estimate
from repro.report.stored.gap import difference, norm, optimizer
from repro.report.stored.group import Group
from repro.report.table import Column, Measured, text
from repro.store import StoredRun

OPTIMIZERS = {
    "momentum SGD": "repro run gradient-gap-dsp-resnet98 --seeds 5 --profile quick",
    "SGD": "repro run gradient-gap-dsp-resnet98-sgd --seeds 5 --profile quick",
}
FIRST = 100  # steps at the start that are all recorded; once an epoch after that
_WINDOW = 20  # recorded steps averaged at either end of a trend
_ENOUGH = 5  # recorded steps after the first hundred that make an end of the training
Row = dict[str, Any]


def gap_shrinks(evidence: Evidence) -> Sequence[Finding]:
    """D4: each block's gradient difference late against early, within the first hundred steps and to the end."""
    findings = []
    for g in having(_place(evidence), "dsp"):
        for span, late in (("first 100 steps", _first_hundred), ("whole training", _end)):
            trends = {
                k: trend(g, partial(late, read=difference(k)), _start(difference(k))) for k in range(g.blocks)
            }
            if late is _end and all(value.estimate is None for value in trends.values()):
                continue
            findings.append(_every_block(f"{g.label}, {optimizer(g)}, {span}", g, trends, upwards=False))
    return findings


def norm_falls(evidence: Evidence) -> Sequence[Finding]:
    """D6: the norm of the true gradient at the end against that at the initial weights, with SGD and with momentum."""
    place = _place(evidence)
    findings = []
    for name, command in OPTIMIZERS.items():
        members = [g for g in having(place, "dsp") if optimizer(g) == name]
        control = [g for g in _bp_beside(evidence, place) if optimizer(g) == name]
        if place and not members:
            findings.append(missing(f"DSP, {name}", below(1.0), command))
        for g in members:
            value = trend(g, _late_norm, _initial_norm)
            others = [
                (f"over the first {_WINDOW} steps with full queues", trend(g, _late_norm, _start(norm)))
            ]
            others += [("BP in the same steps", trend(c, _late_norm, _initial_norm)) for c in control]
            words = "; ".join(f"{what}: {_short(other.estimate)}" for what, other in others if other.estimate)
            findings.append(Finding(f"{g.label}, {name}", where(g), value, "x", below(1.0), words=words))
    return findings


def staleness_costs(evidence: Evidence) -> Sequence[Finding]:
    """D7, second half: the gradient difference of the longest queues over that of the shortest, in each block."""
    for groups in places(evidence.of("gradient-gap"), lambda groups: queue_ends(groups) is not None)[:1]:
        ends = queue_ends(groups)
        assert ends is not None
        short, long = ends
        what = f"gradient difference, {long.label} / {short.label}, {optimizer(long)}"
        ratios = {
            k: ratio(long, short, partial(_first_hundred, read=difference(k))) for k in range(long.blocks)
        }
        return [_every_block(what, long, ratios, upwards=True)]
    return []


def _every_block(what: str, group: Group, values: Mapping[int, Measured], *, upwards: bool) -> Finding:
    """One finding for all blocks: it holds where all are above (below) 1; shown is the block that is farthest from it.

    A mean over blocks would be the first block's alone: its differences are ten times those of the others.
    """
    rule = above(1.0) if upwards else below(1.0)
    known = {
        k: e
        for k, v in values.items()
        if (e := v.estimate) is not None and e.low is not None and e.high is not None
    }
    if not known:
        return Finding(what, where(group), next(iter(values.values())), "x", rule)

    def farthest(k: int) -> tuple[bool, float]:
        """Clearly on the wrong side first."""
        low, high = known[k].low or 0.0, known[k].high or 0.0
        return (high < 1.0, -low) if upwards else (low > 1.0, high)

    shown = max(known, key=farthest)
    words = "; ".join(f"block {k}: {_short(e)}" for k, e in known.items() if k != shown)
    holds = all(map(rule.test, known.values()))
    return Finding(f"{what}, block {shown}", where(group), values[shown], "x", rule, holds=holds, words=words)


def _short(e: Estimate) -> str:
    return text(Measured(e, e.n), Column("", "", ratio=True)).partition(" (")[0]


def _place(evidence: Evidence) -> list[Group]:
    """The groups of the most telling place that has DSP."""
    found = places(evidence.of("gradient-gap"), lambda groups: bool(having(groups, "dsp")))
    return found[0] if found else []


def _bp_beside(evidence: Evidence, place: list[Group]) -> list[Group]:
    """BP's runs of the same setting, from whatever machine: no time is read from them."""
    groups = having(evidence.of("gradient-gap"), "bp")
    return [g for g in groups if place and g.complete and setting(g) == setting(place[0])]


def _initial_norm(run: StoredRun) -> float | None:
    """At the initial weights, on the first batch."""
    return _mean(_recorded(run, norm, 0, 1))


def _late_norm(run: StoredRun) -> float | None:
    return _end(run, norm) or _first_hundred(run, norm)


def _recorded(run: StoredRun, read: Callable[[Row], Any], low: int, high: int | None) -> list[float]:
    """Values at the recorded steps from `low` up to `high`, by step."""
    rows = sorted((r for r in run.metrics() if r.get("kind") == "gap"), key=lambda r: int(r["step"]))
    kept = [r for r in rows if r["step"] >= low and (high is None or r["step"] < high)]
    return [float(v) for r in kept if isinstance(v := read(r), (int, float))]


def _stale_from(run: StoredRun) -> int:
    """The first step at which every queue is full; before, the gradient is less stale or not at all."""
    return queue_length(run.recipe) + 1


def _start(read: Callable[[Row], Any]) -> Callable[[StoredRun], float | None]:
    return lambda run: _mean(_recorded(run, read, _stale_from(run), FIRST)[:_WINDOW])


def _first_hundred(run: StoredRun, read: Callable[[Row], Any]) -> float | None:
    """Mean of the last steps of the first hundred; None where they would be the early ones again."""
    found = _recorded(run, read, _stale_from(run), FIRST)
    return _mean(found[-_WINDOW:]) if len(found) >= 2 * _WINDOW else None


def _end(run: StoredRun, read: Callable[[Row], Any]) -> float | None:
    """Mean of the last recorded steps after the first hundred; None where training ends too soon after them."""
    found = _recorded(run, read, FIRST, None)
    return _mean(found[-_WINDOW:]) if len(found) >= _ENOUGH else None


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
