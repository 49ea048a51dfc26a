"""`repro bench compute`: every variant beside the first one, and what the thread can do at most."""

from __future__ import annotations

import pytest

from repro.benchmarks.compute import VARIANTS, ComputeBench
from repro.benchmarks.turns import Turns
from repro.errors import UserError


def test_a_row_a_variant_and_the_matrix_product() -> None:
    turns = Turns("compute", rounds=2)
    bench = ComputeBench("tiny", 8, 4, variants="contiguous,all", rounds=2, turns=turns)
    first, second, product = bench.rows()
    assert [first["variant"], second["variant"], product["variant"]] == [
        "contiguous",
        "all",
        "matrix product",
    ]
    assert first["ratio_to_first"] == 1.0
    assert second["seconds_per_batch_n"] == 2
    assert 0 < second["seconds_per_batch"] < 5
    assert product["gflops"] > 0


def test_an_unknown_variant_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"Did you mean 'fused'.*Allowed"):
        ComputeBench(variants="contiguous,fusd").rows()
    assert "fused" in VARIANTS
