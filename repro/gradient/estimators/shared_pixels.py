"""A filter gradient from a few pixels of each sample, shared by all output channels: one small matrix product."""

from __future__ import annotations

import torch
from torch import Tensor

from repro.gradient.geometry import Geometry
from repro.gradient.kernels.peaks import accumulate_dtype


def gradient_at(
    x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, pixels: Tensor, factor: float = 1.0
) -> Tensor:
    """factor * the part of the filter gradient that comes from `pixels`, as weight [Cout, Cin/groups, Kh, Kw].

    x [N, Cin, H, W], dy [N, Cout, Ho, Wo], pixels [N, k] int64 (y * Wo + x; one that occurs twice counts
    twice). [Cout x kN] @ [kN x Kh*Kw*Cin], accumulated in float32 (float64 for float64).
    """
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = (
        geometry.kernel,
        geometry.stride,
        geometry.padding,
        geometry.dilation,
    )
    samples, channels, height, width = x.shape
    outputs, wide, taken = dy.shape[1], dy.shape[3], pixels.shape[1]
    dtype, device = accumulate_dtype(dy.dtype), x.device

    n = torch.arange(samples, device=device)[:, None]
    kept = dy.permute(0, 2, 3, 1)[n, pixels // wide, pixels % wide].to(dtype)  # [N, k, Cout]
    rows = (pixels // wide * sh - ph)[:, :, None, None] + torch.arange(kh, device=device)[:, None] * dh
    columns = (pixels % wide * sw - pw)[:, :, None, None] + torch.arange(kw, device=device)[None, :] * dw
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)  # [N, k, Kh, Kw]
    patches = x.permute(0, 2, 3, 1)[
        n[:, :, None, None], rows.clamp(0, height - 1), columns.clamp(0, width - 1)
    ]
    patches = torch.where(inside[..., None], patches, patches.new_zeros(())).to(dtype)  # [N, k, Kh, Kw, Cin]

    share, depth, count = outputs // geometry.groups, channels // geometry.groups, samples * taken
    left = kept.reshape(count, geometry.groups, share).permute(1, 2, 0)
    right = patches.reshape(count, kh * kw, geometry.groups, depth).permute(2, 0, 1, 3)
    found = torch.matmul(left, right.reshape(geometry.groups, count, kh * kw * depth)) * factor
    found = found.reshape(outputs, kh, kw, depth).permute(0, 3, 1, 2)
    return torch.empty_like(weight).copy_(found)
