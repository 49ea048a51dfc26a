"""Runs in one process, and several runs at once, as a user meets them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.planning.machine import cores
from repro.store import RunFolder, read_metrics
from tests.programs import TINY, alive, children, gone, results, start, wait_for

Repro = Callable[..., Any]
SMOKE = ["--profile", "smoke", "--set", "runtime.threads=1"]
EVEN = ["run", TINY["dsp"], "--set", "blocks=3", "--set", "epochs=8", *SMOKE]
two_cores = pytest.mark.skipif(cores() < 2, reason="two runs at once need two cores")


def recorded(out: Path, seed: int = 0) -> list[dict[str, Any]]:
    """All rows of a run but for their times."""
    rows = read_metrics(RunFolder(next(out.glob(f"*/*/seed-{seed}"))).metrics)
    return [{k: v for k, v in row.items() if k != "train_seconds"} for row in rows]


@pytest.fixture(scope="module")
def whole(repro: Repro, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """EVEN with a process per block, never interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    done = repro(*EVEN, "--engine", "processes", "--runs", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(("first", "second"), [("sequential", "processes"), ("processes", "sequential")])
def test_a_run_may_go_on_with_the_other_engine(
    first: str, second: str, repro: Repro, tmp_path: Path, whole: Path
) -> None:
    """The checkpoints are the same files; what ran in one process for a part states no time."""
    process = start(*EVEN, "--engine", first, "--runs", str(tmp_path))
    wait_for(process, "epoch 3")
    below = children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    time.sleep(0.5)
    assert not alive(below)
    done = repro(*EVEN, "--engine", second, "--runs", str(tmp_path))
    assert "going on after batch" in done.stderr
    assert recorded(tmp_path) == recorded(whole)
    (result,), (other,) = results(tmp_path), results(whole)
    assert result["weight_change"] == other["weight_change"]
    assert (result["engine"], result["timed"]) == (f"{first}+{second}", False)
    assert (other["engine"], other["timed"], other["jobs"]) == ("processes", True, 1)
    assert not list(tmp_path.glob("*/*/*/timeline.json"))
    assert list(whole.glob("*/*/*/timeline.json"))


def test_the_engine_is_chosen_by_cores_and_said(repro: Repro, tmp_path: Path) -> None:
    words = ["run", TINY["dsp"], "--set", "max_steps=2", "--runs", str(tmp_path), *SMOKE]
    crowded = repro(*words, "--set", "blocks=8", "--set", "runtime.threads=16")
    assert "engine sequential (8 blocks would share" in crowded.stderr.splitlines()[0]
    assert results(tmp_path)[0]["engine"] == "sequential"
    shown = repro("show", TINY["dsp"], "--profile", "smoke", "--set", "max_steps=2", "--set", "blocks=8",
                  "--set", "runtime.threads=16", "--runs", str(tmp_path))  # fmt: skip
    assert "seeds complete: 0" in shown.stdout
    assert "median of" not in shown.stdout, "no time is predicted from it"


@two_cores
def test_jobs_run_side_by_side_with_the_same_numbers(repro: Repro, tmp_path: Path) -> None:
    words = ["run", TINY["bp"], TINY["gpipe"], "--seeds", "2", *SMOKE, "--engine", "sequential"]
    both = repro(*words, "--jobs", "2", "--runs", str(tmp_path / "both"))
    assert both.returncode == 0, both.stderr
    assert "4 of 4 seeds complete" in both.stderr
    assert "\r" not in both.stderr
    assert repro(*words, "--runs", str(tmp_path / "single")).returncode == 0
    for path in sorted((tmp_path / "single").glob("*/*/seed-*")):
        other = RunFolder(tmp_path / "both" / path.relative_to(tmp_path / "single"))
        rows, others = read_metrics(RunFolder(path).metrics), read_metrics(other.metrics)
        assert [r["loss"] for r in rows if r["kind"] == "step"] == [
            r["loss"] for r in others if r["kind"] == "step"
        ]
    assert {(r["jobs"], r["timed"], r["cores"]) for r in results(tmp_path / "both")} == {(2, False, cores())}
    again = repro(*words, "--jobs", "2", "--runs", str(tmp_path / "both"))
    assert again.returncode == 0
    assert again.stderr.count("already complete") == 4


@two_cores
def test_a_seed_that_fails_stops_no_other(repro: Repro, tmp_path: Path) -> None:
    words = ["run", TINY["bp"], TINY["gpipe"], "--set", "blocks=1", "--jobs", "2", "--runs", str(tmp_path)]
    done = repro(*words, *SMOKE, "--set", "lr=1e30", "--seeds", "2")
    assert done.returncode == 1
    assert "0 of 4 seeds complete" in done.stderr
    assert [r["status"] for r in results(tmp_path)] == ["diverged"] * 4


@two_cores
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_ends_all_jobs_and_the_same_command_goes_on(
    number: int, code: int, repro: Repro, tmp_path: Path, whole: Path
) -> None:
    words = [*EVEN, "--engine", "sequential", "--seeds", "2", "--jobs", "2", "--runs", str(tmp_path)]
    process = start(*words)
    wait_for(process, "seed 0: epoch 2", "seed 1: epoch 2")  # each has its first checkpoint
    below = children(process.pid)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, errors = process.communicate(timeout=40)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    time.sleep(0.5)
    assert not alive(below)
    assert {r["status"] for r in results(tmp_path)} == {"interrupted"}
    if number == signal.SIGTERM:
        return
    done = repro(*words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("going on after batch") == 2
    assert recorded(tmp_path) == recorded(whole)


@two_cores
def test_a_killed_command_leaves_no_process_and_a_killed_job_is_replaced(tmp_path: Path) -> None:
    words = [*EVEN, "--engine", "sequential", "--seeds", "3", "--jobs", "2", "--runs", str(tmp_path)]
    process = start(*words)
    wait_for(process, "epoch 2")
    below = children(process.pid)
    process.kill()
    process.wait()
    assert gone(below, 15)
    process = start(*words)
    wait_for(process, "epoch 5")
    jobs = [job for server in direct(process.pid) for job in direct(server) if children(job)]
    assert len(jobs) == 2
    os.kill(jobs[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == 1
    assert "its process has ended" in errors
    assert [r["status"] for r in results(tmp_path)] == ["complete"] * 2


def direct(pid: int) -> list[int]:
    """The processes right below `pid`."""
    below = children(pid)
    return [child for child in below if not any(child in children(other) for other in below)]
