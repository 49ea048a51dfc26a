"""`repro status`: of a run that goes on, that is killed, that is done; its formats; wrong words."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.programs import RUNS, SMOKE, TINY, call, start, wait_for
from tests.report.factory import make_run

Repro = Callable[..., Any]
NAME = "bp-resnet98-k2"


def rows(folder: Path, *words: str) -> list[dict[str, Any]]:
    done = call("status", *words, RUNS, str(folder), "--json")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout)["rows"])


def test_a_run_is_followed_from_its_start_over_a_kill_to_its_end(tmp_path: Path) -> None:
    words = ["run", TINY["bp"], "--set", "epochs=20", *SMOKE, RUNS, str(tmp_path)]
    process = start(*words)
    wait_for(process, "epoch 2")
    (row,) = rows(tmp_path)
    assert row["state"] == "running"
    assert f"pid {process.pid}" in row["where"]
    assert (row["epoch"] >= 2, row["epochs"], row["batches"]) == (True, 20, 140)
    assert row["ends"] > row["since"]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    (row,) = rows(tmp_path)
    assert row["state"] == "interrupted"
    assert f"pid {process.pid}" in row["note"]
    again = start(*words)
    wait_for(again, "going on after batch")
    watch = start("status", "--watch", RUNS, str(tmp_path))
    assert again.communicate(timeout=90)[0] == ""
    out, errors = watch.communicate(timeout=30)
    assert (watch.returncode, errors) == (0, "")
    assert "\r" not in out
    assert "\x1b" not in out
    assert out.splitlines()[-1].endswith("tiny-bp epochs=20 runtime.threads=1 seed 0: done, epoch 20/20")
    assert [row["state"] for row in rows(tmp_path, TINY["bp"], "--seeds", "2")] == ["done", "not started"]


def test_every_format_has_the_rows(tmp_path: Path, repro: Repro) -> None:
    make_run(tmp_path, NAME, 0)
    make_run(tmp_path, NAME, 1, status="diverged", error="the loss is nan at batch 3 in block 1")
    for format, piece in (("txt", "1 diverged, 1 done"), ("csv", f"{NAME},smoke,"), ("md", "| diverged")):
        done = repro("status", NAME, "--seed-list", "0,1", "--format", format, "--runs", str(tmp_path))
        assert piece in done.stdout, done.stdout
    assert [row["note"] for row in rows(tmp_path)] == ["", "the loss is nan at batch 3 in block 1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bp-resnet98-k2x"], "unknown recipe 'bp-resnet98-k2x'"),
        (["gone.yaml"], "there is no recipe file at gone.yaml"),
        (["--format", "xml"], "--format 'xml' is unknown. Allowed: txt, md"),
        (["--watch", "--json"], "take --format json without it"),
        (["--runs", "nowhere"], "--runs nowhere: there is no such folder"),
        (["--seeds", "0"], "--seeds 0: give a whole number >= 1"),
    ],
)
def test_wrong_words(words: list[str], said: str, repro: Repro, tmp_path: Path) -> None:
    done = repro("status", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_nothing_run_yet_is_said(repro: Repro, tmp_path: Path) -> None:
    done = repro("status", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing has been run in results/runs" in done.stderr
