"""top1 on the CPU by compiled loops: one pass over dy, then runs of memory added up per output channel.

No sum depends on the number of threads: an output channel (or a fixed part of the samples) belongs to one thread.

Right after a convolution the interpreter's own code has left the caches, and each call costs 10 to 30 microseconds. So
what a shape needs is worked out once (plan.py), and a call fills in addresses and enters native code once.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from repro.gradient.geometry import ConvShape, Geometry

if TYPE_CHECKING:
    from repro.gradient.kernels.plan import Plan

_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_held = threading.local()  # plans have memory that a call writes to


def top1(x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, scale: float = 1.0) -> Tensor:
    """Filter gradient, as weight [Cout, Cin/groups, Kh, Kw], from x [N, Cin, H, W] and dy [N, Cout, Ho, Wo]."""
    key = (x.shape, x.stride(), dy.shape, dy.stride(), weight.stride(), x.dtype, dy.dtype, weight.dtype, geometry, scale)
    try:
        plan = _held.plans[key]
    except (AttributeError, KeyError):
        return _first(key, x, dy, weight, geometry, scale)
    if plan is None:
        return _converted(x, dy, weight, geometry, scale)
    return plan.run(x, dy, weight)


def why_not(shape: ConvShape, dtype: torch.dtype, device: torch.device) -> str | None:
    """Why this kernel cannot do it, or None."""
    if device.type != "cpu":
        return f"kernel 'cpu' runs on the CPU, the tensors are on {device}"
    if dtype not in _TYPES:
        return f"kernel 'cpu' computes in float32, the tensors are {dtype}"
    return None


def _first(key: object, x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, scale: float) -> Tensor:
    """The first call of a kind: decide how these are done from now on."""
    if not dy.shape[0]:
        return torch.zeros_like(weight)
    from repro.gradient.kernels.plan import Plan, in_order  # imports Numba

    ready = all(t.dtype == torch.float32 and in_order(t) for t in (x, dy, weight))
    if not hasattr(_held, "plans"):
        _held.plans = {}
    _held.plans[key] = Plan(x, dy, weight, geometry, scale) if ready else None
    return top1(x, dy, weight, geometry, scale)


def _converted(x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, scale: float) -> Tensor:
    """By way of float32 tensors in order, for those that are not."""
    from repro.gradient.kernels.plan import in_order

    x, dy, like = (t.detach().float() for t in (x, dy, weight))
    x, dy, like = (t if in_order(t) else t.contiguous() for t in (x, dy, like))
    found = top1(x, dy, like, geometry, scale)
    return torch.empty_like(weight).copy_(found)
