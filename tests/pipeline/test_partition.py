"""Cuts: exact, aware of recomputation, never an empty block."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.planning.partition import LayerCost, best_cut, block_cost, graph_bytes, spans

costs_of = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda t: LayerCost(float(t[0]), float(t[1]))),
    min_size=1,
    max_size=8,
)


def largest(costs: list[LayerCost], cut: tuple[int, ...], recompute: list[bool]) -> float:
    return max(block_cost(costs[a:b], r) for (a, b), r in zip(spans(cut, len(costs)), recompute, strict=True))


@given(costs_of, st.data())
def test_no_cut_is_better(costs: list[LayerCost], draw: st.DataObject) -> None:
    blocks = draw.draw(st.integers(1, len(costs)))
    recompute = draw.draw(st.lists(st.booleans(), min_size=blocks, max_size=blocks))
    cut = best_cut(costs, recompute)
    assert all(b > a for a, b in spans(cut, len(costs)))
    every = [largest(costs, c, recompute) for c in combinations(range(1, len(costs)), blocks - 1)]
    assert largest(costs, cut, recompute) == min(every)


def test_the_last_block_holds_more_because_it_never_recomputes() -> None:
    costs = [LayerCost(1.0, 2.0)] * 14
    assert best_cut(costs, [True, False]) == (6,)  # 6 * 4 = 24 = 8 * 3
    assert best_cut(costs, [False, False]) == (7,)


def test_more_blocks_than_layers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"blocks = 3 is more than the 2 layers"):
        best_cut([LayerCost(1, 1)] * 2, [True] * 3)


def test_a_tensor_between_two_layers_counts_once() -> None:
    a, b = LayerCost(1, 1, 100, 7, 30), LayerCost(1, 1, 50, 30, 9)
    assert graph_bytes([a, b]) == 100 + 30 + 50 + 9
