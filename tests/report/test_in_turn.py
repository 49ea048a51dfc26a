"""Claims on time read what took turns, round by round; whole runs stand beside it as context."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from repro.report import figures, tables
from repro.report.table import Measured
from tests.report.factory import make_run, write_bench, write_benches

YES, NO, EQUAL, CONTEXT = "reproduced", "not reproduced", "equal within 2 %", "context"
NOISE = (1.0, 1.004, 0.997, 1.001)


def claim(root: Path, name: str) -> list[Mapping[str, Any]]:
    return [row for row in tables.build("claims", root).rows if row["claim"] == name]


def verdicts(root: Path, name: str) -> list[str]:
    return [str(row["verdict"]) for row in claim(root, name)]


def rounds(mean: float, number: int = 0) -> list[float]:
    """Values of four rounds that drift by half alike for all, with little noise of their own."""
    return [mean * (1 + r / 8) * NOISE[(r + number) % 4] for r in range(4)]


def methods(root: Path, part: str = "real", blocks: int = 2, **seconds: float) -> None:
    write_bench(root, "methods", [
        {"part": part, "system": name.replace("_", "-"), "method": name, "model": "m", "blocks": blocks,
         "seconds_rounds": rounds(t, i)}
        for i, (name, t) in enumerate(seconds.items())
    ])  # fmt: skip


def delays(root: Path, kind: tuple[float, float] = (0.1, 3.0), **percents: Sequence[float]) -> None:
    write_bench(root, "delays", [
        {"system": name.replace("_", "-"), "method": name, "model": "m", "blocks": 3, "probability": kind[0],
         "delay": kind[1], "slowdown_rounds": list(values)}
        for name, values in percents.items()
    ])  # fmt: skip


def steps(root: Path, **seconds: float) -> None:
    write_bench(root, "gradient", [
        {"recipe": name.replace("_", "-"), "seconds_rounds": rounds(t, i)} for i, (name, t) in enumerate(seconds.items())
    ])  # fmt: skip


def runs(root: Path, **fields: Sequence[float]) -> None:
    """Seeds of recipes with these seconds per batch (a name with k2) or of training."""
    for name, values in fields.items():
        key = "seconds_per_batch" if name.endswith("k2") else "train_seconds"
        for seed, value in enumerate(values):
            make_run(root, name.replace("_", "-"), seed, profile="quick", **{key: value})


FR = {"fr_mailbox": 0.2, "fr_barrier": 0.25, "fr_free": 0.15}


def test_speed_in_turn_decides_and_whole_runs_are_context(tmp_path: Path) -> None:
    methods(tmp_path, bp=0.3, dsp=0.15, **FR)
    assert verdicts(tmp_path, "D1") == [YES, YES, YES, EQUAL]
    runs(tmp_path, bp_resnet98_k2=[0.3, 0.31, 0.32], dsp_resnet98_k2=[0.3, 0.32, 0.31])
    found = claim(tmp_path, "D1")
    assert [r["verdict"] for r in found] == [YES, YES, YES, EQUAL, CONTEXT]
    assert "does not decide; by itself: not reproduced" in str(found[-1]["note"])
    value = found[0]["measured"]
    assert isinstance(value, Measured)
    assert value.estimate is not None
    assert value.estimate.mean == pytest.approx(2.0)
    assert value.estimate.low is not None
    assert value.estimate.low > 1.98, "rounds that drift are compared within a round"
    assert (value.n, value.made_of[0].recipe) == (4, "bench methods")


def test_blocks_that_wait_or_a_part_of_the_methods_do_not_decide_speed(tmp_path: Path) -> None:
    methods(tmp_path / "a", part="timed", blocks=3, bp=0.3, dsp=0.1, **FR)
    assert verdicts(tmp_path / "a", "D1") == ["context"] * 4
    runs(tmp_path / "a", bp_resnet98_k2=[0.3, 0.31, 0.32], dsp_resnet98_k2=[0.3, 0.32, 0.31])
    assert verdicts(tmp_path / "a", "D1") == [NO, *["not run yet"] * 3, *["context"] * 4]
    methods(tmp_path / "b", bp=0.3, dsp=0.1)
    assert verdicts(tmp_path / "b", "D1") == [CONTEXT]


@pytest.mark.parametrize(
    ("percents", "expected"),
    [
        ({"fr_mailbox": [40, 44, 42], "dsp": [20, 23, 22], "dsp_5_2": [10, 12, 13]}, ([YES, YES], [YES])),
        ({"fr_mailbox": [40, 44, 42], "dsp": [60, 65, 63], "dsp_5_2": [61, 64.5, 63]}, ([NO, NO], [EQUAL])),
    ],
)
def test_slow_down_in_turn(
    tmp_path: Path, percents: dict[str, list[float]], expected: tuple[list[str], list[str]]
) -> None:
    delays(tmp_path, **percents)
    assert (verdicts(tmp_path, "D3"), verdicts(tmp_path, "D7")) == expected
    assert "Holm p = " in str(claim(tmp_path, "D3")[0]["note"])


def test_only_the_delays_of_the_straggler_recipes_decide(tmp_path: Path) -> None:
    delays(tmp_path, (0.3, 1.0), fr_mailbox=[40, 44, 42], dsp=[20, 23, 22])
    assert verdicts(tmp_path, "D3") == ["not run yet"]
    from repro.recipe import load
    from repro.report.claims.turns_of_methods import DELAY

    spec = load("straggler-dsp-resnet98").straggler
    assert (spec.probability, spec.delay) == DELAY


STEPS = {"full_resnet20": 0.2, "top1_resnet20_s1": 0.18, "zero_resnet20_s1": 0.17, "random_resnet20_s1": 0.18}


def test_training_steps_in_turn_decide(tmp_path: Path) -> None:
    cnn2 = {"full_cnn2": 0.1, "top1_cnn2": 0.12}
    steps(tmp_path, **STEPS, **cnn2, full_resnet14=0.13)
    runs(tmp_path, full_resnet20=[10, 11, 12], top1_resnet20_s1=[12, 13, 14])
    found = {name: verdicts(tmp_path, name) for name in ("G1", "G2", "G5", "G6", "G7", "G9")}
    assert found == {
        "G1": [YES, CONTEXT, "not run yet"],
        "G2": [YES, CONTEXT],
        "G5": [YES],
        "G6": [EQUAL],
        "G7": [YES],
        "G9": [NO, "not run yet"],
    }
    saved = claim(tmp_path, "G2")[0]["measured"]
    assert isinstance(saved, Measured)
    assert saved.estimate is not None
    assert saved.estimate.mean == pytest.approx(10.0, abs=0.5)


def test_steps_on_random_images_decide_only_without_training_steps(tmp_path: Path) -> None:
    row = {"model": "resnet20", "layout": "channels_last", "estimator": "top1", "schedule": "s1", "n": 31,
           "saved": 0.01, "saved_low": 0.005, "saved_high": 0.015}  # fmt: skip
    write_bench(tmp_path, "kernels", [row])
    runs(tmp_path, full_resnet20=[10, 11, 12], top1_resnet20_s1=[9, 10, 11])
    assert verdicts(tmp_path, "G2") == [NO, CONTEXT]
    steps(tmp_path, **STEPS)
    assert verdicts(tmp_path, "G2") == [YES, CONTEXT, CONTEXT]


def test_tables_and_figure_of_what_took_turns(tmp_path: Path) -> None:
    write_benches(tmp_path)
    assert [len(tables.build(n, tmp_path).rows) for n in ("methods", "delays", "gradient-steps")] == [
        2,
        12,
        2,
    ]
    kinds = [(r["blocks"], r["delay"]) for r in tables.build("delays", tmp_path).rows]
    assert kinds == sorted(kinds), "the methods stand beside each other"
    files, notes = figures.draw(["slack"], tmp_path, tmp_path / "f", ("svg",), fallback=False)
    assert (len(files), notes) == (1, [])
    assert (
        "make it with: repro bench delays"
        in figures.draw(["slack"], tmp_path / "no" / "ne", tmp_path, fallback=False)[1][0]
    )
