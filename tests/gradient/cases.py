"""Convolutions that the kernels' tests share: ordinary ones and odd ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from repro.gradient.geometry import Geometry

FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float64: 1e-12}


@dataclass(frozen=True)
class Case:
    """N, Cin, H, W, Cout and the geometry."""

    samples: int
    channels: int
    height: int
    width: int
    outputs: int
    geometry: Geometry

    def tensors(
        self,
        dtype: torch.dtype = torch.float32,
        layout: str = "contiguous",
        weights: str | None = None,
        seed: int = 0,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Random x, dy and weight of the case."""
        g, generator = self.geometry, torch.Generator().manual_seed(seed)

        def noise(form: str, *size: int) -> Tensor:
            return torch.randn(size, generator=generator).to(dtype).contiguous(memory_format=FORMATS[form])

        x = noise(layout, self.samples, self.channels, self.height, self.width)
        dy = noise(layout, self.samples, self.outputs, *g.output_size(self.height, self.width))
        return x, dy, noise(weights or layout, self.outputs, self.channels // g.groups, *g.kernel)


CASES = {
    "plain": Case(4, 6, 9, 11, 8, Geometry((3, 3), padding=(1, 1))),
    "one pixel": Case(3, 5, 3, 3, 4, Geometry((3, 3))),
    "one of all": Case(1, 1, 3, 3, 1, Geometry((3, 3), padding=(1, 1))),
    "stride": Case(3, 4, 10, 9, 6, Geometry((3, 3), (2, 3), (1, 1))),
    "wide padding": Case(3, 4, 5, 6, 6, Geometry((3, 3), padding=(3, 4))),
    "dilation": Case(3, 4, 12, 11, 6, Geometry((3, 3), (1, 2), (2, 1), (2, 3))),
    "groups": Case(3, 6, 8, 8, 9, Geometry((3, 3), padding=(1, 1), groups=3)),
    "depthwise": Case(3, 5, 8, 7, 10, Geometry((3, 3), padding=(1, 1), groups=5)),
    "all at once": Case(5, 6, 13, 10, 8, Geometry((3, 5), (2, 1), (1, 3), (2, 1), 2)),
    "5x5": Case(3, 3, 12, 12, 7, Geometry((5, 5), padding=(2, 2))),
    "large map": Case(2, 3, 70, 66, 2, Geometry((3, 3), padding=(1, 1))),
    "many samples": Case(150, 3, 4, 4, 5, Geometry((3, 3), padding=(1, 1))),
    "many channels": Case(2, 72, 4, 4, 40, Geometry((3, 3), padding=(1, 1))),
    "parts": Case(9, 12, 20, 17, 33, Geometry((3, 3), padding=(1, 1))),
    "parts, groups": Case(9, 12, 20, 17, 64, Geometry((3, 3), padding=(1, 1), groups=2)),
}


def relative(found: Tensor, expected: Tensor) -> float:
    """Norm of the difference over the norm of what was expected."""
    scale = float(expected.double().norm())
    return float((found.double() - expected.double()).norm()) / (scale if scale > 0 else 1.0)
