"""The library's own filter gradient."""

from __future__ import annotations

from torch import Tensor

from repro.gradient import library
from repro.gradient.geometry import Geometry


class Full:
    """No approximation."""

    name = "full"
    needs_input = True
    draws = False

    def __call__(self, x: Tensor | None, dy: Tensor, weight: Tensor, geometry: Geometry, seed: int) -> Tensor:
        """See Estimator."""
        assert x is not None
        return library.filter_gradient(x, dy, weight, geometry)
