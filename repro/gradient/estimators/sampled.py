"""Random pixels: an unbiased estimate. Ours, not the paper's."""

from __future__ import annotations

import torch
from torch import Tensor

from repro.gradient.estimators.shared_pixels import gradient_at
from repro.gradient.geometry import Geometry


class Sampled:
    """`samples` pixels of each sample, drawn evenly with replacement, each with weight Ho*Wo / samples.

    Unbiased: the mean over draws is the full gradient. With `samples` >= Ho*Wo every pixel is taken once:
    exact.
    """

    name = "sampled"
    needs_input = True
    draws = True

    def __init__(self, samples: int = 4) -> None:
        self.samples = samples

    def __call__(self, x: Tensor | None, dy: Tensor, weight: Tensor, geometry: Geometry, seed: int) -> Tensor:
        """See Estimator."""
        assert x is not None
        n, area = dy.shape[0], dy.shape[2] * dy.shape[3]
        if self.samples >= area:
            everything = torch.arange(area, device=dy.device).expand(n, area)
            return gradient_at(x, dy, weight, geometry, everything)
        generator = torch.Generator(device=dy.device).manual_seed(seed)
        pixels = torch.randint(area, (n, self.samples), generator=generator, device=dy.device)
        return gradient_at(x, dy, weight, geometry, pixels, area / self.samples)
