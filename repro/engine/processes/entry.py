"""Where the process of a block begins and ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from repro.engine.block.finite import NotFinite
from repro.engine.processes.block_log import without_native_frames, write_to
from repro.engine.processes.reporter import Reporter
from repro.engine.processes.worker import Worker
from repro.engine.transport.channel import PeerLost
from repro.engine.transport.process_group import Network
from repro.errors import ReproError
from repro.planning.run_plan import Plan
from repro.recipe import validate

_PR_SET_PDEATHSIG = 1


def run_block(job: dict[str, Any], connection: Connection, status: Any) -> None:
    """Run one block to its end and leave the process; errors go to the parent with their traceback."""
    index = job["index"]
    reporter = Reporter(connection, status, index)
    _die_with_parent(connection)
    write_to(job["log"])
    code = 0
    try:
        plan = Plan(recipe=validate(job["recipe"]), **job["plan"])
        prepare(plan, index)
        before = _resident()
        method = plan.recipe.method
        network = Network(
            index,
            plan.blocks,
            plan.devices,
            job["port"],
            getattr(method, "locking", "") == "barrier",
            plan.recipe.runtime,
        )
        worker = Worker(
            plan, index, job["seed"], network, reporter, job["typical_seconds"], job["block_times"]
        )
        summary = worker.run(job["checkpoints"], job["resume"])
        if job["final_weights"] is not None:
            state = {
                f"{name}.{k}": v.cpu()
                for name, layer in worker.block.layers
                for k, v in layer.state_dict().items()
            }
            torch.save(state, job["final_weights"] / f"block-{index}.pt")
        summary["rss_bytes"], summary["rss_before_bytes"] = _peak_resident(), before
        reporter.done(summary)
    except PeerLost as error:
        code = 1
        reporter.failed(_trace(), without_native_frames(str(error)), True, 1)
    except NotFinite as error:
        code = error.exit_code
        reporter.diverged(error.batch, error.tensor, error.value)
    except ReproError as error:
        code = error.exit_code
        if error.__cause__ is not None:
            traceback.print_exc()  # into the log: a library's own words
        reporter.failed("", str(error), False, code)
    except BaseException as error:
        code = 1
        words = without_native_frames(str(error))
        reporter.failed(_trace(), f"{type(error).__name__}: {words}", False, 1)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # no destructor may wait for a neighbour that is gone


def prepare(plan: Plan, index: int) -> None:
    """Threads and numerics of this process, the same in the oracle."""
    torch.set_num_threads(plan.threads)
    device = torch.device(plan.devices[index])
    if device.type == "cuda":
        torch.cuda.set_device(device)
        if plan.recipe.deterministic:
            torch.backends.cudnn.deterministic = True
            torch.backends.cudnn.benchmark = False
            torch.backends.cudnn.allow_tf32 = False
        else:
            torch.backends.cudnn.benchmark = True


def _trace() -> str:
    """The traceback for the terminal; where torch has added its native stack, the whole of it goes to the log."""
    whole = traceback.format_exc().strip()
    plain = without_native_frames(whole)
    if plain != whole:
        print(whole, file=sys.stderr)
    return plain


def _die_with_parent(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends all blocks in order
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        with suppress(OSError, EOFError):
            connection.poll(None)  # the parent never writes: readable means that it has closed the pipe
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent watch").start()


def _resident() -> int:
    """Bytes of this process in memory now; 0 where the system does not say."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if file.is_file() else 0


def _peak_resident() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
