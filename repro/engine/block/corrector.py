"""The corrections of one block at work: which weights a forward meets, at what rate and with which gradient it learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from repro.corrections import Correction, Place
from repro.engine.block.optimizer import BlockOptimizer


class Corrector:
    """Applies a recipe's corrections, in their order, to the weights of `optimizer`.

    `memory[i][j]`: what correction i remembers of weight j, in the order of the optimiser's weights.
    """

    def __init__(self, corrections: Sequence[Correction], place: Place, optimizer: BlockOptimizer) -> None:
        self.corrections, self.place, self.optimizer = tuple(corrections), place, optimizer
        self.memory: list[list[dict[str, Tensor]]] = [[{} for _ in optimizer.weights] for _ in corrections]
        self._then: Sequence[Tensor] | None = None  # where the gradient of the batch under way was taken
        self._predicted: tuple[int, int, list[Tensor]] | None = None  # (batch, updates, weights)
        optimizer.rate_rule = self.rate

    def rate(self, rate: float, update: int) -> float:
        """The learning rate of update number `update`, which would be `rate`."""
        for correction in self.corrections:
            rate = correction.rate(rate, update, self.place)
        return rate

    @torch.no_grad()
    def predicted(self, batch: int, updates: int) -> list[Tensor] | None:
        """The weights for the forward of `batch` after `updates` updates; None where they are the present ones.

        All micro-batches of a batch share them.
        """
        looking = [c for c in self.corrections if c.overrides("ahead")]
        if not looking or batch <= updates or not any(self.optimizer.states()):
            return None
        if self._predicted is not None and self._predicted[:2] == (batch, updates):
            return self._predicted[2]
        rate, found = self.optimizer.rate(updates), []
        for weight, direction in zip(self.optimizer.weights, self.optimizer.directions(), strict=True):
            value = weight.detach()
            for correction in looking:
                value = (
                    value if direction is None else correction.ahead(value, direction, rate, batch - updates)
                )
            found.append(value.clone().requires_grad_() if direction is None else value.requires_grad_())
        self._predicted = (batch, updates, found)
        return found

    def taken_at(self, weights: Sequence[Tensor]) -> None:
        """The gradient of the batch under way is of these older weights."""
        self._then = weights

    @torch.no_grad()
    def compensate(self) -> None:
        """Correct the gradients of the batch, before anything else looks at them."""
        then, self._then = self._then, None
        if self.place.staleness < 1:
            return
        present = self.optimizer.weights
        for correction, memory in zip(self.corrections, self.memory, strict=True):
            if not correction.overrides("compensate"):
                continue
            for now, older, known in zip(present, present if then is None else then, memory, strict=True):
                if now.grad is not None:
                    now.grad = correction.compensate(now.grad, now.detach(), older.detach(), known)

    def held_bytes(self) -> int:
        """Bytes of what the corrections remember."""
        tensors = (t for memory in self.memory for known in memory for t in known.values())
        return sum(t.numel() * t.element_size() for t in tensors)

    def state(self) -> list[list[dict[str, Tensor]]]:
        """What the corrections remember, for a checkpoint."""
        return self.memory

    def load_state(self, state: Any) -> None:
        """Inverse of `state`."""
        self.memory = [[dict(known) for known in memory] for memory in state]
