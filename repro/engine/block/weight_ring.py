"""The versions of a block's weights where every batch is forwarded and back-propagated a fixed number of updates late.

delay 1, two versions (PipeDream-2BW); batch t meets W^(t-1):

    update 1     buffer A = W^(0), has the gradient of batch 1          buffer B = W^(1), the present weights
                 A <- W^(1), then one step in place                     B stays: batch 2 meets it
    update 2     A = W^(2), the present weights                         B = W^(1), has the gradient of batch 2

The gradients of two batches never meet: each is added to the version that its batch was forwarded at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from repro.engine.block.optimizer import BlockOptimizer


class WeightRing:
    """The `delay` older versions beside the optimiser's present weights; `older[n]`: those after n updates."""

    def __init__(self, optimizer: BlockOptimizer, delay: int) -> None:
        self.optimizer, self.delay = optimizer, delay
        self.older: dict[int, list[Tensor]] = {}

    @contextmanager
    def at(self, batch: int, updates: int) -> Iterator[None]:
        """With the weights that `batch` is forwarded at in their places; `updates` have been made."""
        version = max(0, batch - self.delay)
        if version == updates:
            yield
            return
        present = self.optimizer.swap(self.older[version])
        try:
            yield
        finally:
            self.optimizer.swap(present)

    def gather(self, updates: int) -> list[Tensor]:
        """Move the gradient of batch `updates` to the present weights; returns the weights that it was taken at."""
        present = self.optimizer.weights
        used = self.older.get(max(0, updates - self.delay), present)
        for weight, then in zip(present, used, strict=True):
            if then is not weight and then.grad is not None:  # a predicted version's is there already
                weight.grad, then.grad = then.grad, None
        return used

    @torch.no_grad()
    def advance(self, updates: int) -> None:
        """After `gather`: give update number `updates` tensors of their own to write to, and keep W^(updates).

        The version that the batch was forwarded at is needed no more once the ring is full: it is written over.
        """
        if self.delay == 0:
            return
        present = self.optimizer.weights
        into = self.older.pop(updates - self.delay, None)
        if into is None:
            into = [nn.Parameter(weight.detach().clone()) for weight in present]
        elif into:
            torch._foreach_copy_(into, present)
        self.older[updates] = present
        self.optimizer.renew(into)

    def tensors(self) -> list[Tensor]:
        """All older weights, for counting memory."""
        return [weight for version in self.older.values() for weight in version]

    def state(self) -> dict[int, list[Tensor]]:
        """The older versions, for a checkpoint."""
        return {number: [w.detach() for w in version] for number, version in self.older.items()}

    def load_state(self, state: Mapping[int, list[Tensor]]) -> None:
        """Inverse of `state`."""
        self.older = {number: [nn.Parameter(w) for w in version] for number, version in state.items()}
