"""Distance of each method's gradient from BP's at the same weights, per block, and the true gradient's norm: Fig. 5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repro.report.figures.palette import Style, styles
from repro.report.figures.panels import source_words, split_panels
from repro.report.figures.told import curve_words, tell
from repro.report.stored.curves import over_steps
from repro.report.stored.gap import cosine, difference, norm, optimizer
from repro.report.stored.group import Group
from repro.report.stored.source import Source, experiment

DESCRIPTION = (
    "gradient difference to BP per block over training, and the gradient norm (Fig. 5 of the DSP paper)"
)
COMMAND = "repro run gradient-gap-bp-resnet98 gradient-gap-fr-resnet98 gradient-gap-dsp-resnet98 --seeds 5 --profile quick"


def draw(source: Source) -> Any:
    """The figure, or what is missing."""
    from repro.report.figures import canvas

    found = source.find(lambda run: experiment(run) == "gradient-gap")
    groups = [g for g in found.groups if over_steps(g, norm).x]
    if not groups:
        return f"no finished gradient-gap run; make some with: {COMMAND}"
    sections: dict[str, list[Group]] = {}
    for title, members in split_panels(groups).items():
        for group in members:
            sections.setdefault(f"{title}, {optimizer(group)}", []).append(group)
    section, foot = 5.1, 0.45
    total = section * len(sections) + foot
    figure = canvas.new_figure(canvas.WIDTH, total)
    for i, (title, members) in enumerate(sections.items()):
        _section(figure, title, members, styles(members), top=total - section * i)
    counts = sorted({e.n for g in groups for e in over_steps(g, norm).y})
    words = (
        "averages in bins of steps (ten a decade); mean over seeds (on log axes geometric) with its 95 % t band; "
        f"n = {', '.join(map(str, counts))}.{source_words(found.reference)}"
    )
    canvas.caption(figure, words)
    return figure


def _section(figure: Any, title: str, members: list[Group], looks: dict[str, Style], top: float) -> None:
    from repro.report.figures import canvas

    total = figure.get_figheight()
    blocks = members[0].blocks
    stale = [g for g in members if g.method != "bp"]
    figure.text(0.03, (top - 0.2) / total, title, fontsize=9)
    width = 0.72 / blocks
    rows = ((difference, "||G - G_BP|| / parameters", True), (cosine, "cosine of G and G_BP", False))
    for r, (make, name, logarithmic) in enumerate(rows):
        first: Any = None
        for block in range(blocks):
            place = (0.095 + block * width, (top - 1.75 - 1.55 * r) / total, width - 0.02, 1.3 / total)
            axes = figure.add_axes(place, sharey=first) if first else figure.add_axes(place)
            labels = _lines(axes, stale, looks, make(block), logarithmic)
            if logarithmic:
                canvas.log_axis(axes.yaxis)
            canvas.log_axis(axes.xaxis, (1.0,))
            axes.set_title(f"block {block}", fontsize=8, pad=2)
            axes.tick_params(labelsize=7)
            if first is None:
                axes.set_ylabel(name, fontsize=7.5)
            else:
                axes.tick_params(labelleft=False)
            if r == 0:
                axes.tick_params(labelbottom=False)
            first = first or axes
            if not labels:
                axes.text(
                    0.5, 0.5, "none", transform=axes.transAxes, ha="center", fontsize=7.5, color="#666666"
                )
            if block == blocks - 1:
                canvas.direct_labels(axes, labels, gap=0.1)
    axes = figure.add_axes((0.095, (top - 4.75) / total, 0.70, 1.0 / total))
    labels = _lines(axes, members, looks, norm, True)
    canvas.log_axis(axes.xaxis)
    canvas.log_axis(axes.yaxis)
    axes.set_ylabel("norm of BP's\ngradient", fontsize=7.5)
    axes.set_xlabel("step (from 1)", labelpad=2)
    axes.tick_params(labelsize=7)
    canvas.direct_labels(axes, labels, gap=0.13)


def _lines(
    axes: Any,
    groups: list[Group],
    looks: dict[str, Style],
    read: Callable[[dict[str, Any]], Any],
    logarithmic: bool,
) -> list[tuple[float, str, str, str]]:
    """Draw one curve a group; returns the labels for their ends."""
    labels = []
    for i, group in enumerate(groups):
        colour, marker = looks[group.title]
        curve = over_steps(group, read, geometric=logarithmic)
        if not curve.x:
            continue  # no difference at all
        (line,) = axes.plot(
            curve.x,
            curve.means,
            color=colour,
            marker=marker,
            markersize=3,
            markevery=(i % 4, 4),
            linewidth=1.1,
        )
        tell(line, curve_words(group.legend, "step", curve))
        lowest, highest = min(curve.means), max(curve.means)
        if curve.band is not None:  # a band that says nothing must not press the curves flat
            low, high = curve.band
            if logarithmic:
                low, high = [max(v, lowest / 30) for v in low], [min(v, highest * 30) for v in high]
            else:  # a cosine
                low, high = [max(v, -1.0) for v in low], [min(v, 1.0) for v in high]
            axes.fill_between(curve.x, low, high, color=colour, alpha=0.15, linewidth=0)
        labels.append((curve.means[-1], group.legend, colour, marker))
        axes.set_xlim(0.9, max(axes.get_xlim()[1], curve.x[-1]))
    return labels
