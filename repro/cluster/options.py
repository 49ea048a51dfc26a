"""What `repro run --launcher slurm` asks of the queue, checked before anything is submitted."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from repro.cluster import slurm_queue
from repro.cluster.slurm_queue import Partition
from repro.cluster.time_limit import limit_of_partition, minutes
from repro.errors import MissingError, UserError, nearest

DEFAULT_MINUTES = 60
INSTALL = "pip install 'repro[cluster]' (or: pip install submitit)"
# What submitit takes from this command alone.
_OURS = ("partition", "time", "array_parallelism", "nodes", "ntasks_per_node", "signal_delay_s", "use_srun")


@dataclass(frozen=True)
class QueueOptions:
    """The options as typed; None: not given."""

    partition: str | None = None
    time: str | None = None
    at_once: int | None = None
    more: Sequence[str] = ()  # KEY=VALUE words for submitit

    def refuse(self, launcher: str) -> None:
        """Raise UserError where an option of the queue is given and there is none."""
        given = {
            "--partition": self.partition,
            "--time": self.time,
            "--at-once": self.at_once,
            "--slurm": self.more,
        }
        for option, value in given.items():
            if value not in (None, (), []):
                raise UserError(f"{option} is of --launcher slurm, and this run is of --launcher {launcher}")


@dataclass(frozen=True)
class Request:
    """The same, resolved."""

    partition: str
    minutes: int
    at_once: int | None
    gpus: bool  # whether the partition has any
    more: dict[str, Any] = field(default_factory=dict)


def resolved(options: QueueOptions) -> Request:
    """Check what was asked for. UserError for wrong words; MissingError without submitit or SLURM."""
    limit = minutes(options.time) if options.time is not None else DEFAULT_MINUTES
    if options.at_once is not None and options.at_once < 1:
        raise UserError(f"--at-once {options.at_once}: give a whole number >= 1")
    check_installed()
    more = _more(options.more)
    if shutil.which("sbatch") is None:
        raise MissingError(
            "--launcher slurm: there is no sbatch here; run the command where jobs are submitted (a login node), "
            "or take --launcher local"
        )
    found = slurm_queue.partitions()
    if found is None:
        raise MissingError("--launcher slurm: SLURM's controller does not answer (`sinfo` says why)")
    partition = _partition(options.partition, found)
    longest = limit_of_partition(partition.limit)
    if longest is not None and limit > longest:
        if options.time is None:
            limit = longest
        else:
            raise UserError(
                f"--time {options.time}: partition {partition.name} allows {partition.limit} at most"
            )
    return Request(partition.name, limit, options.at_once, partition.gpus, more)


def check_installed() -> None:
    """MissingError, with the command that installs it, where submitit is not here."""
    try:
        import submitit  # noqa: F401
    except ImportError:
        raise MissingError(f"--launcher slurm needs the package submitit: {INSTALL}") from None


def _partition(asked: str | None, found: Sequence[Partition]) -> Partition:
    names = [partition.name for partition in found]
    if asked is not None and asked not in names:
        raise UserError(
            f"--partition {asked!r} is unknown.{nearest(asked, names)} SLURM has: {', '.join(names)} (`sinfo`)"
        )
    chosen = [
        partition for partition in found if partition.name == asked or (asked is None and partition.default)
    ]
    if not chosen:
        raise UserError(f"SLURM has no default partition: give --partition, one of {', '.join(names)}")
    return chosen[0]


def _more(words: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE words as parameters of submitit; values that are whole numbers are numbers."""
    from submitit.slurm.slurm import _get_default_parameters

    allowed = sorted(set(_get_default_parameters()) - set(_OURS))
    found: dict[str, Any] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not value:
            raise UserError(f"--slurm {word!r}: give KEY=VALUE, for example --slurm account=physics")
        if key not in allowed:
            raise UserError(
                f"--slurm {key!r} is unknown.{nearest(key, allowed)} Allowed: {', '.join(allowed)}"
            )
        found[key] = int(value) if value.isdigit() else value
    return found
