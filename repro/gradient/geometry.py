"""The numbers that describe a convolution: its geometry, and its shape on one batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor, nn

Pair = tuple[int, int]
SMALLEST_KERNEL = 3  # 1x1 projections are never approximated


class Geometry(NamedTuple):
    """Kernel size, stride, padding, dilation (each (vertical, horizontal), in pixels) and groups."""

    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    def output_size(self, height: int, width: int) -> Pair:
        """Height and width of the output for an input of `height` x `width` pixels."""
        sizes = [
            (size + 2 * p - d * (k - 1) - 1) // s + 1
            for size, k, s, p, d in zip(
                (height, width), self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        ]
        return sizes[0], sizes[1]


@dataclass(frozen=True)
class ConvShape:
    """A convolution on a batch: X [batch, in_channels, height, width] to `out_channels` maps."""

    batch: int
    in_channels: int
    height: int
    width: int
    out_channels: int
    geometry: Geometry

    @classmethod
    def of(cls, x: Tensor, weight: Tensor, geometry: Geometry) -> ConvShape:
        """The shape of a convolution of x [N, Cin, H, W] with weight [Cout, Cin/groups, Kh, Kw]."""
        n, channels, height, width = x.shape
        return cls(n, channels, height, width, weight.shape[0], geometry)

    @property
    def output_size(self) -> Pair:
        """Height and width of the output."""
        return self.geometry.output_size(self.height, self.width)

    @property
    def flops(self) -> int:
        """Operations of the dense filter gradient: two for each product."""
        high, wide = self.output_size
        per_pixel = (
            self.in_channels // self.geometry.groups * self.geometry.kernel[0] * self.geometry.kernel[1]
        )
        return 2 * self.batch * self.out_channels * high * wide * per_pixel

    @property
    def label(self) -> str:
        """As in the paper's tables, "64->64 @32", with whatever is not a plain 3x3 convolution behind it."""
        size = str(self.height) if self.height == self.width else f"{self.height}x{self.width}"
        text = f"{self.in_channels}->{self.out_channels} @{size}"
        g = self.geometry
        if g.kernel != (3, 3):
            text += f" k{g.kernel[0]}x{g.kernel[1]}"
        if g.stride != (1, 1):
            text += f" s{g.stride[0]}x{g.stride[1]}"
        if g.padding != tuple(k // 2 for k in g.kernel):
            text += f" p{g.padding[0]}x{g.padding[1]}"
        if g.dilation != (1, 1):
            text += f" d{g.dilation[0]}x{g.dilation[1]}"
        return text + (f" g{g.groups}" if g.groups > 1 else "")


def counted(module: nn.Module) -> bool:
    """True for the convolutions that are numbered: Conv2d of 3x3 and larger."""
    return isinstance(module, nn.Conv2d) and min(module.kernel_size) >= SMALLEST_KERNEL


def geometry_of(module: nn.Conv2d) -> Geometry | str:
    """The geometry of a module, or in words why its filter gradient cannot be approximated."""
    kernel, dilation = (
        (module.kernel_size[0], module.kernel_size[1]),
        (module.dilation[0], module.dilation[1]),
    )
    if type(module).forward is not nn.Conv2d.forward:
        return f"{type(module).__name__} has a forward of its own"
    if module.padding_mode != "zeros":
        return f"padding_mode '{module.padding_mode}'"
    if isinstance(module.padding, str):
        reach = [
            d * (k - 1) if module.padding == "same" else 0 for k, d in zip(kernel, dilation, strict=True)
        ]
        if any(r % 2 for r in reach):
            return "padding 'same' that differs between the sides"
        padding = (reach[0] // 2, reach[1] // 2)
    else:
        padding = (module.padding[0], module.padding[1])
    return Geometry(kernel, (module.stride[0], module.stride[1]), padding, dilation, module.groups)
