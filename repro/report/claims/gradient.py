"""The claims of the gradient-approximation paper, G1 to G9 (arXiv 1908.05460)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from repro.recipe.load import PROFILES
from repro.report.claims.claim import Claim, Finding, Rule, above, at_least, below, not_above
from repro.report.claims.evidence import Evidence, difference, ratio, where
from repro.report.context import data_label
from repro.report.group import Group, gradient_label, shares_start
from repro.report.stats import Estimate, holm, mean_interval
from repro.report.stats import difference as plain_difference
from repro.report.table import Measured
from repro.report.tables.accuracy import accuracy
from repro.report.tables.gradient_approximation import full_of, seconds_per_step, time_saved

PAPER = "arXiv 1908.05460"
RUN = "repro run full-{0} {1} --seeds 5"
MARGIN = 0.5  # points that count as competitive (ours)
CEILING = 100.0 / 12


def saves(model: str, gradient: str, rule: Rule, evidence: Evidence) -> list[Finding]:
    """Time saved against the full gradient by one estimator and schedule on one network."""
    groups = evidence.training("gradient-approximation")
    found = []
    for g in _pick(groups, model, gradient):
        base = full_of(g, groups)
        if base is not None and (base.machine, base.threads) == (g.machine, g.threads):
            found.append(Finding(f"{model}, {gradient}", where(g), time_saved(g, base), "% of time", rule))
    return found[:1]


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
    closest = min((_closeness(g) for g, _ in pairs))
    pairs = [(g, base) for g, base in pairs if _closeness(g) == closest]
    read = accuracy("best")
    p_values = []
    for g, base in pairs:
        shifted = {s: v + 0.1 for s, v in g.values(read).items()}
        test = plain_difference(shifted, base.values(read), paired=shares_start(g, base))
        one_sided = 1.0 if test is None or test.p is None else test.p / 2 if test.mean > 0 else 1 - test.p / 2
        p_values.append(one_sided)
    adjusted = holm(p_values)
    best = min(range(len(pairs)), key=lambda i: (p_values[i], i))
    g, base = pairs[best]
    value = difference(g, base, read)
    rule = Rule("above -0.1 for some schedule, Holm p < 0.05", lambda e: False)
    return [
        Finding(
            f"{g.model}, {gradient_label(g.settings)} - full, best", where(g), value, "points", rule,
            holds=adjusted[best] < 0.05, words=f"best of {len(pairs)}, Holm p = {adjusted[best]:.2g}",
        )
    ]  # fmt: skip


def kernel_wins(evidence: Evidence) -> Sequence[Finding]:
    """G4: the shape on which the fastest kernel does worst against the library."""
    stored, _ = evidence.source.bench("kernels")
    best: dict[str, dict[str, Any]] = {}
    for row in (stored or {}).get("rows", []):
        if row.get("kernel") in ("cpu", "cupy") and row["ratio"] > best.get(row["shape"], {"ratio": 0.0})["ratio"]:
            best[row["shape"]] = row
    if not best:
        return []
    worst = min(best.values(), key=lambda r: (float(r["ratio"]), str(r["shape"])))
    n = int(worst.get("n", 1))
    value = Measured(Estimate(float(worst["ratio"]), worst.get("ratio_low"), worst.get("ratio_high"), n), n)
    place = str(((stored or {}).get("environment") or {}).get("processor", ""))
    what = f"worst of {len(best)} shapes: {worst['shape']}, {worst['layout']}, {worst['kernel']}"
    return [Finding(what, place, value, "x", above(1.0), words="brackets: quartiles over repeats")]


def random_slower(evidence: Evidence) -> Sequence[Finding]:
    """G6: seconds of random over those of top1, on the same network and schedule."""
    groups = evidence.training("gradient-approximation")
    for g in _pick(groups, "resnet20", "random s1"):
        for other in _pick(groups, "resnet20", "top1 s1"):
            if _same_place(g, other):
                value = ratio(g, other, seconds_per_step)
                return [Finding("resnet20, s1: random / top1", where(g), value, "x", above(1.0))]
    return []


def smaller_net(evidence: Evidence) -> Sequence[Finding]:
    """G7: full ResNet-14 against ResNet-20 with top1 on s1, in accuracy and in time."""
    groups = evidence.training("gradient-approximation")
    for small in _pick(groups, "resnet14", "full"):
        for g in _pick(groups, "resnet20", "top1 s1"):
            if _same_place(small, g):
                points = difference(small, g, accuracy("best"))
                time = ratio(small, g, seconds_per_step)
                names = "full resnet14 - resnet20 top1 s1, best", "time: full resnet14 / resnet20 top1 s1"
                return [
                    Finding(names[0], where(small), points, "points", above(-MARGIN)),
                    Finding(names[1], where(small), time, "x", not_above(1.0)),
                ]
    return []


def unbiased(evidence: Evidence) -> Sequence[Finding]:
    """G8: relative bias of top1 at the layer where it is largest; unbiased would reach zero."""
    for group in sorted((g for g in evidence.of("bias") if g.complete), key=_closeness):
        layers: dict[str, list[dict[str, Any]]] = {}
        for run in group.complete:
            for row in (run.result or {}).get("bias") or []:
                if row.get("estimator") == "top1" and isinstance(row.get("relative_bias"), (int, float)):
                    layers.setdefault(str(row["layer"]), []).append(row)
        if not layers:
            continue
        layer = max(sorted(layers), key=lambda name: sum(r["relative_bias"] for r in layers[name]) / len(layers[name]))
        rows = layers[layer]
        estimate = mean_interval([float(r["relative_bias"]) for r in rows])
        if estimate is not None and estimate.n == 1:
            estimate = Estimate(estimate.mean, rows[0].get("relative_bias_low"), rows[0].get("relative_bias_high"), 1)
        reaches_zero = all((r.get("relative_bias_low") or 0.0) <= 0.0 for r in rows)
        rule = Rule("interval over pairs reaches 0 at every layer", lambda e: False)
        value = Measured(estimate, len(group.started))
        return [
            Finding(
                f"{group.model}, {layer}: |E top1 - E full| / |E full|", f"{group.profile}, {group.device}", value, "",
                rule, holds=reaches_zero,
            )
        ]  # fmt: skip
    return []


def _pick(groups: list[Group], model: str, gradient: str) -> list[Group]:
    """Finished groups of a network and gradient, the nearest to the paper first."""
    found = [g for g in groups if g.complete and g.model == model and gradient_label(g.settings) == gradient]
    return sorted(found, key=lambda g: (_closeness(g), -len(g.complete), data_label(g), g.recipe))


def _closeness(group: Group) -> int:
    return PROFILES.index(group.profile) if group.profile in PROFILES else len(PROFILES)


def _same_place(a: Group, b: Group) -> bool:
    names = ("data", "profile", "device", "machine", "threads", "length")
    return data_label(a) == data_label(b) and all(getattr(a, n) == getattr(b, n) for n in names)


_ON_CPU = "mean seconds per step against the full gradient, in pairs by seed; the paper measured a Titan Xp with cuDNN"

CLAIMS = (
    Claim(
        "G1", "at least 7 % less wall-clock for ResNet-20 and VGG-19 (s1)", f"{PAPER}, abstract", _ON_CPU,
        "repro run full-resnet20 top1-resnet20-s1 full-vgg19 top1-vgg19-s1 --seeds 5",
        lambda e: [f for m in ("resnet20", "vgg19") for f in saves(m, "top1 s1", at_least(7.0, 0.0), e)],
    ),
    Claim(
        "G2", "3.5 % less wall-clock for ResNet-20", f"{PAPER}, body", _ON_CPU,
        RUN.format("resnet20", "top1-resnet20-s1"), lambda e: saves("resnet20", "top1 s1", at_least(3.5, 0.0), e),
    ),
    Claim(
        "G3", "accuracy within 0.1 point of full under some schedule", f"{PAPER}, body",
        "difference of best test accuracy in pairs by seed; Holm over the schedules",
        RUN.format("resnet20", "top1-resnet20-s1 top1-resnet20-s2 top1-resnet20-s3"), within_a_tenth,
    ),
    Claim(
        "G4", "the kernel beats the library's dense filter gradient on each shape", f"{PAPER}, body",
        "median dense time / median kernel time, with quartiles", "repro bench kernels", kernel_wins,
    ),
    Claim(
        "G5", "the 2-layer CNN gets slower", f"{PAPER}, body", _ON_CPU,
        RUN.format("cnn2", "top1-cnn2"), lambda e: saves("cnn2", "top1 alternate", below(0.0), e),
    ),
    Claim(
        "G6", "random gradients are slower than top1", f"{PAPER}, body", "ratio of mean seconds per step, in pairs by seed",
        "repro run random-resnet20-s1 top1-resnet20-s1 --seeds 5", random_slower,
    ),
    Claim(
        "G7", "ResNet-14 is competitive with approximated ResNet-20", f"{PAPER}, body",
        f"best accuracy (Welch; a margin of {MARGIN} points, ours) and time per step",
        "repro run full-resnet14 top1-resnet20-s1 --seeds 5", smaller_net,
    ),
    Claim(
        "G8", "the top1 estimate is unbiased", f"{PAPER}, Sec. 2.3",
        "relative bias over random (input, dy) pairs at untrained layers", "repro run bias-resnet20 --seeds 5", unbiased,
    ),
    Claim(
        "G9", "a 25 % schedule saves at most 8.3 %, measured with zero", "1/12, arithmetic", _ON_CPU,
        "repro run full-resnet20 zero-resnet20-s1 full-vgg19 zero-vgg19-s1 --seeds 5",
        lambda e: [f for m in ("resnet20", "vgg19") for f in saves(m, "zero s1", not_above(CEILING), e)],
    ),
)  # fmt: skip
