"""Speed against memory, one mark a system: our methods, torch's schedules, a plain loop."""

from __future__ import annotations

from typing import Any

from repro.report.figures.palette import label_styles
from repro.report.figures.panels import source_words
from repro.report.figures.told import tell
from repro.report.stored.source import Source

DESCRIPTION = (
    "speed against memory of our methods, torch's pipeline schedules and a plain loop (repro bench peers)"
)
_LOOP = "PyTorch loop"


def draw(source: Source) -> Any:
    """The figure, or what is missing."""
    from repro.report.figures import canvas

    stored, reference = source.bench("peers")
    rows = [
        row
        for row in (stored or {}).get("rows", [])
        if row.get("grown_bytes") and row.get("images_per_second")
    ]
    if not rows:
        return "no stored benchmark 'peers' with memory; make it with: repro bench peers"
    models = list(dict.fromkeys(str(row["model"]) for row in rows))
    figure = canvas.new_figure(canvas.WIDTH, 1.0 + 3.1 * len(models))
    height = 3.1 / (1.0 + 3.1 * len(models))
    for i, model in enumerate(models):
        bottom = 1 - (i + 0.92) * height
        axes = figure.add_axes((0.09, bottom, 0.55, 0.78 * height))
        _panel(axes, _best_of_each([row for row in rows if row["model"] == model]), last=i + 1 == len(models))
    words = (
        "filled: ours, open: what a user would run instead; line: smallest and largest round; M: micro-batches (torch's "
        "fastest). Up and left is better."
    )
    canvas.caption(figure, words + source_words(reference))
    return figure


def _panel(axes: Any, kept: list[dict[str, Any]], *, last: bool) -> None:
    """A network's systems, the fastest first."""
    from repro.report.figures import canvas

    looks = label_styles(map(label, kept))
    labels = []
    for row in kept:
        colour, marker = looks[label(row)]
        x, y = row["grown_bytes"] / 2**20, row["images_per_second"]
        low, high = row.get("images_per_second_low"), row.get("images_per_second_high")
        if low is not None and high is not None:
            axes.plot([x, x], [low, high], color=colour, linewidth=1.2)
        face = colour if row["system"] == "repro" else "white"
        (dot,) = axes.plot(
            [x], [y], marker=marker, color=colour, markerfacecolor=face, markersize=6, linestyle="none"
        )
        tell(dot, [f"{label(row)}: {y:.4g} samples/s, {x:.4g} MiB"])
        labels.append((y, label(row), colour, marker))
    axes.set_xlim(0, 1.08 * max(row["grown_bytes"] for row in kept) / 2**20)
    axes.set_ylim(
        0, 1.12 * max(row.get("images_per_second_high") or row["images_per_second"] for row in kept)
    )
    if last:
        axes.set_xlabel("MiB that all processes grew by", labelpad=2)
    axes.set_ylabel("samples / s")
    axes.grid(color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_title(f"{kept[0]['model']}, batch {kept[0].get('batch_size', '?')}")
    canvas.direct_labels(axes, labels, gap=0.082)


def label(row: dict[str, Any]) -> str:
    """ "DSP(1,0;2,0)", "torch 1F1B, M = 4", "loop, 2 threads"."""
    if row["system"] == "repro":
        return str(row["method"])
    if row["system"] == _LOOP:
        return f"loop, {row['threads']} thread{'s' if row['threads'] > 1 else ''}"
    return f"torch {str(row['method']).removeprefix('Schedule')}, M = {row['micro_batches']}"


def _best_of_each(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All rows but the slower numbers of micro-batches of torch's schedules."""
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        kind = (row["system"], row["method"], row.get("threads"))
        if kind not in best or row["images_per_second"] > best[kind]["images_per_second"]:
            best[kind] = row
    return sorted(best.values(), key=lambda row: -float(row["images_per_second"]))
