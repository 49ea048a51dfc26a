"""All seeds of a folder of runs: those begun, those in a queue, and those that have not been started."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from repro.cluster import slurm_queue, submissions
from repro.cluster.slurm_queue import Queued
from repro.cluster.submissions import Job
from repro.standing.seed_standing import Standing, State, changed, of_folder, with_job
from repro.store import RunFolder, seed_folders

_Key = tuple[str, str, str, int]
Ask = Callable[[], Mapping[str, Queued] | None]


@dataclass
class Survey:
    """Reads a folder of runs again and again; what is done is read once."""

    runs: Path
    ask: Ask = slurm_queue.jobs
    _done: dict[Path, tuple[float, Standing]] = field(default_factory=dict)

    def take(self, names: Sequence[str] = (), seeds: Sequence[int] = ()) -> list[Standing]:
        """Rows by recipe, settings, seed; of the recipes `names` only, where some are given.

        Of these, `seeds` that no run of a recipe's settings has are rows too, not started.
        """
        now = time.time()
        rows = [row for folder in self._folders(names) if (row := self._of(folder, now)) is not None]
        rows = self._with_jobs(rows, names, now)
        rows += _not_started(rows, names, seeds)
        return sorted(rows, key=lambda r: (r.recipe, r.profile, r.settings, r.seed, r.hash))

    def _folders(self, names: Sequence[str]) -> list[RunFolder]:
        found = (folder for folder, _ in seed_folders(self.runs))
        return [folder for folder in found if not names or folder.path.parent.parent.name in names]

    def _of(self, folder: RunFolder, now: float) -> Standing | None:
        try:
            stamp = folder.result.stat().st_mtime
        except OSError:
            stamp = 0.0
        known = self._done.get(folder.path)
        if known is not None and stamp and known[0] == stamp:
            return known[1]
        row = of_folder(folder, now)
        if row is not None and row.state is State.DONE:
            self._done[folder.path] = (stamp, row)
        return row

    def _with_jobs(self, rows: list[Standing], names: Sequence[str], now: float) -> list[Standing]:
        """The rows, with what is known of the newest job of each run; a job without a run is a row of its own."""
        jobs = [job for job in submissions.latest(self.runs) if not names or job.submission.recipe in names]
        if not jobs:
            return rows
        queue, user = self.ask() if any(map(_asks, jobs)) else None, getpass.getuser()
        place = {_key(row): i for i, row in sorted(enumerate(rows), key=lambda pair: pair[1].since or 0.0)}
        for job in jobs:
            at = place.get(_job_key(job))
            mine = queue if job.submission.user == user else None
            row = with_job(None if at is None else rows[at], job, mine, now)
            if at is None:
                rows.append(row)
            else:
                rows[at] = row
        return rows


def _asks(job: Job) -> bool:
    return job.submission.queue == "slurm"


def _key(row: Standing) -> _Key:
    return row.recipe, row.profile, row.settings, row.seed


def _job_key(job: Job) -> _Key:
    told = job.submission
    return told.recipe, told.profile, changed(told.overrides), told.seed


def _not_started(rows: Sequence[Standing], names: Sequence[str], seeds: Sequence[int]) -> list[Standing]:
    """A row for each of `seeds` that a recipe has not begun under settings that it has been run with, or under any."""
    found = []
    for name in names:
        groups: dict[tuple[str, str, str], set[int]] = {}
        for row in rows:
            if row.recipe == name:
                groups.setdefault((row.profile, row.settings, row.hash), set()).add(row.seed)
        for (profile, settings, run_hash), begun in (groups or {("", "", ""): set()}).items():
            found += [
                Standing(name, seed, State.NOT_STARTED, profile, settings, run_hash)
                for seed in seeds
                if seed not in begun
            ]
    return found
