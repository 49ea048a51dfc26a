"""Time to a given test loss for every method on a network: what its speed gains times what its staleness costs."""

from __future__ import annotations

from repro.report import stats
from repro.report.measures.counterpart import counterpart, place
from repro.report.measures.time_to_loss import (
    BITS,
    batches_to,
    best,
    donor,
    gain,
    last,
    loss_name,
    predicted_speed,
    seconds_by_seed,
    seconds_to,
)
from repro.report.stats import Estimate
from repro.report.stored.context import CONTEXT, HALF_WIDTH, NOTE, context, finish, note, order
from repro.report.stored.group import Group, shares_start
from repro.report.stored.source import Source, experiment
from repro.report.table import Column, Measured, Table, Value

DESCRIPTION = "batches and seconds to a test loss per method, against BP: gain in time x loss per sample"
AT = True  # takes --at LOSS
NOTHING = (
    "No network with a finished run of BP and of another method found. Make some with: "
    "repro run bp-resnet98-k2 gpipe-resnet98-k2 dsp-resnet98-k2 --seeds 5 --profile quick"
)
COLUMNS = [
    *CONTEXT,
    Column("method", "method"),
    Column("target", "test loss to reach", decimals=3, number=True),
    Column("final_loss", "at the end", decimals=3, number=True),
    Column("batches", "batches to it", number=True),
    Column("efficiency", "loss per sample: BP / method", decimals=2, ratio=True, number=True),
    Column("seconds_per_batch", "s / batch", number=True),
    Column("seconds", "s to it", ratio=True, number=True),
    Column("ratio", "times as soon as BP", decimals=2, ratio=True, number=True),
    Column("predicted_speed", "speed per batch (predicted)", decimals=2, number=True),
    Column("predicted_ratio", "times as soon (predicted)", decimals=2, ratio=True, number=True),
    NOTE,
]


def build(source: Source, select: str, at: float | None = None) -> Table:
    """A row per method of each network that BP has trained too; `at`: the test loss to reach."""
    found = source.find(
        lambda run: experiment(run) == "train" and run.recipe.get("group") != "gradient-approximation"
    )
    groups = sorted((part for group in found.groups for part in group.split()), key=order)
    table = Table("time-to-loss", COLUMNS)
    setters = []
    for members in places(groups):
        target, words = (at, "") if at is not None else target_of(members)
        if words:
            setters.append(words)
        table.rows += [row(group, members, groups, target) for group in members]
    table.caption = [
        "Loss to reach: "
        + (
            "as given by --at."
            if at is not None
            else "the worst over methods and finished seeds of the best test loss, so that every one reaches it: "
            + "; ".join(setters) + ". repro table time-to-loss --at LOSS takes another."
        ),
        "Test loss: cross-entropy, of a text in bits per byte. Batches: on the straight line between evaluations. Loss per "
        "sample: BP's batches over the method's, below 1 where staleness costs samples; BP of the same optimiser where "
        "there is one, in pairs by seed.",
        "Seconds a batch: of runs with a core or device for each block, and none beside them, of any length; never of the "
        "sequential engine. Times as soon = BP's seconds to the loss over the method's. Brackets: 95 % interval on the log "
        "scale.",
        "Predicted: speed per batch as simulated with free messages (a bound), from BP's compute times where there are any, "
        "else for blocks of equal cost; times as soon (predicted) = that x loss per sample. Not measured.",
        HALF_WIDTH,
    ]  # fmt: skip
    return finish(table, found, nothing=NOTHING)


def places(groups: list[Group]) -> list[list[Group]]:
    """Groups of one place with a finished run, where BP is one of at least two."""
    sorted_groups: dict[object, list[Group]] = {}
    for group in groups:
        if group.values(best(loss_name(group))):
            sorted_groups.setdefault(place(group), []).append(group)
    return [
        members
        for members in sorted_groups.values()
        if len(members) > 1 and any(g.method == "bp" for g in members)
    ]


def target_of(members: list[Group]) -> tuple[float, str]:
    """The rule's loss, and which row sets it."""
    worst = [(max(g.values(best(loss_name(g))).values()), g.title) for g in members]
    target, title = max(worst)
    return target, f"{target:.3f} for {members[0].model}, K = {members[0].blocks} ({title})"


def row(group: Group, members: list[Group], groups: list[Group], target: float) -> dict[str, Value]:
    """The cells of one method."""
    name = loss_name(group)
    base = counterpart(group, members)
    assert base is not None
    batches = _positive(group, name, target)
    timed = donor(group, groups)
    efficiency = None if base is group else _efficiency(group, base, target)
    speed, of_what = (None, "") if base is group else predicted_speed(group, base, groups)
    words = [f"{BITS.removeprefix('test_').replace('_', ' ')}" if name == BITS else ""]
    if len(batches) < len(group.complete):
        words.append(f"{len(group.complete) - len(batches)} seed(s) never reach it")
    if timed is None:
        words.append(_without_time(group))
    elif timed is not group:
        words.append(f"times of {timed.recipe}, {len(seconds_by_seed(timed))} seed(s) of another length")
    if speed is not None:
        words.append(f"predicted from {of_what}")
    return {
        **context(group),
        "method": group.title,
        "target": target,
        "final_loss": group.measured(last(name)),
        "batches": group.measured(batches_to(name, target)),
        "efficiency": _cell(efficiency, group, base),
        "seconds_per_batch": None if timed is None else timed.measured("seconds_per_batch"),
        "seconds": _cell(seconds_to(batches, group, timed), group, timed),
        "ratio": _cell(_sooner(group, base, groups, target), group, base, timed, donor(base, groups)),
        "predicted_speed": speed,
        "predicted_ratio": _cell(
            None if speed is None or efficiency is None else efficiency.scaled(speed), group, base
        ),
        "note": note(group, *words),
    }


def _efficiency(group: Group, base: Group, target: float) -> Estimate | None:
    own, other = (_positive(g, loss_name(g), target) for g in (group, base))
    return stats.ratio(other, own, paired=shares_start(group, base))


def _sooner(group: Group, base: Group, groups: list[Group], target: float) -> Estimate | None:
    """BP's time to the loss over the method's, on the same machine and threads."""
    if group is base:
        return None
    timed, other = donor(group, groups), donor(base, groups)
    if timed is None or other is None or (timed.machine, timed.threads) != (other.machine, other.threads):
        return None
    speed = stats.ratio(seconds_by_seed(other), seconds_by_seed(timed), paired=shares_start(timed, other))
    if timed is group and other is base:
        whole = [
            {s: b * seconds[s] for s, b in _positive(g, loss_name(g), target).items() if s in seconds}
            for g, seconds in ((base, seconds_by_seed(base)), (group, seconds_by_seed(group)))
        ]
        return stats.ratio(whole[0], whole[1], paired=shares_start(group, base))
    return gain(_efficiency(group, base, target), speed)


def _positive(group: Group, name: str, target: float) -> dict[int, float]:
    return {s: b for s, b in group.values(batches_to(name, target)).items() if b > 0}


def _cell(estimate: Estimate | None, group: Group, *others: Group | None) -> Measured | None:
    """The estimate of `group`, with all groups that it is made of."""
    if estimate is None:
        return None
    sides = [g for g in (group, *others) if g is not None]
    behind = dict.fromkeys(g.behind(run.seed for run in g.complete) for g in sides)
    return Measured(estimate, len(group.started), tuple(behind))


def _without_time(group: Group) -> str:
    if group.oversubscribed:
        return "no time: more blocks than cores or devices"
    return f"no time: repro run {group.recipe} --profile {group.profile} --engine processes"
