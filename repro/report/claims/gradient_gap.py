"""What the DSP paper claims of gradients: D4, D6 and the second half of D7, from the gradient-gap experiment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from repro.report.claims.claim import Finding, above, below, missing
from repro.report.claims.evidence import Evidence, having, places, queue_ends, queue_length, ratio, trend, where
from repro.report.group import Group
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
    """D4: the gradient difference late against early, within the first hundred steps and to the end."""
    findings = []
    for g in _measured(evidence):
        for span, late in (("first 100 steps", _first_hundred), ("whole training", _end)):
            value = trend(g, partial(late, read=_mean_gap), _start(_mean_gap))
            if value.estimate is not None or late is _first_hundred:
                findings.append(Finding(f"{g.label}, {optimizer(g)}, {span}", where(g), value, "x", below(1.0)))
    return findings


def norm_falls(evidence: Evidence) -> Sequence[Finding]:
    """D6: the norm of the true gradient late against early, with SGD and with momentum."""
    groups = _measured(evidence)
    findings = []
    for name, command in OPTIMIZERS.items():
        members = [g for g in groups if optimizer(g) == name]
        if groups and not members:
            findings.append(missing(f"DSP, {name}", below(1.0), command))
        for g in members:
            value = trend(g, lambda run: _end(run, _norm) or _first_hundred(run, _norm), _start(_norm))
            findings.append(Finding(f"{g.label}, {name}", where(g), value, "x", below(1.0)))
    return findings


def staleness_costs(evidence: Evidence) -> Sequence[Finding]:
    """D7, second half: the gradient difference of the longest queues over that of the shortest."""
    for groups in places(evidence.of("gradient-gap"), lambda groups: queue_ends(groups) is not None)[:1]:
        ends = queue_ends(groups)
        assert ends is not None
        short, long = ends
        what = f"gradient difference, {long.label} / {short.label}, {optimizer(long)}"
        value = ratio(long, short, partial(_first_hundred, read=_mean_gap))
        return [Finding(what, where(long), value, "x", above(1.0))]
    return []


def optimizer(group: Group) -> str:
    """The optimiser as tables print it."""
    return "momentum SGD" if (group.settings.get("optimizer") or {}).get("momentum") else "SGD"


def _measured(evidence: Evidence) -> list[Group]:
    """The DSP groups of the most telling place."""
    found = places(evidence.of("gradient-gap"), lambda groups: bool(having(groups, "dsp")))
    return having(found[0], "dsp") if found else []


def _mean_gap(row: Row) -> float | None:
    values = [v for v in row.get("difference") or [] if isinstance(v, (int, float))]
    return sum(values) / len(values) if values else None


def _norm(row: Row) -> float | None:
    value = row.get("gradient_norm")
    return float(value) if isinstance(value, (int, float)) else None


def _recorded(run: StoredRun, read: Callable[[Row], float | None], low: int, high: int | None) -> list[float]:
    """Values at the recorded steps from `low` up to `high`, by step."""
    rows = sorted((r for r in run.metrics() if r.get("kind") == "gap"), key=lambda r: int(r["step"]))
    kept = [r for r in rows if r["step"] >= low and (high is None or r["step"] < high)]
    return [v for r in kept if (v := read(r)) is not None]


def _stale_from(run: StoredRun) -> int:
    """The first step at which every queue is full; before, the gradient is less stale or not at all."""
    return queue_length(run.recipe) + 1


def _start(read: Callable[[Row], float | None]) -> Callable[[StoredRun], float | None]:
    return lambda run: _mean(_recorded(run, read, _stale_from(run), FIRST)[:_WINDOW])


def _first_hundred(run: StoredRun, read: Callable[[Row], float | None]) -> float | None:
    """Mean of the last steps of the first hundred; None where they would be the early ones again."""
    found = _recorded(run, read, _stale_from(run), FIRST)
    return _mean(found[-_WINDOW:]) if len(found) >= 2 * _WINDOW else None


def _end(run: StoredRun, read: Callable[[Row], float | None]) -> float | None:
    """Mean of the last recorded steps after the first hundred; None where training ends too soon after them."""
    found = _recorded(run, read, FIRST, None)
    return _mean(found[-_WINDOW:]) if len(found) >= _ENOUGH else None


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
