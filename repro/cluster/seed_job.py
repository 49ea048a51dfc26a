"""What a job of the queue does: `repro run` of one seed, and what pre-emption and time limits make of it.

    queue's warning (USR2)  --> end the run in order (its checkpoints stay) --> requeue --> it resumes
    SIGTERM, SIGKILL        --> the run is cut off; where the queue does not requeue, `repro run` submits it again

submitit calls an instance on the node, and its `checkpoint` when the queue's warning has come.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro import paths
from repro.cluster import submissions

GRACE_SECONDS = 20.0  # for a run to end in order
WARNING_SECONDS = 10.0  # that the queue's warning may come behind the SIGTERM that has ended the run
INTERRUPTED = (130, 143, -signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL)


@dataclass
class SeedJob:
    """The words behind `repro`, and where the job leaves word of itself; `first` are for the first attempt alone."""

    words: Sequence[str]
    runs: Path
    first: Sequence[str] = ()
    _child: Any = field(default=None, repr=False)

    def __call__(self) -> int:
        """Run to the end. RuntimeError, which the queue counts as a failure, with the run's last words."""
        from submitit import JobEnvironment

        job = str(JobEnvironment().job_id)
        again = (submissions.folder(self.runs) / "jobs" / f"{job}.started").exists()
        beat = submissions.started(
            self.runs, job, {"host": socket.gethostname(), "pid": os.getpid(), "again": again}
        )
        words = [
            sys.executable,
            str(paths.PACKAGE.parent / "cli.py"),
            *self.words,
            *(() if again else self.first),
        ]
        self._child = subprocess.Popen(
            words, stderr=subprocess.PIPE, text=True, preexec_fn=_deaf_to_warnings, env=_environment()
        )
        last = _LastLine(self._child.stderr)
        code = self._wait(beat)
        last.join(5.0)
        if code in INTERRUPTED:
            time.sleep(WARNING_SECONDS)  # where the warning comes, `checkpoint` does not return here
        submissions.ended(self.runs, job, code, last.line)
        if code:
            raise RuntimeError(f"`repro {' '.join(self.words)}` ended with {code}: {last.line}")
        return code

    def checkpoint(self) -> Any:
        """End the run in order; what the queue is to call again."""
        from submitit.helpers import DelayedSubmission

        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        return DelayedSubmission(SeedJob(self.words, self.runs, self.first))

    def _wait(self, beat: Path) -> int:
        while True:
            try:
                return int(self._child.wait(submissions.BEAT_SECONDS))
            except subprocess.TimeoutExpired:
                os.utime(beat)


def _deaf_to_warnings() -> None:
    """The queue warns all processes of a job; only this one's parent is to listen."""
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


def _environment() -> dict[str, str]:
    """With this program's own folder first, wherever the job was submitted from."""
    path = [str(paths.PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


class _LastLine(threading.Thread):
    """Copies a stream to stderr and keeps its last line."""

    def __init__(self, stream: Any) -> None:
        super().__init__(daemon=True)
        self._stream, self.line = stream, ""
        self.start()

    def run(self) -> None:
        """Until the stream ends."""
        for line in self._stream:
            self.line = line.strip() or self.line
            sys.stderr.write(line)
            sys.stderr.flush()
