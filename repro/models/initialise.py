"""Weights at the start, the same rule for every network."""

from __future__ import annotations

from torch import nn

from repro.models.parts import HiddenLinear, NormalLinear


def initialise(module: nn.Module) -> None:
    """He-normal convolutions (fan out) and hidden linear layers (fan in), BatchNorm at 1 and 0, classifiers N(0, 0.01).

    Embeddings N(0, 0.02) and a transformer's linear layers N(0, their std), as GPT-2. All biases 0.

    A hidden layer at N(0, 0.01) would leave the 2-layer CNN, which has no BatchNorm, at chance
    for hundreds of steps. He et al., arXiv 1502.01852; draws from torch's default generator, in the order of
    `module.modules()`.
    """
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=0.02)
        elif isinstance(part, nn.BatchNorm2d):
            nn.init.ones_(part.weight)
            nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Linear):
            if isinstance(part, HiddenLinear):
                nn.init.kaiming_normal_(part.weight, mode="fan_in", nonlinearity="relu")
            elif isinstance(part, NormalLinear):
                nn.init.normal_(part.weight, std=part.std)
            else:
                nn.init.normal_(part.weight, std=0.01)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
