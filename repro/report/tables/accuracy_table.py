"""Test accuracy, last and best, and its difference to BP."""

from __future__ import annotations

from repro.report.measures.accuracy import accuracy, difference
from repro.report.stored.context import CONTEXT, HALF_WIDTH, NOTE, baseline, context, finish, note, order
from repro.report.stored.group import Group
from repro.report.stored.pairing import pairing_note
from repro.report.stored.published import anchors, beside, key
from repro.report.stored.source import Source, experiment, on_text
from repro.report.table import Column, Table, Value

DESCRIPTION = "test accuracy, last and best epoch, beside the published one, and the difference to BP"
NOTHING = (
    "No finished training run found. Make some with: "
    "repro run bp-resnet98 fr-resnet98 dsp-resnet98 --seeds 5 --profile quick"
)


def build(source: Source, select: str) -> Table:
    """A row per recipe; `select` decides which accuracy comes first and enters the difference."""
    found = source.find(lambda run: experiment(run) == "train" and not on_text(run))
    groups = sorted(found.groups, key=order)
    other = "best" if select == "last" else "last"
    columns = [
        *CONTEXT,
        Column("method", "method"),
        Column(f"test_accuracy_{select}", f"test accuracy % ({select})", decimals=2, number=True),
        Column(f"test_accuracy_{other}", f"({other})", decimals=2, number=True),
        Column("difference", f"against BP, points ({select})", decimals=2, number=True),
        Column("published", "published value", context=True),
        NOTE,
    ]
    table = Table("accuracy", columns, [row(group, groups, select) for group in groups])
    table.caption = [
        f"Test accuracy of the {select} epoch ({other} beside it). 'Best' is the largest over epochs on the test set "
        "itself, as the papers print it, and flatters every method.",
        HALF_WIDTH,
        "Difference to BP of the same network, data, K, profile and length: in pairs by seed where initial weights and data "
        "order are shared, else Welch.",
        *anchors("accuracy", {key(g) for g in groups}),
    ]
    return finish(table, found, nothing=NOTHING)


def row(group: Group, groups: list[Group], select: str) -> dict[str, Value]:
    """The cells of one recipe."""
    base = baseline(group, groups, ("profile", "device", "blocks", "length"))
    compared: Value = None
    if base is not None and base is not group:
        compared = difference(group, base, accuracy(select))
    return {
        **context(group),
        "method": group.title,
        "test_accuracy_last": group.measured(accuracy("last")),
        "test_accuracy_best": group.measured(accuracy("best")),
        "difference": compared,
        "published": beside("accuracy", group),
        "note": note(group, pairing_note(group, base)),
    }
