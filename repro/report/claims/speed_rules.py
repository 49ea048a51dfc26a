"""What the DSP paper claims of time: D1, D3 and the first half of D7; never from blocks that share a device or core."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from repro.report.claims.claim import Finding, Rule, above, at_least, below, missing
from repro.report.claims.evidence import (
    Evidence,
    difference,
    having,
    labelled,
    places,
    queue_ends,
    ratio,
    where,
)
from repro.report.claims.in_turn import beside
from repro.report.claims.margins import SHARE_OF_TIME, TIMES
from repro.report.claims.turns_of_methods import (
    LESS,
    LOCKING,
    holm_family,
    longest_in_turn,
    slowdowns_in_turn,
    speeds_in_turn,
)
from repro.report.measures.slowdown import slowdown
from repro.report.stored.bound import bound, simulated_seconds, simulated_slowdown
from repro.report.stored.group import Group
from repro.report.table import Measured

OTHER_RULES = "repro run fr-resnet98-barrier fr-resnet98-free --set blocks=2 --seeds 5 --profile quick"


def faster(evidence: Evidence) -> Sequence[Finding]:
    """D1: DSP over BP, and over FR under each locking rule."""

    def both(groups: list[Group]) -> bool:
        return bool(having(groups, "dsp") and having(groups, "bp"))

    turns = speeds_in_turn(evidence)
    found = places(evidence.training(), both)
    if not found:
        return turns
    groups = _fair_first(found)
    base, dsp = having(groups, "bp")[0], having(groups, "dsp")[0]
    limit = bound(dsp, base)
    findings = [_over(dsp, base, base.label, at_least(1.5, 1.0), limit)]
    for rule in LOCKING:
        label = f"FR ({rule})"
        findings.append(
            _over(dsp, labelled(groups, label), label, above(1.0, TIMES), _modelled_over_fr(dsp, base, rule))
        )
    return beside(turns, findings)


def _over(dsp: Group, other: Group | None, label: str, rule: Rule, modelled: float | None) -> Finding:
    """DSP's speed-up over another method, or why there is none, with the modelled one beside it."""
    what = f"{dsp.label} over {label}"
    words = f"modelled: {modelled:.2f}" if modelled else ""
    crowded = _crowded(dsp, *([other] if other else []))
    if crowded:
        return Finding(what, where(dsp), Measured(None, len(dsp.started)), "x", rule, crowded, words=words)
    if other is None:
        return missing(what, rule, OTHER_RULES, words)
    return Finding(what, where(dsp), ratio(other, dsp, "seconds_per_batch"), "x", rule, words=words)


def _modelled_over_fr(dsp: Group, base: Group, locking: str) -> float | None:
    """Seconds of FR under a locking rule over those of DSP, both simulated on the same compute times (as in `bound`)."""
    runs = base.complete if dsp.oversubscribed else dsp.complete
    method = dsp.settings.get("method")
    pairs = [
        (simulated_seconds(run, {"name": "fr", "locking": locking}), simulated_seconds(run, method))
        for run in runs
    ]
    known = [fr / own for fr, own in pairs if fr and own]
    return mean(known) if known else None


def less_slowdown(evidence: Evidence) -> Sequence[Finding]:
    """D3: slow-down of each DSP setting against FR (mailbox), the family adjusted after Holm."""
    return beside(slowdowns_in_turn(evidence), _slowdowns_of_runs(evidence))


def _slowdowns_of_runs(evidence: Evidence) -> list[Finding]:
    def both(groups: list[Group]) -> bool:
        return bool(having(groups, "dsp") and labelled(groups, "FR (mailbox)"))

    found = places(evidence.of("straggler"), both)
    if not found:
        return []
    groups = _fair_first(found)
    base = labelled(groups, "FR (mailbox)")
    assert base is not None
    settings = having(groups, "dsp")
    changes = [difference(g, base, slowdown) for g in settings]
    judged = holm_family(changes)
    return [
        _slowdown(g, base, change, LESS, holds, words)
        for g, change, (holds, words) in zip(settings, changes, judged, strict=True)
    ]


def absorbs_jitter(evidence: Evidence) -> Sequence[Finding]:
    """D7, first half: the slow-down of the longest queues against that of the shortest."""
    return beside(longest_in_turn(evidence), _longest_of_runs(evidence))


def _longest_of_runs(evidence: Evidence) -> list[Finding]:
    found = places(evidence.of("straggler"), lambda groups: queue_ends(groups) is not None)
    if not found:
        return []
    ends = queue_ends(_fair_first(found))
    assert ends is not None
    short, long = ends
    return [_slowdown(long, short, difference(long, short, slowdown), below(0.0, SHARE_OF_TIME))]


def _slowdown(
    group: Group, base: Group, change: Measured, rule: Rule, holds: bool | None = None, words: str = ""
) -> Finding:
    what = f"slow-down, {group.label} - {base.label}"
    crowded = _crowded(group, base)
    if not crowded:
        return Finding(what, where(group), change, "points", rule, holds=holds, words=words)
    shared = group.values(simulated_slowdown), base.values(simulated_slowdown)
    seeds = sorted(set(shared[0]) & set(shared[1]))
    modelled = f"modelled: {mean(shared[0][s] - shared[1][s] for s in seeds):.1f}" if seeds else ""
    return Finding(
        what, where(group), Measured(None, len(group.started)), "points", rule, crowded, words=modelled
    )


def _fair_first(found: list[list[Group]]) -> list[Group]:
    """The first place in which every block had a core or device of its own, else the first."""
    return next((groups for groups in found if not _crowded(*groups)), found[0])


def _crowded(*groups: Group) -> str:
    """Why times cannot be compared here; "" where they can."""
    crowded = [g for g in groups if g.oversubscribed]
    return f"{crowded[0].blocks} blocks on fewer devices or cores" if crowded else ""
