"""What can be told of layers without training them: shapes, work, whether they write to their input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call

from repro.errors import UserError
from repro.models.layer import LayerFactory
from repro.models.transformer import CausalAttention

Shape = tuple[int, ...]


def shapes(factories: Sequence[LayerFactory], sample_shape: Shape) -> list[Shape]:
    """Return the input shape of every layer and, last, the output's, without the batch.

    One sample passes through one layer of each kind. Meta tensors would save that, but importing what they
    need takes longer (over a second with torch 2.14).
    """
    found = [tuple(sample_shape)]
    known: dict[tuple[str, Shape], Shape] = {}  # layers made alike are looked at once
    with torch.random.fork_rng(devices=[]), torch.no_grad():  # constructors draw weights
        for factory in factories:
            key = (factory.kind, found[-1])
            if key not in known:
                known[key] = tuple(factory.make().eval()(factory.zeros((1, *found[-1]))).shape[1:])
            found.append(known[key])
    return found


def estimated_cost(module: nn.Module, input_shape: Shape, dtype: torch.dtype = torch.float32) -> int:
    """Multiply-adds of one forward for one sample, plus one for every element of the output (layers without any count).

    The same on every machine. Counts convolutions, linear layers and attention, wherever they sit in `module`;
    torch's own counter gives the same numbers (a test compares them), but imports for seconds at its first use.
    """
    found = 0

    def count(part: nn.Module, inputs: tuple[Tensor, ...], y: Tensor) -> None:
        nonlocal found
        if isinstance(part, CausalAttention):
            found += part.multiply_adds(inputs[0])
            return
        assert isinstance(part, nn.Conv2d | nn.Linear)
        found += y.numel() * part.weight[0].numel()  # each output value is a dot product with one filter

    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    counted = nn.Conv2d | nn.Linear | CausalAttention
    hooks = [p.register_forward_hook(count) for p in module.modules() if isinstance(p, counted)]
    try:
        with _mode(module, training=False), torch.no_grad():
            y = module(torch.zeros((1, *input_shape), dtype=dtype, device=device))
    finally:
        for hook in hooks:
            hook.remove()
    return found + int(y.numel())


def mutates_input(module: nn.Module, x: Tensor) -> bool:
    """Whether a training forward writes to its input [n >= 2, ...], told by the version counter of a copy.

    Weights, statistics, modes and random generators stay as they are.
    """
    probe = x.detach().clone()
    before = probe._version
    statistics = {name: buffer.clone() for name, buffer in module.named_buffers()}
    generators = [probe.device] if probe.is_cuda else []
    with _mode(module, training=True), torch.random.fork_rng(devices=generators), torch.no_grad():
        functional_call(module, statistics, (probe,))
    return probe._version != before


def normalises_one_value(module: nn.Module, input_shape: Shape) -> bool:
    """Whether a BatchNorm of `module` meets a single value per channel when one sample comes in: it has no variance."""
    found = False

    def look(_part: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        nonlocal found
        found = found or inputs[0].numel() == inputs[0].shape[1]

    kinds = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d
    hooks = [part.register_forward_pre_hook(look) for part in module.modules() if isinstance(part, kinds)]
    if not hooks:
        return False
    try:
        with _mode(module, training=False), torch.no_grad():
            module(torch.zeros((1, *input_shape)))
    finally:
        for hook in hooks:
            hook.remove()
    return found


def shared_parameters(layers: Sequence[tuple[str, nn.Module]]) -> None:
    """Raise UserError, naming both layers, where two layers share a weight: copies in two blocks would drift apart."""
    owners: dict[tuple[int, int], tuple[str, str]] = {}  # (memory, offset in it) -> (layer, weight)
    for name, layer in layers:
        for key, weight in layer.named_parameters():
            place = (weight.untyped_storage()._cdata, int(weight.storage_offset()))
            owner, own_key = owners.setdefault(place, (name, key))
            if owner != name:
                raise UserError(
                    f"layers may not share weights across a cut: {owner}.{own_key} and {name}.{key} are one tensor"
                )


@contextmanager
def _mode(module: nn.Module, training: bool) -> Iterator[None]:
    """Training or evaluation mode for a while; then each part has its own mode again."""
    modes = [(part, part.training) for part in module.modules()]
    module.train(training)
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
