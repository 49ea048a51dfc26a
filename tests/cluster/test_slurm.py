"""Against a SLURM that runs on this machine: an array of seeds, pre-emption, a cancelled job, wrong words."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import slurm_here
from tests.conftest import ROOT
from tests.programs import RUNS, SMOKE, TINY, call, finish, record

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(bool(slurm_here.missing()), reason=slurm_here.missing() or "there is SLURM"),
    pytest.mark.timeout(600),
]
RECIPE = ["run", TINY["dsp"], "--seeds", "2", "--set", "epochs=30", *SMOKE]
QUEUE = ["--device", "cpu", "--launcher", "slurm", "--at-once", "1", "--time", "20"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with (
        slurm_here.slurm(tmp_path_factory.mktemp("slurm")) as environment,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setenv("PYTHONPATH", str(ROOT))
        yield


def slurm(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, timeout=30, check=True).stdout


def rows(runs: Path) -> list[dict[str, Any]]:
    return list(json.loads(call("status", RUNS, str(runs), "--json").stdout)["rows"])


def until(
    runs: Path, met: Callable[[list[dict[str, Any]]], bool], seconds: float = 120
) -> list[dict[str, Any]]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = rows(runs)
        if met(found):
            return found
        time.sleep(0.3)
    logs = "\n".join(path.read_text() for path in sorted(runs.glob(".cluster/submitit/*_log.*")))
    raise AssertionError(f"{found}\n{slurm('squeue')}\n{logs}")


def states(found: list[dict[str, Any]]) -> list[str]:
    return [row["state"] for row in found]


def trains(seed: int) -> Callable[[list[dict[str, Any]]], bool]:
    """Whether this seed runs and has a checkpoint."""
    return lambda found: found[seed]["state"] == "running" and (found[seed]["epoch"] or 0) >= 1


@pytest.mark.usefixtures("cluster")
def test_an_array_with_a_pre_emption_and_a_cancelled_job_gives_the_numbers_of_this_machine(
    tmp_path: Path,
) -> None:
    """One seed at a time; the first is pre-empted, the second cancelled: it is submitted again by the same command."""
    queued, here = tmp_path / "queued", tmp_path / "here"
    sent = call(*RECIPE, *QUEUE, RUNS, str(queued))
    assert sent.returncode == 0, sent.stderr
    jobs = [line.split()[0] for line in sent.stdout.splitlines()]
    array = jobs[0].partition("_")[0]
    assert jobs == [f"{array}_0", f"{array}_1"]
    assert "2 of 2 seeds submitted to low" in sent.stderr
    begun = until(queued, trains(0))
    assert states(begun) == ["running", "queued"]
    assert [row["job"] for row in begun] == jobs
    assert "JobArrayTaskLimit" in begun[1]["note"]

    slurm("sbatch", "--partition=high", f"--ntasks={os.cpu_count()}", "--output=/dev/null", "--wrap=sleep 1")
    found = until(queued, lambda found: found[0]["state"] == "queued")
    assert "goes on from batch" in found[0]["note"]
    again = call(*RECIPE, *QUEUE, RUNS, str(queued))
    assert "0 of 2 seeds submitted" in again.stderr  # nothing is submitted twice

    until(queued, trains(1))
    slurm("scancel", jobs[1])
    until(queued, lambda found: found[1]["state"] == "interrupted")
    slurm(
        "scontrol", "update", f"JobId={jobs[0]}", "StartTime=now"
    )  # SLURM holds a requeued job back for two minutes
    again = call(*RECIPE, *QUEUE, RUNS, str(queued))
    assert again.stdout.endswith("tiny-dsp seed 1\n")
    assert "1 of 2 seeds submitted" in again.stderr
    found = until(queued, lambda found: states(found) == ["done", "done"])
    assert found[0]["job"] == jobs[0]
    assert call(*RECIPE, *QUEUE, RUNS, str(queued)).stderr.count("already done") == 2

    finish(RECIPE, here)
    for seed in (0, 1):
        one, other = (next(folder.glob(f"*/*/seed-{seed}")) for folder in (queued, here))
        assert record(one) == record(other)
        assert json.loads((one / "result.json").read_text())["resumed"] == 1


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ["--partition", "hgh"],
            2,
            "--partition 'hgh' is unknown. Did you mean 'high'? SLURM has: low, high",
        ),
        (["--time", "2h"], 2, "--time 2h: partition low allows 1:00:00 at most"),
        (["--device", "cuda"], 2, "partition low has no GPUs"),
        (["--slurm", "cpus_per_task=999"], 1, "SLURM has not taken the jobs:"),
    ],
)
def test_what_slurm_does_not_have_is_one_sentence(
    words: list[str], code: int, said: str, tmp_path: Path
) -> None:
    done = call(*RECIPE, "--launcher", "slurm", *words, RUNS, str(tmp_path))
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob(".cluster/jobs/*"))
