"""A replica's part in an update: the block's gradient of its shard and its losses as one row, and the sum in their place.

    row = [gradient of weight 0 | gradient of weight 1 | ... | losses of replica 0 | losses of replica 1 | ... | zeros]

In the last block the row has a place for the loss of every micro-batch of every replica; a replica fills its own, so that
the sum over the replicas holds all of them as they are. Losses and gradients are of the mean over the whole batch already
(each micro-batch weighs as much as its share of it), so that a sum is all that is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class ShareRow:
    """The row of `replica` of `replicas`: memory that is used again for every update, filled up to equal parts."""

    def __init__(self, replica: int, replicas: int) -> None:
        self._replica, self._replicas = replica, replicas
        self._row = torch.empty(0)

    @property
    def held_bytes(self) -> int:
        """Bytes of the row."""
        return self._row.numel() * self._row.element_size()

    @torch.no_grad()
    def filled(self, weights: Sequence[Tensor], losses: Sequence[Tensor], places: Sequence[int]) -> Tensor:
        """The row [n] of float32; `places`: how many losses each replica has, () but in the last block.

        A weight without gradient has none in any replica, and no place.
        """
        gradients = [w.grad for w in weights if w.grad is not None]
        count = sum(g.numel() for g in gradients) + sum(places)
        size = -(-count // self._replicas) * self._replicas
        if self._row.numel() != size:
            device = next((t.device for t in (*weights, *losses)), None)
            self._row = torch.empty(size, dtype=torch.float32, device=device)
        first = 0
        for gradient in gradients:
            behind = first + gradient.numel()
            self._row[first:behind].view(gradient.shape).copy_(gradient)
            first = behind
        self._row[first:].zero_()
        first += sum(places[: self._replica])
        for j, loss in enumerate(losses):
            self._row[first + j] = loss
        return self._row


@torch.no_grad()
def put_back(total: Tensor, weights: Sequence[Tensor], places: Sequence[int]) -> list[Tensor]:
    """Write the sum of all rows to the weights' gradients; returns the losses of all micro-batches, replica by replica."""
    first = 0
    for weight in weights:
        if weight.grad is not None:
            behind = first + weight.grad.numel()
            weight.grad.copy_(total[first:behind].view(weight.grad.shape))
            first = behind
    return list(total[first : first + sum(places)].clone())
