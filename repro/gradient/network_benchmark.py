"""What a schedule saves over a whole training step, beside what `zero` saves on it: the ceiling."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from repro.gradient.approximation import attach
from repro.gradient.numbering import number_convolutions
from repro.gradient.timings import interleaved
from repro.recipe.schema import GradientSpec

# (estimator, schedule) -> measured beside the plain network
VARIANTS = (("zero", "s1"), ("top1", "s1"), ("random", "s1"), ("top1", "all"), ("top1", "measured"), ("zero", "all"))


def rows(
    layers: Sequence[tuple[str, nn.Module]],
    image_shape: tuple[int, ...],
    num_classes: int,
    *,
    model: str,
    batch_size: int = 128,
    layout: str = "contiguous",
    variants: Sequence[tuple[str, str]] = VARIANTS,
    repeats: int = 15,
    processor_time: bool = False,
    timings: Path | None = None,
) -> list[dict[str, Any]]:
    """One row for each variant: seconds of a step (forward, backward, SGD with momentum) on random images [C, H, W].

    All variants and the plain network take turns, on the same network; only batches on which the schedule is active
    are run (`s2` and `s3` save the stated share only on every 4th or 2nd batch). `saved` = fraction of the plain
    step's time, median of the paired differences; `share_of_zero` = saved / what `zero` saves on the same schedule.
    Intervals: 95 %, bootstrap over the rounds. The layers' device and type are used as they are.
    `processor_time`: one thread, time that it really ran (see timings.interleaved).
    """
    form = torch.channels_last if layout == "channels_last" else torch.contiguous_format
    for _, layer in layers:
        layer.train().to(memory_format=form)
    weights = [p for _, layer in layers for p in layer.parameters()]
    device = weights[0].device
    optimizer = torch.optim.SGD(weights, lr=1e-4, momentum=0.9)
    x = torch.randn((batch_size, *image_shape), device=device).contiguous(memory_format=form)
    labels = torch.arange(batch_size, device=device) % num_classes
    numbers = number_convolutions(layers)

    def step(estimator: str, schedule: str) -> None:
        settings = GradientSpec.model_validate({"estimator": estimator, "schedule": schedule})
        approximation = attach(layers, settings, seed=0, steps_per_epoch=4, epochs=1, numbers=numbers, timings=timings)
        approximation.set_batch(3)
        y = x
        for _, layer in layers:
            y = layer(y)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(functional.cross_entropy(y, labels))
        optimizer.step()
        approximation.detach()

    everyone = (("full", "all"), *variants)
    actions = [partial(step, *variant) for variant in everyone]
    times = dict(zip(everyone, interleaved(actions, device, repeats, processor_time=processor_time), strict=True))
    plain = np.array(times["full", "all"])
    found = []
    for estimator, schedule in everyone:
        own = np.array(times[estimator, schedule])
        row: dict[str, Any] = {
            "model": model, "layout": layout, "estimator": estimator, "schedule": schedule,
            "seconds": statistics.median(own), "n": repeats,
        }  # fmt: skip
        if estimator != "full":
            row.update(_interval("saved", (plain, own), lambda p, o: np.median(p - o) / np.median(p)))
            ceiling = times.get(("zero", schedule))
            if ceiling is not None and estimator != "zero":
                row.update(
                    _interval(
                        "share_of_zero",
                        (plain, own, np.array(ceiling)),
                        lambda p, o, z: np.median(p - o) / np.median(p - z),
                    )
                )
        found.append(row)
    return found


def _interval(name: str, series: tuple[Any, ...], statistic: Any) -> dict[str, float]:
    """The statistic of paired series, with a 95 % bootstrap interval over the pairs."""
    generator = np.random.default_rng(0)
    count = len(series[0])
    draws = [float(statistic(*(s[chosen] for s in series))) for chosen in generator.integers(count, size=(1000, count))]
    low, high = np.quantile(draws, [0.025, 0.975])
    return {name: float(statistic(*series)), f"{name}_low": float(low), f"{name}_high": float(high)}
