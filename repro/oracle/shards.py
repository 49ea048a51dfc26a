"""How the oracle cuts a batch: into the shards of the replicas, and each into micro-batches."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from repro.planning.run_plan import Plan


@dataclass(frozen=True)
class Part:
    """A micro-batch: whose it is, its number in the whole batch, and which samples of that."""

    replica: int
    number: int
    where: slice


def parts_of(plan: Plan, size: int) -> list[Part]:
    """The parts of a batch of `size` samples, replica by replica; numbers leave room for M of each replica."""
    recipe, found, first = plan.recipe, [], 0
    most = recipe.method.micro_batches(recipe.data.batch_size // recipe.replicas)
    for replica, shard in enumerate(torch.arange(size).tensor_split(recipe.replicas)):
        count = recipe.method.micro_batches(len(shard))
        for j, samples in enumerate(shard.tensor_split(count)):
            found.append(Part(replica, replica * most + j, slice(first, first + len(samples))))
            first += len(samples)
    return found
