"""Cuts a list of layers into K blocks so that the most expensive block is as cheap as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from repro.errors import UserError


@dataclass(frozen=True)
class LayerCost:
    """What one layer takes for one full batch: seconds forward and backward, bytes kept for the backward.

    `input_bytes` / `output_bytes`: size of its input / output if the backward needs it, else 0; `inner_bytes`: the rest.
    """

    forward: float
    backward: float
    inner_bytes: int = 0
    input_bytes: int = 0
    output_bytes: int = 0


def block_cost(costs: Sequence[LayerCost], recompute: bool) -> float:
    """Seconds of work per batch of a block with these layers; a recomputing block runs its forward twice."""
    return sum(c.forward * (2 if recompute else 1) + c.backward for c in costs)


def graph_bytes(costs: Sequence[LayerCost]) -> int:
    """Bytes that the graph of a block with these layers keeps, the block's input left out.

    A tensor between two layers is kept once if either side needs it.
    """
    between = sum(max(a.output_bytes, b.input_bytes) for a, b in pairwise(costs))
    return sum(c.inner_bytes for c in costs) + between + (costs[-1].output_bytes if costs else 0)


def spans(cut: Sequence[int], num_layers: int) -> list[tuple[int, int]]:
    """Turn the first layers of blocks 1..K-1 into half-open ranges of layers, one per block."""
    edges = [0, *cut, num_layers]
    return list(pairwise(edges))


def checked_cut(cut: tuple[int, ...], layers: int) -> tuple[int, ...]:
    """A cut that a recipe gives; UserError where it lies beyond the layers."""
    if cut and cut[-1] >= layers:
        raise UserError(
            f"cut = {list(cut)}: the model has {layers} layers, give first layers in 1..{layers - 1}"
        )
    return cut


def best_cut(costs: Sequence[LayerCost], recompute: Sequence[bool]) -> tuple[int, ...]:
    """Return the first layers of blocks 1..K-1 that minimise the largest block's cost.

    `recompute[k]` says whether block k replays its forward. Every block gets at least one layer; among equal
    cuts the earliest boundaries win, so the result is a function of the costs. Exact, by dynamic programming
    over (blocks, layers): O(K L^2). Raises ValueError if there are fewer layers than blocks.
    """
    num_layers, num_blocks = len(costs), len(recompute)
    if num_blocks > num_layers:
        raise ValueError(
            f"blocks = {num_blocks} is more than the {num_layers} layers of the model: give 1..{num_layers}"
        )
    once = [0.0, *accumulate(c.forward + c.backward for c in costs)]
    twice = [0.0, *accumulate(2 * c.forward + c.backward for c in costs)]
    infinite = float("inf")
    # best[k][e]: smallest possible largest cost of blocks 0..k over layers 0..e-1; start[k][e]: block k's
    # first layer
    best = [[infinite] * (num_layers + 1) for _ in range(num_blocks)]
    start = [[0] * (num_layers + 1) for _ in range(num_blocks)]
    for k in range(num_blocks):
        total = twice if recompute[k] else once
        for end in range(k + 1, num_layers + 1):
            if k == 0:
                best[0][end] = total[end]
                continue
            for first in range(k, end):
                largest = max(best[k - 1][first], total[end] - total[first])
                if largest < best[k][end]:
                    best[k][end], start[k][end] = largest, first
    cut: list[int] = []
    end = num_layers
    for k in range(num_blocks - 1, 0, -1):
        end = start[k][end]
        cut.insert(0, end)
    return tuple(cut)
