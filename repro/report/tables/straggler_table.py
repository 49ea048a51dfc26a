"""Slow-down of each method under the same random delays."""

from __future__ import annotations

from repro.report import stats
from repro.report.measures.slowdown import _field, delays, slack, slowdown, slowdown_percent
from repro.report.stored.context import CONTEXT, HALF_WIDTH, NOTE, PLACE, context, finish, note, order
from repro.report.stored.group import Group, shares_start
from repro.report.stored.made_of import made_of
from repro.report.stored.pairing import pairing_note, partner
from repro.report.stored.published import anchors, key
from repro.report.stored.source import Source, experiment
from repro.report.table import Column, Measured, Table, Value
from repro.store import StoredRun

DESCRIPTION = (
    "slow-down under random delays per method, and against FR (Table 2 of the DSP paper, our definition)"
)
NOTHING = (
    "No finished straggler run found. Make some with: "
    "repro run straggler-bp-resnet98 straggler-fr-resnet98 straggler-dsp-resnet98 --seeds 5 --profile quick"
)
SAME = ("model", "data", "profile", "device", "machine", "threads", "blocks")
COLUMNS = [
    *CONTEXT,
    *PLACE,
    Column("delays", "delays", context=True),
    Column("method", "method"),
    Column("slack", "slack, batches", number=True),
    Column("clean_seconds", "s without delays", number=True),
    Column("delayed_seconds", "s with delays", number=True),
    Column("slowdown_percent", "slow-down %", decimals=1, ratio=True, number=True),
    Column("against_fr", "against FR, points", decimals=1, number=True),
    Column("published", "published value", context=True),
    NOTE,
]


def build(source: Source, select: str) -> Table:
    """A row per method."""
    found = source.find(_wanted)
    groups = sorted((part for group in found.groups for part in group.split()), key=order)
    table = Table("straggler", COLUMNS, [row(group, groups) for group in groups])
    timed = source.find(_wanted, timing_only=True)
    parts = sorted((part for group in timed.groups for part in group.split()), key=order)
    table.rows += [row(group, parts) for group in parts]
    table.caption = [
        "Slow-down = 100 (seconds with delays / seconds without - 1), same recipe and seed, measured in one command; mean "
        "and 95 % interval from the logarithms of the ratios over seeds. The definition is ours, the paper's is not known.",
        "Every method meets the same delays; a delay is a sleep of its block, so more blocks than cores can be read too, "
        "but compute that shares a core then hides part of a delay. Slack: batches that block 0 may run ahead of block 1.",
        HALF_WIDTH,
        "Against FR (mailbox, the authors' order): difference of the slow-downs in points, in pairs by seed.",
        *anchors("straggler", {key(g) for g in groups}),
    ]
    if parts:
        words = "Timing only: blocks waited as long as their measured layers take, and trained nothing; rows of their own."
        table.caption.append(words)
    return finish(table, found if found.groups else timed, nothing=NOTHING)


def _wanted(run: StoredRun) -> bool:
    return experiment(run) == "straggler"


def row(group: Group, groups: list[Group]) -> dict[str, Value]:
    """The cells of one method."""
    base = partner(group, (g for g in groups if g.label == "FR (mailbox)" and comparable(group, g)))
    against = None
    if base is not None and base is not group:
        own, others = group.values(slowdown), base.values(slowdown)
        change = stats.difference(own, others, paired=shares_start(group, base))
        against = Measured(change, len(group.started), made_of(change, (group, own), (base, others)))
    timed = bool(group.settings.get("timing_only"))
    crowded = "more blocks than cores or devices: the times are no speed-up" if group.oversubscribed else ""
    if timed:  # a wait takes no core
        crowded = "timing only, no training"
    return {
        **context(group),
        "delays": delays(group),
        "method": group.title,
        "slack": slack(group),
        "clean_seconds": group.measured(lambda run: _field(run, "clean_seconds")),
        "delayed_seconds": group.measured(lambda run: _field(run, "delayed_seconds")),
        "slowdown_percent": slowdown_percent(group),
        "against_fr": against,
        "published": "not published here",
        "note": note(group, crowded, pairing_note(group, base)),
    }


def comparable(a: Group, b: Group) -> bool:
    """Whether two groups ran the same thing in the same place under the same delays."""
    return a.settings.get("straggler") == b.settings.get("straggler") and all(
        getattr(a, x) == getattr(b, x) for x in SAME
    )
