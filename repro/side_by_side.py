"""Several runs at once: a process for each, which takes one seed after another and has its own cores or GPUs.

repro run --jobs 2         job 0: recipe a seed 0 | b seed 0 | ...     each runs a seed as `run_seed` does,
 (hands out, shows all)    job 1: recipe a seed 1 | ...                with the processes of its blocks below it
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from repro.engine.processes import fork_server as server
from repro.engine.processes.entry import end_with_parent
from repro.planning.run_plan import Plan, packed, unpacked
from repro.planning.seats import Seats
from repro.progress import Progress, score
from repro.runner import Outcome, Terminated, orderly_end, run_seed

GRACE_SECONDS = 8.0  # for a job to end its blocks and to write that it was interrupted
BAR_SECONDS = 0.2  # between two signs of a job's bar


@dataclass
class Task:
    """A seed to run; `blocking`: wait for another command that holds it."""

    plan: Plan
    seed: int
    blocking: bool = False


@dataclass
class _Job:
    seat: int
    process: Any
    connection: Connection
    lifeline: Connection  # closed by the parent's end, however it comes
    task: Task | None = None


@dataclass
class SideBySide:
    """One command's runs on `seats.jobs` seats."""

    seats: Seats
    out: Path
    progress: Progress
    fail_fast: bool
    fresh: bool
    outcomes: list[Outcome] = field(default_factory=list)
    _jobs: list[_Job] = field(default_factory=list)

    def run(self, plans: Sequence[Plan], seeds: Sequence[int]) -> list[Outcome]:
        """Hand out every plan's first seed, then the next, as seats get free; held seeds are waited for at the end.

        Raises KeyboardInterrupt or Terminated after every job has left a resumable state.
        """
        tasks = deque(Task(plan, seed) for seed in seeds for plan in plans)
        later: deque[Task] = deque()
        count = min(self.seats.jobs, len(tasks))
        try:
            self._jobs = [self._start(seat, plans[0].devices[0]) for seat in range(count)]
            while True:
                for job in self._jobs:
                    if job.task is None and (tasks or later):
                        self._give(job, tasks.popleft() if tasks else later.popleft())
                busy = [job for job in self._jobs if job.task is not None]
                if not busy:
                    return self.outcomes
                ready = wait([job.connection for job in busy])
                for job in busy:
                    if job.connection in ready and not self._hear(job, later):
                        return self.outcomes
        finally:
            self._end()

    def _start(self, seat: int, device: str) -> _Job:
        context = server.context("cpu" if device == "cpu" else "cuda")
        ours, theirs = context.Pipe()
        life, their_life = context.Pipe()
        bars = type(self.progress) is not Progress
        process = context.Process(target=_serve, args=(theirs, their_life, self.out, self.fresh, bars))
        process.start()
        theirs.close()
        their_life.close()
        return _Job(seat, process, ours, life)

    def _give(self, job: _Job, task: Task) -> None:
        job.task = task
        plan = packed(self.seats.seated(task.plan, job.seat))
        with suppress(OSError):  # a job that has just died is found at its connection
            job.connection.send((plan, task.seed, task.blocking))

    def _hear(self, job: _Job, later: deque[Task]) -> bool:
        """One message of a job; False where the command ends because a seed has failed."""
        assert job.task is not None
        name, seed = job.task.plan.title, job.task.seed
        try:
            kind, content = job.connection.recv()
        except (EOFError, OSError):
            job.process.join()
            self.progress.say(f"{name} seed {seed}: failed: its process has ended ({job.process.exitcode})")
            kind, content = "outcome", Outcome(name, seed, "failed", "its process has ended", 1)
            place = self._jobs.index(job)
            self._jobs[place] = self._start(job.seat, job.task.plan.devices[0])
        if kind == "say":
            self.progress.say(content)
        elif kind == "bar":
            self.progress.bar(job.seat, content)
        elif content is None:
            later.append(Task(job.task.plan, seed, blocking=True))
            job.task = None
        else:
            self.progress.bar(job.seat, None)
            self.outcomes.append(content)
            job.task = None
            return not (content.exit_code and self.fail_fast)
        return True

    def _end(self) -> None:
        """End the jobs; what they still run is interrupted in order, and said."""
        for job in self._jobs:
            job.process.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        left = {job.connection: job for job in self._jobs}
        while left and time.monotonic() < deadline:
            for connection in wait(list(left), timeout=max(0.0, deadline - time.monotonic())):
                try:
                    kind, content = left[connection].connection.recv()  # type: ignore[index]
                except (EOFError, OSError):
                    del left[connection]  # type: ignore[arg-type]
                    continue
                if kind == "say":
                    self.progress.say(content)
        for job in self._jobs:
            job.process.join(max(0.1, deadline - time.monotonic()))
            if job.process.is_alive():
                job.process.kill()
                job.process.join()
            job.connection.close()
            job.lifeline.close()
            self.progress.bar(job.seat, None)


class Relay(Progress):
    """Progress of a job: its lines, and where it stands, go up to the command."""

    def __init__(self, connection: Connection, bars: bool) -> None:
        super().__init__()
        self._connection, self._bars = connection, bars
        self._score, self._shown = "", 0.0
        self.recipe = ""

    def say(self, text: str) -> None:
        """Send a line, with the recipe where it names only a seed."""
        self._connection.send(("say", f"{self.recipe} {text}" if text.startswith("seed ") else text))

    def step(self, batch: int, loss: float, samples: int) -> None:
        """Move the bar, or say a line from time to time."""
        if not self._bars:
            super().step(batch, loss, samples)
            return
        self._samples += samples
        if time.monotonic() - self._shown > BAR_SECONDS:
            self._shown = time.monotonic()
            state = (self.title, self.total, batch + 1, f"{loss:.4f}", self._score, self.rate())
            self._connection.send(("bar", state))

    def epoch(self, epoch: int, numbers: dict[str, float]) -> None:
        """Send the epoch's line."""
        self._score = score(numbers)
        super().epoch(epoch, numbers)


def _serve(connection: Connection, lifeline: Connection, out: Path, fresh: bool, bars: bool) -> None:
    """A job: run what is handed down until told to end (SIGTERM), or until the command is gone."""
    end_with_parent(lifeline)
    everywhere = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    with suppress(Terminated), orderly_end():
        try:
            while True:
                values, seed, blocking = connection.recv()
                plan = unpacked(values)
                if everywhere is not None:
                    os.sched_setaffinity(0, everywhere)  # an experiment in this process may have narrowed it
                if plan.devices[0] == "cpu":
                    server.warm_up()
                progress = Relay(connection, bars)
                progress.recipe = plan.title
                outcome = run_seed(plan, seed, out, progress, blocking=blocking, fresh=fresh)
                connection.send(("outcome", outcome))
        except EOFError:
            pass
        finally:
            server.end()
