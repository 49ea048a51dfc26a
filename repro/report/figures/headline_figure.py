"""The pipeline methods at a glance: speed-up over BP beside what it costs in accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from repro.report.figures.palette import Style, styles
from repro.report.figures.panels import (
    dot_rows,
    figure_height,
    row_label,
    source_words,
    split_panels,
    star_words,
)
from repro.report.measures import accuracy, speedup
from repro.report.stats import Estimate
from repro.report.stored.bound import bound
from repro.report.stored.context import baseline, order
from repro.report.stored.group import Group
from repro.report.stored.source import Source, experiment, in_group, on_text

DESCRIPTION = "speed-up over BP with its bound, and best test accuracy against BP, per method"
COMMAND = "repro run bp-resnet98-k2 fr-resnet98-k2 ddg-resnet98-k2 dsp-resnet98-k2 --seeds 5 --profile quick"
FOOT = 0.95
FAR = 2.5  # a mean so many times farther from BP than all other intervals is written at the edge instead of drawn
ACCURACY = ("profile", "device", "blocks", "length")
Row = tuple[Group, Group, Estimate]  # a method, its BP, and the number


def draw(source: Source) -> Any:
    """The figure, or what is missing; of each panel the place (network, data, profile, K) with most methods is shown."""
    from repro.report.figures import canvas

    found = source.find(lambda run: experiment(run) == "train" and in_group(run, "dsp") and not on_text(run))
    groups = sorted((part for group in found.groups for part in group.split()), key=order)
    fair = [g for g in groups if not g.oversubscribed]
    fast = _most(fair, speedup.SAME, lambda g, base: speedup.over(base, g).estimate)
    good = _most(
        groups, ACCURACY, lambda g, base: accuracy.difference(g, base, accuracy.accuracy("best")).estimate
    )
    if not fast and not good:
        return f"no run with a BP run beside it; make some with: {COMMAND}"
    height = 0.27 * max(len(fast), len(good)) + 0.1
    figure = canvas.new_figure(canvas.WIDTH, figure_height([height], foot=FOOT, gap=0.0) + 0.15)
    total = figure.get_figheight()
    panels = [
        (0.15, fast, "times as fast as BP", 1.0, "no run with a core a block"),
        (0.67, good, "points of accuracy against BP", 0.0, "no accuracy"),
    ]
    for left, rows, title, zero, missing in panels:
        axes = figure.add_axes((left, FOOT / total, 0.3, height / total))
        _panel(axes, rows, styles(group for group, *_ in rows), title, zero, missing)
    for group, base, _ in fast:
        limit = bound(group, base)
        if limit is not None:
            row = [g for g, *_ in fast].index(group)
            figure.axes[0].plot(
                [limit], [row], marker="|", color="#444444", markersize=11, markeredgewidth=1.2, zorder=1
            )
    words = "dot: mean over seeds, line: its 95 % interval, |: bound (simulated, free messages), dotted: BP."
    stars = star_words((group, base) for group, base, _ in [*fast, *good])
    canvas.caption(figure, words + stars + source_words(found.reference))
    return figure


def _most(
    groups: list[Group], same: Sequence[str], read: Callable[[Group, Group], Estimate | None]
) -> list[Row]:
    """The rows of the place that has most methods with a number beside BP."""
    best: list[Row] = []
    for members in split_panels(groups).values():
        rows = []
        for group in members:
            base = baseline(group, groups, same)
            number = None if base is None or base is group else read(group, base)
            if base is not None and number is not None:
                rows.append((group, base, number))
        best = max(best, rows, key=len)
    return best


def _panel(
    axes: Any, rows: list[Row], looks: dict[str, Style], title: str, zero: float, missing: str
) -> None:
    axes.set_title(title)
    if not rows:
        axes.text(
            0.5,
            0.5,
            missing,
            ha="center",
            va="center",
            transform=axes.transAxes,
            fontsize=7.5,
            color="#666666",
        )
        axes.set_xticks([])
        axes.set_yticks([])
        return
    dot_rows(axes, [(row_label(group, base), number, *looks[group.title]) for group, base, number in rows])
    _cut(axes, rows, zero)
    axes.axvline(zero, color="#888888", linewidth=0.8, linestyle=":")
    place = next(iter(split_panels([rows[0][0]])))
    axes.set_xlabel(place.replace(", K", ",\nK"), labelpad=2, fontsize=7)


def _cut(axes: Any, rows: list[Row], zero: float) -> None:
    """Where one method lies far off, give the axis to the others and write that one's number at the edge."""
    by_distance = sorted(rows, key=lambda row: abs(row[2].mean - zero))
    far = by_distance[-1]
    others = [edge for _, _, e in by_distance[:-1] for edge in (e.low, e.mean, e.high) if edge is not None]
    low, high = min([*others, zero]), max([*others, zero])
    below = far[2].mean < zero
    if (
        not others
        or low == high
        or abs(far[2].mean - zero) < FAR * max(abs((low if below else high) - zero), 1e-9)
    ):
        return
    room = 0.25 * (high - low)
    axes.set_xlim(low - (3 if below else 1) * room, high + (1 if below else 3) * room)
    words = f"\N{LEFTWARDS ARROW} {far[2].mean:.1f}" if below else f"{far[2].mean:.1f} \N{RIGHTWARDS ARROW}"
    edge = axes.get_xlim()[0 if below else 1]
    pad = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}  # over the rest of its interval
    axes.text(
        edge, rows.index(far), words, ha="left" if below else "right", va="center", fontsize=7.5, bbox=pad
    )
