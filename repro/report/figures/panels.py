"""Groups sorted into the panels of a figure: one a network, data set, profile, device and K."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from repro.report.figures.told import estimate_words, tell
from repro.report.stored.context import order
from repro.report.stored.group import Group, data_label
from repro.report.stored.pairing import pairing_note


def split_panels(groups: Iterable[Group]) -> dict[str, list[Group]]:
    """{title: groups} in the tables' order; the title says what all groups of a panel share."""
    panels: dict[str, list[Group]] = {}
    for group in sorted(groups, key=order):
        title = (
            f"{group.model}, {data_label(group)}, K = {group.blocks}, profile {group.profile}, {group.device}"
        )
        panels.setdefault(title, []).append(group)
    return panels


def dot_rows(axes: Any, rows: list[tuple[str, Any, str, str]]) -> None:
    """A row per method from top to bottom: (label, Estimate or None, colour, marker), with its interval as a line."""
    for i, (_, estimate, colour, marker) in enumerate(rows):
        if estimate is None:
            continue
        if estimate.low is not None and estimate.high is not None:
            axes.plot(
                [estimate.low, estimate.high], [i, i], color=colour, linewidth=2.0, solid_capstyle="butt"
            )
        (dot,) = axes.plot(
            [estimate.mean], [i], marker=marker, color=colour, markersize=5.5, linestyle="none"
        )
        tell(dot, [f"{rows[i][0]}: {estimate_words(estimate)}".replace("\n", " ")])
    axes.set_yticks(range(len(rows)), [label for label, *_ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)


def stacked_axes(
    figure: Any, heights: list[float], *, left: float, width: float, foot: float, gap: float
) -> list[Any]:
    """Axes one above the other, `heights` inches each, `gap` inches between them and `foot` below the last."""
    total = figure.get_figheight()
    axes = []
    top = total - 0.35
    for height in heights:
        axes.append(figure.add_axes((left, (top - height) / total, width, height / total)))
        top -= height + gap
    assert top + gap >= foot - 1e-6, "the figure is too low for its panels"
    return axes


def figure_height(heights: list[float], *, foot: float, gap: float) -> float:
    """Inches that `stacked_axes` needs."""
    return 0.35 + sum(heights) + gap * (len(heights) - 1) + foot


def row_label(group: Group, base: Group | None = None) -> str:
    """A row's name, its settings on a line of their own; a star where `base` has not the same (`star_words`)."""
    star = " *" if pairing_note(group, base) else ""
    end = group.legend.removeprefix(group.label)
    return group.label + end.replace(", ", ",\n", 1) + star


def star_words(pairs: Iterable[tuple[Group, Group | None]]) -> str:
    """What the star of `row_label` means, where there is one."""
    notes = sorted({note for group, base in pairs if (note := pairing_note(group, base))})
    return f" *: {'; '.join(notes)}." if notes else ""


def source_words(reference: bool) -> str:
    """What a figure says about whose runs it shows."""
    return " Reference runs of the project." if reference else ""
