"""Gradient approximation at a glance: accuracy and time of every estimator beside the published saving."""

from __future__ import annotations

from repro.report.stored.context import CONTEXT, HALF_WIDTH, PLACE, finish, order
from repro.report.stored.group import Group
from repro.report.stored.published import UNKNOWN, stated
from repro.report.stored.source import Source, experiment, in_group
from repro.report.table import Column, Table, Value
from repro.report.tables import gradient_approximation_table

DESCRIPTION = "gradient approximation at a glance: accuracy and time saved per estimator"
SCHEDULES = ("s1", "alternate")  # the published ones
COLUMNS = [
    *(column for column in CONTEXT if column.name not in ("model", "data", "blocks")),
    *PLACE,
    Column("model", "model", once=True),
    Column("data", "data", once=True),
    Column("gradient", "filter gradient"),
    Column("test_accuracy_best", "best test accuracy %", decimals=2, number=True),
    Column("difference", "against full, points", decimals=2, number=True),
    Column("time_saved", "time saved %", decimals=1, ratio=True, number=True),
    Column("published", "published time saved"),
]


def build(source: Source, select: str) -> Table:
    """A row per network, estimator and schedule; `select` has no meaning here, the papers print the best accuracy."""
    found = source.find(lambda run: experiment(run) == "train" and in_group(run, "gradient-approximation"))
    groups = sorted((part for group in found.groups for part in group.split()), key=order)
    table = Table("headline-gradient", COLUMNS, [_row(group, groups) for group in groups])
    table.caption = [
        "Full: the library's gradient. Time saved: 100 (1 - seconds per step / those of full), interval from the log ratio; "
        "negative: slower; without the time to the first evaluation. In pairs by seed. ResNet-14 is compared with the full "
        "ResNet-20. Scale 1/128 is the paper's.",
        HALF_WIDTH + " Brackets: the 95 % interval itself.",
    ]
    return finish(table, found, nothing=gradient_approximation_table.NOTHING)


def _row(group: Group, groups: list[Group]) -> dict[str, Value]:
    """The published saving stands beside the published schedules only, and not beside the gradient it is measured on."""
    cells = gradient_approximation_table.row(group, groups, "best")
    words = str(cells["gradient"]).split(", ")[0].split(" ")
    published = (
        None if words[0] == "full" else stated("time-saved", group) if words[-1] in SCHEDULES else UNKNOWN
    )
    return {**cells, "published": published}
