"""The process that workers are forked from: it imports the engine once and opens neither threads nor CUDA."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
from contextlib import suppress
from typing import Any

_PRELOAD = ["repro.engine.processes.preload"]


def warm_up() -> None:
    """Start the fork server in the background, so that its imports overlap with the parent's own."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return
    from multiprocessing import forkserver

    _one_thread_pools()
    multiprocessing.get_context("forkserver").set_forkserver_preload(_PRELOAD)
    forkserver.ensure_running()
    atexit.register(end)


def context(device: str) -> Any:
    """How the processes of blocks on `device` start: forked from the server on CPU, spawned for CUDA."""
    _one_thread_pools()
    if device == "cpu" and "forkserver" in multiprocessing.get_all_start_methods():
        found = multiprocessing.get_context("forkserver")
        found.set_forkserver_preload(_PRELOAD)
        return found
    return multiprocessing.get_context("spawn")


def _one_thread_pools() -> None:
    # Other libraries size their thread pools when they are loaded: one thread there; torch sets its own
    # number later.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def end() -> None:
    """End this process's server. It would notice the parent's end only after its imports; no process may be left."""
    from multiprocessing import forkserver

    pid = getattr(forkserver._forkserver, "_forkserver_pid", None)
    if pid is not None:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
