"""The samples of a block: micro-batches of images for the first, checked labels for the last, sizes for all."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from repro import data
from repro.data.batches import shard_sizes
from repro.data.pixels import upload
from repro.engine.transport.message import Envelope
from repro.errors import RunFailed
from repro.planning.run_plan import Plan
from repro.seeding import derive

Key = tuple[int, int]  # (batch, micro-batch)


class Samples:
    """A plan's data as `rank` sees it: of every training batch its replica's shard."""

    def __init__(self, plan: Plan, rank: int, seed: int) -> None:
        self.plan, self.device = plan, torch.device(plan.devices[rank])
        shard = rank // plan.blocks, plan.recipe.replicas
        self.data = data.load(plan.recipe.data, plan.data_root, seed, plan.devices[rank], shard)
        self._images: Tensor | None = None
        self._images_of = -1  # batch

    def warm_up(self, first: bool, last: bool) -> None:
        """Load what fits in memory, so that reading files is no part of the first batch."""
        if self.plan.recipe.data.name == "imagenet":
            return  # streamed, each batch once and in order
        if first:
            self.data.train_images(0)
        if last:
            self.data.train_labels(0)

    def micro_sizes(self, batch: int) -> list[int]:
        """Sizes of the micro-batches of a batch; they differ by at most one."""
        size = self.data.train_batch_size(batch)
        count = self.plan.recipe.method.micro_batches(size)
        return [size // count + (j < size % count) for j in range(count)]

    def is_last_micro(self, key: Key) -> bool:
        """Whether the batch ends with this micro-batch."""
        return key[1] == len(self.micro_sizes(key[0])) - 1

    def images(self, key: Key) -> Tensor:
        """Images [n, C, H, W] or tokens [n, context] of a micro-batch.

        Batches are asked for in order, the first perhaps from its middle on.
        """
        if key[0] != self._images_of:
            self._images, self._images_of = self.data.train_images(key[0]), key[0]
        assert self._images is not None
        where = self._slice(key)
        return self._images if where == slice(0, len(self._images)) else self._images[where].contiguous()

    def labels(self, key: Key, order: int) -> Tensor:
        """Labels [n] (of a text [n, context]), checked: of the same samples as the images (`order`), within the classes.

        They are looked at on the CPU, before they go to the device.
        """
        batch = key[0]
        ids = self.data.train_ids(batch)
        if order != self.order(batch):
            raise RunFailed(f"the labels of batch {batch} belong to other samples than its images")
        labels = self.data.host_labels(batch)
        check_labels(labels, ids, batch, self.plan.num_classes)
        return upload(labels[self._slice(key)], self.device)

    def share(self, key: Key) -> float:
        """Part of its whole batch, of all replicas, that a micro-batch is."""
        return self.micro_sizes(key[0])[key[1]] / self.data.whole_batch_size(key[0])

    def losses(self, batch: int) -> list[int]:
        """How many losses of micro-batches each replica has of a batch."""
        sizes = shard_sizes(self.data.whole_batch_size(batch), self.plan.recipe.replicas)
        return [self.plan.recipe.method.micro_batches(size) for size in sizes]

    def order(self, batch: int) -> int:
        """A 63-bit digest of the sample ids of a batch, in their order; it travels with the batch."""
        return derive(0, "order", self.data.train_ids(batch).tobytes().hex())

    def envelope(self, stream: str, key: Key, boundary: int, order: int = 0) -> Envelope:
        """What a message about micro-batch `key` looks like at the input of layer `boundary`."""
        shape = (self.micro_sizes(key[0])[key[1]], *self.plan.shapes[boundary])
        return Envelope(stream, key[0], key[1], shape, self.plan.dtype(boundary), order)

    def _slice(self, key: Key) -> slice:
        sizes = self.micro_sizes(key[0])
        start = sum(sizes[: key[1]])
        return slice(start, start + sizes[key[1]])


def check_labels(labels: Tensor, ids: Any, batch: int, num_classes: int) -> None:
    """Raise RunFailed naming the first label that is not one of the classes."""
    wrong = ((labels < 0) | (labels >= num_classes)).nonzero()
    if wrong.numel():
        place = tuple(wrong[0].tolist())
        raise RunFailed(
            f"label {int(labels[place])} of training sample {int(ids[place[0]])} (batch {batch}) is out of range: "
            f"allowed 0..{num_classes - 1}"
        )
