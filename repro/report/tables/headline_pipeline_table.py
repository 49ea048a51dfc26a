"""Pipeline training at a glance: accuracy, speed-up and slow-down of every method in one row."""

from __future__ import annotations

from dataclasses import replace

from repro.report.stored.context import CONTEXT, HALF_WIDTH, PLACE, finish, order
from repro.report.stored.group import Group
from repro.report.stored.published import anchors, stated
from repro.report.stored.source import Found, Source, experiment, in_group, on_text
from repro.report.table import Column, Table, Value
from repro.report.tables import accuracy_table, speedup_table, straggler_table
from repro.store import StoredRun

DESCRIPTION = "pipeline training at a glance: accuracy, speed-up and slow-down under stragglers per method"
COLUMNS = [
    *(column for column in CONTEXT if column.name != "blocks"),
    *(replace(column, once=True) for column in PLACE),
    Column("blocks", "K", number=True),
    Column("epochs", "epochs", context=True, number=True),
    Column("method", "method"),
    Column("test_accuracy_best", "best test accuracy %", decimals=2, number=True),
    Column("difference", "against BP, points", decimals=2, number=True),
    Column("speedup", "speed-up over BP", decimals=2, ratio=True, number=True),
    Column("bound", "bound (modelled)", decimals=2, number=True),
    Column("published", "published, over BP or FR"),
    Column("slowdown_percent", "slow-down under delays %", decimals=1, ratio=True, number=True),
]
UNTESTABLE = "not testable here"


def build(source: Source, select: str) -> Table:
    """A row per method and K; `select` has no meaning here, the papers print the best accuracy."""
    trained = source.find(
        lambda run: experiment(run) == "train" and in_group(run, "dsp") and not on_text(run)
    )
    delayed = (
        source.find(_straggler)
        if trained.reference == source.find(_straggler).reference
        else Found([], [], False)
    )
    rows: dict[tuple[object, ...], dict[str, Value]] = {}
    groups = _parts(trained)
    for group in groups:
        rows.setdefault(_place(group), {}).update(_trained(group, groups))
    for group in _parts(delayed):
        rows.setdefault(_place(group), {}).update(_delayed(group))
    table = Table("headline-pipeline", COLUMNS, [rows[place] for place in sorted(rows)])
    table.caption = [
        "Best: the best epoch on the test set, as the papers print it. Against BP: in pairs by seed. Speed-up: ratio of "
        "seconds per batch, interval on the log scale; not testable here where blocks share a core or device. Bound: "
        "simulated from measured compute times (BP's, where blocks share a core) with free communication.",
        "Slow-down: our random delays, in runs of their own.",
        *anchors("speedup", {"dsp"}),
        HALF_WIDTH + " Brackets: the 95 % interval itself.",
    ]
    trained.problems += delayed.problems
    return finish(table, trained, nothing=speedup_table.NOTHING)


def _straggler(run: StoredRun) -> bool:
    return experiment(run) == "straggler"


def _parts(found: Found) -> list[Group]:
    return sorted((part for group in found.groups for part in group.split()), key=order)


def _place(group: Group) -> tuple[object, ...]:
    """Rows of one method in one place meet here, whatever recipe they come from."""
    return (*order(group)[:-1], group.title)


def _trained(group: Group, groups: list[Group]) -> dict[str, Value]:
    cells = {**accuracy_table.row(group, groups, "best"), **speedup_table.row(group, groups)}
    if group.oversubscribed and group.method != "bp":
        cells["speedup"] = UNTESTABLE
    published = None if group.method == "bp" else stated("speedup", group)
    return {**cells, "epochs": group.length[0], "published": published}


def _delayed(group: Group) -> dict[str, Value]:
    cells = {name: cell for name, cell in straggler_table.row(group, []).items() if name != "published"}
    if group.oversubscribed:
        cells["slowdown_percent"] = UNTESTABLE
    return cells
