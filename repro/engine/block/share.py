"""A replica's part in an update: the block's gradient of its shard and its losses as one row, and the sum put in their place.

    row = [gradient of weight 0 | gradient of weight 1 | ... | losses of replica 0 | losses of replica 1 | ...]

In the last block the row has a place for the loss of every micro-batch of every replica; a replica fills its own, so that
the sum over the replicas holds all of them as they are. Losses and gradients are of the mean over the whole batch already
(each micro-batch weighs as much as its share of it), so that a sum is all that is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def as_row(weights: Sequence[Tensor], losses: Sequence[Tensor], replica: int, places: Sequence[int]) -> Tensor:
    """The row [n] of float32 of `replica`; `places`: how many losses each replica has, () but in the last block.

    A weight without gradient has none in any replica, and no place.
    """
    gradients = [w.grad.reshape(-1) for w in weights if w.grad is not None]
    device = weights[0].device if weights else losses[0].device if losses else torch.device("cpu")
    slots = torch.zeros(sum(places), device=device)
    first = sum(places[:replica])
    for j, loss in enumerate(losses):
        slots[first + j] = loss
    return torch.cat([*gradients, slots])


@torch.no_grad()
def put_back(row: Tensor, weights: Sequence[Tensor], places: Sequence[int]) -> list[Tensor]:
    """Write the summed row to the weights' gradients; returns the losses of all micro-batches, replica by replica."""
    first = 0
    for weight in weights:
        if weight.grad is not None:
            count = weight.grad.numel()
            weight.grad.copy_(row[first : first + count].view(weight.grad.shape))
            first += count
    return list(row[first : first + sum(places)].clone())
