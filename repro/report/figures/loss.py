"""Train (solid) and test (dashed) loss over epochs, a panel a network: the first paper's Fig. 4."""

from __future__ import annotations

from typing import Any

from repro.report.context import data_label, order
from repro.report.curves import over_epochs
from repro.report.group import Group
from repro.report.palette import Style, styles
from repro.report.source import Source, experiment, in_group

DESCRIPTION = "train (solid) and test (dashed) loss per method, with a band over seeds (Fig. 4 of the DSP paper)"
COMMAND = "repro run bp-resnet98 fr-resnet98 dsp-resnet98 --seeds 5 --profile quick"


def draw(source: Source) -> Any:
    """A figure, or what is missing."""
    found = source.find(lambda run: experiment(run) == "train" and in_group(run, "dsp"))
    return draw_groups(found.groups, found.reference, COMMAND)


def draw_groups(groups: list[Group], reference: bool, command: str) -> Any:
    """Panels of loss curves; groups without a finished epoch are left out and named."""
    from repro.report import canvas

    panels: dict[tuple[Any, ...], list[Group]] = {}
    left_out = []
    for group in sorted(groups, key=order):
        if over_epochs(group, "train_loss").x:
            key = (group.model, data_label(group), group.profile, group.device, group.blocks)
            panels.setdefault(key, []).append(group)
        else:
            left_out.append(group.recipe)
    if not panels:
        return f"no finished run with epochs; make some with: {command}"
    height, foot = 3.3, 0.4
    total = height * len(panels) + foot
    figure = canvas.new_figure(canvas.WIDTH, total)
    for i, (key, members) in enumerate(panels.items()):
        bottom = (total - height * (i + 1) + 0.5) / total
        axes = figure.add_axes((0.1, bottom, 0.645, (height - 0.8) / total))
        _panel(axes, key, members, styles(members))
    counts = sorted({e.n for g in groups for e in over_epochs(g, "train_loss").y})
    band = "one seed, no band" if counts == [1] else "curve and band: geometric mean over seeds and its 95 % t interval"
    source = "  Reference runs of the project." if reference else ""
    words = f"solid: train   dashed: test   {band}, n = {', '.join(map(str, counts))}.{source}"
    canvas.caption(figure, words)
    note = f"left out, no finished seed: {', '.join(sorted(left_out))}" if left_out else ""
    return figure, note


def _panel(axes: Any, key: tuple[Any, ...], members: list[Group], looks: dict[str, Style]) -> None:
    from repro.report import canvas

    model, data, profile, device, blocks = key
    labels, heights = [], []
    for i, group in enumerate(members):
        colour, marker = looks[group.label]
        for field, style in (("train_loss", "-"), ("test_loss", "--")):
            curve = over_epochs(group, field, geometric=True)
            every = max(1, len(curve.x) // 6)
            face = colour if style == "-" else "white"
            axes.plot(
                curve.x, curve.means, style, color=colour, marker=marker, markersize=3.5, markerfacecolor=face,
                markevery=(i % every, every),
            )  # fmt: skip
            heights += curve.means
            if curve.band is not None:
                axes.fill_between(curve.x, *curve.band, color=colour, alpha=0.15, linewidth=0)
            if style == "-" and curve.y:
                labels.append((curve.y[-1].mean, group.label, colour, marker))
    last = max(over_epochs(g, "train_loss").x[-1] for g in members)
    first = min(over_epochs(g, "train_loss").x[0] for g in members)
    axes.set_xlim(first - 0.03 * max(1.0, last - first), last if last > first else last + 0.5)
    canvas.whole_numbers(axes.xaxis)
    canvas.log_axis(axes.yaxis)
    axes.set_ylim(min(heights) / 1.3, max(heights) * 1.3)  # wide bands of few seeds must not press the curves flat
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss")
    axes.set_title(f"{model}, {data}, K = {blocks}, profile {profile}, {device}")
    canvas.direct_labels(axes, labels)
