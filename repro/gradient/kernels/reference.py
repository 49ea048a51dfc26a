"""top1 as it is defined: dy with one value left on each map, through the library's filter gradient. The oracle."""

from __future__ import annotations

import torch
from torch import Tensor

from repro.gradient.geometry import ConvShape, Geometry
from repro.gradient.kernels.peaks import accumulate_dtype, peaks
from repro.gradient.library import filter_gradient


def top1(x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, scale: float = 1.0) -> Tensor:
    """Filter gradient, as weight [Cout, Cin/groups, Kh, Kw], from x [N, Cin, H, W] and dy [N, Cout, Ho, Wo]."""
    dtype = accumulate_dtype(dy.dtype)
    position, total = peaks(dy)
    sparse = torch.zeros(dy.shape, dtype=dtype, device=dy.device)
    sparse.view(*total.shape, -1).scatter_(2, position[:, :, None], total[:, :, None] * scale)
    return filter_gradient(x.to(dtype), sparse, weight.to(dtype), geometry).to(weight.dtype)


def why_not(shape: ConvShape, dtype: torch.dtype, device: torch.device) -> str | None:
    """None: every shape, type and device will do."""
    return None
