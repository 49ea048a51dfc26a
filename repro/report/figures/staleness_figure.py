"""Test loss at the end against the delay of the gradients: a curve per optimiser, a mark per pipeline method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repro.report.figures.palette import METHODS, shade
from repro.report.figures.panels import source_words
from repro.report.figures.told import estimate_words, tell
from repro.report.measures.counterpart import corrections, training_of
from repro.report.measures.lateness import delay, synchronous, update_words
from repro.report.measures.time_to_loss import BITS, last, loss_name
from repro.report.stats import Estimate, mean_interval
from repro.report.stored.group import Group, data_label
from repro.report.stored.source import Source, experiment, in_group

DESCRIPTION = (
    "test loss at the end against the delay of gradients, per optimiser, with marks of the pipeline methods"
)
COMMAND = (
    "repro run bp-gpt delayed-gpt delayed-gpt-d2 delayed-gpt-d4 delayed-gpt-d8 --seeds 5 --profile quick"
)
_TINTS = {
    "SGD": 0.2,
    "AdamW": -0.1,
    "NAdam": -0.42,
    "Muon": -0.72,
}  # of Delayed's colour; none too faint on white
_DASHES = {(): "-", ("prediction",): "--", ("rescheduling",): ":", ("compensation",): "-."}
_PIPELINES = ("pipedream", "2bw", "pipemare", "dsp", "fr", "ddg", "fdg")
_HEIGHT, _FOOT = 3.3, 0.62
Point = tuple[int, Estimate]


def draw(source: Source) -> Any:
    """The figure, or what is missing: a panel a network and length."""
    from repro.report.figures import canvas

    found = source.find(lambda run: experiment(run) == "train" and in_group(run, "asynchronous"))
    panels: dict[object, list[Group]] = {}
    for group in found.groups:
        if group.values(last(loss_name(group))):
            panels.setdefault(training_of(group), []).append(group)
    shown = [
        members for members in panels.values() if any(len(points) > 1 for points in curves(members).values())
    ]
    if not shown:
        return f"no finished runs at several delays; make some with: {COMMAND}"
    total = _HEIGHT * len(shown) + _FOOT
    figure = canvas.new_figure(canvas.WIDTH, total)
    counts: set[int] = set()
    for i, members in enumerate(shown):
        bottom = (total - _HEIGHT * (i + 1) + 0.45) / total
        axes = figure.add_axes((0.09, bottom, 0.58, (_HEIGHT - 0.85) / total))
        counts |= _panel(axes, members)
    words = (
        "lines: Delayed(d), the whole network d updates late (d = 0: BP); marks: pipeline methods at the m of their first "
        "block, rimmed as their optimiser's line, smaller with fewer blocks; bars: 95 % t interval over seeds, "
        f"n = {', '.join(map(str, sorted(counts)))}."
    )
    canvas.caption(figure, words + source_words(found.reference))
    return figure


def curves(members: list[Group]) -> dict[tuple[str, tuple[str, ...]], list[Point]]:
    """{(optimiser, corrections): (delay, loss)} of Delayed and BP; a correction's curve begins at BP, where it is none."""
    found: dict[tuple[str, tuple[str, ...]], dict[int, Estimate]] = {}
    keys = {(optimizer_words(g), corrections(g)) for g in members if g.method in ("delayed", "bp")}
    for words, correction in sorted(keys):
        for g in sorted(
            members, key=lambda g: g.blocks, reverse=True
        ):  # of BP's the one with fewest blocks is kept
            plain = g.method == "bp" and not corrections(g)
            late = g.method == "delayed" and corrections(g) == correction
            if optimizer_words(g) == words and (plain or late) and (value := _estimate(g)) is not None:
                found.setdefault((words, correction), {})[0 if plain else delay(g) or 0] = value
    return {key: sorted(points.items()) for key, points in found.items()}


def marks(members: list[Group]) -> list[tuple[Group, Point]]:
    """(group, (m of block 0, loss)) of every stale pipeline method without corrections."""
    return [
        (g, (late, value))
        for g in sorted(members, key=lambda g: (g.method, g.blocks, g.recipe))
        if g.method in _PIPELINES and not corrections(g) and not synchronous(g)
        and (late := delay(g)) is not None and (value := _estimate(g)) is not None
    ]  # fmt: skip


def optimizer_words(group: Group) -> str:
    """The optimiser without corrections: "NAdam 0.99"."""
    return update_words(group).split(" + ")[0]


def _estimate(group: Group) -> Estimate | None:
    return mean_interval(group.values(last(loss_name(group))).values())


def _panel(axes: Any, members: list[Group]) -> set[int]:
    """Draw the curves and marks of one network; returns the numbers of seeds."""
    from repro.report.figures import canvas

    lines = curves(members)
    points = marks(members)
    names = sorted({words for words, _ in lines} | {optimizer_words(g) for g, _ in points})
    line, dot = METHODS["delayed"]
    colours = {name: shade(line, _TINTS.get(name.split()[0], 0.3)) for name in names}
    place = _spread()
    counts = set()
    labels = []
    for (words, correction), found in lines.items():
        x = [place(d) for d, _ in found]
        dash = _DASHES.get(correction, (0, (1, 3)))
        (curve,) = axes.plot(
            x, [e.mean for _, e in found], color=colours[words], linestyle=dash, marker=dot, markersize=3.5
        )
        name = " + ".join([words, *correction])
        tell(curve, [f"{name}, delay {d}: {estimate_words(e)}" for d, e in found])
        for at, (_, e) in zip(x, found, strict=True):
            _bar(axes, at, e, colours[words])
            counts.add(e.n)
        labels.append((found[-1][1].mean, name, colours[words], dot))
    seen: dict[str, str] = {}
    for i, (g, (late, e)) in enumerate(points):
        colour, at = colours[optimizer_words(g)], place(late) + 0.05 * (i % 3 + 1)
        _bar(axes, at, e, colour)
        face, marker = METHODS[g.method]
        (mark,) = axes.plot(
            [at], [e.mean], marker=marker, color=face, markeredgecolor=colour, markersize=4 + g.blocks / 2,
            linestyle="none",
        )  # fmt: skip
        tell(mark, [f"{g.legend}, K = {g.blocks}, delay {late}: {estimate_words(e)}"])
        counts.add(e.n)
        seen.setdefault(g.method, str(g.fact("label") or g.label).split("(")[0].strip())
    delays = sorted({d for found in lines.values() for d, _ in found} | {late for _, (late, _) in points})
    axes.set_xticks([place(d) for d in delays], [str(d) for d in delays])
    first = members[0]
    axes.set_title(f"{first.model}, {data_label(first)}, profile {first.profile}, {first.device}")
    axes.set_xlabel("delay of the gradient, updates")
    axes.set_ylabel("test loss, bits per byte" if loss_name(first) == BITS else "test loss")
    canvas.direct_labels(axes, labels, gap=0.06)
    handles = [
        axes.plot(
            [], [], marker=METHODS[m][1], color=METHODS[m][0], linestyle="none", markersize=5, label=name
        )[0]
        for m, name in seen.items()
    ]
    if handles:
        axes.legend(handles=handles, frameon=False, fontsize=7.0, loc="upper left")
    return counts


def _spread() -> Callable[[int], float]:
    """Delays 0, 1, 2, 4, 8 at equal distances."""
    from math import log2

    return lambda d: log2(d) + 1.0 if d else 0.0


def _bar(axes: Any, x: float, e: Estimate, colour: str) -> None:
    if e.low is not None and e.high is not None:
        axes.plot([x, x], [e.low, e.high], color=colour, linewidth=1.0)
