"""Time to a loss: batches between evaluations, seconds of timed runs alone, and the rule for the loss."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from repro.errors import UserError
from repro.report import tables
from repro.report.measures.time_to_loss import gain
from repro.report.stats import Estimate
from repro.report.table import Measured, Table
from tests.report.factory import make_run


def curve(*losses: float) -> list[dict[str, float]]:
    return [{"train_loss": x, "test_loss": x, "test_accuracy": 50.0, "train_seconds": 1.0} for x in losses]


def write(root: Path, name: str, losses: Sequence[float], seeds: int = 3, **fields: Any) -> None:
    """Four epochs of 5 batches; seeds differ by a factor that is the same in all methods."""
    for seed in range(seeds):
        rows = curve(*(x + 0.001 * seed for x in losses))
        settings = {"epochs": len(losses), **fields.get("settings", {})}
        more = {k: v for k, v in fields.items() if k != "settings"}
        if "seconds_per_batch" in more:
            more["seconds_per_batch"] *= 1 + seed / 50
        given = {"recipe": name, "overrides": settings}
        make_run(root, name, seed, epochs=rows, steps=5 * len(losses), settings=settings, given=given, **more)


def built(root: Path, at: float | None = None) -> Table:
    return tables.build("time-to-loss", root, fallback=False, at=at)


def cell(table: Table, method: str, column: str) -> Any:
    return next(row for row in table.rows if row["method"] == method)[column]


def mean(value: Any) -> float:
    assert isinstance(value, Measured)
    assert value.estimate is not None
    return value.estimate.mean


def test_gain_in_time_times_loss_per_sample(tmp_path: Path) -> None:
    """BP reaches 0.4 after 10 batches of 0.3 s, DSP after 15 of 0.1 s: twice as soon, at two thirds of the efficiency."""
    write(tmp_path, "bp-resnet98-k2", [0.8, 0.4, 0.3, 0.2], seconds_per_batch=0.3)
    write(tmp_path, "dsp-resnet98-k2", [0.9, 0.8, 0.4, 0.3], seconds_per_batch=0.1)
    table = built(tmp_path, 0.4021)
    assert mean(cell(table, "BP", "batches")) == pytest.approx(10, abs=0.02)
    dsp = "DSP(1,0;2,0)"
    assert mean(cell(table, dsp, "batches")) == pytest.approx(15, abs=0.02)
    assert mean(cell(table, dsp, "efficiency")) == pytest.approx(2 / 3, rel=0.01)
    assert mean(cell(table, dsp, "seconds")) == pytest.approx(1.5 * 1.02, rel=0.01)
    assert mean(cell(table, dsp, "ratio")) == pytest.approx(2.0, rel=0.01)
    assert cell(table, dsp, "ratio").estimate.paired is True
    assert cell(table, "BP", "ratio") is None


def test_batches_lie_on_the_line_between_evaluations(tmp_path: Path) -> None:
    write(tmp_path, "bp-resnet98-k2", [1.0, 0.5], seeds=1)
    write(tmp_path, "dsp-resnet98-k2", [1.0, 0.5], seeds=1)
    for loss, batches in ((1.2, 5.0), (1.0, 5.0), (0.8, 7.0), (0.5, 10.0)):
        assert mean(cell(built(tmp_path, loss), "BP", "batches")) == pytest.approx(batches)


def test_the_loss_is_the_worst_best_loss_over_methods_and_seeds(tmp_path: Path) -> None:
    write(tmp_path, "bp-resnet98-k2", [0.8, 0.2, 0.3])
    write(tmp_path, "gpipe-resnet98-k2", [0.8, 0.6, 0.7])
    table = built(tmp_path)
    assert {row["target"] for row in table.rows} == {0.602}
    assert "0.602 for resnet98, K = 2 (GPipe(M=4))" in table.caption[0]
    assert all(row["batches"].n == 3 for row in table.rows)  # type: ignore[union-attr]


def test_a_loss_that_seeds_never_reach_is_said(tmp_path: Path) -> None:
    write(tmp_path, "bp-resnet98-k2", [0.8, 0.2])
    write(tmp_path, "dsp-resnet98-k2", [0.8, 0.4])
    table = built(tmp_path, 0.4011)
    assert cell(table, "DSP(1,0;2,0)", "batches").n == 2
    assert "1 seed(s) never reach it" in str(cell(table, "DSP(1,0;2,0)", "note"))


@pytest.mark.parametrize("fields", [{"timed": False, "engine": "sequential"}, {"oversubscribed": True}])
def test_times_come_from_no_sequential_or_crowded_run(tmp_path: Path, fields: dict[str, Any]) -> None:
    write(tmp_path, "bp-resnet98-k2", [0.8, 0.2], **fields)
    write(tmp_path, "dsp-resnet98-k2", [0.8, 0.4], **fields)
    table = built(tmp_path)
    for row in table.rows:
        assert row["seconds_per_batch"] is row["seconds"] is row["ratio"] is None
        assert "no time: " in str(row["note"])
    # two equal blocks: BP takes 6, DSP 4
    assert cell(table, "DSP(1,0;2,0)", "predicted_speed") == pytest.approx(1.5, rel=0.01)
    assert "predicted from equal blocks" in str(cell(table, "DSP(1,0;2,0)", "note"))
    efficiency = mean(cell(table, "DSP(1,0;2,0)", "efficiency"))
    assert mean(cell(table, "DSP(1,0;2,0)", "predicted_ratio")) == pytest.approx(1.5 * efficiency, rel=0.01)


def test_a_shorter_timed_run_of_the_same_training_lends_its_seconds(tmp_path: Path) -> None:
    for name, seconds in (("bp-resnet98-k2", 0.3), ("dsp-resnet98-k2", 0.1)):
        write(tmp_path, name, [0.8, 0.4, 0.2], timed=False, engine="sequential")
        short = {"optimizer.milestones": []}
        write(tmp_path, name, [0.8], settings=short, number="a" * 12, seconds_per_batch=seconds)
    table = built(tmp_path, 0.4)
    long = [row for row in table.rows if "times of" in str(row["note"])]
    assert [mean(row["seconds_per_batch"]) for row in long] == pytest.approx([0.306, 0.102], rel=0.01)
    assert mean(long[1]["ratio"]) == pytest.approx(3.0, rel=0.01)


def test_without_bp_there_is_nothing_to_compare(tmp_path: Path) -> None:
    write(tmp_path, "dsp-resnet98-k2", [0.8, 0.4])
    table = built(tmp_path)
    assert table.rows == []
    assert "repro run bp-resnet98-k2" in table.caption[0]


def test_another_table_takes_no_loss(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--at 0\.4 belongs to the table time-to-loss"):
        tables.build("accuracy", tmp_path, at=0.4)
    with pytest.raises(UserError, match="--at -1: give a test loss larger than 0"):
        built(tmp_path, -1.0)


def test_independent_ratios_multiply_and_their_intervals_widen() -> None:
    found = gain(Estimate(2.0, 1.0, 4.0, 5), Estimate(0.5, 0.5, 0.5, 3))
    assert found is not None
    assert (found.mean, found.n) == (1.0, 3)
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(2.0))
    wider = gain(Estimate(2.0, 1.0, 4.0, 5), Estimate(0.5, 0.25, 1.0, 3))
    assert wider is not None
    assert wider.high is not None
    assert wider.high > 2.0
