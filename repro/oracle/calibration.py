"""The oracle's own re-estimate of BatchNorm statistics for an evaluation (`norm_recalibration`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

Running = list[tuple[_BatchNorm, tuple[Tensor | None, Tensor | None, Tensor | None]]]


def fresh_statistics(
    forward: Callable[[int], None], norms: Iterable[Iterable[_BatchNorm]], batches: int
) -> Running:
    """Mean over `forward(0..batches-1)` of each batch's own mean and variance; returns the running ones, put aside."""
    before: Running = []
    for norm in [norm for block in norms for norm in block] if batches else []:
        before.append((norm, (norm.running_mean, norm.running_var, norm.num_batches_tracked)))
        assert norm.running_mean is not None
        norm.running_mean, norm.running_var = (
            torch.zeros_like(norm.running_mean),
            torch.ones_like(norm.running_mean),
        )
        norm.num_batches_tracked = None
        norm.train()
    momenta = [norm.momentum for norm, _ in before]
    for batch in range(batches):
        for norm, _ in before:
            norm.momentum = 1.0 / (batch + 1)
        forward(batch)
    for (norm, _), momentum in zip(before, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()
    return before


def put_back(before: Running) -> None:
    """The running statistics as they were."""
    for norm, (mean, variance, number) in before:
        norm.running_mean, norm.running_var, norm.num_batches_tracked = mean, variance, number
