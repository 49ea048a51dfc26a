"""Which forward passes update BatchNorm's running statistics: one a batch, on a pass chosen on purpose.

A replayed forward would otherwise update them twice (field report B11). Three means:

* `set_tracking(norms, on)` lets a training-mode forward normalise by its batch without touching the buffers;
* `DeferredStatistics` gathers the moments of all micro-batches of a batch and updates once (GPipe);
* `recalibrated` puts statistics of the present weights in the place of the running ones for an evaluation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

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


@contextmanager
def recalibrated(norms: Sequence[_BatchNorm]) -> Iterator[None]:
    """While open, statistics are gathered anew: the mean over the forwards of `norms` in training mode so far.

    The running statistics are put aside, not written to (graphs that were kept know their tensors), and come back.
    Each forward weighs the same, as in `torch.optim.swa_utils.update_bn`; the variance is the unbiased one, as in
    training.
    """
    before = [(dict(norm._buffers), norm.momentum) for norm in norms]
    for norm in norms:
        norm._buffers.update(
            {k: None if v is None else torch.empty_like(v) for k, v in norm._buffers.items()}
        )
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean
    try:
        yield
    finally:
        for norm, (buffers, momentum) in zip(norms, before, strict=True):
            norm._buffers.update(buffers)
            norm.momentum = momentum


@dataclass
class _Moments:
    """Count, mean and sum of squared deviations per channel of what has passed so far."""

    count: int
    mean: Tensor
    squares: Tensor

    def joined(self, other: _Moments) -> _Moments:
        """Moments of both parts together (Chan, Golub and LeVeque's update)."""
        count = self.count + other.count
        gap = other.mean - self.mean
        mean = self.mean + gap * (other.count / count)
        squares = self.squares + other.squares + gap * gap * (self.count * other.count / count)
        return _Moments(count, mean, squares)


class DeferredStatistics:
    """Running statistics over a whole mini-batch that passes in micro-batches.

    While `active`, each forward leaves its own mean and variance (BatchNorm computes them anyway: its buffers
    are exchanged for a scratch pair with momentum 1); `commit` joins them and updates the true buffers as a
    forward of the whole batch would, once. The module's own tracking must be off (`set_tracking`) around
    those forwards. `batch` is the one that passes, `replay` whether it does so again: batches may pass each
    other, and what a batch's moments are joined in does not depend on that.
    """

    def __init__(self, norms: Iterable[_BatchNorm]) -> None:
        self.norms = list(norms)
        self.active = False
        self.batch, self.replay = 0, False
        self._moments: dict[
            tuple[int, bool, int], list[_Moments]
        ] = {}  # by batch, replay, number of the norm
        self._kept: dict[int, tuple[dict[str, Any], float | None]] = {}
        for number, norm in enumerate(self.norms):
            norm.register_forward_pre_hook(partial(self._before, number))
            norm.register_forward_hook(partial(self._after, number))

    def _before(self, number: int, norm: nn.Module, _inputs: tuple[Tensor, ...]) -> None:
        if not self.active:
            return
        assert isinstance(norm, _BatchNorm)
        assert norm.running_mean is not None
        self._kept[number] = (dict(norm._buffers), norm.momentum)
        norm._buffers["running_mean"] = torch.zeros_like(norm.running_mean)
        norm._buffers["running_var"] = torch.zeros_like(norm.running_mean)
        norm._buffers["num_batches_tracked"] = None
        norm.momentum, norm.track_running_stats = 1.0, True

    def _after(self, number: int, norm: nn.Module, inputs: tuple[Tensor, ...], _output: Tensor) -> None:
        if number not in self._kept:
            return
        assert isinstance(norm, _BatchNorm)
        assert norm.running_mean is not None
        assert norm.running_var is not None
        count = inputs[0].numel() // inputs[0].shape[1]
        found = _Moments(count, norm.running_mean, norm.running_var * (count - 1))
        buffers, norm.momentum = self._kept.pop(number)
        norm._buffers.update(buffers)
        norm.track_running_stats = False
        self._moments.setdefault((self.batch, self.replay, number), []).append(found)

    @torch.no_grad()
    def commit(self, batch: int = 0) -> None:
        """Update the running statistics from the gathered moments of `batch`, and forget those."""
        for number, norm in enumerate(self.norms):
            passes = [self._moments.pop((batch, replay, number), []) for replay in (False, True)]
            if not any(passes):
                continue
            moments = reduce(_Moments.joined, itertools.chain(*passes))
            assert norm.running_mean is not None
            assert norm.running_var is not None
            assert norm.num_batches_tracked is not None
            norm.num_batches_tracked.add_(1)
            weight = norm.momentum if norm.momentum is not None else 1.0 / float(norm.num_batches_tracked)
            norm.running_mean.lerp_(moments.mean, weight)
            norm.running_var.lerp_(moments.squares / max(1, moments.count - 1), weight)

    def state(self) -> list[tuple[int, bool, int, int, Tensor, Tensor]]:
        """Moments of batches that are under way, for a checkpoint: (batch, replay, norm, count, mean, squares)."""
        return [(*key, m.count, m.mean, m.squares) for key, found in self._moments.items() for m in found]

    def load_state(self, state: Iterable[tuple[int, bool, int, int, Tensor, Tensor]]) -> None:
        """Inverse of `state`."""
        self._moments.clear()
        for batch, replay, number, count, mean, squares in state:
            self._moments.setdefault((batch, replay, number), []).append(_Moments(count, mean, squares))
