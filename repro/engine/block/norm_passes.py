"""The BatchNorm statistics of one block: which passes count, and what an evaluation uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from repro.models.norm_statistics import DeferredStatistics, batch_norms, recalibrated, set_tracking


class NormPasses:
    """All norms below `modules`; `deferred`: a batch passes in micro-batches, and counts once, with its update."""

    def __init__(self, modules: nn.Module, deferred: bool) -> None:
        self._modules = modules
        self._norms = batch_norms(modules)
        self._deferred = DeferredStatistics(self._norms) if deferred and self._norms else None
        self._tracking = True

    @contextmanager
    def counted(self, update: bool, batch: int, replay: bool) -> Iterator[None]:
        """A pass of `batch` in training, which counts if `update`."""
        if self._deferred is None:
            self._track(update)
            yield
            return
        self._track(False)
        self._deferred.active, self._deferred.batch, self._deferred.replay = update, batch, replay
        try:
            yield
        finally:
            self._deferred.active = False

    def commit(self, batch: int) -> None:
        """The update with `batch` is due."""
        if self._deferred is not None:
            self._deferred.commit(batch)

    @contextmanager
    def evaluating(self, recalibrate: bool) -> Iterator[None]:
        """Evaluation mode, training mode afterwards; `recalibrate`: with no statistics, and normalising by batch."""
        self._track(True)
        self._modules.eval()
        try:
            with recalibrated(self._norms if recalibrate else []):
                for norm in self._norms if recalibrate else []:
                    norm.train()
                yield
        finally:
            self._modules.train()

    def state(self) -> list[Any]:
        """Moments of batches under way, for a checkpoint."""
        return [] if self._deferred is None else self._deferred.state()

    def load_state(self, state: list[Any]) -> None:
        """Inverse of `state`."""
        if self._deferred is not None:
            self._deferred.load_state(state)

    def _track(self, on: bool) -> None:
        if on != self._tracking:
            set_tracking(self._norms, on)
            self._tracking = on
