"""Slow-down of each method under the same random delays: the first paper's Table 2 as a picture."""

from __future__ import annotations

from typing import Any

from repro.report.figures.palette import styles
from repro.report.figures.panels import dot_rows, figure_height, source_words, split_panels, stacked_axes
from repro.report.measures.slowdown import delays, slack, slowdown_percent
from repro.report.stored.source import Source, experiment

DESCRIPTION = "slow-down under random delays per method (Table 2 of the DSP paper, our definition)"
COMMAND = (
    "repro run straggler-bp-resnet98 straggler-fr-resnet98 straggler-dsp-resnet98 --seeds 5 --profile quick"
)


def draw(source: Source) -> Any:
    """The figure, or what is missing."""
    from repro.report.figures import canvas

    found = source.find(lambda run: experiment(run) == "straggler")
    groups = [
        part
        for group in found.groups
        for part in group.split()
        if slowdown_percent(part).estimate is not None
    ]
    if not groups:
        return f"no finished straggler run; make some with: {COMMAND}"
    panels = split_panels(groups)
    heights = [0.27 * len(members) + 0.1 for members in panels.values()]
    figure = canvas.new_figure(canvas.WIDTH, figure_height(heights, foot=0.8, gap=0.8))
    for axes, (title, members) in zip(
        stacked_axes(figure, heights, left=0.32, width=0.64, foot=0.8, gap=0.8), panels.items(), strict=True
    ):
        looks = styles(members)
        rows = [
            (f"{g.legend}, slack {slack(g)}", slowdown_percent(g).estimate, *looks[g.title]) for g in members
        ]
        dot_rows(axes, rows)
        # Intervals of two or three seeds can be absurdly wide: the dots stay readable, a cut line runs to the
        # edge.
        means = [estimate.mean for _, estimate, *_ in rows if estimate is not None]
        room = 2.0 * max(20.0, *(abs(m) for m in means))
        low, high = axes.get_xlim()
        axes.set_xlim(max(min(0.0, low), min(0.0, *means) - room), min(high, max(0.0, *means) + room))
        axes.set_title(f"{title},\ndelays: {delays(members[0])}", fontsize=8)
        axes.set_xlabel("slow-down %", labelpad=2)
    words = "dot: mean slow-down, line: 95 % interval; slack: batches block 0 may run ahead of block 1."
    canvas.caption(figure, words + source_words(found.reference))
    return figure
