"""The gradient schedule of a recipe on its own network, with the shapes of its convolutions; nothing is trained."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from repro.errors import MissingError

_UNKNOWN_DATA = (
    (3, 32, 32),
    10,
    50_000,
)  # shape, classes, training samples where the files are not here: CIFAR


def schedule_of(recipe: Any) -> tuple[Any, dict[str, Any]]:
    """(Schedule, {convolution: ConvShape}) of a recipe that approximates gradients.

    UserError for rules that do not fit the network.
    """
    from repro import data, paths
    from repro.gradient import build_schedule

    try:
        loaded = data.load(recipe.data, paths.data_root(), 0)
        shape, classes, steps = tuple(loaded.image_shape), loaded.num_classes, loaded.steps_per_epoch
    except MissingError:
        shape, classes, samples = _UNKNOWN_DATA
        steps = -(-samples // recipe.data.batch_size)
    numbers, shapes = _convolutions(recipe.model, shape, classes, recipe.data.batch_size)
    return build_schedule(recipe.gradient, numbers, steps, recipe.epochs), shapes


@lru_cache(maxsize=16)
def _convolutions(
    model: Any, shape: tuple[int, int, int], classes: int, batch: int
) -> tuple[dict[str, int], dict[str, Any]]:
    from repro import models
    from repro.gradient import number_convolutions, trace

    layers = [(factory.name, factory.build(0)) for factory in models.layers(model, shape, classes)]
    return number_convolutions(layers), trace(layers, shape, batch)
