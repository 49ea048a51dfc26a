"""Draws schedules as bars over time: who computes what, and who waits; told apart without colour by shade and hatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# kind of bar -> (face, hatch, colour of the number in it)
LOOKS: dict[str, tuple[str, str, str]] = {
    "forward": ("#CFE3F5", "", "black"),
    "recompute": ("#F6D9A8", "////", "black"),
    "backward": ("#2F6093", "", "white"),
    "update": ("#111111", "", "white"),
    "module": ("#C9A0BF", "xxx", "black"),
    "evaluate": ("#BBBBBB", "--", "black"),
    "send": ("#FFFFFF", "\\\\\\", "black"),
    "wait": ("#FFFFFF", "....", "black"),
}
NAMES = {"F": "forward", "R": "recompute", "B": "backward", "U": "update", "M": "module", "E": "evaluate"}


@dataclass(frozen=True)
class Bar:
    """A stretch of one block's time; `number` is the batch, or "" where none is written."""

    block: int
    kind: str
    start: float
    end: float
    number: str = ""


def bars_of_simulation(timeline: Any, end: float) -> list[Bar]:
    """Bars of a simulated Timeline up to time `end`, the gaps filled with waiting."""
    bars = []
    for block in range(timeline.num_blocks):
        clock = 0.0
        for span in timeline.of(block):
            if span.start >= end:
                break
            if span.start > clock:
                bars.append(Bar(block, "wait", clock, min(span.start, end)))
            if span.end > span.start:
                bars.append(
                    Bar(
                        block,
                        NAMES[span.action.kind.value],
                        span.start,
                        min(span.end, end),
                        str(span.action.batch),
                    )
                )
            clock = max(clock, span.end)
        if clock < end:
            bars.append(Bar(block, "wait", clock, end))
    return bars


def bars_of_record(spans: Sequence[tuple[int, str, float, float, bool]], end: float) -> list[Bar]:
    """Bars of recorded spans (block, action, start, end, waiting) up to `end`.

    What a block does between its spans is waiting; waiting behind an action's own work is sending (its queue
    is full).
    """
    bars = []
    for block in sorted({s[0] for s in spans}):
        clock, worked = 0.0, ""
        for _, action, start, stop, waiting in sorted(
            (s for s in spans if s[0] == block), key=lambda s: s[2]
        ):
            if start >= end:
                break
            if start > clock:
                bars.append(Bar(block, "wait", clock, start))
            kind = "wait" if waiting else NAMES.get(action[0], "wait")
            if waiting and worked == action:
                kind = "send"
            number = action[1:].split("^")[0].split(".")[0]
            bars.append(Bar(block, kind, start, min(stop, end), "" if kind in ("wait", "send") else number))
            worked = "" if waiting else action
            clock = max(clock, stop)
    return _joined(bars)


def draw_bars(axes: Any, bars: Sequence[Bar], blocks: int, end: float, *, numbers: float = 4.5) -> None:
    """Draw `bars`, block 0 at the bottom; numbers of `numbers` points go where they fit."""
    width = axes.get_position().width * axes.figure.get_figwidth() * 72  # points
    rows: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for bar in bars:
        rows.setdefault((bar.kind, bar.block), []).append((bar.start, bar.end - bar.start))
    for (kind, block), spans in rows.items():
        face, hatch, _ = LOOKS[kind]
        edge = "#999999" if kind in ("wait", "send") else "#333333"
        axes.broken_barh(
            spans, (block - 0.42, 0.84), facecolor=face, edgecolor=edge, hatch=hatch, linewidth=0.4
        )
    for bar in bars:
        ink = LOOKS[bar.kind][2]
        room = (bar.end - bar.start) / end * width
        if bar.number and bar.kind in ("forward", "backward") and room > 0.75 * numbers * len(bar.number):
            axes.text(
                (bar.start + bar.end) / 2, bar.block - 0.02, bar.number, ha="center", va="center", color=ink,
                fontsize=numbers,
            )  # fmt: skip
    axes.set_xlim(0, end)
    axes.set_ylim(-0.5, blocks - 0.5)
    axes.set_yticks(range(blocks), [f"block {k}" for k in range(blocks)])
    axes.tick_params(axis="y", length=0, labelsize=6.5)
    axes.tick_params(axis="x", labelsize=6.5)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def draw_key(figure: Any, kinds: Sequence[str], left: float, bottom: float, width: float) -> None:
    """A strip that names the kinds of bar."""
    from matplotlib.patches import Rectangle

    height = 0.13 / figure.get_figheight()
    step = width / len(kinds)
    for i, kind in enumerate(kinds):
        face, hatch, _ = LOOKS[kind]
        x = left + i * step
        box = Rectangle(
            (x, bottom), 0.03, height, facecolor=face, hatch=hatch, edgecolor="#333333", linewidth=0.5,
            transform=figure.transFigure,
        )  # fmt: skip
        figure.add_artist(box)
        figure.text(x + 0.036, bottom + height / 2, kind, fontsize=7.5, va="center")


def _joined(bars: list[Bar]) -> list[Bar]:
    """Neighbouring bars of the same kind and batch as one."""
    found: list[Bar] = []
    for bar in bars:
        last = found[-1] if found else None
        if last and (last.block, last.kind, last.number) == (bar.block, bar.kind, bar.number):
            found[-1] = Bar(bar.block, bar.kind, last.start, bar.end, bar.number)
        else:
            found.append(bar)
    return found
