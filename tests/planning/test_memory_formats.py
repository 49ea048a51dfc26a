"""`memory_format: auto` becomes what is faster here: the same program and hash as when it is asked for by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from repro.planning import layer_costs, memory_formats
from repro.planning.partition import LayerCost
from repro.planning.run_plan import make_plan
from repro.report import tables
from tests.conftest import ROOT


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[float], None]:
    """Makes channels_last take so many seconds, and contiguous one."""

    monkeypatch.setenv("REPRO_CACHE", str(tmp_path / "cache"))  # what is kept there would be chosen again

    def fix(seconds: float) -> None:
        def costs(networks: Sequence[Sequence[Any]], *_: Any) -> list[list[LayerCost]]:
            taken = [(seconds if n[0].channels_last else 1.0, len(n)) for n in networks]
            return [[LayerCost(s / 3 / n, 2 * s / 3 / n)] * n for s, n in taken]

        monkeypatch.setattr(memory_formats, "measure_in_turn", costs)

    return fix


@pytest.mark.parametrize(
    ("seconds", "taken"), [(0.8, "channels_last"), (0.99, "contiguous"), (1.2, "contiguous")]
)
def test_auto_takes_the_faster_one_and_its_hash(
    seconds: float, taken: str, measured: Callable[[float], None], tiny: Callable[..., Any]
) -> None:
    measured(seconds)
    auto = make_plan(tiny(memory_format="auto"), "cpu")
    assert auto.memory_format == taken
    assert auto.format_seconds == pytest.approx({"contiguous": 1.0, "channels_last": seconds})
    assert auto.hash == make_plan(tiny(memory_format=taken), "cpu").hash
    assert auto.hash != make_plan(tiny(memory_format=(
        "contiguous" if taken == "channels_last" else "channels_last")), "cpu").hash  # fmt: skip


def test_the_choice_is_kept_and_is_the_same_for_both_engines(
    tiny: Callable[..., Any], measured: Callable[[float], None]
) -> None:
    recipe = tiny(memory_format="auto", blocks=2)
    assert make_plan(recipe, "cpu", measure=False).memory_format == "contiguous"  # not known yet
    measured(0.5)
    first = make_plan(recipe, "cpu")
    measured(2.0)  # would choose otherwise now
    again = [make_plan(recipe, "cpu", engine=engine, measure=False) for engine in ("processes", "sequential")]
    assert [(p.memory_format, p.hash) for p in again] == [("channels_last", first.hash)] * 2


def test_both_layouts_are_measured_in_turn(
    monkeypatch: pytest.MonkeyPatch, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    """A machine that becomes slower would favour what is measured first if one came behind the other."""
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path))
    passes = []
    run = layer_costs._Passes.run

    def noted(self: Any, x: Any, counts: bool) -> None:
        passes.append(isinstance(self.layers[0], torch.nn.Module) and bool(self.layers[0]._forward_hooks))
        run(self, x, counts)

    monkeypatch.setattr(layer_costs._Passes, "run", noted)
    make_plan(tiny(memory_format="auto", blocks=2), "cpu")
    assert passes == [False, True] * (
        layer_costs.PASSES + 1
    )  # and nothing is measured a second time for the cut


def test_a_run_says_what_was_taken(repro: Callable[..., Any], tmp_path: Path) -> None:
    recipe = str(ROOT / "tests" / "recipes_for_tests" / "tiny-bp.yaml")
    words = ["--profile", "smoke", "--set", "memory_format=auto"]
    found = repro(
        "run", recipe, *words, "--runs", str(tmp_path), env={"REPRO_CACHE": str(tmp_path / "cache")}
    )
    assert found.returncode == 0, found.stderr
    (file,) = tmp_path.glob("tiny-bp/*/seed-0/result.json")
    result = json.loads(file.read_text())
    seconds = result["format_seconds"]
    gain = seconds["contiguous"] / seconds["channels_last"] - 1
    assert result["memory_format"] == ("channels_last" if gain >= memory_formats.LEAST_GAIN else "contiguous")
    table = tables.build("memory-formats", tmp_path)
    assert [row["taken"] for row in table.rows] == [result["memory_format"]]
    assert table.rows[0]["gain_percent"] == pytest.approx(100 * gain)
    shown = repro("plan", recipe, *words, env={"REPRO_CACHE": str(tmp_path / "cache")})
    assert f"memory format: {result['memory_format']} (auto: contiguous" in shown.stdout


def test_the_oracle_follows_the_choice(
    tiny: Callable[..., Any], measured: Callable[[float], None], tmp_path: Path
) -> None:
    from tests.pipeline.test_engine_equals_oracle import assert_equal

    measured(0.5)
    assert_equal(tiny(memory_format="auto", blocks=2, method={"name": "dsp"}, max_steps=6), tmp_path)
