"""Time per batch and speed-up over BP of the same network, data, K, device, machine and threads."""

from __future__ import annotations

from repro.report.measures.speedup import SAME, over
from repro.report.stored.bound import bound, slowest_block
from repro.report.stored.context import (
    CONTEXT,
    HALF_WIDTH,
    NOTE,
    PLACE,
    baseline,
    context,
    finish,
    note,
    order,
)
from repro.report.stored.group import Group
from repro.report.stored.pairing import pairing_note
from repro.report.stored.published import anchors, beside, key
from repro.report.stored.source import Source, experiment, pipelined
from repro.report.table import Column, Table, Value

DESCRIPTION = "seconds per batch, compute time and speed-up over BP, with the bound of each method"
NOTHING = (
    "No finished training run found. Make some with: "
    "repro run bp-resnet98-k2 fr-resnet98-k2 dsp-resnet98-k2 --seeds 5 --profile quick"
)
COLUMNS = [
    *CONTEXT,
    *PLACE,
    Column("method", "method"),
    Column("seconds_per_batch", "s / batch", number=True),
    Column("busy_seconds", "busy, slowest block", number=True),
    Column("speedup", "speed-up over BP", decimals=2, ratio=True, number=True),
    Column("bound", "bound (modelled)", decimals=2, number=True),
    Column("published", "published value", context=True),
    NOTE,
]


def build(source: Source, select: str) -> Table:
    """A row per method and K; `select` has no meaning here."""
    found = source.find(lambda run: experiment(run) == "train" and pipelined(run))
    groups = sorted((part for group in found.groups for part in group.split()), key=order)
    table = Table("speedup", COLUMNS, [row(group, groups) for group in groups])
    crowded = dict.fromkeys(f"{g.recipe} ({g.profile})" for g in groups if g.oversubscribed)
    if crowded:
        found.problems.append(f"oversubscribed, more blocks than devices or cores: {', '.join(crowded)}")
    table.caption = [
        "Speed-up: ratio of seconds per batch, BP / method, with its 95 % interval on the log scale, in pairs by seed where "
        "initial weights and data order are shared, else Welch; always against BP with the same K, replicas, device, "
        "machine and threads, through the same engine.",
        HALF_WIDTH,
        "Bound: BP's compute time over the time per batch that the schedule needs with this row's compute times (where "
        "blocks shared a core: with BP's, and the replay added) and free communication. FR and DDG name their locking rule: "
        "the numbers are the same under all rules, the times are not.",
        *(["Rows with more blocks than devices or cores state no speed-up."] if crowded else []),
        *anchors("speedup", {key(g) for g in groups}),
    ]
    return finish(table, found, nothing=NOTHING)


def row(group: Group, groups: list[Group]) -> dict[str, Value]:
    """The cells of one method."""
    base = baseline(group, groups, SAME)
    speedup: Value = None
    words = []
    if group.oversubscribed:
        words.append("oversubscribed: no speed-up stated")
    elif base is None:
        words.append("no BP run of the same K, device, machine, threads and settings")
    elif base is not group:
        speedup = over(base, group)
    words.append(pairing_note(group, base))
    return {
        **context(group),
        "method": group.title,
        "seconds_per_batch": group.measured("seconds_per_batch"),
        "busy_seconds": group.measured(slowest_block),
        "speedup": speedup,
        "bound": None if base is None or base is group else bound(group, base),
        "published": beside("speedup", group),
        "note": note(group, *words),
    }
