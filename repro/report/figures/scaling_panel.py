"""Speed-up against the number of blocks, a line a method: of the simulator, and of waits in real processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from repro.report.figures.palette import label_styles
from repro.report.figures.told import tell

Points = Sequence[tuple[int, float]]
Lines = Mapping[str, Points]  # method -> (K, speed-up)


def figure(
    panels: Mapping[str, Lines],
    dots: Mapping[str, Lines],
    words: str,
    replicas: Mapping[str, int] | None = None,
) -> Any:
    """A panel per title: lines of `panels`, single marks of `dots` (same titles and methods); `words`: the caption.

    `replicas`: of each panel, each with K devices (default: one).
    """
    from repro.report.figures import canvas

    height = 2.7
    drawn = canvas.new_figure(canvas.WIDTH, 0.35 + len(panels) * height + (len(panels) - 1) * 0.7 + 0.95)
    total = drawn.get_figheight()
    for place, (title, lines) in enumerate(panels.items()):
        top = total - 0.35 - place * (height + 0.7)
        axes = drawn.add_axes((0.08, (top - height) / total, 0.66, height / total))
        _panel(axes, lines, dots.get(title, {}), (replicas or {}).get(title, 1))
        axes.set_title(title)
    canvas.caption(drawn, words)
    return drawn


def _panel(axes: Any, lines: Lines, dots: Lines, replicas: int) -> None:
    from repro.report.figures import canvas

    looks = label_styles(lines)
    counts = sorted({k for points in lines.values() for k, _ in points})
    labels = []
    for method, points in lines.items():
        colour, marker = looks[method]
        ordered = sorted(points)
        measured = sorted(dots.get(method, ()))
        style = "none" if measured else marker
        (line,) = axes.plot(
            [k for k, _ in ordered], [s for _, s in ordered], color=colour, marker=style, markersize=4
        )
        (marks,) = axes.plot(
            [k for k, _ in measured],
            [s for _, s in measured],
            color=colour,
            marker=marker,
            markersize=5,
            linestyle="none",
        )
        tell(line, [f"{method}, K = {k}, simulated: {s:.3g}" for k, s in ordered])
        tell(marks, [f"{method}, K = {k}, in processes: {s:.3g}" for k, s in measured])
        labels.append((ordered[-1][1], method, colour, marker))
    top = max(s for points in (*lines.values(), *dots.values()) for _, s in points)
    axes.plot(counts, [replicas * k for k in counts], color="#888888", linewidth=0.8, linestyle=":")
    if len(counts) > 1:
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
    axes.set_xticks(counts, [str(k) for k in counts])
    axes.set_ylim(0, 1.08 * max(top, 1.0))
    axes.set_xlabel("blocks K", labelpad=2)
    axes.set_ylabel("times one device")
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    canvas.direct_labels(axes, labels)
