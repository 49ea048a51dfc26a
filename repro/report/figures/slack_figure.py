"""Slow-down under random delays against the slack of the queues: a panel per K, a line per kind of delay."""

from __future__ import annotations

from typing import Any, Literal

from repro.report.figures.palette import label_styles
from repro.report.figures.panels import source_words
from repro.report.figures.told import tell
from repro.report.stored.source import Source

DESCRIPTION = "slow-down against slack, by K and kind of random delay, timing only (repro bench delays)"
_DASHES: tuple[Literal["-", "--", ":", "-."], ...] = ("-", "--", ":", "-.")
_HEIGHT = 2.6


def draw(source: Source) -> Any:
    """The figure, or what is missing."""
    from repro.report.figures import canvas

    stored, reference = source.bench("delays")
    rows = [r for r in (stored or {}).get("rows", []) if isinstance(r.get("slowdown_percent"), (int, float))]
    if not rows:
        return "no stored benchmark 'delays'; make it with: repro bench delays"
    counts = sorted({r["blocks"] for r in rows})
    kinds = sorted({(r["probability"], r["delay"]) for r in rows})
    # Queues grow with K, and a method's look should not: what the panels share is its name in the benchmark.
    names = {r["system"]: next(x["method"] for x in rows if x["system"] == r["system"]) for r in rows}
    looks = dict(zip(names, label_styles(names.values()).values(), strict=True))
    figure = canvas.new_figure(canvas.WIDTH, _HEIGHT + 1.75)
    total, width = figure.get_figheight(), 0.88 / len(counts)
    top = max(r["slowdown_percent"] for r in rows)
    for column, blocks in enumerate(counts):
        axes = figure.add_axes((0.09 + column * width, 1.4 / total, width - 0.06, _HEIGHT / total))
        for number, kind in enumerate(kinds):
            members = [r for r in rows if (r["blocks"], r["probability"], r["delay"]) == (blocks, *kind)]
            _line(axes, members, looks, _DASHES[number % len(_DASHES)])
        axes.set_title(f"K = {blocks}")
        axes.set_ylim(min(0.0, *(r["slowdown_percent"] for r in rows)), 1.08 * top)
        axes.set_xlabel("slack, batches", labelpad=2)
        canvas.whole_numbers(axes.xaxis)
        axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
    figure.axes[0].set_ylabel("slow-down %")
    _legend(figure, {words: looks[name] for name, words in names.items()}, kinds)
    words = (
        "Lines join the methods under one kind of delay (probability, length in batches of compute), dots: mean, bars: 95 % "
        "interval over rounds. Slack: batches block 0 may run ahead of block 1. DSP is named by its queues at the "
        f"smallest K, {counts[0]}. Nothing is trained: blocks wait."
    )
    canvas.caption(figure, words + source_words(reference))
    return figure


def _line(axes: Any, rows: list[dict[str, Any]], looks: dict[str, tuple[str, str]], dash: Any) -> None:
    ordered = sorted(rows, key=lambda r: r["slack"])
    points = [(r["slack"], r["slowdown_percent"]) for r in ordered]
    axes.plot([x for x, _ in points], [y for _, y in points], color="#999999", linestyle=dash, linewidth=0.9)
    for row in ordered:
        colour, marker = looks[row["system"]]
        n, y, low, high = (row.get(f"slowdown_percent{end}") for end in ("_n", "", "_low", "_high"))
        if low is not None and high is not None:
            axes.plot([row["slack"]] * 2, [low, high], color=colour, linewidth=1.6)
        (dot,) = axes.plot([row["slack"]], [y], marker=marker, color=colour, markersize=5, linestyle="none")
        kind = f"probability {row['probability']:g}, length {row['delay']:g}"
        tell(dot, [f"{row['method']}, {kind}: {y:.1f} % (n = {n})"])


def _legend(figure: Any, looks: dict[str, tuple[str, str]], kinds: list[tuple[float, float]]) -> None:
    """Methods by their marks, kinds of delay by their lines, above the caption."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=c, marker=m, linestyle="none", markersize=5, label=words)
        for words, (c, m) in looks.items()
    ]
    handles += [
        Line2D([], [], color="#999999", linestyle=_DASHES[i % len(_DASHES)], label=f"{p:g}, {d:g} x compute")
        for i, (p, d) in enumerate(kinds)
    ]
    place = (0.5, 0.62 / figure.get_figheight())
    figure.legend(
        handles=handles, loc="lower center", bbox_to_anchor=place, ncols=5, fontsize=6.5, frameon=False
    )
