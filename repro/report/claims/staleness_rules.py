"""The rules of A1 to A5: differences of final test losses in pairs by seed, on one network, text and length."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from repro.report.claims.claim import Finding, Rule, above, below, missing
from repro.report.claims.evidence import Evidence, closeness, difference, where
from repro.report.measures.counterpart import (
    corrections,
    optimizer,
    optimizer_name,
    synchronous_of,
    training_of,
)
from repro.report.measures.lateness import update_words
from repro.report.measures.time_to_loss import BITS, last, loss_name
from repro.report.stats import mean_interval
from repro.report.stored.group import Group, shares_start
from repro.report.table import Measured

MARGIN = 0.02  # bits per byte that count as "not worse" and "hardly" (ours)
LOOK_AHEAD = 0.99  # AsyncPP's beta1 of NAdam
CORRECTED = {"prediction": "predicted", "rescheduling": "rescheduled", "compensation": "compensated"}
PLAIN = "adamw"  # the optimiser of A1, A4 and A5 where it has run, as in the papers on language models


def staleness_costs_loss(evidence: Evidence) -> Sequence[Finding]:
    """A1: PipeDream against synchronous training at each K, and the largest K against the smallest."""
    groups = _network(evidence, lambda g: bool(_plain(g, "pipedream")))
    stale = _plain(groups, "pipedream")
    findings = []
    for g in stale:
        base = synchronous_of(g, groups)
        what = f"K = {g.blocks}: {_name(g)} - synchronous"
        if base is None:
            findings.append(missing(what, above(0.0), _run("bp-gpt")))
        else:
            findings.append(_loss(f"K = {g.blocks}: {_name(g)} - {_name(base)}", g, base, above(0.0)))
    if len(stale) > 1:
        few, many = stale[0], stale[-1]
        findings.append(_loss(f"{_name(many)}: K = {many.blocks} - K = {few.blocks}", many, few, above(0.0)))
    return findings


def look_ahead_is_enough(evidence: Evidence) -> Sequence[Finding]:
    """A2: PipeDream with NAdam 0.99 against GPipe (or BP) with AdamW, at the largest K."""

    def pick(groups: list[Group]) -> list[Group]:
        return [
            g
            for g in _of(groups, "pipedream", "nadam")
            if optimizer(g).get("beta1") == LOOK_AHEAD and not corrections(g)
        ]

    groups = _network(evidence, lambda g: bool(pick(g) and _of(g, "gpipe", "adamw") + _of(g, "bp", "adamw")))
    found = pick(groups)
    if not found:
        return []
    stale = found[-1]
    same = [g for g in _of(groups, "gpipe", "adamw") if g.blocks == stale.blocks]
    base = [*same, *_of(groups, "bp", "adamw"), *_of(groups, "gpipe", "adamw")][0]
    return [_loss(f"K = {stale.blocks}: {_name(stale)} - {_name(base)}", stale, base, below(MARGIN))]


def muon_stands_delay(evidence: Evidence) -> Sequence[Finding]:
    """A3: what a delay of one update costs AdamW and Muon under 2BW, and the difference of the two costs."""
    groups = _network(evidence, lambda g: bool(_of(g, "2bw", "adamw") or _of(g, "2bw", "muon")))
    if not groups:
        return []
    costs, findings, used = {}, [], []
    for name, rule in (("adamw", above(0.0)), ("muon", below(MARGIN))):
        found = [g for g in _of(groups, "2bw", name) if not corrections(g)]
        base = synchronous_of(found[-1], groups) if found else None
        if base is None:
            command = _run(f"bp-gpt-{name} 2bw-gpt-{name}".replace(f"-{PLAIN}", ""))
            findings.append(missing(f"2BW, {name} - synchronous", rule, command))
            continue
        stale = found[-1]
        costs[name] = _by_seed(stale, base)
        used += [stale, base]
        findings.append(_loss(f"K = {stale.blocks}: {_name(stale)} - {_name(base)}", stale, base, rule))
    if len(costs) == 2:
        seeds = sorted(set(costs["adamw"]) & set(costs["muon"]))
        value = mean_interval(costs["adamw"][s] - costs["muon"][s] for s in seeds)
        what = "cost of the delay, AdamW - Muon"
        measured = Measured(value, len(seeds), tuple(g.behind(seeds) for g in used))
        findings.append(Finding(what, where(used[0]), measured, _unit(used[0]), above(0.0)))
    return findings


def replay_is_closer(evidence: Evidence) -> Sequence[Finding]:
    """A4: PipeDream minus FR, whose m are the same, for each optimiser at its largest K; both gaps beside it."""
    groups = _network(evidence, lambda g: bool(_pairs(g)))
    findings = []
    for stash, replay in _pairs(groups):
        base = synchronous_of(stash, groups)
        words = "" if base is None else "; ".join(
            f"{g.label} - synchronous: {_mean(g, base)}" for g in (stash, replay)
        )  # fmt: skip
        what = f"K = {stash.blocks}: {_name(stash)} - {_name(replay)}"
        findings.append(_loss(what, stash, replay, above(0.0), words))
    return findings


def correction_helps(evidence: Evidence) -> Sequence[Finding]:
    """A5: PipeDream without minus with each correction, at the largest K that has both."""
    groups = _network(evidence, lambda g: any(_corrected(g, name) for name in CORRECTED))
    if not groups:
        return []
    findings = []
    for name, word in CORRECTED.items():
        found = _corrected(groups, name)
        if not found:
            findings.append(
                missing(f"PipeDream - PipeDream + {name}", above(0.0), _run(f"pipedream-gpt-{word}"))
            )
            continue
        plain, corrected = found[-1]
        base = synchronous_of(plain, groups)
        words = "" if base is None else f"gap without it: {_mean(plain, base)}"
        findings.append(
            _loss(f"K = {plain.blocks}: {_name(plain)} - + {name}", plain, corrected, above(0.0), words)
        )
    return findings


def _network(evidence: Evidence, needed: Callable[[list[Group]], bool]) -> list[Group]:
    """The groups of the most telling network and length that hold what is needed, by rising K."""
    found: dict[object, list[Group]] = {}
    for g in evidence.asynchronous():
        found.setdefault(training_of(g), []).append(g)
    usable = [members for members in found.values() if needed(members)]

    def rank(members: list[Group]) -> tuple[bool, int, int, int]:
        ready = needed([g for g in members if len(g.complete) > 1])
        steps = max(int(g.fact("num_steps", 0)) for g in members)
        return not ready, closeness(members[0]), -steps, -len(members)

    if not usable:
        return []
    best = min(usable, key=rank)
    return sorted(best, key=lambda g: (g.blocks, g.recipe))


def _of(groups: list[Group], method: str, name: str) -> list[Group]:
    return [g for g in groups if g.method == method and optimizer_name(g) == name]


def _plain(groups: list[Group], method: str) -> list[Group]:
    """A method's groups without corrections: with AdamW where any has it, else with the first optimiser by name."""
    found = [g for g in groups if g.method == method and not corrections(g)]
    names = sorted({optimizer_name(g) for g in found}, key=lambda name: (name != PLAIN, name))
    return [g for g in found if optimizer_name(g) == names[0]] if names else []


def _pairs(groups: list[Group]) -> list[tuple[Group, Group]]:
    """(PipeDream, FR) of the same optimiser and K, the largest K of each optimiser."""
    found: dict[str, tuple[Group, Group]] = {}
    replays = [g for g in groups if g.method == "fr" and not corrections(g)]
    for stash in (g for g in groups if g.method == "pipedream" and not corrections(g)):
        for replay in replays:
            if optimizer(stash) == optimizer(replay) and stash.blocks == replay.blocks:
                best = found.get(update_words(stash))
                if best is None or best[0].blocks < stash.blocks:
                    found[update_words(stash)] = stash, replay
    return list(found.values())


def _corrected(groups: list[Group], name: str) -> list[tuple[Group, Group]]:
    """(plain, corrected) PipeDream of the same optimiser and K, by rising K."""
    return [
        (plain, g)
        for g in groups
        if g.method == "pipedream" and corrections(g) == (name,)
        for plain in groups
        if plain.method == "pipedream" and not corrections(plain)
        and optimizer(plain) == optimizer(g) and plain.blocks == g.blocks
    ]  # fmt: skip


def _loss(what: str, a: Group, b: Group, rule: Rule, words: str = "") -> Finding:
    return Finding(what, where(a), difference(a, b, last(loss_name(a))), _unit(a), rule, words=words)


def _by_seed(a: Group, b: Group) -> dict[int, float]:
    above_, below_ = (g.values(last(loss_name(a))) for g in (a, b))
    return {s: above_[s] - below_[s] for s in set(above_) & set(below_)} if shares_start(a, b) else {}


def _mean(a: Group, b: Group) -> str:
    found = difference(a, b, last(loss_name(a))).estimate
    return "-" if found is None else f"{found.mean:+.3f}"


def _unit(group: Group) -> str:
    return "bits per byte" if loss_name(group) == BITS else "nats"


def _name(group: Group) -> str:
    return group.label if "," in group.label else f"{group.label}, {update_words(group)}"


def _run(recipes: str) -> str:
    return f"repro run {recipes} --seeds 5 --profile quick"
