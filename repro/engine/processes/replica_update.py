"""What a worker does around an update where its block has replicas: hand its row in, take the sum of all rows back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from repro.engine.block.share import put_back
from repro.schedule import Action

if TYPE_CHECKING:
    from repro.engine.processes.worker import Worker


def own_row(worker: Worker, action: Action) -> Tensor:
    """The block's gradient of its shard, and in the last block the losses, as one row [n]."""
    losses = worker.losses.taken(action.batch) if worker.last else []
    with worker.watch.measure(action):
        return worker.share.filled(worker.block.collect(), losses, _places(worker, action))


def take_sum(worker: Worker, action: Action, total: Tensor) -> None:
    """Put the sum of all replicas' rows in the place of the block's own gradient; its losses are those of the batch."""
    with worker.watch.measure(action):
        losses = put_back(total, worker.block.collect(), _places(worker, action))
    for loss in losses:
        worker.losses.add(action.batch, loss)
    if worker.last:
        worker.close_losses(action.batch)


def _places(worker: Worker, action: Action) -> list[int]:
    return worker.samples.losses(action.batch) if worker.last else []
