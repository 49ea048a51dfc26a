"""`repro run --launcher torchrun`: torch.distributed's elastic agent on this host, as torchrun would start it."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from repro import paths
from repro.errors import MissingError, UserError
from repro.hosts.interfaces import choose_interface, is_own
from repro.recipe import Recipe

RUN_ID = "repro"  # hosts with another id would meet apart
_ENDINGS = "REPRO_ENDINGS"  # folder where the processes that the agent has started leave their exit codes
_LINGER_SECONDS = (
    5.0  # for the agent to end by itself after them: with the network gone it may hang for minutes
)


@dataclass(frozen=True)
class Rendezvous:
    """Where the hosts' agents meet: the first host's name or address, and a port of it."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str | None) -> Rendezvous:
        """Read HOST:PORT; UserError for anything else."""
        host, _, port = (text or "").rpartition(":")
        if not host or not port.isdigit() or not 1 <= int(port) <= 65535:
            raise UserError(
                f"--rdzv {text or '(not given)'}: give HOST:PORT, the same on all hosts, with the name or address of one "
                "of them and a free port of it in 1..65535, for example 10.0.0.1:29500"
            )
        return cls(host, int(port))


def check_nodes(nodes: int | None, recipes: Sequence[Recipe]) -> int:
    """The processes that each of `nodes` hosts starts. UserError where the blocks cannot be divided among them."""
    if nodes is None or nodes < 2:
        raise UserError(
            f"--launcher torchrun is for several hosts, and --nnodes is {nodes or 'not given'}: give --nnodes 2 or more, "
            "or leave --launcher out on one host"
        )
    for recipe in recipes:
        replicas = f" times replicas = {recipe.replicas}" if recipe.replicas > 1 else ""
        if recipe.ranks % nodes:
            raise UserError(
                f"{recipe.name} has blocks = {recipe.blocks}{replicas}, which --nnodes {nodes} does not divide: give "
                "--set blocks=K with a multiple of it, or start `torchrun --nproc-per-node N -m repro.worker` with an N for "
                "each host"
            )
        if recipe.ranks != recipes[0].ranks:
            raise UserError(
                f"{recipes[0].name} has {recipes[0].ranks} blocks and {recipe.name} has {recipe.ranks}: the hosts start "
                "one process per block (of each replica), so run recipes with other numbers of blocks one after the other"
            )
    return recipes[0].ranks // nodes


def start(where: Rendezvous, nodes: int, each: int, recipe: Recipe, words: Sequence[str]) -> int:
    """Run `python -m repro.worker WORDS` `each` times on this host; returns the command's exit code.

    MissingError where the rendezvous cannot be reached, or not all hosts come, within runtime.join_seconds.
    """
    runtime = recipe.runtime
    here = is_own(where.host)
    if not here:
        _reach(where, runtime.join_seconds)
    interface = choose_interface(runtime.interface, where.host)
    logging.disable(logging.ERROR)  # torch's own words about a worker that failed; ours come from the worker
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(paths.PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous.api import RendezvousError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    join, silence = (max(1, round(s)) for s in (runtime.join_seconds, runtime.silence_seconds))
    config = LaunchConfig(
        min_nodes=nodes,
        max_nodes=nodes,
        nproc_per_node=each,
        run_id=RUN_ID,
        rdzv_backend="c10d",
        rdzv_endpoint=f"{where.host}:{where.port}",
        rdzv_configs={"is_host": here, "timeout": join, "join_timeout": join, "read_timeout": silence},
        max_restarts=0,
        local_addr=interface.address,
    )
    with tempfile.TemporaryDirectory(prefix="repro-endings-") as folder:
        os.environ[_ENDINGS] = folder
        threading.Thread(target=_see_the_end, args=(Path(folder),), daemon=True).start()
        try:
            elastic_launch(config, sys.executable)("-m", "repro.worker", *words)
        except ChildFailedError:
            return _ending(Path(folder)) or 1
        except SignalException as error:
            return 128 + int(error.sigval)
        except RendezvousError as error:
            if code := _ending(Path(folder)):
                return code
            raise MissingError(
                f"not all of the {nodes} hosts came to {where.host}:{where.port} within {join} s (runtime.join_seconds; "
                f"{_first_line(error)}): start the same command on each of them"
            ) from None
    return 0


def note_end(code: int) -> None:
    """In a process that the agent has started: leave the exit code for `start`."""
    if folder := os.environ.get(_ENDINGS):
        with suppress(OSError):
            (Path(folder) / str(os.getpid())).write_text(str(code))


def first_to_speak() -> bool:
    """In a process that the agent has started: whether no other process of this host has said how the run ended."""
    folder = os.environ.get(_ENDINGS)
    if folder is None:  # started by torchrun itself: rather twice than never
        return True
    try:
        (Path(folder) / "said").touch(exist_ok=False)
    except OSError:
        return False
    return True


def _ending(folder: Path) -> int:
    """The exit code of the first process that failed; 0 while none has."""
    files = sorted(folder.glob("*"), key=lambda f: f.stat().st_mtime_ns)
    return next((int(code) for f in files if (code := f.read_text()).isdigit() and code != "0"), 0)


def _see_the_end(folder: Path) -> None:
    """End this process soon after those that its agent has started, whatever the agent waits for."""
    while folder.is_dir():
        if code := _ending(folder):
            time.sleep(_LINGER_SECONDS)
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(code)
        time.sleep(0.5)


def _reach(where: Rendezvous, patience: float) -> None:
    """Wait until something listens at the rendezvous on another host."""
    end, words = time.monotonic() + patience, "no answer"
    while (left := end - time.monotonic()) > 0:
        try:
            socket.create_connection((where.host, where.port), timeout=left).close()
            return
        except OSError as error:
            words = (error.strerror or str(error)).lower()
            time.sleep(min(0.5, max(0.0, left)))
    raise MissingError(
        f"--rdzv {where.host}:{where.port}: nothing answers there to {socket.gethostname()} within {patience:g} s "
        f"(runtime.join_seconds; {words}): start the same command on that host too, and let packet filters pass the port"
    )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
