"""Train and test loss over epochs, side by side, a row a network: the first paper's Fig. 4."""

from __future__ import annotations

from typing import Any

from repro.report.figures.palette import Style, styles
from repro.report.figures.panels import source_words, split_panels
from repro.report.figures.told import curve_words, tell
from repro.report.stored.curves import over_epochs
from repro.report.stored.group import Group
from repro.report.stored.source import Source, experiment, on_text, pipelined

DESCRIPTION = "train and test loss per method, with a band over seeds (Fig. 4 of the DSP paper)"
COMMAND = "repro run bp-resnet98 fr-resnet98 dsp-resnet98 --seeds 5 --profile quick"
_LENGTH = ("epochs", "optimizer.milestones")
_LABEL = 0.14  # inches between the labels of two curves


def draw(source: Source) -> Any:
    """A figure, or what is missing."""
    found = source.find(lambda run: experiment(run) == "train" and pipelined(run))
    # The sweep over delays is no method of a pipeline and has a figure of its own (staleness).
    groups = longest([group for group in found.groups if group.method != "delayed"])
    return draw_groups(groups, found.reference, COMMAND)


def longest(groups: list[Group]) -> list[Group]:
    """Without the shorter trainings of a recipe that differ in length alone, as they are made for times."""

    def key(group: Group) -> tuple[object, ...]:
        changed = {k: v for k, v in group.changed.items() if k not in _LENGTH}
        return group.recipe, group.profile, group.device, group.blocks, repr(sorted(changed.items()))

    epochs: dict[tuple[object, ...], int] = {}
    for group in groups:
        epochs[key(group)] = max(_epochs(group), epochs.get(key(group), 0))
    return [group for group in groups if _epochs(group) == epochs[key(group)]]


def _epochs(group: Group) -> int:
    return int(group.settings.get("epochs") or 0)


def draw_groups(groups: list[Group], reference: bool, command: str) -> Any:
    """Rows of loss curves; groups without a finished epoch are left out and named."""
    from repro.report.figures import canvas

    shown: list[Group] = []
    left_out: list[Group] = []
    for group in groups:
        (shown if over_epochs(group, "train_loss").x else left_out).append(group)
    if not shown:
        return f"no finished run with epochs; make some with: {command}"
    panels = split_panels(shown)
    around, foot = 1.1, 0.4  # inches
    heights = [max(1.65, _LABEL * len(members)) + around for members in panels.values()]
    total = sum(heights) + foot
    figure = canvas.new_figure(canvas.WIDTH, total)
    for i, (title, members) in enumerate(panels.items()):
        looks, height = styles(members), heights[i]
        bottom = (total - sum(heights[: i + 1]) + 0.5) / total
        for left, (field, words) in zip((0.075, 0.41), _fields(members), strict=True):
            axes = figure.add_axes((left, bottom, 0.265, (height - around) / total))
            labels = _panel(axes, field, members, looks)
            axes.set_title(words)
        canvas.direct_labels(axes, labels, gap=_LABEL / (height - around), x=1.09)
        figure.text(0.03, bottom + (height - 0.75) / total, title, fontsize=9.0)
    counts = sorted({e.n for g in groups for e in over_epochs(g, "train_loss").y})
    band = (
        "one seed, no band"
        if counts == [1]
        else "curve and band: geometric mean over seeds and its 95 % t interval"
    )
    words = f"{band}, n = {', '.join(map(str, counts))}."
    canvas.caption(figure, words + source_words(reference))
    note = (
        f"left out, no finished seed: {', '.join(sorted(group.recipe for group in left_out))}"
        if left_out
        else ""
    )
    return figure, note


def _fields(members: list[Group]) -> tuple[tuple[str, str], tuple[str, str]]:
    """Field and title of the left and the right panel."""
    if all(on_text(run) for group in members for run in group.runs):
        return ("train_loss", "train loss [nats per token]"), (
            "test_bits_per_byte",
            "test loss [bits per byte]",
        )
    return ("train_loss", "train loss"), ("test_loss", "test loss")


def _panel(axes: Any, field: str, members: list[Group], looks: dict[str, Style]) -> list[Any]:
    """Draw a curve per method; returns the labels of their ends."""
    from repro.report.figures import canvas

    labels: list[canvas.Label] = []
    heights: list[float] = []
    places: list[float] = []
    for i, group in enumerate(members):
        colour, marker = looks[group.title]
        curve = over_epochs(group, field, geometric=True)
        if not curve.x:
            continue
        every = max(1, len(curve.x) // 6)
        (line,) = axes.plot(
            curve.x, curve.means, color=colour, marker=marker, markersize=3.5, markevery=(i % every, every)
        )
        tell(line, curve_words(group.legend, "epoch", curve))
        heights += curve.means
        places += curve.x
        if curve.band is not None:
            axes.fill_between(curve.x, *curve.band, color=colour, alpha=0.13, linewidth=0)
        labels.append((curve.means[-1], group.legend, colour, marker))
    first, last = min(places, default=0.0), max(places, default=1.0)
    axes.set_xlim(
        first - 0.03 * max(1.0, last - first), last + 0.02 * (last - first) if last > first else last + 0.5
    )
    canvas.whole_numbers(axes.xaxis)
    canvas.log_axis(axes.yaxis)
    if heights:
        axes.set_ylim(
            min(heights) / 1.3, max(heights) * 1.3
        )  # wide bands of few seeds must not press the curves flat
    axes.set_xlabel("epoch")
    return labels
