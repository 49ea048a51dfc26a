"""What `repro status` reads from files, and makes of a queue's words."""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from repro.cluster import submissions
from repro.cluster.slurm_queue import Queued
from repro.cluster.submissions import Submission
from repro.holding.holder import Holder
from repro.standing.seed_standing import Standing, State
from repro.standing.survey import Survey
from tests.report.factory import make_run

NAME = "bp-resnet98-k2"
JOB = Submission("12_3", NAME, NAME, "smoke", {"optimizer.lr": 0.1}, 3, 1000.0, partition="debug")


def look(runs: Path, queue: Mapping[str, Queued] | None = None, **more: Any) -> list[Standing]:
    return Survey(runs, lambda: queue).take(**more)


def one(runs: Path, queue: Mapping[str, Queued] | None = None) -> Standing:
    (row,) = look(runs, queue)
    return row


def holder(folder: Path, silent: float = 0.0, **more: Any) -> None:
    values = {"batches": 40, "since": time.time() - 100, **more}
    (folder / ".holder").write_text(json.dumps(asdict(replace(Holder.here(10.0), **values))))
    os.utime(folder / ".holder", (time.time() - silent,) * 2)


AWAY = {"host": "node7", "place": "another kernel", "pid": 4711}


@pytest.mark.parametrize(
    ("status", "state"),
    [("complete", State.DONE), ("failed", State.FAILED), ("diverged", State.DIVERGED),
     ("interrupted", State.INTERRUPTED), ("unfinished", State.INTERRUPTED)],
)  # fmt: skip
def test_a_run_that_has_ended(status: str, state: State, tmp_path: Path) -> None:
    make_run(tmp_path, NAME, 1, status=status)
    assert (one(tmp_path).state, one(tmp_path).seed, one(tmp_path).batch) == (state, 1, 4)


def test_a_complete_result_without_its_steps_is_not_done(tmp_path: Path) -> None:
    folder = make_run(tmp_path, NAME)
    (folder / "metrics.jsonl").write_bytes((folder / "metrics.jsonl").read_bytes()[:-5])
    assert one(tmp_path).state is State.INTERRUPTED
    assert "does not hold the steps" in one(tmp_path).note


def test_a_running_one_tells_where_since_when_how_far_and_when_it_ends(tmp_path: Path) -> None:
    epochs = [{"train_loss": 1.0, "test_loss": 1.0, "test_accuracy": 10.0, "train_seconds": 8.0}]
    folder = make_run(tmp_path, NAME, status="unfinished", epochs=epochs)
    holder(folder)
    row = one(tmp_path)
    assert row.state is State.RUNNING
    assert row.where.endswith(f"pid {os.getpid()}")
    assert (row.batch, row.batches, row.epoch) == (4, 40, 1)
    assert row.ends is not None
    assert abs(row.ends - time.time() - 36 * 2.0) < 5  # 8 s for 4 batches, 36 are left


def test_before_the_first_evaluation_the_pace_is_that_of_the_clock(tmp_path: Path) -> None:
    holder(make_run(tmp_path, NAME, status="unfinished"))
    row = one(tmp_path)
    assert row.ends is not None
    assert abs(row.ends - time.time() - 36 * 25.0) < 5  # 100 s for 4 batches


@pytest.mark.parametrize(("silent", "state"), [(30, State.RUNNING), (61, State.INTERRUPTED)])
def test_a_run_of_another_host_is_judged_by_its_heartbeat(
    silent: float, state: State, tmp_path: Path
) -> None:
    holder(make_run(tmp_path, NAME, status="unfinished"), silent, **AWAY)
    row = one(tmp_path)
    assert row.state is state
    assert "node7" in row.where + row.note


def test_a_dead_process_of_this_host_is_seen_at_once(tmp_path: Path) -> None:
    holder(make_run(tmp_path, NAME, status="unfinished"), born="1")
    assert one(tmp_path).state is State.INTERRUPTED


def test_a_named_recipe_has_rows_for_what_is_not_started(tmp_path: Path) -> None:
    make_run(tmp_path, NAME, 1)
    make_run(tmp_path, "dsp-resnet98-k2", 0)
    rows = look(tmp_path, names=[NAME], seeds=range(3))
    assert [(r.seed, r.state) for r in rows] == [
        (0, State.NOT_STARTED), (1, State.DONE), (2, State.NOT_STARTED)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("queue", "events", "state", "words"),
    [
        (None, "", State.QUEUED, "no queue here to ask"),
        ({"12_3": Queued("PENDING", "Resources", "2026-01-01T00:00:00")}, "", State.QUEUED, "Resources"),
        ({"12_3": Queued("RUNNING")}, "", State.RUNNING, "starting"),
        (None, "started", State.RUNNING, "starting"),
        ({}, "", State.INTERRUPTED, "no longer in the queue"),
        ({}, "started", State.INTERRUPTED, "no longer in the queue"),
        (None, "started silent", State.INTERRUPTED, "no longer in the queue"),
        (None, "started ended:3", State.FAILED, "no such package"),
        (None, "started ended:143", State.INTERRUPTED, "no such package"),
        (None, "started ended:-9", State.INTERRUPTED, "no such package"),
        (None, "ended:3 started", State.RUNNING, "starting"),
    ],
)
def test_a_job_without_a_run(
    queue: Mapping[str, Queued] | None, events: str, state: State, words: str, tmp_path: Path
) -> None:
    submissions.record(tmp_path, JOB)
    for event in events.split():
        if event == "started":
            begun = submissions.started(tmp_path, JOB.job, {"host": "node7", "pid": 5})
        elif event == "silent":
            os.utime(begun, (time.time() - 100,) * 2)
        else:
            submissions.ended(tmp_path, JOB.job, int(event[6:]), "no such package")
    row = one(tmp_path, queue)
    assert (row.state, row.job, row.seed, row.settings) == (state, "12_3", 3, "optimizer.lr=0.1")
    assert words in row.note


def test_a_job_that_waits_again_goes_before_what_its_folder_says(tmp_path: Path) -> None:
    submissions.record(tmp_path, JOB)
    asked = {"recipe": NAME, "overrides": {"optimizer.lr": 0.1}, "swept": []}
    folder = make_run(tmp_path, NAME, 3, status="interrupted", given=asked)
    row = one(tmp_path, {"12_3": Queued("PENDING", "BeginTime")})
    assert (row.state, row.hash) == (State.QUEUED, folder.parent.name)
    assert "goes on from batch 4" in row.note
    assert one(tmp_path, {}).state is State.INTERRUPTED


def test_the_newest_submission_of_a_run_counts(tmp_path: Path) -> None:
    submissions.record(tmp_path, JOB)
    submissions.record(tmp_path, replace(JOB, job="20", submitted=2000.0))
    assert one(tmp_path, {"20": Queued("PENDING")}).job == "20"


def test_the_queue_of_another_user_is_not_asked(tmp_path: Path) -> None:
    submissions.record(tmp_path, replace(JOB, user="somebody"))
    assert one(tmp_path, {}).state is State.QUEUED


def test_damaged_records_are_left_out(tmp_path: Path) -> None:
    submissions.record(tmp_path, JOB)
    (tmp_path / ".cluster" / "jobs" / "1.json").write_text("{")
    (tmp_path / ".cluster" / "jobs" / "2.json").write_text('{"job": "2"}')
    assert [row.job for row in look(tmp_path, {})] == ["12_3"]
