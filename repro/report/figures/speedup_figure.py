"""Speed-up over BP with its interval, and each method's bound: the first paper's speed-up table as a picture."""

from __future__ import annotations

from typing import Any

from repro.report.figures.palette import styles
from repro.report.figures.panels import (
    dot_rows,
    figure_height,
    row_label,
    source_words,
    split_panels,
    stacked_axes,
    star_words,
)
from repro.report.measures.speedup import SAME, over
from repro.report.stored.bound import bound
from repro.report.stored.context import baseline, order
from repro.report.stored.source import Source, experiment, pipelined

DESCRIPTION = "speed-up over BP per method with its 95 % interval, and the bound"
COMMAND = "repro run bp-resnet98-k2 fr-resnet98-k2 ddg-resnet98-k2 dsp-resnet98-k2 --seeds 5 --profile quick"


def draw(source: Source) -> Any:
    """The figure, or what is missing; oversubscribed runs are left out and named."""
    from repro.report.figures import canvas

    found = source.find(lambda run: experiment(run) == "train" and pipelined(run))
    groups = sorted((part for group in found.groups for part in group.split()), key=order)
    shown = [
        g
        for g in groups
        if not g.oversubscribed and (b := baseline(g, groups, SAME)) is not None and b is not g
    ]
    shown = [g for g in shown if over(baseline(g, groups, SAME) or g, g).estimate is not None]
    crowded = sorted({g.recipe for g in groups if g.oversubscribed})
    note = f"oversubscribed, no speed-up drawn: {', '.join(crowded)}" if crowded else ""
    if not shown:
        return "; ".join(w for w in (f"no run with a BP run beside it; make some with: {COMMAND}", note) if w)
    panels = split_panels(shown)
    heights = [0.27 * len(members) + 0.1 for members in panels.values()]
    figure = canvas.new_figure(canvas.WIDTH, figure_height(heights, foot=0.8, gap=0.8))
    for axes, (title, members) in zip(
        stacked_axes(figure, heights, left=0.22, width=0.74, foot=0.8, gap=0.8), panels.items(), strict=True
    ):
        looks = styles(members)
        bases = [baseline(g, groups, SAME) for g in members]
        speedups = [over(base or g, g).estimate for base, g in zip(bases, members, strict=True)]
        rows = zip(members, bases, speedups, strict=True)
        dot_rows(axes, [(row_label(g, base), s, *looks[g.title]) for g, base, s in rows])
        for i, (group, base) in enumerate(zip(members, bases, strict=True)):
            limit = bound(group, base)
            if limit is not None:
                axes.plot(
                    [limit],
                    [i],
                    marker="|",
                    color="#444444",
                    markersize=11,
                    markeredgewidth=1.2,
                    linestyle="none",
                )
        axes.axvline(1.0, color="#888888", linewidth=0.8, linestyle=":")
        low, high = axes.get_xlim()
        axes.set_xlim(min(0.9, low), max(1.1, high))
        axes.set_title(
            f"{title},\n{members[0].machine}, {members[0].threads} thread(s) a block", fontsize=8, x=0.0
        )
        axes.set_xlabel("times as fast as BP", labelpad=2)
    words = "dot: ratio of seconds per batch, line: its 95 % interval, |: bound (simulated, free messages), dotted: BP."
    stars = star_words((g, baseline(g, groups, SAME)) for g in shown)
    canvas.caption(figure, words + stars + source_words(found.reference))
    return figure, note
