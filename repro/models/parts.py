"""Pieces that several networks are made of."""

from __future__ import annotations

from torch import Tensor, nn


class ConvUnit(nn.Sequential):
    """Convolution, BatchNorm (or a bias instead) and ReLU; [N, C, H, W] -> [N, out, H/stride, W/stride]."""

    def __init__(
        self, channels: int, out: int, *, kernel: int = 3, stride: int = 1, batch_norm: bool = True
    ) -> None:
        parts: list[tuple[str, nn.Module]] = [
            ("conv", nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=not batch_norm))
        ]
        if batch_norm:
            parts.append(("norm", nn.BatchNorm2d(out)))
        parts.append(("relu", nn.ReLU(inplace=True)))
        super().__init__()
        for name, part in parts:
            self.add_module(name, part)


class HiddenLinear(nn.Linear):
    """A linear layer with a ReLU behind it; [N, in] -> [N, out]. It differs in its initial weights (`initialise`)."""


class NormalLinear(nn.Linear):
    """A linear layer of a transformer, with normal initial weights of its own width `std`; [.., in] -> [.., out]."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True, std: float = 0.02) -> None:
        self.std = std
        super().__init__(inputs, outputs, bias)


class PooledHead(nn.Module):
    """Global average pool and a linear layer; [N, C, H, W] -> [N, classes]."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes."""
        scores: Tensor = self.linear(x.mean((2, 3)))
        return scores


def norm(channels: int, batch_norm: bool) -> nn.Module:
    """BatchNorm, or nothing."""
    return nn.BatchNorm2d(channels) if batch_norm else nn.Identity()
