"""The sign of life of the process that runs a seed: a thread that touches `.holder`, and finds out if it has lost it."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from repro.errors import ReproError
from repro.holding import holder as holders
from repro.holding.holder import Holder


class TakenOver(ReproError):
    """Another process runs this seed now: this one was silent for too long (suspended, or cut off from the files)."""

    exit_code = 1


class Heartbeat:
    """Touches the file of `holder` every `holder.period` seconds while the context is open."""

    def __init__(self, folder: Path, holder: Holder) -> None:
        self._folder, self._holder = folder, holder
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="repro heartbeat", daemon=True)
        self._lost = False

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=5.0)  # a file system that hangs must not keep the run from ending

    def check(self) -> None:
        """Raise TakenOver where the file is no longer this process's."""
        if self._lost:
            found = holders.read(self._folder)
            by = found.holder.words() if found else "somebody who has removed its .holder"
            raise TakenOver(
                f"{self._folder}: taken over by {by}; this process had given no sign of life for more than "
                f"{self._holder.silence:g} s, and ends without writing there"
            )

    def _beat(self) -> None:
        path = self._folder / holders.FILE
        while not self._stop.wait(self._holder.period):
            found = holders.read(self._folder)
            if found is None and path.exists():
                continue  # cannot be read just now
            if found is None or found.holder.token != self._holder.token:
                self._lost = not self._stop.is_set()
                return
            with suppress(OSError):
                os.utime(path)
