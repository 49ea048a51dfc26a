"""Accuracy and time of approximated gradients against the full gradient."""

from __future__ import annotations

from repro.report import stats
from repro.report.context import CONTEXT, HALF_WIDTH, NOTE, PLACE, context, finish, note, order
from repro.report.group import Group, gradient_label, shares_start
from repro.report.published import claimed
from repro.report.source import Source, experiment, in_group
from repro.report.table import Column, Measured, Table, Value
from repro.report.tables.accuracy import accuracy, difference
from repro.report.tables.schedules import realised
from repro.store import StoredRun

DESCRIPTION = "accuracy and time of each estimator and schedule against the full gradient, in pairs"
NOTHING = (
    "No finished run of the gradient-approximation recipes found. Make some with: repro run full-resnet20 "
    "zero-resnet20-s1 random-resnet20-s1 top1-resnet20-s1 full-resnet14 --seeds 5 --profile quick"
)
SAME = ("data", "profile", "device", "blocks")


def build(source: Source, select: str) -> Table:
    """A row per network, estimator and schedule."""
    found = source.find(lambda run: experiment(run) == "train" and in_group(run, "gradient-approximation"))
    groups = sorted((part for group in found.groups for part in group.split()), key=order)
    other = "best" if select == "last" else "last"
    columns = [
        *CONTEXT,
        *PLACE,
        Column("gradient", "gradient"),
        Column("approximated", "% approximated", decimals=1, number=True),
        Column(f"test_accuracy_{select}", f"test accuracy % ({select})", decimals=2, number=True),
        Column(f"test_accuracy_{other}", f"({other})", decimals=2, number=True),
        Column("difference", f"against full, points ({select})", decimals=2, number=True),
        Column("seconds_per_step", "s / step", number=True),
        Column("time_saved", "time saved %", decimals=1, ratio=True, number=True),
        Column("published", "published value", context=True),
        NOTE,
    ]
    table = Table("gradient-approximation", columns, [row(g, groups, select) for g in groups])
    table.caption = [
        f"Test accuracy of the {select} epoch ({other} beside it); 'best' is the largest over epochs on the test set.",
        HALF_WIDTH,
        "Against full: difference in accuracy, and 100 (1 - seconds per step / those of the full gradient) with its 95 % "
        "interval from the log ratio; in pairs by seed where initial weights and data order are shared, else Welch. "
        "Negative: slower. The time to the first evaluation, in which kernels are loaded, is left out.",
        "ResNet-14, the net that is simply smaller, is compared with the full ResNet-20.",
        *(f"Published ({claim}): {claimed(claim)}." for claim in ("G1", "G2", "G3", "G5", "G7")),
        "Scale 1/128 is the paper's; without it the estimate has about the dense gradient's norm.",
    ]
    return finish(table, found, nothing=NOTHING)


def row(group: Group, groups: list[Group], select: str) -> dict[str, Value]:
    """The cells of one estimator on one network."""
    base = full_of(group, groups)
    compared: Value = None
    saved: Value = None
    words = []
    if base is not None:
        compared = difference(group, base, accuracy(select))
        if (base.machine, base.threads) == (group.machine, group.threads):
            saved = time_saved(group, base)
        if base.model != group.model:
            words.append(f"against the full {base.model}")
    fallen = {
        f["layer"] for run in group.complete for f in ((run.result or {}).get("gradient") or {}).get("fallbacks") or []
    }
    if fallen:
        words.append(f"full gradient in place of the estimate in {len(fallen)} convolution(s): {', '.join(sorted(fallen))}")
    return {
        **context(group),
        "gradient": gradient_label(group.settings),
        "approximated": Measured(
            stats.mean_interval(group.values(lambda run: realised(run.result or {})).values()), len(group.started)
        )
        if gradient_label(group.settings) != "full"
        else None,
        "test_accuracy_last": group.measured(accuracy("last")),
        "test_accuracy_best": group.measured(accuracy("best")),
        "difference": compared,
        "seconds_per_step": group.measured(seconds_per_step),
        "time_saved": saved,
        "published": "not published here",
        "note": note(group, *words),
    }


def full_of(group: Group, groups: list[Group]) -> Group | None:
    """The run with full gradients that `group` is compared with: of the same network; ResNet-20's for ResNet-14.

    One from the same machine and thread count where there is one, so that times can be compared too.
    """
    if gradient_label(group.settings) == "full":
        if group.model != "resnet14":
            return None
        model = "resnet20"
    else:
        model = group.model
    for other in sorted(groups, key=lambda g: (g.machine, g.threads) != (group.machine, group.threads)):
        same = other.model == model and all(getattr(other, name) == getattr(group, name) for name in SAME)
        if same and gradient_label(other.settings) == "full" and other.length == group.length:
            return other
    return None


def time_saved(group: Group, base: Group) -> Measured:
    """Percent of `base`'s time per batch that `group` saves."""
    found = stats.ratio(group.values(seconds_per_step), base.values(seconds_per_step), paired=shares_start(group, base))
    if found is None:
        return Measured(None, len(group.started))
    low, high = (None if x is None else 100.0 * (1.0 - x) for x in (found.high, found.low))
    return Measured(
        stats.Estimate(100.0 * (1.0 - found.mean), low, high, found.n, found.paired, found.p), len(group.started)
    )


def seconds_per_step(run: StoredRun) -> float | None:
    """Training seconds / batches: the mean, because some schedules act on every 4th batch only and a median hides them.

    Without what came before the first evaluation, where there is a later one: kernels are loaded and memory is first
    touched there, which would count against whoever brings a kernel.
    """
    result = run.result or {}
    seconds, steps = result.get("train_seconds"), result.get("num_steps")
    if not seconds or not steps or seconds <= 0:
        return None
    ends = [
        (r["epoch"], float(r["train_seconds"])) for r in run.epochs() if isinstance(r.get("train_seconds"), (int, float))
    ]
    if len(ends) > 1 and ends[-1][1] > ends[0][1]:
        share = 1.0 - ends[0][0] / ends[-1][0]
        return (ends[-1][1] - ends[0][1]) / (int(steps) * float(share))
    return float(seconds) / int(steps)
