"""The peak of each output map, by library operations: where abs(dy) is largest, and the sum of the map."""

from __future__ import annotations

import torch
from torch import Tensor


def peaks(dy: Tensor) -> tuple[Tensor, Tensor]:
    """Position and signed sum of every map.

    dy [N, Cout, Ho, Wo] -> position [N, Cout] (int64, y * Wo + x; the first on ties), total [N, Cout]
    (float32, float64 for float64). arXiv 1908.05460 Sec. 2: the kept value is *replaced* by the sum.
    """
    maps = dy.flatten(2).to(accumulate_dtype(dy.dtype))
    return maps.abs().argmax(dim=2), maps.sum(dim=2)


def accumulate_dtype(dtype: torch.dtype) -> torch.dtype:
    """float64 for float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32
