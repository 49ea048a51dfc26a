"""Residual networks of bottlenecks for CIFAR: pre-activation ResNet-164 and ResNeXt-29 (8x64d).

* preact-resnet164: depth 9n+2, n = 18, widths 16-64, 32-128, 64-256 (He et al., arXiv 1603.05027); 1.7 M weights. Another
  net than the DSP paper's ResNet164 of basic blocks, so a variant here.
* resnext29: three stages of three blocks, cardinality 8, base width 64 (Xie et al., arXiv 1611.05431); 34.4 M weights.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn
from torch.nn import functional

from repro.models.layer import LayerFactory
from repro.models.parts import ConvUnit, PooledHead


class PreactivationBlock(nn.Module):
    """BN-ReLU-conv three times (1x1, 3x3, 1x1); a projection shortcut starts behind the first BN-ReLU."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.norm1, self.conv1 = nn.BatchNorm2d(channels), nn.Conv2d(channels, width, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(width), nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm3, self.conv3 = nn.BatchNorm2d(width), nn.Conv2d(width, out, 1, bias=False)
        projects = stride != 1 or channels != out
        self.shortcut = nn.Conv2d(channels, out, 1, stride, bias=False) if projects else None

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, 4 width, H/stride, W/stride]."""
        active = functional.relu(self.norm1(x))
        kept = x if self.shortcut is None else self.shortcut(active)
        y = self.conv2(functional.relu(self.norm2(self.conv1(active))))
        y = self.conv3(functional.relu(self.norm3(y)))
        total: Tensor = kept + y
        return total


class PreactivationHead(nn.Module):
    """The BN-ReLU that the last block left open, then pool and linear layer."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.head = PooledHead(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes."""
        scores: Tensor = self.head(functional.relu(self.norm(x)))
        return scores


class GroupedBlock(nn.Module):
    """ResNeXt bottleneck: 1x1, grouped 3x3, 1x1, with a projection where shape changes."""

    def __init__(self, channels: int, inner: int, out: int, stride: int, groups: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, 1, groups=groups, bias=False)
        self.norm2 = nn.BatchNorm2d(inner)
        self.conv3, self.norm3 = nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, out, H/stride, W/stride]."""
        y = functional.relu(self.norm1(self.conv1(x)))
        y = functional.relu(self.norm2(self.conv2(y)))
        return functional.relu(self.shortcut(x) + self.norm3(self.conv3(y)))


def preactivation_layers(channels: int, classes: int, blocks: int = 18) -> list[LayerFactory]:
    """stem, stage{1,2,3}.block{1..18}, head."""
    found = [LayerFactory("stem", partial(nn.Conv2d, channels, 16, 3, 1, 1, bias=False))]
    before = 16
    for stage, width in enumerate((16, 32, 64), start=1):
        for number in range(1, blocks + 1):
            stride = 2 if stage > 1 and number == 1 else 1
            found.append(
                LayerFactory(
                    f"stage{stage}.block{number}", partial(PreactivationBlock, before, width, stride)
                )
            )
            before = 4 * width
    return [*found, LayerFactory("head", partial(PreactivationHead, before, classes))]


def resnext_layers(channels: int, classes: int, cardinality: int = 8, base: int = 64) -> list[LayerFactory]:
    """stem, stage{1,2,3}.block{1,2,3}, head."""
    found = [LayerFactory("stem", partial(ConvUnit, channels, 64))]
    before = 64
    for stage in (1, 2, 3):
        inner, out = cardinality * base * 2 ** (stage - 1), 256 * 2 ** (stage - 1)
        for number in (1, 2, 3):
            stride = 2 if stage > 1 and number == 1 else 1
            found.append(
                LayerFactory(
                    f"stage{stage}.block{number}",
                    partial(GroupedBlock, before, inner, out, stride, cardinality),
                )
            )
            before = out
    return [*found, LayerFactory("head", partial(PooledHead, before, classes))]
