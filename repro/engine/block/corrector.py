"""The corrections of one block at work: which weights a forward meets, at what rate and with which gradient it learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from repro.corrections import Correction, Place
from repro.engine.block.optimizer import BlockOptimizer


class Corrector:
    """Applies a recipe's corrections, in their order, to the weights of `optimizer`.

    `memory[i][j]`: what correction i remembers of weight j, in the order of the optimiser's weights. Where the
    schedule keeps versions, a batch meets the version of m updates before its own update whenever it is
    forwarded, so its weights are predicted when that version is made: `upcoming` holds them by batch.
    """

    def __init__(
        self,
        corrections: Sequence[Correction],
        place: Place | None,
        optimizer: BlockOptimizer,
        kept_versions: bool = False,
    ) -> None:
        self.corrections, self.optimizer = tuple(corrections), optimizer
        self.place = place or Place(0, 1, 0, 1)  # none is needed without corrections
        self.kept_versions = kept_versions
        self.memory: list[list[dict[str, Tensor]]] = [[{} for _ in optimizer.weights] for _ in corrections]
        self.upcoming: dict[int, list[Tensor]] = {}
        self._looking = [c for c in corrections if c.overrides("ahead")]
        self._then: Sequence[Tensor] | None = None  # where the gradient of the batch under way was taken
        optimizer.rate_rule = self.rate

    def rate(self, rate: float, update: int) -> float:
        """The learning rate of update number `update`, which would be `rate`."""
        for correction in self.corrections:
            rate = correction.rate(rate, update, self.place)
        return rate

    def predicted(self, batch: int, updates: int) -> list[Tensor] | None:
        """The weights for the forward of `batch` after `updates` updates; None where they are its version's."""
        if self.kept_versions:
            return self.upcoming.get(batch)
        return self._predict(updates, batch - updates)

    @torch.no_grad()
    def _predict(self, updates: int, ahead: int) -> list[Tensor] | None:
        """The present weights, after `updates` updates, moved along by `ahead` more; None where nothing moves them."""
        if not self._looking or ahead < 1 or not any(self.optimizer.states()):
            return None
        rate, found = self.optimizer.rate(updates), []
        for weight, direction in zip(self.optimizer.weights, self.optimizer.directions(), strict=True):
            value = weight.detach()
            for correction in self._looking:
                value = value if direction is None else correction.ahead(value, direction, rate, ahead)
            found.append((value.clone() if direction is None else value).requires_grad_())
        return found

    def taken_at(self, weights: Sequence[Tensor]) -> None:
        """The gradient of the batch under way is of these older weights."""
        self._then = weights

    @torch.no_grad()
    def compensate(self, version: Sequence[Tensor] | None = None) -> None:
        """Correct the gradients of the batch, before anything else looks at them.

        `version`: where versions are kept, the one that the batch met.
        """
        then, self._then = self._then or version, None
        if self.place.staleness < 1:
            return
        present = self.optimizer.weights
        for correction, memory in zip(self.corrections, self.memory, strict=True):
            if not correction.overrides("compensate"):
                continue
            for now, older, known in zip(present, present if then is None else then, memory, strict=True):
                if now.grad is not None:
                    now.grad = correction.compensate(now.grad, now.detach(), older.detach(), known)

    @torch.no_grad()
    def backward_weights(self) -> list[Tensor] | None:
        """The weights for a backward that reads them late; None where they are the present ones."""
        found = None
        for correction, memory in zip(self.corrections, self.memory, strict=True):
            if correction.overrides("backward"):
                weights = self.optimizer.weights if found is None else found
                found = [
                    correction.backward(weight.detach(), known, self.place)
                    for weight, known in zip(weights, memory, strict=True)
                ]
        return found

    @torch.no_grad()
    def step(self, update: int) -> None:
        """The optimiser's update number `update`, and what the corrections learn of it."""
        following = [
            (c, m) for c, m in zip(self.corrections, self.memory, strict=True) if c.overrides("moved")
        ]
        before = [weight.detach().clone() for weight in self.optimizer.weights] if following else []
        self.optimizer.step(update)
        for correction, memory in following:
            for old, new, known in zip(before, self.optimizer.weights, memory, strict=True):
                correction.moved(old, new.detach(), known, self.place)
        self.upcoming.pop(update, None)
        if self.kept_versions:
            predicted = self._predict(update + 1, self.place.staleness)
            if predicted is not None:
                self.upcoming[update + 1 + self.place.staleness] = predicted

    def held_bytes(self) -> int:
        """Bytes of what the corrections remember."""
        tensors = (t for memory in self.memory for known in memory for t in known.values())
        return sum(t.numel() * t.element_size() for t in tensors)

    def state(self) -> dict[str, Any]:
        """What the corrections remember and have predicted, for a checkpoint."""
        upcoming = {batch: [w.detach() for w in weights] for batch, weights in self.upcoming.items()}
        return {"memory": self.memory, "upcoming": upcoming}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`."""
        self.memory = [[dict(known) for known in memory] for memory in state["memory"]]
        self.upcoming = {
            batch: [w.requires_grad_() for w in weights] for batch, weights in state["upcoming"].items()
        }
