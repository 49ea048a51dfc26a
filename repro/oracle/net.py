"""A block of the oracle as a plain function of its weights, and what is kept of a batch between its passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from repro import models

Weights = dict[str, Tensor]


class Net(nn.Module):
    """The layers of one block as a function of (input, batch, micro-batch)."""

    def __init__(self, layers: Sequence[tuple[str, nn.Module]], seed: int, copies_input: bool) -> None:
        super().__init__()
        self.names = [name for name, _ in layers]
        self.layers = nn.ModuleList([layer for _, layer in layers])
        self.seed, self.copies_input = seed, copies_input

    def forward(self, x: Tensor, batch: int, micro: int) -> Tensor:
        """Training: seeded layers; evaluation: plain."""
        if self.copies_input:
            x = x.clone()
        for name, layer in zip(self.names, self.layers, strict=True):
            x = models.run_layer(layer, name, x, self.seed, batch, micro)
        return x


@dataclass
class Kept:
    """A forwarded batch: its input, and its graph with the weights it was made with, or neither."""

    x: Tensor
    y: Tensor | None
    weights: Weights
