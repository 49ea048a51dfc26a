"""No report reads a time from the sequential engine, or from runs that shared the machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from repro.report import figures, tables
from repro.store import MEMORY, TIMES, comparable, read_runs
from tests.report.factory import make_run, training

SEQUENTIAL: dict[str, Any] = {"engine": "sequential", "timed": False, "jobs": 1}
BESIDE: dict[str, Any] = {"engine": "processes", "timed": False, "jobs": 2}


def pair(root: Path, **fields: Any) -> None:
    for method in ("bp", "dsp"):
        for seed in (0, 1):
            make_run(root, f"{method}-resnet98", seed, epochs=training(), **fields)


@pytest.mark.parametrize("fields", [SEQUENTIAL, BESIDE], ids=["sequential", "jobs"])
def test_a_table_of_times_states_none(fields: dict[str, Any], tmp_path: Path) -> None:
    pair(tmp_path, **fields)
    for row in tables.build("speedup", tmp_path).rows:
        for cell in ("seconds_per_batch", "busy_seconds", "speedup", "bound"):
            assert getattr(row[cell], "estimate", row[cell]) is None, (cell, row[cell])
        assert "no times of 2 seed(s)" in str(row["note"])


@pytest.mark.parametrize("fields", [SEQUENTIAL, BESIDE], ids=["sequential", "jobs"])
def test_accuracy_is_read_as_ever(fields: dict[str, Any], tmp_path: Path) -> None:
    pair(tmp_path / "a")
    pair(tmp_path / "b", **fields)
    ordinary, untimed = (tables.build("accuracy", tmp_path / name) for name in "ab")
    for one, other in zip(ordinary.rows, untimed.rows, strict=True):
        assert one["test_accuracy_last"] == other["test_accuracy_last"]


def test_no_table_or_figure_shows_what_was_measured(tmp_path: Path) -> None:
    """Numbers that stand nowhere else, in every field that a report might read; nothing breaks without them."""
    measured = {"train_seconds": 71.7373, "seconds_per_batch": 0.717373, "images_per_second": 717.373}
    pair(tmp_path, **SEQUENTIAL, **measured, busy_seconds=[0.717373] * 3, rss_bytes=[752_220_275] * 3)
    for name in tables.names():
        table = tables.build(name, tmp_path)
        assert "7373" not in str(table.rows), name
    figures.draw([], tmp_path, tmp_path / "pictures", formats=("svg",))


def test_the_rows_of_epochs_lose_their_seconds_too(tmp_path: Path) -> None:
    pair(tmp_path, **SEQUENTIAL)
    for run in read_runs(tmp_path):
        assert not run.timed
        assert not [row for row in run.metrics() if "train_seconds" in row]
        assert not [name for name in (*TIMES, *MEMORY) if name in (run.result or {})]
        stored = json.loads(run.folder.result.read_text())
        assert stored["train_seconds"] == 10.0, "the file itself keeps them"


def test_memory_of_runs_beside_each_other_counts_and_of_one_process_does_not() -> None:
    result = dict.fromkeys((*TIMES, *MEMORY), 1.0)
    assert set(comparable(result)) == set(result), "older runs have no mark: processes, by themselves"
    assert set(MEMORY) <= set(comparable({**result, **BESIDE}))
    assert not set(MEMORY) & set(comparable({**result, **SEQUENTIAL}))
    mixed = {**result, "engine": "sequential+processes", "timed": False}
    assert not {*TIMES, *MEMORY} & set(comparable(mixed))
