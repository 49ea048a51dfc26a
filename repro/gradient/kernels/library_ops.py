"""top1 by library operations: a weighted embedding_bag over padded pixels. For a GPU without CuPy, and float64."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from repro.gradient.geometry import ConvShape, Geometry
from repro.gradient.kernels.peaks import accumulate_dtype, peaks


def top1(x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, scale: float = 1.0) -> Tensor:
    """Filter gradient, as weight [Cout, Cin/groups, Kh, Kw], from x [N, Cin, H, W] and dy [N, Cout, Ho, Wo].

    The table's rows are the padded pixels (n, y, x) with their channels; there is one bag of N rows for each
    (o, ky, kx), weighted with the sums of the maps (n, o).
    """
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = (
        geometry.kernel,
        geometry.stride,
        geometry.padding,
        geometry.dilation,
    )
    samples, outputs, wide = dy.shape[0], dy.shape[1], dy.shape[3]
    dtype = accumulate_dtype(dy.dtype)
    position, total = peaks(dy)
    pixels = functional.pad(x.permute(0, 2, 3, 1).to(dtype), (0, 0, pw, pw, ph, ph)).contiguous()
    high, width = pixels.shape[1], pixels.shape[2]

    n = torch.arange(samples, device=x.device)[:, None]
    corner = (n * high + position // wide * sh) * width + position % wide * sw  # [N, Cout]
    reach = [ky * dh * width + kx * dw for ky in range(kh) for kx in range(kw)]
    rows = corner.t()[:, None, :] + torch.tensor(reach, device=x.device)[None, :, None]  # [Cout, Kh*Kw, N]
    weights = (total.t() * scale)[:, None, :].expand_as(rows)

    table = pixels.view(samples * high * width, -1)
    depth, share = weight.shape[1], outputs // geometry.groups
    parts = []
    for group in range(geometry.groups):
        own = slice(group * share, (group + 1) * share)
        columns = (
            table if geometry.groups == 1 else table[:, group * depth : (group + 1) * depth].contiguous()
        )
        parts.append(
            functional.embedding_bag(
                rows[own].reshape(-1, samples),
                columns,
                per_sample_weights=weights[own].reshape(-1, samples),
                mode="sum",
            )
        )
    found = torch.cat(parts).view(outputs, kh, kw, depth).permute(0, 3, 1, 2)
    return torch.empty_like(weight).copy_(found)


def why_not(shape: ConvShape, dtype: torch.dtype, device: torch.device) -> str | None:
    """None: every shape, type and device will do."""
    return None
