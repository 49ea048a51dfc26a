"""Data parallel x pipeline: what of a run's batches, devices and processes each replica of the pipeline has.

rank = replica * K + block: the blocks of one pipeline are neighbours, and share a host where they can.

    R = 2, K = 3     replica 0: ranks 0 1 2     the gradients of a block are added up over the replicas,
                     replica 1: ranks 3 4 5     here over ranks 0 and 3, 1 and 4, 2 and 5
"""

from __future__ import annotations

from collections.abc import Collection

from repro.data.batches import shard_sizes
from repro.errors import UserError
from repro.recipe import Recipe


def check_shards(recipe: Recipe, sizes: Collection[int]) -> set[int]:
    """The sizes of all shards of batches of `sizes`; UserError where a replica would have no sample of one."""
    if min(sizes) < recipe.replicas:
        raise UserError(
            f"replicas = {recipe.replicas}: the last batch of an epoch has {min(sizes)} "
            f"sample{'' if min(sizes) == 1 else 's'}, so that a replica would have none; give data.last_batch=drop, or at "
            f"most {min(sizes)} replicas"
        )
    return {shard for size in sizes for shard in shard_sizes(size, recipe.replicas)}


def rank_words(rank: int, blocks: int, replicas: int) -> str:
    """ "block 1", or where there are several replicas "block 1 of replica 0"."""
    return f"block {rank}" if replicas == 1 else f"block {rank % blocks} of replica {rank // blocks}"
