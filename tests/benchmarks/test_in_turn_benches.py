"""`repro bench methods`, `delays` and `gradient` at the smallest size: rows that hold every round."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.benchmarks import gradient_turns
from repro.benchmarks.delay_sweep import DelaysBench
from repro.benchmarks.gradient_turns import GradientBench
from repro.benchmarks.method_rounds import METHODS, MethodsBench
from repro.errors import UserError
from repro.recipe import load
from repro.report import tables

SMALL: dict[str, Any] = {"model": "tiny", "image_size": 8, "batch_size": 4}


def test_methods_in_turn(repro: Callable[..., Any], tmp_path: Path) -> None:
    words = [f"--set={k}={v}" for k, v in SMALL.items()]
    more = ("--set=methods=dsp", "--set=blocks=3", "--set=rounds=2", "--set=steps=4", "--json")
    done = repro("bench", "methods", *words, *more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [(r["part"], r["blocks"], r["method"]) for r in rows] == [
        ("real", 2, "BP"), ("real", 2, "DSP(1,0;2,0)"), ("timed", 3, "BP"), ("timed", 3, "DSP(1,1,0;4,2,0)"),
    ]  # fmt: skip
    assert [r["timing_only"] for r in rows] == [False, False, True, True]
    bp, dsp = rows[:2]
    assert len(dsp["seconds_rounds"]) == dsp["speedup_over_bp_n"] == 2
    ratios = [a / b for a, b in zip(bp["seconds_rounds"], dsp["seconds_rounds"], strict=True)]
    assert dsp["speedup_over_bp"] == pytest.approx((ratios[0] * ratios[1]) ** 0.5)
    assert dsp["speedup_over_bp_low"] < dsp["speedup_over_bp"] < dsp["speedup_over_bp_high"]
    assert (rows[3]["slack"], rows[3]["staleness"]) == (2, [4, 2, 0])
    assert len(tables.build("methods", tmp_path / "results" / "runs").rows) == 4


def test_delays_of_several_kinds() -> None:
    bench = DelaysBench(
        **SMALL,
        blocks="2",
        methods="bp,dsp",
        probabilities="0.5",
        delays="1,30",
        steps=12,
        rounds=2,
        stretch=2,
    )
    rows = bench.rows()
    assert [(r["system"], r["delay"]) for r in rows] == [("bp", 1), ("bp", 30), ("dsp", 1), ("dsp", 30)]
    for row in rows:
        assert len(row["slowdown_rounds"]) == row["slowdown_percent_n"] == 2
        assert row["timing_only"]
    assert rows[1]["slowdown_percent"] > max(100, rows[0]["slowdown_percent"])


def test_training_steps_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gradient_turns.RECIPES, "cnn2", ("full-cnn2", "zero-cnn2", "top1-cnn2-paper"))
    bench = GradientBench(networks="cnn2", profile="smoke", steps=2, rounds=2)
    rows = bench.rows()
    assert [r["recipe"] for r in rows] == ["full-cnn2", "zero-cnn2", "top1-cnn2-paper"]
    assert [(r["estimator"], r["schedule"]) for r in rows] == [
        ("full", "none"), ("zero", "alternate"), ("top1", "alternate"),
    ]  # fmt: skip
    assert [len(r["seconds_rounds"]) for r in rows] == [2, 2, 2]
    assert "saved" not in rows[0]
    ratios = [z / f for z, f in zip(rows[1]["seconds_rounds"], rows[0]["seconds_rounds"], strict=True)]
    assert rows[1]["saved"] == pytest.approx(1 - (ratios[0] * ratios[1]) ** 0.5)
    assert rows[2]["threads"] >= 1


def test_each_round_of_training_steps_begins_with_another_recipe() -> None:
    assert [gradient_turns._rotated(range(3), r) for r in range(4)] == [
        [0, 1, 2],
        [1, 2, 0],
        [2, 0, 1],
        [0, 1, 2],
    ]


def test_what_takes_turns_exists() -> None:
    for name in (n for names in gradient_turns.RECIPES.values() for n in names):
        assert load(name, "quick").gradient.schedule in ("all", *gradient_turns.CYCLE), name
    assert {"bp", "gpipe", "fr-mailbox", "fr-barrier", "fr-free", "ddg-mailbox", "fdg"} < set(METHODS)


@pytest.mark.parametrize(
    ("bench", "sentence"),
    [
        (MethodsBench(methods="dps"), "Did you mean 'dsp'"),
        (MethodsBench(parts="reel"), "Did you mean 'real'"),
        (MethodsBench(blocks="1"), "blocks = '1': give whole numbers > 1"),
        (DelaysBench(probabilities="1.5"), "give numbers above 0 and up to 1 separated"),
        (DelaysBench(delays="x"), "delays = 'x'"),
        (DelaysBench(stretch=0.0), "stretch = 0.0"),
        (GradientBench(networks="resnet2"), "Did you mean 'resnet20'"),
        (GradientBench(steps=3), "steps = 3: give whole cycles"),
    ],
)
def test_wrong_settings_are_refused(bench: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence.replace("(", r"\(")):
        bench.rows()
