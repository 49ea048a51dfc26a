"""One process at a time runs a seed, on one host or several that share a file system.

    .lock    flock     exact on one host: the kernel frees it with its owner. Over NFS where the server's lock manager runs.
    .holder  O_EXCL    exact over NFS too, but stays when its owner dies: then its heartbeat (time of change) grows old.

A seed is run by who has both. A holder that is dead (its pid here, its heartbeat elsewhere) is taken over.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import filelock

from repro.holding import holder as holders
from repro.holding.heartbeat import Heartbeat
from repro.holding.holder import PERIOD_SECONDS, Holder

POLL_SECONDS = 0.5  # between two tries of who waits
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
LOCK = ".lock"

Say = Callable[[str], None]


class InUse(Exception):
    """Another process runs this seed; its words name host, pid and since when."""


@dataclass(frozen=True)
class Hold:
    """What the process that runs a seed has; `check` raises TakenOver where it has lost it."""

    check: Callable[[], None] = lambda: None


@contextmanager
def holding(
    folder: Path, *, blocking: bool, say: Say, period: float = PERIOD_SECONDS, batches: int | None = None
) -> Iterator[Hold]:
    """Hold a seed's folder, beating every `period` seconds. InUse where another process does, unless `blocking`.

    `say` hears whom it waits for, whom it takes over, and where the file system has no locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mine = Holder.here(period, batches)
    lock = _acquired(folder, mine, blocking, say)
    try:
        with Heartbeat(folder, mine) as heartbeat:
            yield Hold(heartbeat.check)
    finally:
        holders.remove(folder, mine.token)
        if lock is not None:
            lock.release()


def _acquired(folder: Path, mine: Holder, blocking: bool, say: Say) -> filelock.BaseFileLock | None:
    said = ""
    while True:
        try:
            return _try(folder, mine, say)
        except InUse as error:
            words = f"{folder}: in use by {error}"
            if words != said:
                say(words + ("; waiting for it to end" if blocking else ""))
                said = words
            if not blocking:
                raise
            time.sleep(POLL_SECONDS)


def _try(folder: Path, mine: Holder, say: Say) -> filelock.BaseFileLock | None:
    """Lock and write the holder, or raise InUse; None: there are no locks here, the holder alone must do."""
    lock: filelock.BaseFileLock | None = filelock.FileLock(folder / LOCK)
    assert lock is not None
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        _break_lock_of_dead_host(folder)
        lock = filelock.FileLock(folder / LOCK)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            found = holders.read(folder)
            raise InUse(found.holder.words() if found else "another process") from None
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
            raise
        say(f"{folder}: its file system has no locks; runs are kept apart by .holder and its heartbeat alone")
        lock = None
    try:
        _write_holder(folder, mine, say)
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    return lock


def _write_holder(folder: Path, mine: Holder, say: Say) -> None:
    while not holders.create(folder, mine):
        found = holders.read(folder)
        if found is None:  # being written, or what a full disk has left
            with suppress(OSError):
                if _clock(folder) - (folder / holders.FILE).stat().st_mtime <= mine.silence:
                    raise InUse("another process, which has only begun")
            if not (folder / holders.FILE).exists():
                continue
            holders.remove(folder, "")
            continue
        age = _clock(folder) - found.beat
        left_by_this = found.holder.here_too() and found.holder.pid == os.getpid()
        if found.holder.alive(age) and not left_by_this:
            raise InUse(found.holder.words())
        if holders.remove(folder, found.holder.token) and not found.holder.here_too():
            say(
                f"{folder}: taken over from {found.holder.words()}, which has given no sign of life for {age:.0f} s"
            )


def _break_lock_of_dead_host(folder: Path) -> None:
    """A server may keep the lock of a client that has died: a new file has none."""
    found = holders.read(folder)
    if found is None or found.holder.here_too() or found.holder.alive(_clock(folder) - found.beat):
        return
    with suppress(OSError):
        (folder / LOCK).unlink()


def _clock(folder: Path) -> float:
    """Now, on the clock that heartbeats are written by: the file server's."""
    with suppress(OSError):
        os.utime(folder / LOCK)
        return (folder / LOCK).stat().st_mtime
    return time.time()
