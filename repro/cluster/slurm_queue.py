"""What SLURM's commands say: the jobs in its queue, its partitions. None where they are not here or do not answer."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

PATIENCE_SECONDS = 20.0


@dataclass(frozen=True)
class Queued:
    """A job in the queue: its state in SLURM's words, why it waits, when it is expected to start."""

    state: str
    reason: str = ""
    start: str = ""

    @property
    def waits(self) -> bool:
        """Whether it has not begun, or not begun again."""
        return self.state in (
            "PENDING",
            "CONFIGURING",
            "REQUEUED",
            "REQUEUE_HOLD",
            "REQUEUE_FED",
            "SPECIAL_EXIT",
        )


@dataclass(frozen=True)
class Partition:
    """A partition: whether jobs go there by themselves, its longest time, whether its nodes have GPUs."""

    name: str
    default: bool
    limit: str  # SLURM's words: "infinite", "1-00:00:00"
    gpus: bool


def jobs() -> dict[str, Queued] | None:
    """This user's jobs by id (each task of an array has its own); None where the queue cannot be asked."""
    lines = _said("squeue", "--me", "-h", "-r", "-o", "%i|%T|%r|%S")
    if lines is None:
        return None
    found = {}
    for line in lines:
        job, state, reason, start = _cells(line, 4)
        found[job.strip()] = Queued(
            state.strip(), "" if reason in ("None", "") else reason, "" if start == "N/A" else start
        )
    return found


def partitions() -> list[Partition] | None:
    """All partitions; None where they cannot be asked for."""
    lines = _said("sinfo", "-h", "-o", "%P|%l|%G")
    if lines is None:
        return None
    found: dict[str, Partition] = {}
    for line in lines:
        name, limit, resources = _cells(line, 3)
        plain, before = name.rstrip("*"), found.get(name.rstrip("*"))
        gpus = "gpu" in resources or (before is not None and before.gpus)
        found[plain] = Partition(plain, name.endswith("*"), limit, gpus)
    return list(found.values())


def _cells(line: str, count: int) -> list[str]:
    """The line's first `count` cells; those that it lacks are empty."""
    return [*line.split("|"), *[""] * count][:count]


def _said(*words: str) -> list[str] | None:
    if shutil.which(words[0]) is None:
        return None
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return [line for line in done.stdout.splitlines() if line.strip()]
