"""Hands jobs to submitit's executor, an array for each set of resources, and writes down their ids."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from repro.cluster import submissions
from repro.cluster.options import Request
from repro.cluster.seed_job import SeedJob
from repro.cluster.submissions import Submission
from repro.errors import RunFailed

MOST_TIMEOUTS = 20  # times that a job is requeued at its time limit; `repro run` submits it again after that
WARNING_SECONDS = 90  # before the time limit: the run must end and leave word


@dataclass(frozen=True)
class Wanted:
    """A seed to run: the words behind `repro`, and what it needs."""

    words: tuple[str, ...]
    first: tuple[str, ...]  # words of the first attempt alone
    recipe: str
    title: str
    profile: str
    overrides: dict[str, Any]
    seed: int
    gpus: int
    cpus: int


def parameters(request: Request, gpus: int, cpus: int) -> dict[str, Any]:
    """submitit's parameters of a job with these resources."""
    warning = min(WARNING_SECONDS, 15 * request.minutes)  # a quarter of a short limit
    return {
        "job_name": "repro",
        "partition": request.partition,
        "time": request.minutes,
        "nodes": 1,
        "ntasks_per_node": 1,
        "cpus_per_task": cpus,
        "signal_delay_s": warning,
        **({"gpus_per_node": gpus} if gpus else {}),
        **({"array_parallelism": request.at_once} if request.at_once else {}),
        **request.more,
    }


def submit(wanted: Sequence[Wanted], request: Request, runs: Path, executor: Any = None) -> list[Submission]:
    """Submit all; those that need the same resources as one array. RunFailed with SLURM's words where it refuses.

    `executor`: of submitit, instead of SLURM's.
    """
    found: list[Submission] = []
    for (gpus, cpus), group in groupby(sorted(wanted, key=_resources), key=_resources):
        chosen = executor if executor is not None else _slurm(runs, parameters(request, gpus, cpus))
        found += _submitted(list(group), request, runs, chosen)
    return found


def _submitted(group: list[Wanted], request: Request, runs: Path, executor: Any) -> Iterator[Submission]:
    jobs = executor.submit_array([SeedJob(one.words, runs, one.first) for one in group])
    for one, job in zip(group, jobs, strict=True):
        submission = Submission(
            job=str(job.job_id),
            recipe=one.recipe,
            title=one.title,
            profile=one.profile,
            overrides=one.overrides,
            seed=one.seed,
            submitted=time.time(),
            partition=request.partition,
            log=str(job.paths.stderr),
        )
        submissions.record(runs, submission)
        yield submission


def _slurm(runs: Path, values: dict[str, Any]) -> Any:
    from submitit import SlurmExecutor

    executor = SlurmExecutor(submissions.folder(runs) / "submitit", max_num_timeout=MOST_TIMEOUTS)
    executor.update_parameters(**values)
    return _Saying(executor)


class _Saying:
    """The executor, whose refusals are sentences."""

    def __init__(self, executor: Any) -> None:
        self._executor = executor

    def submit_array(self, jobs: list[SeedJob]) -> list[Any]:
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        try:
            return list(self._executor.submit_array(jobs))
        except (FailedJobError, FailedSubmissionError, OSError) as error:
            words = " ".join(str(error).split())
            raise RunFailed(f"SLURM has not taken the jobs: {words}") from None


def _resources(one: Wanted) -> tuple[int, int]:
    return one.gpus, one.cpus
