"""What the gradient-approximation paper claims of time, accuracy, kernels and bias: G1 to G9."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from repro.report.claims import in_turn
from repro.report.claims.claim import Finding, Rule, above, below, missing
from repro.report.claims.evidence import Evidence, closeness, difference, ratio, where
from repro.report.claims.in_turn import first_decides
from repro.report.claims.margins import ACCURACY, TIMES
from repro.report.measures.accuracy import accuracy
from repro.report.measures.bias_over_seeds import over_seeds
from repro.report.measures.time_saved import full_of, seconds_per_step, time_saved
from repro.report.stats import Estimate, holm
from repro.report.stats import difference as plain_difference
from repro.report.stored.bench_rows import benchmark, percent
from repro.report.stored.group import Group, data_label, gradient_label, shares_start
from repro.report.table import Measured

SLACK = 1.05  # times as long that still counts as competitive (ours)
TENTH = 0.1  # points
CEILING = 100.0 / 12
QUICK = "--seeds 5 --profile quick"
TRAINING = "repro bench gradient: blocks of training steps in turn, on a CPU; (n/N): rounds"


def saves(model: str, gradient: str, recipe: str, rule: Rule, evidence: Evidence) -> Finding:
    """Time saved against the full gradient by one estimator and schedule on one network; `recipe` is how it is called."""
    groups = evidence.training("gradient-approximation")
    what = f"{model}, {gradient}"
    for g in _pick(groups, model, gradient):
        base = full_of(g, groups)
        if base is not None and (base.machine, base.threads) == (g.machine, g.threads):
            return Finding(what, where(g), time_saved(g, base), "% of time", rule, words=_hardware(g))
    return missing(what, rule, f"repro run full-{model} {recipe} {QUICK}")


def saves_too(model: str, gradient: str, recipe: str, rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """As `saves`; where training steps were measured in turn these decide, else steps on random images in turn."""
    return first_decides(
        _in_training(f"full-{model}", recipe, f"{model}, {gradient}", rule, evidence),
        _in_turn(model, gradient, rule, evidence),
        saves(model, gradient, recipe, rule, evidence),
    )


def _in_training(full: str, own: str, what: str, rule: Rule, evidence: Evidence) -> Finding | None:
    """Time saved, from the training steps in turn that `repro bench gradient` stored."""
    rows, machine = in_turn.rows(evidence, "gradient")
    a, b = (in_turn.found(rows, recipe=name) for name in (own, full))
    if a is None or b is None:
        return None
    value = in_turn.saved(a, b, "gradient")
    return Finding(
        f"{what}, training in turn", _steps_place(a, machine), value, "% of time", rule, words=TRAINING
    )


def _ratio_in_training(above: str, below: str, what: str, rule: Rule, evidence: Evidence) -> Finding | None:
    """Time of one recipe's steps over another's, from the same."""
    rows, machine = in_turn.rows(evidence, "gradient")
    a, b = (in_turn.found(rows, recipe=name) for name in (above, below))
    if a is None or b is None:
        return None
    value = in_turn.ratio(a, b, "seconds", "gradient")
    return Finding(f"{what}, training in turn", _steps_place(a, machine), value, "x", rule, words=TRAINING)


def _steps_place(row: in_turn.Row, machine: str) -> str:
    return f"{row.get('data')}, batch {row.get('batch_size')}, {row.get('threads')} thread(s), {machine}"


def _in_turn(model: str, gradient: str, rule: Rule, evidence: Evidence) -> Finding | None:
    """From the rows of whole networks that `repro bench kernels` stored, in the layout of the recipes."""
    rows, machine = in_turn.rows(evidence, "kernels")
    estimator, _, schedule = gradient.partition(" ")
    row = in_turn.found(rows, model=model, estimator=estimator, schedule=schedule, layout="channels_last")
    value = None if row is None else percent(row, "saved", "n")
    if value is None:
        return None
    words = "repro bench kernels: steps on random images, in turn with the plain network; (n/N): rounds"
    value = replace(value, made_of=(benchmark("kernels"),))
    return Finding(f"{model}, {gradient}, in turn", machine, value, "% of time", rule, words=words)


def within_a_tenth(evidence: Evidence) -> Sequence[Finding]:
    """G3: the top1 schedule whose accuracy is nearest to full, Holm over all schedules of a network."""
    groups = evidence.training("gradient-approximation")
    pairs = [
        (g, base)
        for g in groups
        if gradient_label(g.settings).startswith("top1") and (base := full_of(g, groups)) is not None
    ]
    pairs = [(g, base) for g, base in pairs if g.complete and base.complete]
    if not pairs:
        return []
    closest = min(_telling(g) for g, _ in pairs)
    pairs = [(g, base) for g, base in pairs if _telling(g) == closest]
    read = accuracy("best")
    p_values = []
    for g, base in pairs:
        shifted = {s: v + TENTH for s, v in g.values(read).items()}
        test = plain_difference(shifted, base.values(read), paired=shares_start(g, base))
        one_sided = 1.0 if test is None or test.p is None else test.p / 2 if test.mean > 0 else 1 - test.p / 2
        p_values.append(one_sided)
    adjusted = holm(p_values)
    best = min(range(len(pairs)), key=lambda i: (p_values[i], i))
    g, base = pairs[best]
    value = difference(g, base, read)
    rule = Rule(f"above {-TENTH} for some schedule, Holm p < 0.05", lambda e: False, -TENTH)
    return [
        Finding(
            f"{g.model}, {gradient_label(g.settings)} - full, best", where(g), value, "points", rule,
            holds=adjusted[best] < 0.05, words=f"best of {len(pairs)}, Holm p = {adjusted[best]:.2g}",
        )
    ]  # fmt: skip


def kernel_wins(evidence: Evidence) -> Sequence[Finding]:
    """G4: the shape on which our fastest kernel does worst against the library."""
    stored, _ = evidence.source.bench("kernels")
    best: dict[str, dict[str, Any]] = {}
    for row in (stored or {}).get("rows", []):
        ours = row.get("kernel") in ("cpu", "cupy") and isinstance(
            row.get("dense_ms"), (int, float)
        )  # no mean of shapes
        if ours and row["ratio"] > best.get(row["shape"], {"ratio": 0.0})["ratio"]:
            best[row["shape"]] = row
    if not best:
        return []
    worst = min(best.values(), key=lambda r: (float(r["ratio"]), str(r["shape"])))
    n = int(worst.get("n", 1))
    middle = Estimate(float(worst["ratio"]), worst.get("ratio_low"), worst.get("ratio_high"), n)
    value = Measured(middle, n, (benchmark("kernels"),))
    place = str(((stored or {}).get("environment") or {}).get("processor", ""))
    what = f"worst of {len(best)} shapes, each in its faster layout: {worst['shape']}, {worst['layout']}, {worst['kernel']}"
    words = "median; brackets: quartiles over repeats, not an interval of the mean"
    return [
        Finding(what, place, value, "x", Rule("lower quartile above 1", above(1.0).test, 1.0), words=words)
    ]


def random_slower(evidence: Evidence) -> Sequence[Finding]:
    """G6: seconds of random over those of top1, on the same network and schedule."""
    what, rule = "time, resnet20 s1: random / top1", above(1.0, TIMES)
    turns = _ratio_in_training("random-resnet20-s1", "top1-resnet20-s1", what, rule, evidence)
    return first_decides(turns, _random_runs(what, rule, evidence))


def _random_runs(what: str, rule: Rule, evidence: Evidence) -> Finding | None:
    groups = evidence.training("gradient-approximation")
    for g in _pick(groups, "resnet20", "random s1"):
        for other in _pick(groups, "resnet20", "top1 s1"):
            if _same_place(g, other):
                value = ratio(g, other, seconds_per_step)
                return Finding(what, where(g), value, "x", rule, words=_hardware(g))
    return None


def smaller_net(evidence: Evidence) -> Sequence[Finding]:
    """G7: full ResNet-14 against ResNet-20 with top1 on s1, in accuracy and in time."""
    what, rule = "time: full resnet14 / resnet20 top1 s1", below(SLACK)
    turns = _ratio_in_training("full-resnet14", "top1-resnet20-s1", what, rule, evidence)
    groups = evidence.training("gradient-approximation")
    for small in _pick(groups, "resnet14", "full"):
        for g in _pick(groups, "resnet20", "top1 s1"):
            if _same_place(small, g):
                points = difference(small, g, accuracy("best"))
                time = ratio(small, g, seconds_per_step)
                name = "full resnet14 - resnet20 top1 s1, best"
                runs = Finding(what, where(small), time, "x", rule, words=_hardware(small))
                return [
                    Finding(name, where(small), points, "points", above(-ACCURACY)),
                    *first_decides(turns, runs),
                ]
    return first_decides(turns)


def unbiased(evidence: Evidence) -> Sequence[Finding]:
    """G8: relative bias of top1 at the layer where it is largest, beside that of `sampled`, which is unbiased."""
    for group in sorted((g for g in evidence.of("bias") if g.complete), key=_telling):
        layers = {name: _bias_rows(group, name) for name in ("top1", "sampled")}
        if not layers["top1"]:
            continue
        layer = max(sorted(layers["top1"]), key=lambda name: _bias(layers["top1"][name]).mean)
        reaches_zero = all(median(_low(row) for row in rows) <= 0.0 for rows in layers["top1"].values())
        control = layers["sampled"].get(layer)
        words = f"control, sampled (unbiased by construction): {_bias(control).mean:.3f}" if control else ""
        rule = Rule("lower end over pairs at 0 in most seeds, at every layer", lambda e: False)
        behind = (group.behind(run.seed for run in group.complete),)
        value = Measured(_bias(layers["top1"][layer]), len(group.started), behind)
        what = f"{group.model}, {layer}: |E top1 - E full| / |E full|"
        return [Finding(what, where(group), value, "", rule, holds=reaches_zero, words=words)]
    return []


def _bias_rows(group: Group, estimator: str) -> dict[str, list[dict[str, Any]]]:
    """A row a seed for each layer."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run in group.complete:
        for row in (run.result or {}).get("bias") or []:
            if row.get("estimator") == estimator and isinstance(row.get("relative_bias"), (int, float)):
                found.setdefault(str(row["layer"]), []).append(row)
    return found


def _bias(rows: list[dict[str, Any]]) -> Estimate:
    """Over seeds; with one seed the jackknife interval over its pairs."""
    estimate = over_seeds(rows, "relative_bias")
    assert estimate is not None
    return estimate


def _low(row: dict[str, Any]) -> float:
    return float(row.get("relative_bias_low") or 0.0)


def _pick(groups: list[Group], model: str, gradient: str) -> list[Group]:
    """Finished groups of a network and gradient: with seeds enough for a verdict, then the nearest to the paper first."""
    found = [g for g in groups if g.complete and g.model == model and gradient_label(g.settings) == gradient]
    return sorted(found, key=lambda g: (_telling(g), -len(g.complete), data_label(g), g.recipe))


def _telling(group: Group) -> tuple[bool, int]:
    """Sort key: the most telling group first."""
    return len(group.complete) < 2, closeness(group)


def _hardware(group: Group) -> str:
    """What a reader must know of a time that was measured on other hardware than the paper's."""
    return "on a CPU; the paper's is a Titan Xp with cuDNN 7.4.2" if group.device == "cpu" else ""


def _same_place(a: Group, b: Group) -> bool:
    names = ("data", "profile", "device", "machine", "threads", "length")
    return data_label(a) == data_label(b) and all(getattr(a, n) == getattr(b, n) for n in names)
