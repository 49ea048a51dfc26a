"""The paper's approximated gradient: one pixel per sample and output channel."""

from __future__ import annotations

from threading import get_ident

from torch import Tensor

from repro.gradient import kernels
from repro.gradient.geometry import ConvShape, Geometry

SCALES = {"paper": 1.0 / 128.0, "natural": 1.0}


class Top1:
    """dW[o] = scale * sum_n s[n,o] * (patch of X[n] under the largest abs(dy[n,o])), s the signed sum of the map.

    arXiv 1908.05460 Sec. 2. `scale`: the paper states 1/128; with a loss that is a mean over the batch dy
    holds 1/N already, and 1 ("natural") keeps the norm of the dense gradient. `kernel`: see
    repro.gradient.kernels.
    """

    name = "top1"
    needs_input = True
    draws = False

    def __init__(self, scale: float = 1.0, kernel: str = "auto") -> None:
        self.scale, self.kernel = scale, kernel
        self.used: dict[str, int] = {}  # kernel -> times
        self._prepared: dict[object, tuple[str, kernels.Run]] = {}

    def __call__(self, x: Tensor | None, dy: Tensor, weight: Tensor, geometry: Geometry, seed: int) -> Tensor:
        """See Estimator. MissingError or UserError where a forced kernel cannot do it."""
        assert x is not None
        layouts = x.stride(), dy.stride(), weight.stride()
        kind = (x.shape, dy.shape, layouts, geometry, x.dtype, dy.dtype, weight.dtype, x.device, get_ident())
        prepared = self._prepared.get(kind)
        if prepared is None:
            prepared = self._prepared[kind] = self._prepare(x, dy, weight, geometry)
        name, run = prepared
        self.used[name] = self.used.get(name, 0) + 1
        return run(x, dy, weight)

    def _prepare(self, x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry) -> tuple[str, kernels.Run]:
        name = kernels.choose(self.kernel, ConvShape.of(x, weight, geometry), x.dtype, x.device)
        return name, kernels.prepare(name, x, dy, weight, geometry, self.scale)
