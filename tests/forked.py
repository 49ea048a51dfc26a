"""Commands without the seconds that a new interpreter spends on importing torch.

A server (one for each process of pytest) has imported everything; a command is forked from it:

    pytest ──> server (torch, pandas, ... imported)
       └─────────> command: own session, environment, folder, pipes; adopted by pytest (a "subreaper"),
                      └──> the engine's fork server, forked too ──> blocks

So pid, signals, exit code and the tree below are those of a command that a shell has started. What a fork cannot show
needs `real=True` in tests/programs.py: what is imported when, and environment that libraries read while they load.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import inspect
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
_PR_SET_CHILD_SUBREAPER = 36
_LIMIT = 1 << 17  # bytes of a request
# Read when a command asks for them, not when a library loads.
_READ_LATE = ("REPRO_", "GLOO_", "PYTEST_")
POSSIBLE = sys.platform == "linux"


class Command(subprocess.Popen[str]):
    """`subprocess.Popen` of `cli.py WORDS`, forked from the server."""

    def __init__(self, words: Sequence[str], **more: Any) -> None:
        super().__init__([sys.executable, str(ROOT / "cli.py"), *words], **more)

    def _execute_child(self, *values: Any) -> None:
        """Ask the server in place of fork and exec."""
        names = inspect.signature(subprocess.Popen._execute_child).bind(self, *values).arguments  # type: ignore[attr-defined]
        request = {
            "words": list(names["args"])[2:],
            "cwd": str(names["cwd"] or os.getcwd()),
            "env": dict(os.environ if names["env"] is None else names["env"]),
            "session": names["start_new_session"],
        }
        self.pid = _server().fork(request, [names["p2cread"], names["c2pwrite"], names["errwrite"]])
        self._child_created = True
        self._close_pipe_fds(*(names[n] for n in _PIPES))  # type: ignore[attr-defined]


_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


def can_fork(env: Mapping[str, str]) -> bool:
    """Whether a command with these additions to the environment may be forked."""
    return POSSIBLE and all(name.startswith(_READ_LATE) for name in env)


class Server:
    """The side of pytest."""

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The word "forkserver" is what tests.programs.blocks knows the engine's processes by.
        words = [sys.executable, "-m", "tests.forked", str(theirs.fileno()), "forkserver"]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
        self._process = subprocess.Popen(words, pass_fds=[theirs.fileno()], cwd=ROOT, env=env)
        theirs.close()

    def fork(self, request: dict[str, Any], pipes: list[int]) -> int:
        """The pid of a new command."""
        socket.send_fds(self._socket, [pickle.dumps(request)], pipes)
        answer = self._socket.recv(64)
        if not answer:
            raise RuntimeError(f"the server of commands has ended with {self._process.wait()}")
        return int(answer)


_one: list[Server] = []


def _server() -> Server:
    if not _one:
        _one.append(Server())
    return _one[0]


def serve(control: socket.socket) -> None:
    """Import everything, then fork a command for each request until pytest has gone."""
    import pandas  # noqa: F401

    import cli  # noqa: F401
    import repro.commands.run
    import repro.engine.processes.preload
    import repro.report.figures
    import repro.report.tables
    import repro.runner  # noqa: F401

    gc.collect()
    gc.freeze()  # pages stay shared
    while True:
        data, fds, _, _ = socket.recv_fds(control, _LIMIT, 3)
        if not data:
            return
        read, write = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid == 0:
                control.close()
                os.close(read)
                os.close(write)
                run(pickle.loads(data), fds)
            os.write(write, str(pid).encode())
            os._exit(0)
        os.close(write)
        answer = os.read(read, 64)
        os.close(read)
        os.waitpid(between, 0)  # from here on the command is pytest's child
        for fd in fds:
            os.close(fd)
        control.send(answer)


def run(request: dict[str, Any], fds: list[int]) -> NoReturn:
    """Be the command: as a new interpreter would, from its environment to its exit code."""
    code = 1
    try:
        if request["session"]:
            os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
        for fd in fds:
            os.close(fd)
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        gc.unfreeze()
        _fork_the_fork_server(request["words"])
        sys.argv = [str(ROOT / "cli.py"), *request["words"]]
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _fork_the_fork_server(words: list[str]) -> None:
    """Let multiprocessing's fork server be forked from this process, where it would be a new interpreter."""
    from multiprocessing import forkserver, util

    from repro.engine.processes import fork_server

    spawn = util.spawnv_passfds  # type: ignore[attr-defined]

    def forked(path: str, args: list[str], passed: Sequence[int]) -> int:
        if "multiprocessing.forkserver import main" not in args[-1]:
            return int(spawn(path, args, passed))
        pid = os.fork()
        if pid:
            return pid
        kept = sorted({0, 1, 2, *passed})
        for low, high in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
            os.closerange(low + 1, high)
        atexit._clear()
        forkserver._forkserver._lock = threading.Lock()  # type: ignore[attr-defined]  # held around this fork
        try:
            exec(args[-1], {})
        finally:
            os._exit(0)

    util.spawnv_passfds = forked  # type: ignore[attr-defined]
    # Before any thread of torch is there, which a fork would not have.
    if set(words[:1]) & {"bench", "plan"}:
        fork_server.warm_up()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
