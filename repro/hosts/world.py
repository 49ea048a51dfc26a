"""What torchrun tells a process that it has started, by environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repro.errors import UserError
from repro.recipe import Recipe

_NAMES = {
    "rank": "RANK",
    "size": "WORLD_SIZE",
    "local_rank": "LOCAL_RANK",
    "local_size": "LOCAL_WORLD_SIZE",
    "node": "GROUP_RANK",
    "nodes": "GROUP_WORLD_SIZE",
    "port": "MASTER_PORT",
    "attempt": "TORCHELASTIC_RESTART_COUNT",
}


@dataclass(frozen=True)
class World:
    """This process among all that torchrun has started: rank of `size`, `local_rank` of `local_size` on host `node`."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    node: int
    nodes: int
    port: int
    attempt: int  # how often torchrun has started this host's processes again
    address: str  # with `port`: of the store that torchrun shares with its processes

    @property
    def prefix(self) -> str:
        """Of this attempt's keys in the store, which may outlive it."""
        return f"repro/{self.attempt}"

    @property
    def speaks(self) -> bool:
        """Whether it is for this process to tell its host's terminal how the run has ended."""
        return self.local_rank == 0


def found_world(environment: Mapping[str, str] = os.environ) -> World | None:
    """The world that torchrun has started this process in; None where it has not."""
    if "TORCHELASTIC_RUN_ID" not in environment:
        return None
    try:
        numbers = {field: int(environment[name]) for field, name in _NAMES.items()}
        return World(**numbers, address=environment["MASTER_ADDR"])
    except (KeyError, ValueError) as error:
        raise UserError(f"started by torchrun, but without a sensible {error}") from None


def check_size(world: World, recipes: Sequence[Recipe]) -> None:
    """Raise UserError where a recipe has another number of blocks (times replicas) than there are processes."""
    for recipe in recipes:
        if recipe.ranks == world.size:
            continue
        each, left = divmod(recipe.ranks, world.nodes)
        hint = (
            f"give --nproc-per-node {each}"
            if each and not left
            else "let the hosts' --nproc-per-node add up to it"
        )
        replicas = f" and replicas = {recipe.replicas}" if recipe.replicas > 1 else ""
        blocks, more = divmod(world.size, recipe.replicas)
        fitting = f", or --set blocks={blocks}" if not more else ""
        raise UserError(
            f"{recipe.name} has blocks = {recipe.blocks}{replicas}, but torchrun has started {world.size} "
            f"process{'' if world.size == 1 else 'es'} on {world.nodes} host{'' if world.nodes == 1 else 's'}: {hint}"
            f"{fitting}"
        )
