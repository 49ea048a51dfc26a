"""Which forward passes update BatchNorm's running statistics: one a batch, on a pass chosen on purpose.

A replayed forward would otherwise update them twice (field report B11). Two means:

* `set_tracking(norms, on)` lets a training-mode forward normalise by its batch without touching the buffers;
* `DeferredStatistics` gathers the moments of all micro-batches of a batch and updates once (GPipe).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def batch_norms(module: nn.Module) -> list[_BatchNorm]:
    """All BatchNorm modules below `module` that keep running statistics."""
    return [m for m in module.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None]


def set_tracking(norms: Iterable[_BatchNorm], on: bool) -> None:
    """Let training-mode forwards update the running statistics, or leave them alone."""
    for norm in norms:
        norm.track_running_stats = on


class DeferredStatistics:
    """Running statistics over a whole mini-batch that passes in micro-batches.

    While `active`, forwards add sum, sum of squares and count per channel; `commit` updates the buffers as a
    forward of the whole batch would (mean, and variance with n-1), once, and starts anew. The module's own
    tracking must be off (`set_tracking`) during those forwards.
    """

    def __init__(self, norms: Iterable[_BatchNorm]) -> None:
        self.norms = list(norms)
        self.active = False
        self._moments: dict[int, tuple[Tensor, Tensor, int]] = {}
        for number, norm in enumerate(self.norms):
            norm.register_forward_pre_hook(self._hook(number))

    def _hook(self, number: int):  # type: ignore[no-untyped-def]
        def gather(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            if not self.active:
                return
            x = inputs[0].detach()
            axes = [d for d in range(x.dim()) if d != 1]
            total, squares, count = x.sum(axes), (x * x).sum(axes), x.numel() // x.shape[1]
            if number in self._moments:
                before = self._moments[number]
                total, squares, count = before[0] + total, before[1] + squares, before[2] + count
            self._moments[number] = (total, squares, count)

        return gather

    @torch.no_grad()
    def commit(self) -> None:
        """Update the running statistics from the gathered moments."""
        for number, (total, squares, count) in self._moments.items():
            norm = self.norms[number]
            assert norm.running_mean is not None
            assert norm.running_var is not None
            assert norm.num_batches_tracked is not None
            norm.num_batches_tracked.add_(1)
            weight = norm.momentum if norm.momentum is not None else 1.0 / float(norm.num_batches_tracked)
            mean = total / count
            variance = (squares / count - mean * mean).clamp_(min=0) * (count / max(1, count - 1))
            norm.running_mean.lerp_(mean, weight)
            norm.running_var.lerp_(variance, weight)
        self._moments.clear()
