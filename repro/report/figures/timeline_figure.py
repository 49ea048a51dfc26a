"""Each method's schedule with three blocks, simulated and, where a run recorded one, as it really went: Fig. 1."""

from __future__ import annotations

from typing import Any

from repro.report.stored.bound import read_timeline
from repro.report.stored.context import order
from repro.report.stored.group import Group, data_label
from repro.report.stored.source import Source, experiment, pipelined

DESCRIPTION = "schedule of each method with 3 blocks, simulated and recorded (Fig. 1 of the DSP paper)"
COMMAND = (
    "repro run bp-resnet98 gpipe-resnet98 dni-resnet98 fr-resnet98 ddg-resnet98 fdg-resnet98 dsp-resnet98 "
    "--profile quick"
)
BLOCKS = 3
METHODS: tuple[dict[str, Any], ...] = (
    {"name": "bp"},
    {"name": "gpipe"},
    {"name": "dni"},
    {"name": "fr", "locking": "barrier"},
    {"name": "fr", "locking": "mailbox"},
    {"name": "ddg", "locking": "mailbox"},
    {"name": "fdg"},
    {"name": "dsp", "staleness": "1,1,0;4,2,0"},
    {"name": "pipedream"},
    {"name": "2bw"},
)
WINDOW = 34.0  # simulated time drawn; a block's forward takes 1, its recompute 1, its backward 2
RECORDED = 8  # batches of the recorded schedule drawn
_UNIT = {"F": 1.0, "R": 1.0, "B": 2.0}


def draw(source: Source) -> Any:
    """The figure, and a note where no run recorded a schedule."""
    from repro.methods import parse_method
    from repro.report.figures import canvas
    from repro.report.figures.gantt import bars_of_record, bars_of_simulation, draw_bars, draw_key

    recorded, where = _recorded(source)
    row, head, foot = 0.94, 0.72, 0.7
    total = row * len(METHODS) + head + foot
    figure = canvas.new_figure(canvas.WIDTH if recorded else canvas.WIDTH * 0.75, total)
    left, width = (0.09, 0.41) if recorded else (0.12, 0.86)
    last = next((m for v in reversed(METHODS) if (m := parse_method(v).label(BLOCKS)) in recorded), "")
    for i, values in enumerate(METHODS):
        method = parse_method(values)
        bottom = (total - head - row * (i + 1) + 0.2) / total
        axes = figure.add_axes((left, bottom, width, (row - 0.48) / total))
        timeline = _simulated(method)
        draw_bars(axes, bars_of_simulation(timeline, WINDOW), BLOCKS, WINDOW)
        label = method.label(BLOCKS)
        axes.set_title(f"{label}: {timeline.period():.3g} per batch", fontsize=8, pad=2)
        _time_axis(axes, "units" if i == len(METHODS) - 1 else "")
        if label in recorded:
            spans = recorded[label]
            end = _window(spans)
            beside = figure.add_axes((0.56, bottom, 0.42, (row - 0.48) / total))
            draw_bars(beside, bars_of_record(spans, end), BLOCKS, end)
            beside.set_yticks([])
            beside.set_title(f"{label}, first {RECORDED} batches: {end:.3g} s", fontsize=8, pad=2)
            _time_axis(beside, "seconds" if label == last else "")
        elif recorded:
            figure.text(0.56, bottom + 0.2 / total, "no recorded run", fontsize=7, color="#666666")
    top = 1 - 0.12 / total
    words = "equal blocks, free messages;\nforward 1, recompute 1, backward 2 units of time,\nDNI's module left out"
    figure.text(left, top, f"Simulated: {words}", fontsize=8, linespacing=1.3, va="top")
    if recorded:
        figure.text(
            0.56,
            top,
            f"Recorded in a run, each to its own scale:\n{where}",
            fontsize=8,
            linespacing=1.3,
            va="top",
        )
    draw_key(
        figure,
        ("forward", "recompute", "backward", "module", "update", "send", "wait"),
        left,
        0.12 / total,
        0.95 - left,
    )
    note = "" if recorded else f"no run with {BLOCKS} blocks recorded its schedule; make some with: {COMMAND}"
    return figure, note


def _simulated(method: Any) -> Any:
    from repro.schedule import simulate

    micro = method.micro_batches(64)

    def duration(_block: int, action: Any) -> float:
        return float(_UNIT.get(action.kind.value, 0.0) / micro)

    return simulate(method.schedule(BLOCKS, 40, {}), duration)


def _recorded(source: Source) -> tuple[dict[str, list[tuple[int, str, float, float, bool]]], str]:
    """Recorded spans by label, all from the one place (network, data, profile, device) that has most of them."""
    found = source.find(lambda run: experiment(run) == "train" and pipelined(run))
    places: dict[tuple[str, ...], dict[str, list[tuple[int, str, float, float, bool]]]] = {}
    for group in sorted(found.groups, key=lambda g: (bool(g.changed), order(g))):
        spans = _spans(group)
        if group.blocks == BLOCKS and spans:
            crowded = "blocks share cores" if group.oversubscribed else "a core or device each"
            here: tuple[str, ...] = (
                group.model,
                data_label(group),
                group.profile,
                f"{group.device}\n{crowded}",
            )
            places.setdefault(here, {}).setdefault(group.label, spans)
    if not places:
        return {}, ""
    key = max(sorted(places), key=lambda place: len(places[place]))
    return places[key], ", ".join(key)


def _spans(group: Group) -> list[tuple[int, str, float, float, bool]]:
    for run in group.complete:
        if spans := read_timeline(run):
            first = min(s[2] for s in spans)
            return [
                (block, action, start - first, end - first, waiting)
                for block, action, start, end, waiting in spans
            ]
    return []


def _window(spans: list[tuple[int, str, float, float, bool]]) -> float:
    """When block 0 has updated with the first RECORDED batches."""
    ends = [end for block, action, _, end, _ in spans if block == 0 and action == f"U{RECORDED - 1}"]
    return max(ends) if ends else max(end for _, _, _, end, _ in spans)


def _time_axis(axes: Any, unit: str) -> None:
    """Ticks of time below the bars; the last panel of a column names their unit."""
    from matplotlib.ticker import MaxNLocator

    axes.spines["bottom"].set_visible(True)
    axes.xaxis.set_major_locator(MaxNLocator(8))
    axes.tick_params(axis="x", labelsize=6.0, length=2, pad=1)
    if unit:
        axes.set_xlabel(f"time, {unit}", fontsize=7, labelpad=1)
