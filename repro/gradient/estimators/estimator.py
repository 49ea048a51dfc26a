"""What an estimator of the filter gradient is."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from repro.gradient.geometry import Geometry


class Estimator(Protocol):
    """Estimates dL/dW of one convolution on one (micro-)batch. It keeps no state between calls."""

    @property
    def name(self) -> str:
        """Its name in a recipe."""

    @property
    def needs_input(self) -> bool:
        """Whether X must be kept for the backward pass."""

    @property
    def draws(self) -> bool:
        """Whether it is random: only then is its seed worked out."""

    def __call__(self, x: Tensor | None, dy: Tensor, weight: Tensor, geometry: Geometry, seed: int) -> Tensor:
        """Estimate, as weight [Cout, Cin/groups, Kh, Kw], from x [N, Cin, H, W] and dy [N, Cout, Ho, Wo].

        `seed` is all the randomness there is: the same seed gives the same bits on the same device.
        """
