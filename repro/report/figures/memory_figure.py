"""Peak memory of each block (bar) and the formula (mark)."""

from __future__ import annotations

from typing import Any

from repro.report.figures.panels import figure_height, row_label, source_words, split_panels, stacked_axes
from repro.report.measures.memory import formula, peak, staleness
from repro.report.stored.source import Source, experiment, pipelined

DESCRIPTION = "peak memory of each block and the formula (claim D5)"
COMMAND = (
    "repro run bp-resnet98 gpipe-resnet98 ddg-resnet98 fr-resnet98 dsp-resnet98 --seeds 5 --profile quick"
)
_FORMULA = "#E31A1C"  # the colour of no method
_SHADES = (("#2F6093", ""), ("#9EC3E6", "////"), ("#E8E8E8", "...."), ("#F6D9A8", "xx"))


def draw(source: Source) -> Any:
    """The figure, or what is missing."""
    from repro.report.figures import canvas

    found = source.find(lambda run: experiment(run) == "train" and pipelined(run))
    groups = [group for group in found.groups if group.values(peak(0))]
    if not groups:
        return f"no finished run; make some with: {COMMAND}"
    panels = split_panels(groups)
    heights = [sum(0.13 * g.blocks + 0.14 for g in members) for members in panels.values()]
    figure = canvas.new_figure(canvas.WIDTH, figure_height(heights, foot=0.8, gap=0.85))
    for axes, (title, members) in zip(
        stacked_axes(figure, heights, left=0.22, width=0.74, foot=0.8, gap=0.85), panels.items(), strict=True
    ):
        y, ticks = 0.0, []
        for group in members:
            ticks.append((y + 0.13 * (group.blocks - 1) / 2, row_label(group)))
            for block in range(group.blocks):
                _bar(axes, group, block, y)
                y += 0.13
            y += 0.14
        axes.set_ylim(y - 0.07, -0.14)
        axes.set_yticks([t for t, _ in ticks], [label for _, label in ticks])
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, axes.get_xlim()[1] * 1.06)
        axes.set_xlabel("MiB", labelpad=2)
        axes.set_title(title)
    words = "bar: peak of a block (block 0 on top, its m at the end), thin line: 95 % interval over seeds, |: formula."
    canvas.caption(figure, words + source_words(found.reference))
    return figure


def _bar(axes: Any, group: Any, block: int, y: float) -> None:
    measured, expected = group.measured(peak(block)).estimate, group.measured(formula(block)).estimate
    if measured is None:
        return
    face, hatch = _SHADES[block % len(_SHADES)]
    axes.barh(y, measured.mean, height=0.12, color=face, hatch=hatch, edgecolor="#333333", linewidth=0.4)
    if measured.low is not None and measured.high is not None and measured.high > measured.low:
        axes.plot([measured.low, measured.high], [y, y], color=_FORMULA, linewidth=1.0)
    if expected is not None:
        axes.plot([expected.mean] * 2, [y - 0.065, y + 0.065], color=_FORMULA, linewidth=2.0)
    m = staleness(group, block)
    largest = max(measured.mean, expected.mean if expected else 0.0)
    axes.annotate(
        f"m = {m}", (largest, y), xytext=(3, 0), textcoords="offset points", va="center", fontsize=5.5
    )
