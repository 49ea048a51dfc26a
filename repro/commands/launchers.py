"""Who starts the runs of `repro run`: the values of --launcher."""

from __future__ import annotations

from enum import StrEnum


class Launcher(StrEnum):
    """local: this command, on this machine. slurm: a job for every seed, through SLURM's queue."""

    local = "local"
    slurm = "slurm"
