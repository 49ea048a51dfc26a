"""Seconds per batch and memory against K, depth and batch size, with the powers they grow with."""

from __future__ import annotations

from typing import Any

from repro.report.figures.palette import label_styles
from repro.report.figures.panels import source_words
from repro.report.figures.told import tell
from repro.report.stored.source import Source

DESCRIPTION = "seconds per batch and memory against K, depth and batch size (repro bench growth)"
_AXES = {"blocks": "blocks K", "depth": "layers of the ResNet", "batch_size": "batch"}
_NUMBERS = {"seconds_per_batch": ("s / batch", 1.0), "largest_block_bytes": ("MiB, largest block", 2.0**20)}


def draw(source: Source) -> Any:
    """The figure, or what is missing."""
    from repro.report.figures import canvas

    stored, reference = source.bench("growth")
    rows = [row for row in (stored or {}).get("rows", []) if row.get("part") in _AXES]
    if not rows:
        return "no stored benchmark 'growth'; make it with: repro bench growth"
    powers = {(r["axis"], r["method"]): r for r in (stored or {})["rows"] if r.get("part") == "power"}
    methods = list(dict.fromkeys(row["method"] for row in rows))
    looks = label_styles(methods)
    figure = canvas.new_figure(canvas.WIDTH, 5.0)
    for column, (axis, words) in enumerate(_AXES.items()):
        for line, (name, (unit, scale)) in enumerate(_NUMBERS.items()):
            axes = figure.add_axes((0.085 + 0.315 * column, 0.575 - 0.425 * line, 0.235, 0.345))
            for method in methods:
                colour, marker = looks[method]
                points = sorted(
                    (r["value"], r[name] / scale, bool(r.get("oversubscribed")))
                    for r in rows
                    if (r["part"], r["method"]) == (axis, method)
                )
                fitted = powers.get((axis, method), {}).get(f"{name}_power")
                label = f"{method}, power {fitted:.2f}" if fitted is not None else method
                (line,) = axes.plot(
                    [x for x, _, _ in points],
                    [y for _, y, _ in points],
                    color=colour,
                    marker=marker,
                    markersize=4,
                    label=label,
                )
                tell(line, [f"{method}, {axis} {x:g}: {y:.4g} {unit}" for x, y, _ in points])
                shared = [(x, y) for x, y, crowded in points if crowded and name == "seconds_per_batch"]
                axes.plot(
                    [x for x, _ in shared],
                    [y for _, y in shared],
                    marker=marker,
                    color=colour,
                    markerfacecolor="white",
                    markersize=4,
                    linestyle="none",
                )
            canvas.log_axis(axes.yaxis)
            axes.set_xscale("log", base=2)
            axes.minorticks_off()
            values = sorted({r["value"] for r in rows if r["part"] == axis})
            axes.set_xticks(values, [str(v) for v in values])
            axes.set_xlabel(words, labelpad=2)
            axes.set_ylabel(unit, labelpad=2)
            axes.legend(fontsize=6.5, frameon=False, loc="best")
    words = "power: of the least-squares line through the logarithms; open: more blocks than cores, left out of it."
    canvas.caption(figure, words + source_words(reference))
    return figure
