"""CIFAR ResNets of basic blocks, depth 6n+2 (He et al., arXiv 1512.03385), with parameter-free shortcuts (option A).

resnet20: 0.27 M weights, resnet98 (n=16), resnet110: 1.73 M, resnet164 (n=27) for 3x32x32 images and 10
classes. Widths 16, 32, 64 in three stages of n blocks; the second and third stage halve the map.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn
from torch.nn import functional

from repro.models.layer import LayerFactory
from repro.models.parts import ConvUnit, PooledHead, norm

WIDTHS = (16, 32, 64)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut; a narrower or larger shortcut is strided and padded with zero channels."""

    def __init__(self, channels: int, out: int, stride: int, batch_norm: bool) -> None:
        super().__init__()
        self.first = ConvUnit(channels, out, stride=stride, batch_norm=batch_norm)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=not batch_norm)
        self.norm2 = norm(out, batch_norm)
        self.stride, self.missing = stride, out - channels

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, out, H/stride, W/stride]."""
        y = self.norm2(self.conv2(self.first(x)))
        if self.stride != 1 or self.missing:
            x = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.missing))
        return functional.relu(x + y)


def layers(depth: int, channels: int, classes: int, batch_norm: bool) -> list[LayerFactory]:
    """stem, stage{1,2,3}.block{1..n}, head."""
    blocks = (depth - 2) // 6
    found = [LayerFactory("stem", partial(ConvUnit, channels, WIDTHS[0], batch_norm=batch_norm))]
    width = WIDTHS[0]
    for stage, out in enumerate(WIDTHS, start=1):
        for number in range(1, blocks + 1):
            stride = 2 if stage > 1 and number == 1 else 1
            found.append(
                LayerFactory(
                    f"stage{stage}.block{number}", partial(BasicBlock, width, out, stride, batch_norm)
                )
            )
            width = out
    return [*found, LayerFactory("head", partial(PooledHead, width, classes))]
