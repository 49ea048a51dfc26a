"""`repro bench growth`: powers that are known, and rows end to end at the smallest size."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.benchmarks.growth import _fits, power


def test_a_power_law_is_read_back() -> None:
    assert power([(math.log(x), math.log(3 * x**1.5)) for x in (1, 2, 4, 8)]) == pytest.approx(1.5)
    assert power([(1.0, 2.0), (1.0, 3.0)]) is None


def test_points_with_shared_cores_are_no_times() -> None:
    rows = [
        {"part": "blocks", "value": k, "method": "BP", "seconds_per_batch": 8.0 / k if k < 4 else 99.0,
         "largest_block_bytes": 16 // k, "all_blocks_bytes": 16, "oversubscribed": k == 4}
        for k in (1, 2, 4)
    ]  # fmt: skip
    (fit,) = _fits(rows)
    assert fit["seconds_per_batch_power"] == pytest.approx(-1.0)
    assert (fit["seconds_per_batch_points"], fit["largest_block_bytes_points"]) == (2, 3)
    assert fit["largest_block_bytes_power"] == pytest.approx(-1.0)
    assert fit["all_blocks_bytes_power"] == pytest.approx(0.0)


def test_rows_and_powers_of_a_small_one(repro: Callable[..., Any], tmp_path: Path) -> None:
    words = [
        "blocks=1",
        "depths=8,14",
        "batch_sizes=4",
        "depth=8",
        "batch_size=2",
        "image_size=8",
        "steps=3",
    ]
    options = [w for word in [*words, "methods=bp", "rounds=1"] for w in ("--set", word)]
    found = repro("bench", "growth", *options, "--json", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    rows = json.loads(found.stdout)["rows"]
    assert [(r["part"], r["value"]) for r in rows if r["part"] != "power"] == [
        ("blocks", 1), ("depth", 8), ("depth", 14), ("batch_size", 4)
    ]  # fmt: skip
    memory = {(r["part"], r["value"]): r["all_blocks_bytes"] for r in rows if r["part"] != "power"}
    assert memory["depth", 14] > memory["depth", 8]
    assert memory["batch_size", 4] > memory["depth", 8]
    assert {r["axis"] for r in rows if r["part"] == "power"} == {"blocks", "depth", "batch_size"}
    wrong = repro("bench", "growth", "--set", "blocks=two", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "blocks = 'two': give whole numbers" in wrong.stderr
