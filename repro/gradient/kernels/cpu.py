"""top1 on the CPU by compiled loops: one pass over dy, then runs of memory added up per output channel.

No sum depends on the number of threads: an output channel (or a fixed part of the samples) belongs to one
thread.

Right after a convolution the interpreter's own code has left the caches, and each call costs 5 to 30
microseconds. So what a shape needs is worked out once (plan.py), and a step only says where its tensors lie
and enters native code once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from repro.gradient.geometry import ConvShape, Geometry
from repro.gradient.layout import in_order

if TYPE_CHECKING:
    from repro.gradient.kernels import Run

_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def top1(x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, scale: float = 1.0) -> Tensor:
    """Filter gradient, as weight [Cout, Cin/groups, Kh, Kw], from x [N, Cin, H, W] and dy [N, Cout, Ho, Wo]."""
    return prepare(x, dy, weight, geometry, scale)(x, dy, weight)


def prepare(x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, scale: float = 1.0) -> Run:
    """`top1` for tensors of these shapes, strides and types. What it returns is for one thread at a time."""
    if not dy.shape[0]:
        return lambda x, dy, weight: torch.zeros_like(weight)
    if all(t.dtype == torch.float32 and in_order(t) for t in (x, dy, weight)):
        from repro.gradient.kernels.shape_plan import Plan  # imports Numba

        return Plan(x, dy, weight, geometry, scale).run
    return partial(_converted, geometry, scale)


def why_not(shape: ConvShape, dtype: torch.dtype, device: torch.device) -> str | None:
    """Why this kernel cannot do it, or None."""
    if device.type != "cpu":
        return f"kernel 'cpu' runs on the CPU, the tensors are on {device}"
    if dtype not in _TYPES:
        return f"kernel 'cpu' computes in float32, the tensors are {dtype}"
    return None


def _converted(geometry: Geometry, scale: float, x: Tensor, dy: Tensor, weight: Tensor) -> Tensor:
    """By way of float32 tensors in order, for those that are not."""
    x, dy, like = (t.detach().float() for t in (x, dy, weight))
    x, dy, like = (t if in_order(t) else t.contiguous() for t in (x, dy, like))
    return torch.empty_like(weight).copy_(top1(x, dy, like, geometry, scale))
