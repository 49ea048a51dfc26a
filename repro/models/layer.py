"""A layer of a network: the unit between which a network can be cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from repro.models.initialise import initialise
from repro.models.memory_format import use_channels_last
from repro.models.precision import FLOAT32, Precision
from repro.seeding import derive


@dataclass(frozen=True)
class LayerFactory:
    """Builds one layer. `name` is unique in its network and stable; a layer maps one tensor to one tensor.

    `tokens`: its input holds whole numbers below this one; 0: it holds real numbers, of type `dtype`. `precision` says
    what is measured of it; whoever runs it opens autocast around whole blocks.
    """

    name: str
    make: Callable[[], nn.Module]
    channels_last: bool = False
    tokens: int = 0
    precision: Precision = FLOAT32
    dtype: torch.dtype = torch.float32

    @property
    def kind(self) -> str:
        """The same for layers that are made alike, whatever their names."""
        return repr(self.make) + (" channels last" if self.channels_last else "") + self.precision.label

    def zeros(self, shape: tuple[int, ...], device: torch.device | str = "cpu") -> Tensor:
        """An input of this shape, the batch included, that holds zeros."""
        return torch.zeros(shape, dtype=torch.int64 if self.tokens else self.dtype, device=device)

    def example(self, shape: tuple[int, ...]) -> Tensor:
        """An input of this shape with random values, the same on every call."""
        generator = torch.Generator().manual_seed(0)
        if self.tokens:
            return torch.randint(self.tokens, shape, generator=generator)
        return torch.randn(shape, generator=generator).to(self.dtype)

    def build(self, seed: int) -> nn.Module:
        """Construct the layer; its weights depend on (seed, name) alone, never on K or on what was built before."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive(seed, "weights", self.name))  # a GPU's stays as it is
            module = self.make()
            initialise(module)
        if self.channels_last:
            use_channels_last(module)
        return module


def run_layer(module: nn.Module, name: str, x: Tensor, seed: int, batch: int, micro: int = 0) -> Tensor:
    """Call a layer in training; a layer with dropout draws by (seed, name, batch, micro), so a replay draws alike.

    In evaluation mode, or without dropout, no generator is touched. Whether a layer has dropout is looked up
    once.
    """
    if module.training and draws_random_numbers(module):
        number = derive(seed, "dropout", name, batch, micro)
        if x.device.type == "cuda":
            torch.cuda.default_generators[x.device.index].manual_seed(number)
        else:
            torch.default_generator.manual_seed(number)
    y: Tensor = module(x)
    return y


def draws_random_numbers(module: nn.Module) -> bool:
    """Whether any part of `module` is Dropout with p > 0; remembered in the module, which must not change in this."""
    known: bool | None = module.__dict__.get("_draws_random_numbers")
    if known is None:
        known = any(isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0 for m in module.modules())
        module.__dict__["_draws_random_numbers"] = known
    return known
