"""A schedule drawn as text, and how much of the work it really approximates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from repro.gradient.geometry import ConvShape
from repro.gradient.numbering import number_convolutions, trace
from repro.gradient.schedules import Schedule, build
from repro.recipe.schema import ESTIMATORS, GradientSpec

MARKS = {"full": ".", "zero": "0", "random": "r", "top1": "1", "sampled": "s", "shared-topk": "k"}


@dataclass(frozen=True)
class Fraction:
    """Share of the (convolution, batch) pairs of a whole run that are approximated, 0 to 1.

    `layers` counts every convolution alike, `flops` by the operations of its dense filter gradient (None where the
    shapes are not known).
    """

    layers: float
    flops: float | None


def fraction(
    schedule: Schedule,
    shapes: Mapping[str, ConvShape] | None = None,
    faster: Mapping[int, bool] | None = None,
) -> Fraction | None:
    """The realised fraction. `measured` needs `faster` (number -> was the estimate faster); None without it."""
    if schedule.measured and faster is None:
        return None
    grid = schedule.grid(0, schedule.steps_per_epoch * schedule.epochs) != 0
    if schedule.measured and faster is not None:
        grid = grid & np.array([faster.get(i + 1, False) for i in range(len(grid))])[:, None]
    share = grid.mean(axis=1)
    if shapes is None:
        return Fraction(float(share.mean()), None)
    flops = np.zeros(len(share))
    for name, number in schedule.numbers.items():
        flops[number - 1] = shapes[name].flops
    return Fraction(float(share.mean()), float(share @ flops / flops.sum()))


def draw(schedule: Schedule, columns: int = 32, faster: Mapping[int, bool] | None = None) -> str:
    """The grid of convolutions (rows) x batches (columns), once for each stretch of epochs that differs.

    .  full    0  zero    1  top1    r  random    s  sampled    k  shared-topk    ?  not measured yet
    """
    names = sorted(schedule.numbers, key=lambda name: schedule.numbers[name])
    width = max(len(name) for name in names)
    digits = len(str(len(names)))
    stretches = _stretches(schedule)
    lines = []
    for first, last in stretches:
        start = first * schedule.steps_per_epoch
        batches = min(columns, (last + 1 - first) * schedule.steps_per_epoch)
        if len(stretches) > 1:
            lines.append(f"epoch {first}:" if first == last else f"epochs {first} to {last}:")
        ruler = "".join(f"{b:<8d}" for b in range(start, start + batches, 8))
        lines.append(f"{'batch':>{digits + 1 + width}}  {ruler}".rstrip())
        for row, name in enumerate(names):
            marks = [MARKS[ESTIMATORS[e]] for e in schedule.grid(start, start + batches)[row]]
            if schedule.measured:
                known = None if faster is None else faster.get(row + 1)
                marks = ["." if known is False else "?" if known is None and m != "." else m for m in marks]
            lines.append(f"{row + 1:>{digits}} {name:<{width}}  {''.join(marks)}")
    return "\n".join(lines)


def describe(
    layers: Sequence[tuple[str, nn.Module]],
    image_shape: tuple[int, ...],
    settings: GradientSpec,
    *,
    steps_per_epoch: int,
    epochs: int,
    columns: int = 32,
) -> dict[str, Any]:
    """All that `repro show` says of a recipe's schedule on a whole network and images [C, H, W].

    `schedule` (name), `grid` (text), `fraction_layers` and `fraction_flops` (0 to 1; None for `measured`, which is
    only known on the device), `convolutions` (rows: number, name, shape, flops of one image). UserError as
    `build`.
    """
    shapes = trace(layers, image_shape)
    numbers = number_convolutions(layers)
    schedule = build(settings, numbers, steps_per_epoch, epochs)
    share = fraction(schedule, shapes)
    return {
        "schedule": schedule.name,
        "grid": draw(schedule, columns),
        "fraction_layers": None if share is None else share.layers,
        "fraction_flops": None if share is None else share.flops,
        "convolutions": [
            {"number": number, "name": name, "shape": shapes[name].label, "flops": shapes[name].flops}
            for name, number in numbers.items()
        ],
    }


def _stretches(schedule: Schedule) -> list[tuple[int, int]]:
    """Runs of epochs (first, last) in which the same rules hold."""
    active = [tuple(epoch in rule.epochs for rule in schedule.rules) for epoch in range(schedule.epochs)]
    starts = [e for e in range(schedule.epochs) if e == 0 or active[e] != active[e - 1]]
    return list(zip(starts, [s - 1 for s in starts[1:]] + [schedule.epochs - 1], strict=True))
