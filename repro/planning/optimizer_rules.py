"""Which weights Muon orthogonalises, and what of an optimiser's settings does not fit a network or the run's length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from repro.errors import UserError
from repro.models import LayerFactory
from repro.recipe import OptimizerSpec, Recipe
from repro.recipe.optimizers import Muon

Layers = Sequence[tuple[str, nn.Module]]
SHOWN = 8  # names of weights in a line


def inner_matrices(layers: Layers, spec: OptimizerSpec) -> frozenset[str]:
    """Full names of the weights that Muon updates; all others are AdamW's. Empty for other optimisers.

    The rule: a weight of two dimensions, or with `filters: flatten` of more, that is no nn.Embedding's and lies
    neither in the first nor in the last of the network's layers that have weights. So it does not depend on K.
    """
    if not isinstance(spec, Muon):
        return frozenset()
    return frozenset(
        n for n, w in _inner(layers) if w.ndim == 2 or (w.ndim > 2 and spec.filters == "flatten")
    )


def named_layers(factories: Sequence[LayerFactory]) -> list[tuple[str, nn.Module]]:
    """All layers of a network, without memory for their weights."""
    with torch.device("meta"):
        return [(factory.name, factory.make()) for factory in factories]


def check_optimizer(
    recipe: Recipe, factories: Sequence[LayerFactory], steps: int, memory_format: str
) -> None:
    """Raise UserError where the warm-up is longer than the run, or Muon has filters without a rule or no matrix."""
    spec = recipe.optimizer
    run = recipe.epochs * steps
    for name, given in (("warmup_steps", spec.warmup_steps), ("cosine_steps", spec.cosine_steps or 0)):
        if given > run:
            raise UserError(
                f"optimizer.{name} = {given} is more than the {run} updates of the run ({recipe.epochs} epochs of {steps}): "
                f"give at most {run}"
            )
    if not isinstance(spec, Muon):
        return
    layers = named_layers(factories)
    filters = [name for name, w in _inner(layers) if w.ndim > 2]
    if filters and spec.filters is None:
        raise UserError(
            f"optimizer.name = 'muon': {filters[0]} is a filter, not a matrix ({len(filters)} such weights): say what Muon "
            f"does with them, optimizer.filters=flatten (matrices of [out, in x height x width]) or adamw"
        )
    if filters and spec.filters == "flatten" and memory_format != "contiguous":
        raise UserError(
            f"optimizer.filters = 'flatten': {filters[0]} is no matrix in memory_format = '{memory_format}': "
            "give memory_format=contiguous"
        )
    if not inner_matrices(layers, spec):
        raise UserError(
            f"optimizer.name = 'muon': {recipe.model.name} has no matrix in an inner layer, so that nothing would be "
            "Muon's: give optimizer.name=adamw"
        )


def optimizer_words(recipe: Recipe, factories: Sequence[LayerFactory]) -> str:
    """The optimiser in a line; for Muon with the weights that are its own and the number of the others."""
    spec = recipe.optimizer
    if not isinstance(spec, Muon):
        return spec.name
    layers = named_layers(factories)
    own = inner_matrices(layers, spec)
    total = sum(1 for _, layer in layers for _ in layer.parameters())
    names = [name for name, _ in _weights(layers) if name in own]
    return (
        f"muon for {len(own)} inner matrices ({', '.join(names)}), adamw for {total - len(own)} other weights"
    )


def _inner(layers: Layers) -> Iterator[tuple[str, Tensor]]:
    """Weights of inner layers that are no embedding's."""
    having = [name for name, layer in layers if any(True for _ in layer.parameters())]
    ends = {having[0], having[-1]} if having else set()
    embeddings = {
        f"{layer_name}.{path}.weight" if path else f"{layer_name}.weight"
        for layer_name, layer in layers
        for path, module in layer.named_modules()
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag))
    }
    inner = [(name, layer) for name, layer in layers if name not in ends]
    return ((name, w) for name, w in _weights(inner) if name not in embeddings)


def _weights(layers: Layers) -> Iterator[tuple[str, Tensor]]:
    return ((f"{name}.{path}", w) for name, layer in layers for path, w in layer.named_parameters())
