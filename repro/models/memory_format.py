"""Channels side by side in memory: a layer whose filters, inputs, outputs and gradients all lie so."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def use_channels_last(layer: nn.Module) -> None:
    """Lay out `layer`'s filters with channels last, and whatever enters and leaves it, forward and backward.

    Where a network is cut, tensors arrive from a message in plain order; with every layer's borders arranged,
    a layer meets the same bits in the same places wherever the cut is.
    """
    layer.to(memory_format=torch.channels_last)
    layer.register_forward_pre_hook(lambda _, args: (arranged(args[0]),))
    layer.register_forward_hook(lambda _, args, y: arranged(y))


def arranged(x: Tensor) -> Tensor:
    """The maps x [N, C, H, W], and later their gradient, with channels last; other tensors as they are."""
    found: Tensor = _Arrange.apply(x) if x.dim() == 4 else x
    return found


class _Arrange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _channels_last(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _channels_last(gradient)


def _channels_last(x: Tensor) -> Tensor:
    _, channels, height, width = x.shape
    # Compared one by one: with one channel or one pixel several layouts are the same to torch, not to its
    # kernels.
    if x.stride() == (channels * height * width, 1, channels * width, channels):
        return x.view_as(x)
    return torch.empty_like(x, memory_format=torch.channels_last).copy_(x)
