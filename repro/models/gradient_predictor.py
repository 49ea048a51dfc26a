"""The network that predicts the gradient of a block's output (DNI, arXiv 1608.05343; cDNI adds the label)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from repro.seeding import derive


class SyntheticGradient(nn.Module):
    """Two hidden convolutions with BN and ReLU, then a linear one that starts at zero.

    Input [N, C, H, W] (and labels [N] for the conditional form), output of the input's shape. The label
    enters as one-hot -> Linear(classes, hidden), added to the first convolution's output.
    """

    def __init__(self, channels: int, hidden: int, kernel: int, num_classes: int, conditional: bool) -> None:
        super().__init__()
        padding = kernel // 2
        self.conv1 = nn.Conv2d(channels, hidden, kernel, padding=padding, bias=False)
        self.norm1 = nn.BatchNorm2d(hidden)
        self.conv2 = nn.Conv2d(hidden, hidden, kernel, padding=padding, bias=False)
        self.norm2 = nn.BatchNorm2d(hidden)
        self.conv3 = nn.Conv2d(hidden, channels, kernel, padding=padding)
        self.label = nn.Linear(num_classes, hidden) if conditional else None
        self.num_classes = num_classes
        nn.init.zeros_(self.conv3.weight)
        assert self.conv3.bias is not None
        nn.init.zeros_(self.conv3.bias)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Predict dL/dx for a block's output x."""
        hidden = self.conv1(x.contiguous())
        if self.label is not None:
            hot = functional.one_hot(labels, self.num_classes).to(x.dtype)
            hidden = hidden + self.label(hot)[:, :, None, None]
        hidden = functional.relu(self.norm1(hidden))
        hidden = functional.relu(self.norm2(self.conv2(hidden)))
        predicted: Tensor = self.conv3(hidden)
        return predicted


def build_synthetic(
    seed: int,
    boundary: str,
    shape: tuple[int, ...],
    *,
    hidden: int,
    kernel: int,
    num_classes: int,
    conditional: bool,
) -> SyntheticGradient:
    """Build the predictor behind layer `boundary` (output [N, C, H, W] = `shape`); weights from (seed, boundary)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "synthetic gradient", boundary))
        return SyntheticGradient(shape[1], hidden, kernel, num_classes, conditional)
