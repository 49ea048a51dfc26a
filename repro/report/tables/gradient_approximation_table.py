"""Accuracy and time of approximated gradients against the full gradient."""

from __future__ import annotations

from repro.report.measures.accuracy import accuracy, difference
from repro.report.measures.named_schedules import realised
from repro.report.measures.time_saved import full_of, seconds_per_step, time_saved
from repro.report.stored.context import CONTEXT, HALF_WIDTH, NOTE, PLACE, context, finish, note, order
from repro.report.stored.group import Group, gradient_label
from repro.report.stored.pairing import pairing_note
from repro.report.stored.published import claimed
from repro.report.stored.source import Source, experiment, in_group
from repro.report.table import Column, Table, Value

DESCRIPTION = "accuracy and time of each estimator and schedule against the full gradient, in pairs"
NOTHING = (
    "No finished run of the gradient-approximation recipes found. Make some with: repro run full-resnet20 "
    "zero-resnet20-s1 random-resnet20-s1 top1-resnet20-s1 full-resnet14 --seeds 5 --profile quick"
)


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
        words.append(pairing_note(group, base))
    fallen = {
        f["layer"]
        for run in group.complete
        for f in ((run.result or {}).get("gradient") or {}).get("fallbacks") or []
    }
    if fallen:
        words.append(
            f"full gradient in place of the estimate in {len(fallen)} convolution(s): {', '.join(sorted(fallen))}"
        )
    return {
        **context(group),
        "gradient": ", ".join((gradient_label(group.settings), *group.variant_words)),
        "approximated": group.measured(lambda run: realised(run.result or {}))
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
