"""What can be told of layers without training them: shapes, work, whether they write to their input."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from repro.errors import UserError
from repro.models.layer import LayerFactory

Shape = tuple[int, ...]


def shapes(factories: Sequence[LayerFactory], image_shape: Shape) -> list[Shape]:
    """Return the input shape of every layer and, last, the output's, without the batch; nothing is computed."""
    found = [tuple(image_shape)]
    known: dict[tuple[str, Shape], Shape] = {}  # layers made alike are looked at once
    with torch.device("meta"), torch.no_grad():
        for factory in factories:
            key = (factory.kind, found[-1])
            if key not in known:
                known[key] = tuple(factory.make()(torch.empty((2, *found[-1]))).shape[1:])
            found.append(known[key])
    return found


def estimated_cost(module: nn.Module, input_shape: Shape) -> int:
    """Multiply-adds of one forward for one sample, plus one for every element written (layers without any count)."""
    counter = FlopCounterMode(display=False)
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    was_training = module.training
    module.eval()
    with counter, torch.no_grad():
        y = module(torch.zeros((1, *input_shape), device=device))
    module.train(was_training)
    return int(counter.get_total_flops()) // 2 + int(y.numel())


def mutates_input(module: nn.Module, x: Tensor) -> bool:
    """Whether the layer's forward writes to its input (told by the version counter); changes nothing in the layer."""
    probe = x.detach().clone()
    before = probe._version
    was_training = module.training
    module.eval()
    with torch.no_grad():
        module(probe)
    module.train(was_training)
    return probe._version != before


def shared_parameters(layers: Sequence[tuple[str, nn.Module]]) -> None:
    """Raise UserError, naming both layers, where two layers share a weight: copies in two blocks would drift apart."""
    owners: dict[int, str] = {}
    for name, layer in layers:
        for key, weight in layer.named_parameters():
            owner = owners.setdefault(id(weight), f"{name}.{key}")
            if owner.partition(".")[0] != name and not owner.startswith(f"{name}."):
                raise UserError(f"layers may not share weights across a cut: {owner} and {name}.{key} are one tensor")
