"""What a schedule saves over a whole training step, beside what `zero` saves on it: the ceiling.

Measured twice in the same steps: the whole step, and a clock around the filter gradients alone. The first is
what a user gains, the second is what can be told apart: a step's own scatter is as large as what there is to
save.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from repro.gradient.approximation import Approximation, attach
from repro.gradient.clock import Clock, Clocked
from repro.gradient.estimators import Estimator
from repro.gradient.estimators.full import Full
from repro.gradient.numbering import number_convolutions
from repro.gradient.timings import interleaved
from repro.recipe.schema import GradientSpec

Series = NDArray[np.float64]  # a value a round

# (estimator, schedule) -> measured beside the plain network
_PLAIN = "full", "none"
VARIANTS = (
    ("zero", "s1"),
    ("top1", "s1"),
    ("random", "s1"),
    ("top1", "all"),
    ("top1", "measured"),
    ("zero", "all"),
)


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
    timings: Path | None = None,
) -> list[dict[str, Any]]:
    """One row for each variant: seconds of a step (forward, backward, SGD with momentum) on random images [C, H, W].

    All variants and the plain network take turns, on the same network; only batches on which the schedule is
    active
    are run (`s2` and `s3` save the stated share only on every 4th or 2nd batch). The variant `full` on a
    schedule is the plain network with a clock around the filter gradients of the schedule's layers.
    `saved` = fraction of the plain step's time, median of the paired differences; `share_of_zero` = saved / what
    `zero` saves on the same schedule. `filter_seconds`: inside the filter gradients of the schedule's layers;
    `filter_share_of_zero` = (full - own) / (full - zero) of these. Intervals: 95 %, bootstrap over the rounds.
    The layers' device and type are used as they are.
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

    everyone = [_PLAIN, *(("full", schedule) for _, schedule in variants), *variants]
    everyone = list(dict.fromkeys(everyone))
    inside: dict[tuple[str, str], list[float]] = {variant: [] for variant in everyone}
    clock = Clock()

    def approximated(estimator: str, schedule: str) -> Approximation:
        # `full` on a schedule: the library's gradient wherever the schedule would approximate
        asked = {"estimator": "top1" if estimator == "full" else estimator, "schedule": schedule}
        approximation = attach(
            layers,
            GradientSpec.model_validate(asked),
            seed=0,
            steps_per_epoch=4,
            epochs=1,
            numbers=numbers,
            timings=timings,
            replace=partial(_clocked, estimator, clock),
        )
        approximation.detach()
        return approximation

    # made once, as in a run: what it learns about a shape it learns once
    approximations = {variant: approximated(*variant) for variant in everyone if variant != _PLAIN}

    def step(variant: tuple[str, str]) -> None:
        approximation = approximations.get(variant)
        if approximation is not None:
            approximation.attach()
            approximation.set_batch(3)
        y = x
        for _, layer in layers:
            y = layer(y)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(functional.cross_entropy(y, labels))
        optimizer.step()
        if approximation is not None:
            approximation.detach()
        inside[variant].append(clock.take())

    actions = [partial(step, variant) for variant in everyone]
    totals = dict(zip(everyone, interleaved(actions, device, repeats), strict=True))
    whole = {variant: np.array(times) for variant, times in totals.items()}
    filters = {
        variant: np.array(times[-repeats:]) for variant, times in inside.items()
    }  # less the unmeasured rounds
    return [_row(model, layout, variant, whole, filters) for variant in everyone]


def _clocked(estimator: str, clock: Clock, built: Estimator) -> Estimator:
    return Clocked(Full() if estimator == "full" else built, clock)


def _row(
    model: str, layout: str, variant: tuple[str, str], whole: dict[Any, Series], filters: dict[Any, Series]
) -> dict[str, Any]:
    estimator, schedule = variant
    own, plain = whole[variant], whole[_PLAIN]
    row: dict[str, Any] = {
        "model": model, "layout": layout, "estimator": estimator, "schedule": schedule,
        "seconds": statistics.median(own), "n": len(own),
    }  # fmt: skip
    if schedule == "none":
        return row
    row["filter_seconds"] = statistics.median(filters[variant])
    if estimator == "full":
        return row
    row.update(_interval("saved", (plain, own), lambda p, o: np.median(p - o) / np.median(p)))
    ceiling = "zero", schedule
    if ceiling in whole and estimator != "zero":
        row.update(_interval("share_of_zero", (plain, own, whole[ceiling]), _share))
        dense = filters["full", schedule]
        row.update(_interval("filter_share_of_zero", (dense, filters[variant], filters[ceiling]), _share))
    return row


def _share(full: Series, own: Series, zero: Series) -> float:
    return float(np.median(full - own) / np.median(full - zero))


def _interval(name: str, series: tuple[Series, ...], statistic: Callable[..., float]) -> dict[str, float]:
    """The statistic of paired series, with a 95 % bootstrap interval over the pairs."""
    generator = np.random.default_rng(0)
    count = len(series[0])
    draws = [
        float(statistic(*(s[chosen] for s in series)))
        for chosen in generator.integers(count, size=(1000, count))
    ]
    low, high = np.quantile(draws, [0.025, 0.975])
    return {name: float(statistic(*series)), f"{name}_low": float(low), f"{name}_high": float(high)}
