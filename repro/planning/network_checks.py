"""What of a network cannot be trained as the recipe asks, told from its layers before any process starts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from repro import models
from repro.errors import MissingError, UserError
from repro.models import LayerFactory
from repro.recipe import Recipe


def check_tied(factories: Sequence[LayerFactory]) -> None:
    """Raise UserError, naming both layers, where two layers share a weight, in one block or across a cut."""
    with torch.device(
        "meta"
    ):  # no weight is drawn or stored; one that was made before is the same tensor in both
        layers = [(factory.name, factory.make()) for factory in factories]
    models.shared_parameters(layers)


def check_memory_format(recipe: Recipe) -> None:
    """Raise UserError where channels are to lie last and there are none: a text's tensors are [n, context, width]."""
    if recipe.data.name == "text" and recipe.memory_format == "channels_last":
        raise UserError(
            "memory_format = 'channels_last' is of maps [C, H, W], and a text has none: give contiguous or auto"
        )


def check_number_formats(recipe: Recipe, factories: Sequence[LayerFactory], device: str) -> None:
    """Raise UserError where autocast or TF32 cannot do anything, MissingError where the GPU has no TF32."""
    if recipe.tf32 and device == "cpu":
        raise UserError(
            "tf32 = true rounds products on CUDA devices, and this run is on the CPU: give false, or --device cuda"
        )
    if recipe.tf32 and torch.cuda.get_device_capability() < (8, 0):
        raise MissingError(
            f"tf32 = true needs a GPU of compute capability 8.0 or higher, {torch.cuda.get_device_name()} has "
            f"{'.'.join(map(str, torch.cuda.get_device_capability()))}: give false"
        )
    if recipe.autocast == "none":
        return
    for factory in factories:
        with torch.device("meta"):
            weights = dict(factory.make().named_parameters())
        for name, weight in weights.items():
            if weight.dtype != torch.float32:
                raise UserError(
                    f"autocast = '{recipe.autocast}' is for weights of float32, and {factory.name}.{name} has "
                    f"{str(weight.dtype).removeprefix('torch.')}: give none"
                )


def check_recalibration(recipe: Recipe, steps: int) -> None:
    """Raise UserError where statistics are asked of more training batches than an epoch has."""
    if recipe.norm_recalibration > steps:
        raise UserError(
            f"norm_recalibration = {recipe.norm_recalibration} training batches are more than the {steps} of an epoch: "
            f"give 0..{steps}"
        )


def check_one_value(
    recipe: Recipe,
    factories: Sequence[LayerFactory],
    shapes: Sequence[tuple[int, ...]],
    sizes: Collection[int],
) -> None:
    """Raise UserError where a BatchNorm would normalise one value: one sample on a map of 1x1.

    `shapes`: each layer's input without the batch; `sizes`: the batches' numbers of samples.
    """
    method, batch = recipe.method, recipe.shard_size
    size = min((s for s in sizes if s // method.micro_batches(s) == 1), default=None)
    if size is None:
        return
    seen: set[tuple[str, tuple[int, ...]]] = set()
    for factory, shape in zip(factories, shapes[:-1], strict=True):
        if (factory.kind, shape) in seen:
            continue
        seen.add((factory.kind, shape))
        with torch.random.fork_rng(devices=[]):  # constructors draw weights
            layer = factory.make()
        if models.normalises_one_value(layer, shape):
            raise UserError(
                f"{_field(recipe, size)}: BatchNorm in layer {factory.name} would get one sample on a 1x1 map, "
                f"and one value has no variance; {_allowed(min(sizes), size, batch, recipe.replicas)}"
            )


def _field(recipe: Recipe, size: int) -> str:
    if size > 1:
        micro = recipe.method.micro_batches(size)
        return f"method.micro = {recipe.method.model_dump().get('micro', micro)} on a batch of {size} samples"
    if recipe.shard_size == 1:
        among = "" if recipe.replicas == 1 else f" for replicas = {recipe.replicas}"
        return f"data.batch_size = {recipe.data.batch_size}{among}"
    among = "" if recipe.replicas == 1 else " for a replica"
    return f"data.last_batch = '{recipe.data.last_batch}' leaves a batch of 1 sample{among}"


def _allowed(smallest: int, size: int, batch: int, replicas: int) -> str:
    if size > 1:
        more = "" if smallest == batch else ", or data.last_batch=drop"
        most = smallest // 2
        return f"give method.micro in 1..{most}, or larger images{more}"
    return (
        f"give data.batch_size >= {2 * replicas}, or larger images"
        if batch == 1
        else "give data.last_batch=drop, or larger images"
    )
