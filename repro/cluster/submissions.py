"""What has been submitted to a queue, as files beside the runs: `<runs>/.cluster/jobs/<id>.json`.

12_3.json       what the job runs, and when it was submitted
12_3.started    written by the job when it starts, touched while it runs: a heartbeat
12_3.ended      written by the job when it ends: exit code, and its last words
"""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from repro.store import to_json, write_atomically

BEAT_SECONDS = 10.0  # between two signs of life of a job
SILENCE_SECONDS = 6 * BEAT_SECONDS


@dataclass(frozen=True)
class Submission:
    """One seed of one recipe under the settings of a command, as a job of a queue."""

    job: str  # as the queue shows it; "12_3" in an array
    recipe: str
    title: str  # with the swept settings
    profile: str
    overrides: dict[str, Any]
    seed: int
    submitted: float  # Unix seconds
    user: str = field(default_factory=getpass.getuser)
    queue: str = "slurm"
    partition: str = ""
    log: str = ""  # file of what the job says

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What the job makes: two submissions of one key make the same run."""
        return self.recipe, self.profile, json.dumps(self.overrides, sort_keys=True), self.seed


def folder(runs: Path) -> Path:
    """Where everything about jobs lies."""
    return runs / ".cluster"


def record(runs: Path, submission: Submission) -> None:
    """Store a submission."""
    write_atomically(_file(runs, submission.job, "json"), to_json(asdict(submission), indent=1) + "\n")


def started(runs: Path, job: str, facts: Mapping[str, Any]) -> Path:
    """Note that a job has begun (again); returns the file whose time of change is its heartbeat."""
    _file(runs, job, "ended").unlink(missing_ok=True)
    file = _file(runs, job, "started")
    write_atomically(file, to_json({**facts, "since": time.time()}) + "\n")
    return file


def ended(runs: Path, job: str, code: int, words: str) -> None:
    """Note how a job has ended."""
    write_atomically(
        _file(runs, job, "ended"), to_json({"code": code, "words": words, "at": time.time()}) + "\n"
    )


@dataclass(frozen=True)
class Job:
    """A submission, and what its job has written since."""

    submission: Submission
    start: dict[str, Any] | None
    beat: float  # Unix seconds of its last sign; 0: none
    end: dict[str, Any] | None


def latest(runs: Path) -> list[Job]:
    """The newest submission of every run, in the order of submission; what cannot be read is left out."""
    found: dict[tuple[str, str, str, int], Submission] = {}
    for submission in sorted(_read(runs), key=lambda s: s.submitted):
        found.pop(submission.key, None)
        found[submission.key] = submission
    return [_with_events(runs, submission) for submission in found.values()]


def _with_events(runs: Path, submission: Submission) -> Job:
    start = _file(runs, submission.job, "started")
    try:
        beat = start.stat().st_mtime
    except OSError:
        beat = 0.0
    return Job(submission, _mapping(start), beat, _mapping(_file(runs, submission.job, "ended")))


def _read(runs: Path) -> Iterator[Submission]:
    known = {f.name for f in fields(Submission)}
    for file in (folder(runs) / "jobs").glob("*.json"):
        values = _mapping(file)
        try:
            if values is not None:
                yield Submission(**{key: value for key, value in values.items() if key in known})
        except TypeError:
            continue


def _file(runs: Path, job: str, kind: str) -> Path:
    return folder(runs) / "jobs" / f"{job}.{kind}"


def _mapping(file: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
