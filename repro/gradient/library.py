"""The library's own convolution and its gradients, each alone."""

from __future__ import annotations

import torch
from torch import Tensor

from repro.gradient.geometry import Geometry


def forward(x: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
    """Convolution of x [N, Cin, H, W] with weight [Cout, Cin/groups, Kh, Kw]."""
    y: Tensor = torch.conv2d(
        x, weight, bias, geometry.stride, geometry.padding, geometry.dilation, geometry.groups
    )
    return y


def filter_gradient(x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
    """The dense filter gradient, as weight; the input gradient is not computed."""
    return _backward(x, dy, weight, geometry, (False, True, False))[1]


def input_gradient(x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
    """The input gradient, as x, of which only shape, strides, type and device count."""
    return _backward(x, dy, weight, geometry, (True, False, False))[0]


def _backward(
    x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, mask: tuple[bool, bool, bool]
) -> tuple[Tensor, Tensor, Tensor]:
    if mask[1] and _writes_past_its_end(x, weight, geometry):
        x = x.contiguous()
    # What `mask` leaves out is really not computed, with one exception: on CPU oneDNN makes the filter
    # gradient whenever the bias gradient is asked for. The bias gradient is therefore always summed apart
    # from this.
    result: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward.default(
        dy,
        x,
        weight,
        None,
        geometry.stride,
        geometry.padding,
        geometry.dilation,
        False,
        (0, 0),
        geometry.groups,
        mask,
    )
    return result


def _writes_past_its_end(x: Tensor, weight: Tensor, geometry: Geometry) -> bool:
    """Whether oneDNN's filter gradient writes outside its memory (torch 2.14): 1x1 filters in steps over channels_last x.

    Seen with 2 to 7 input channels in one group, under glibc's own check of its heap; a contiguous x is safe.
    """
    return (
        x.device.type == "cpu"
        and geometry.groups == 1
        and tuple(weight.shape[2:]) == (1, 1)
        and max(geometry.stride) > 1
        and x.shape[1] < 8
        and not x.is_contiguous()
    )
