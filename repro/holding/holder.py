"""The file `.holder` in a seed's folder: who runs it, since when; its time of change is the last heartbeat."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path

FILE = ".holder"
SILENT_BEATS = 6  # heartbeats that must fail to come before an owner on another host counts as dead
PERIOD_SECONDS = 10.0  # of a holder that does not say


@dataclass(frozen=True)
class Holder:
    """A process that runs a seed."""

    pid: int
    host: str
    since: float = 0.0  # Unix seconds; 0: not known
    place: str = ""  # the running kernel and its namespace of pids: where `pid` means this process
    born: str = ""  # the kernel's start time of the process: a pid is given again
    period: float = PERIOD_SECONDS  # seconds between heartbeats
    token: str = ""
    job: str | None = None  # of the cluster's queue
    batches: int | None = None  # that the run has in all

    @classmethod
    def here(cls, period: float, batches: int | None = None) -> Holder:
        """This process."""
        pid = os.getpid()
        return cls(
            pid, socket.gethostname(), time.time(), _place(), _born(pid), period, secrets.token_hex(8), job_id(), batches
        )  # fmt: skip

    def words(self) -> str:
        """Host, pid and since when, as messages name them."""
        began = f" since {moment(self.since)}" if self.since else ""
        job = f", job {self.job}" if self.job else ""
        return f"pid {self.pid} on {self.host}{began}{job}"

    def here_too(self) -> bool:
        """Whether its pid can be looked up from this process."""
        return self.place == _place() if self.place else self.host == socket.gethostname()

    def alive(self, age: float) -> bool:
        """Whether the process still runs; `age`: seconds since its last heartbeat, all that is known of other hosts."""
        if self.here_too():
            return _runs(self.pid) and self.born in ("", _born(self.pid))
        return age <= self.silence

    @property
    def silence(self) -> float:
        """Seconds without a heartbeat after which it counts as dead."""
        return SILENT_BEATS * self.period


@dataclass(frozen=True)
class Found:
    """A holder as a reader finds it, and when its last heartbeat was (Unix seconds, the file system's clock)."""

    holder: Holder
    beat: float


def moment(seconds: float) -> str:
    """Local date and time of Unix seconds, to the second."""
    return datetime.fromtimestamp(seconds).isoformat(" ", "seconds")


def read(folder: Path) -> Found | None:
    """The holder of a seed's folder; None where there is none, or its file says nothing.

    Opening the file makes an NFS client ask the server, so that the time of change is not an old one.
    """
    try:
        with (folder / FILE).open(encoding="utf-8") as file:
            beat = os.fstat(file.fileno()).st_mtime
            values = json.load(file)
        known = {field.name for field in fields(Holder)}
        holder = Holder(**{key: value for key, value in values.items() if key in known})
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    sound = isinstance(holder.pid, int) and isinstance(holder.host, str)
    numbers = all(isinstance(value, (int, float)) for value in (holder.since, holder.period))
    return Found(holder, beat) if sound and numbers else None


def create(folder: Path, holder: Holder) -> bool:
    """Write the file if there is none (in one step, over NFS too); False where there is one."""
    try:
        file = os.open(folder / FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    try:
        with os.fdopen(file, "w", encoding="utf-8") as opened:
            opened.write(json.dumps(asdict(holder)))
    except OSError:  # a full disk
        (folder / FILE).unlink(missing_ok=True)
        raise
    return True


def remove(folder: Path, token: str) -> bool:
    """Take away the file that has this token, in one step, so that of several takers one succeeds."""
    own = folder / f"{FILE}.{secrets.token_hex(4)}"
    try:
        (folder / FILE).rename(own)
    except OSError:
        return False
    try:
        taken = str(json.loads(own.read_text(encoding="utf-8")).get("token", ""))
    except (OSError, ValueError, AttributeError):
        taken = ""
    if taken != token:  # somebody's who came in between: give it back
        with suppress(OSError):
            os.link(own, folder / FILE)
    with suppress(OSError):
        own.unlink()
    return taken == token


def job_id() -> str | None:
    """The id that SLURM's queue shows for this process, "12_3" in an array; None outside."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def _place() -> str:
    """Kernel's boot and namespace of pids; "" where the system does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _born(pid: int) -> str:
    return stat[19] if len(stat := _stat(pid)) > 19 else ""


def _stat(pid: int) -> list[str]:
    """What the kernel says of a process behind its name, its state first; nothing where it does not say."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _runs(pid: int) -> bool:
    """Whether it is there and no zombie: in a container whose first process reaps nobody, the dead keep their pids."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        pass
    return _stat(pid)[:1] not in (["Z"], ["X"])
