"""Noise in place of the gradient: the paper's control."""

from __future__ import annotations

import torch
from torch import Tensor

from repro.gradient.geometry import Geometry

DEVIATION = 1.0 / 128.0


class Random:
    """Fresh N(0, 1) / 128 for each (layer, batch), drawn on the device (arXiv 1908.05460 Sec. 2)."""

    name = "random"
    needs_input = False
    draws = True

    def __call__(self, x: Tensor | None, dy: Tensor, weight: Tensor, geometry: Geometry, seed: int) -> Tensor:
        """See Estimator."""
        generator = torch.Generator(device=weight.device).manual_seed(seed)
        noise = torch.randn(weight.shape, generator=generator, device=weight.device, dtype=weight.dtype).mul_(
            DEVIATION
        )
        return noise if noise.stride() == weight.stride() else torch.empty_like(weight).copy_(noise)
