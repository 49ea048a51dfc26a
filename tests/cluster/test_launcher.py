"""--launcher slurm without SLURM: submitit's local and debug executors, a pretended sbatch, wrong words."""

import json
import os
import pdb
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.cluster import seed_job, submissions
from repro.cluster.options import QueueOptions, Request
from repro.cluster.seed_job import SeedJob
from repro.cluster.submit import Wanted, submit
from repro.cluster.time_limit import minutes
from repro.commands.launch_slurm import Jobs, submit_recipes
from repro.errors import MissingError, UserError
from repro.standing.seed_standing import State
from repro.standing.survey import Survey
from tests.programs import RUNS, SMOKE, TINY, call, finish, numbers

submitit = pytest.importorskip("submitit")
REQUEST = Request("here", 60, None, False)

# In place of cli.py: says its words, and ends as they tell.
CLI = """
import pathlib, sys
place = pathlib.Path(sys.argv[sys.argv.index("--runs") + 1])
with (place / "called").open("a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
print("a line\\nrepro: cifar10 is not here", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("30m", 30), ("2h", 120), ("1d12h", 2160), ("90s", 2), ("30:00", 30), ("01:30:00", 90), ("2-0", 2880),
     ("1-12:30", 2190), ("1-12:00:30", 2161)],
)  # fmt: skip
def test_a_time_limit_is_read_as_slurm_reads_it(text: str, expected: int) -> None:
    assert minutes(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "0", "0:00", "2 h", "1-", "-5", "1:2:3:4", "h", "1.5h"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"--time .* is no time limit: give 90"):
        minutes(text)


@pytest.fixture
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of SLURM that keep what they are given; returns their folder."""
    place = tmp_path / "slurm"
    place.mkdir()
    programs = {
        "sinfo": "echo 'cpu*|2-00:00:00|(null)'; echo 'gpu|infinite|gpu:a100:4'; echo 'gpu|infinite|(null)'",
        "sbatch": f'cat "$1" >> {place}/submitted; echo Submitted batch job 77',
        "srun": "exit 1",
        "squeue": "echo '77_0|PENDING|Priority|N/A'; echo '77_1|RUNNING|None|2026-01-01T00:00:00'",
    }
    for name, line in programs.items():
        (place / name).write_text(f"#!/bin/sh\n{line}\n")
        (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    return place


def asked(runs: Path, **more: Any) -> Jobs:
    values: dict[str, Any] = {
        "names": [TINY["dsp"]], "seeds": [0, 1], "profile": "smoke", "settings": [], "sweeps": [], "runs": runs,
        "device": "auto", "engine": "auto", "dry_run": False, "fresh": False,
    }  # fmt: skip
    return Jobs(**{**values, **more})


def test_what_sbatch_is_given(pretended: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """GPUs are blocks; recipes with other resources are an array of their own; ids and states are those of the queue."""
    options = QueueOptions("gpu", "1-12:00:00", 3, ["account=physics", "mem=16GB"])
    runs = tmp_path / "runs"
    assert (
        submit_recipes(
            asked(runs, sweeps=["lr=0.1,0.2"], settings=["blocks=2"], log=["tensorboard"]), options
        )
        == 0
    )
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["77_0", "77_1", "77_2", "77_3"]
    script = (pretended / "submitted").read_text()
    for line in (
        "--partition=gpu", "--gpus-per-node=2", "--time=2160", "--array=0-3%3", "--account=physics", "--mem=16GB",
        "--signal=USR2@90", "--cpus-per-task=2", "--nodes=1",
    ):  # fmt: skip
        assert f"#SBATCH {line}\n" in script
    assert [(row.job, row.state) for row in Survey(runs).take()] == [
        ("77_0", State.QUEUED), ("77_2", State.INTERRUPTED), ("77_1", State.RUNNING), ("77_3", State.INTERRUPTED)
    ]  # fmt: skip
    again = submit_recipes(asked(runs, sweeps=["lr=0.1,0.2"], settings=["blocks=2"]), options)
    said = capsys.readouterr()
    assert again == 0
    assert len(said.out.splitlines()) == 2  # those that the queue has lost
    assert "already queued (gpu, job 77_0)" in said.err
    assert "2 of 4 seeds submitted to gpu" in said.err


def test_a_dry_run_submits_nothing(
    pretended: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit_recipes(asked(tmp_path, dry_run=True, sweeps=["lr=0.1"]), QueueOptions()) == 0
    said = capsys.readouterr().out
    assert "--seed-list 1 --profile smoke --device cpu" in said
    assert "--sweep optimizer.lr=0.1" in said
    assert "partition=cpu time=60" in said
    assert not (pretended / "submitted").exists()


@pytest.mark.parametrize(
    ("options", "more", "said"),
    [
        (QueueOptions("gpus"), {}, "--partition 'gpus' is unknown. Did you mean 'gpu'? SLURM has: cpu, gpu"),
        (QueueOptions("cpu", "3d"), {}, "--time 3d: partition cpu allows 2-00:00:00 at most"),
        (QueueOptions(time="soon"), {}, "--time 'soon' is no time limit"),
        (QueueOptions(at_once=0), {}, "--at-once 0: give a whole number >= 1"),
        (QueueOptions(more=["acount=a"]), {}, "--slurm 'acount' is unknown. Did you mean 'account'?"),
        (QueueOptions(more=["account"]), {}, "--slurm 'account': give KEY=VALUE"),
        (QueueOptions("cpu"), {"device": "cuda"}, "--device cuda: partition cpu has no GPUs"),
        (QueueOptions(), {"names": ["dsp-resnet98x"]}, "unknown recipe 'dsp-resnet98x'"),
    ],
)
def test_wrong_words_submit_nothing(
    options: QueueOptions, more: dict[str, Any], said: str, pretended: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as error:
        submit_recipes(asked(tmp_path / "runs", **more), options)
    assert said in str(error.value)
    assert not (pretended / "submitted").exists()


def test_without_sbatch_or_submitit_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="there is no sbatch here"):
        submit_recipes(asked(tmp_path), QueueOptions())
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(MissingError, match=r"needs the package submitit: pip install 'repro\[cluster\]'"):
        submit_recipes(asked(tmp_path), QueueOptions())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--launcher", "slurm", "--jobs", "2"],
            "--jobs 2 with --launcher slurm: every seed is a job of its own",
        ),
        (["--launcher", "slurm", "--fail-fast"], "--fail-fast with --launcher slurm"),
        (["--partition", "gpu"], "--partition is of --launcher slurm, and this run is of --launcher local"),
        (["--launcher", "slrm"], "slurm"),
    ],
)
def test_options_that_do_not_go_together(words: list[str], said: str, tmp_path: Path) -> None:
    done = call("run", TINY["bp"], *words, RUNS, str(tmp_path))
    assert done.returncode == 2
    assert said in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_debug_executor_runs_the_words_and_keeps_what_they_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cli.py").write_text(CLI)
    monkeypatch.setattr(seed_job.paths, "PACKAGE", tmp_path / "repro")
    runs = tmp_path / "runs"
    runs.mkdir()
    wanted = [
        Wanted((code, "--runs", str(runs)), ("--fresh",), "tiny", "tiny", "smoke", {}, seed, 0, 1)
        for seed, code in enumerate(("0", "3"))
    ]
    monkeypatch.setattr(pdb, "post_mortem", lambda: None)  # which the executor opens
    executor = submitit.DebugExecutor(folder=runs / ".cluster" / "submitit")
    made: list[Any] = []
    array = executor.submit_array
    monkeypatch.setattr(executor, "submit_array", lambda jobs: made.extend(array(jobs)) or made)
    sent = submit(wanted, REQUEST, runs, executor)
    assert made[0].result() == 0
    with pytest.raises(RuntimeError, match="ended with 3: repro: cifar10 is not here"):
        made[1].result()
    jobs = {job.submission.job: job for job in submissions.latest(runs)}
    assert [jobs[one.job].end["code"] for one in sent] == [0, 3]  # type: ignore[index]
    failed = next(row for row in Survey(runs, dict).take() if row.seed == 1)
    assert (failed.state, failed.note) == (State.FAILED, "repro: cifar10 is not here")
    assert (runs / "called").read_text().splitlines() == [f"{code} --runs {runs} --fresh" for code in (0, 3)]


def test_what_was_fresh_once_is_not_fresh_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cli.py").write_text(CLI)
    monkeypatch.setattr(seed_job.paths, "PACKAGE", tmp_path / "repro")
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    for _ in range(2):
        SeedJob(("0", "--runs", str(tmp_path)), tmp_path, ("--fresh",))()
    assert [line.endswith("--fresh") for line in (tmp_path / "called").read_text().splitlines()] == [
        True,
        False,
    ]


@pytest.mark.faults  # 40 s: a whole run beside one that is warned and resumed
def test_the_local_executor_resumes_after_a_warning_and_gives_the_same_numbers(tmp_path: Path) -> None:
    """The warning that SLURM gives before it pre-empts: the run ends in order, is called again, and goes on."""
    words = ["--set", "epochs=40", *SMOKE]
    runs, here = tmp_path / "runs", tmp_path / "here"
    executor = submitit.LocalExecutor(folder=runs / ".cluster" / "submitit")
    wanted = Wanted(
        ("run", TINY["bp"], "--seed-list", "0", *words, RUNS, str(runs)), (), "tiny-bp", "tiny-bp", "smoke",
        {"epochs": 40, "runtime.threads": 1}, 0, 0, 1,
    )  # fmt: skip
    made: list[Any] = []
    array = executor.submit_array
    executor.submit_array = lambda jobs: made.extend(array(jobs)) or made  # type: ignore[method-assign]
    submit([wanted], REQUEST, runs, executor)
    survey = Survey(runs, dict)
    _until(lambda: any((row.epoch or 0) >= 1 for row in survey.take()))
    begun = json.loads(next(runs.glob(".cluster/jobs/*.started")).read_text())
    os.kill(begun["pid"], signal.SIGUSR2)
    assert made[0].result() == 0
    (row,) = survey.take()
    assert (row.state, row.settings) == (State.DONE, "epochs=40 runtime.threads=1")
    assert json.loads(next(runs.glob("*/*/seed-0/result.json")).read_text())["resumed"] == 1
    finish(["run", TINY["bp"], *words], here)
    assert numbers(runs) == numbers(here)


def _until(met: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end
        time.sleep(0.1)
