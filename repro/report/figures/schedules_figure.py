"""Approximation schedules as grids of layers x batches: the second paper's Fig. 3 and 4."""

from __future__ import annotations

from typing import Any

from repro.report.measures.named_schedules import PUBLISHED, RULES, named_schedules
from repro.report.stored.source import Source

DESCRIPTION = "approximation schedules, layer x batch (Fig. 3 and 4 of the gradient-approximation paper)"
SHOWN = (("resnet20", ("s1", "s2", "s3", "early", "all")), ("cnn2", ("alternate",)))
BATCHES = 12


def draw(source: Source) -> Any:
    """The figure; it needs no run. `measured` is left out: it depends on the machine."""
    from repro.report.figures import canvas
    from repro.report.stored.gradient_network import schedule_of

    recipes = named_schedules(source.profile or "paper")
    wanted = [(model, name) for model, names in SHOWN for name in names if (model, name) in recipes]
    columns, height = 3, 2.4
    rows = -(-len(wanted) // columns)
    total = height * rows + 0.25
    figure = canvas.new_figure(canvas.WIDTH, total)
    for i, key in enumerate(wanted):
        built, _ = schedule_of(recipes[key])
        place = (
            0.07 + 0.325 * (i % columns),
            (total - height * (i // columns + 1) + 0.45) / total,
            0.26,
            (height - 1.05) / total,
        )
        _panel(figure.add_axes(place), *key, built)
    words = "dark: approximated filter gradient, light: full; convolutions of 3x3 and larger, numbered from the input."
    canvas.caption(figure, words)
    return figure


def _panel(axes: Any, model: str, name: str, schedule: Any) -> None:
    from matplotlib.patches import Rectangle

    grids = [(0, schedule.grid(0, BATCHES) != 0)]
    if name == "early":  # both halves of the training
        half = BATCHES // 2
        start = schedule.steps_per_epoch * ((schedule.epochs + 1) // 2)
        grids = [(0, schedule.grid(0, half) != 0), (start, schedule.grid(start, start + half) != 0)]
    x, ticks = 0.0, []
    for start, grid in grids:
        for b in range(grid.shape[1]):
            if b == 0 or (b == grid.shape[1] - 1 and len(grids) == 1):
                ticks.append((x + b + 0.5, str(start + b)))
            for layer in range(grid.shape[0]):
                on = bool(grid[layer, b])
                cell = Rectangle(
                    (x + b, layer), 1, 1, facecolor="#2F6093" if on else "#EEF3F8", edgecolor="white", linewidth=0.6
                )  # fmt: skip
                axes.add_patch(cell)
        x += grid.shape[1] + 1
    layers = len(schedule.numbers)
    axes.set_xlim(0, x - 1)
    axes.set_ylim(0, layers)
    step = 1 if layers < 6 else 4
    axes.set_yticks([n + 0.5 for n in range(0, layers, step)], [str(n + 1) for n in range(0, layers, step)])
    axes.set_xticks([t for t, _ in ticks], [label for _, label in ticks])
    axes.tick_params(length=0, labelsize=7)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel("batch", labelpad=1)
    axes.set_ylabel("convolution", labelpad=1)
    rule = RULES[name].replace(", ", ",\n", 1)
    axes.set_title(f"{model}, {name} ({PUBLISHED.get(name, 'ours')})\n{rule}", fontsize=7.0, pad=4)
