"""The strongest pixels, shared by all output channels. Ours, not the paper's."""

from __future__ import annotations

from torch import Tensor

from repro.gradient.estimators.shared_pixels import gradient_at
from repro.gradient.geometry import Geometry
from repro.gradient.kernels.peaks import accumulate_dtype


class SharedTopK:
    """The `samples` pixels of each sample with the largest sum of abs(dy) over the output channels; biased."""

    name = "shared-topk"
    needs_input = True
    draws = False

    def __init__(self, samples: int = 4) -> None:
        self.samples = samples

    def __call__(self, x: Tensor | None, dy: Tensor, weight: Tensor, geometry: Geometry, seed: int) -> Tensor:
        """See Estimator."""
        assert x is not None
        strength = dy.to(accumulate_dtype(dy.dtype)).abs().sum(dim=1).flatten(1)
        pixels = strength.topk(min(self.samples, strength.shape[1]), dim=1).indices
        return gradient_at(x, dy, weight, geometry, pixels)
