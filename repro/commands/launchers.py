"""Who starts the runs of `repro run`: the values of --launcher."""

from __future__ import annotations

from enum import StrEnum


class Launcher(StrEnum):
    """local: this command. torchrun: this command on each of several hosts. slurm: a job of its queue for every seed."""

    local = "local"
    torchrun = "torchrun"
    slurm = "slurm"
