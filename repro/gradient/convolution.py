"""A convolution whose filter gradient comes from an estimator; input and bias gradient stay exact."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from repro.gradient import library
from repro.gradient.estimators import Estimator
from repro.gradient.geometry import Geometry
from repro.gradient.layout import by_pixel


def convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry, estimator: Estimator, seed: int
) -> Tensor:
    """Convolve x [N, Cin, H, W] with weight [Cout, Cin/groups, Kh, Kw] and bias [Cout].

    The estimator and the seed are fixed here, at the forward: a graph that is kept over several batches uses
    those of its own batch. X is kept only if the estimator needs it (zero and random do not).
    """
    y: Tensor = _Convolution.apply(x, weight, bias, geometry, estimator, seed)
    return y


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        geometry: Geometry,
        estimator: Estimator,
        seed: int,
    ) -> Tensor:
        keep = estimator.needs_input and ctx.needs_input_grad[1]
        ctx.save_for_backward(weight, *([x] if keep else []))
        ctx.geometry, ctx.estimator, ctx.seed, ctx.keep = geometry, estimator, seed, keep
        ctx.shape, ctx.dtype = x.shape, x.dtype
        ctx.by_pixel = by_pixel(x)
        return library.forward(x, weight, bias, geometry)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        weight, *kept = ctx.saved_tensors
        x: Tensor | None = kept[0] if kept else None
        dx = dw = db = None
        if ctx.needs_input_grad[0]:
            dx = library.input_gradient(_like_input(ctx, dy) if x is None else x, dy, weight, ctx.geometry)
        if ctx.needs_input_grad[1]:
            dw = ctx.estimator(x, dy, weight, ctx.geometry, ctx.seed)
        if ctx.needs_input_grad[2]:
            db = dy.sum(dim=(0, 2, 3))
        return dx, dw, db, None, None, None


def _like_input(ctx: Any, dy: Tensor) -> Tensor:
    """A stand-in for X: its shape and layout, without its memory where the layout allows it."""
    if ctx.by_pixel:
        return torch.empty(ctx.shape, dtype=ctx.dtype, device=dy.device, memory_format=torch.channels_last)
    return torch.empty(1, dtype=ctx.dtype, device=dy.device).expand(ctx.shape)
