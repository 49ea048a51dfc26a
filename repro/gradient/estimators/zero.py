"""Zeros: the ceiling of what a schedule can save."""

from __future__ import annotations

import torch
from torch import Tensor

from repro.gradient.geometry import Geometry


class Zero:
    """A tensor of zeros, not "no gradient": momentum and weight decay still act (arXiv 1908.05460 Sec. 2)."""

    name = "zero"
    needs_input = False
    draws = False

    def __call__(self, x: Tensor | None, dy: Tensor, weight: Tensor, geometry: Geometry, seed: int) -> Tensor:
        """See Estimator."""
        return torch.zeros_like(weight)
