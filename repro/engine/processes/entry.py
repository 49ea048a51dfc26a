"""Where a process of a run begins and ends: with one block, or with all blocks in turn."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from repro.engine.block.finite import NotFinite
from repro.engine.processes.block_log import without_native_frames, write_to
from repro.engine.processes.interleave import Interleaved
from repro.engine.processes.reporter import Reporter
from repro.engine.processes.worker import Worker
from repro.engine.transport.channel import PeerLost
from repro.engine.transport.exchange import Exchange, MemoryNetwork
from repro.engine.transport.ports import BlockNetwork
from repro.engine.transport.process_group import Network
from repro.errors import ReproError
from repro.planning.run_plan import Plan, unpacked

_PR_SET_PDEATHSIG = 1


def run_blocks(job: dict[str, Any], connection: Connection, status: Any) -> None:
    """Run the blocks of `job` to their end and leave the process; errors go to the parent with their traceback."""
    ranks: tuple[int, ...] = job["ranks"]
    reporters = [Reporter(connection, status, rank) for rank in ranks]
    acting = [reporters[0]]
    end_with_parent(connection)
    write_to(job["log"])
    code = 0
    try:
        _run(job, reporters, acting)
    except PeerLost as error:
        code = 1
        acting[0].failed(_trace(), without_native_frames(str(error)), True, 1)
    except NotFinite as error:
        code = error.exit_code
        acting[0].diverged(error.batch, error.tensor, error.value)
    except ReproError as error:
        code = error.exit_code
        if error.__cause__ is not None:
            traceback.print_exc()  # into the log: a library's own words
        acting[0].failed("", str(error), False, code)
    except BaseException as error:
        code = 1
        words = without_native_frames(str(error))
        acting[0].failed(_trace(), f"{type(error).__name__}: {words}", False, 1)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # no destructor may wait for a neighbour that is gone


def _run(job: dict[str, Any], reporters: Sequence[Reporter], acting: list[Reporter]) -> None:
    """Make the workers of this process and run them; `acting` holds the reporter of the block at work."""
    ranks = job["ranks"]
    plan = unpacked(job["plan"])
    prepare(plan, ranks[0])
    before = _resident()
    if plan.engine == "sequential":
        exchanges = [Exchange() for _ in range(plan.recipe.replicas)]
        places = [divmod(rank, plan.blocks) for rank in ranks]
        workers = _workers(plan, job, [MemoryNetwork(k, exchanges[r]) for r, k in places], reporters)
        together = Interleaved(workers, exchanges[0])
        try:
            summaries = together.run(job["checkpoints"], job["resume"])
        finally:
            acting[0] = reporters[together.acting]
    else:
        barrier = getattr(plan.recipe.method, "locking", "") == "barrier"
        network = Network(ranks[0], plan.blocks, plan.devices, job["meeting"], barrier, plan.recipe.runtime)
        workers = _workers(plan, job, [network], reporters)
        summaries = [workers[0].run(job["checkpoints"], job["resume"])]
    for worker, reporter, summary in zip(workers, reporters, summaries, strict=True):
        if job["final_weights"] is not None:
            torch.save(final_state(worker), job["final_weights"] / f"block-{worker.rank}.pt")
        summary["rss_bytes"], summary["rss_before_bytes"] = _peak_resident(), before
        reporter.done(summary)


def _workers(
    plan: Plan, job: dict[str, Any], networks: Sequence[BlockNetwork], reporters: Sequence[Reporter]
) -> list[Worker]:
    """The workers of this process's blocks."""
    typical, times = job["typical_seconds"], job["block_times"]
    return [
        Worker(
            plan,
            rank,
            job["seed"],
            network,
            reporter,
            typical[rank] if typical else None,
            times[rank] if times else None,
        )
        for rank, network, reporter in zip(job["ranks"], networks, reporters, strict=True)
    ]


def final_state(worker: Worker) -> dict[str, Tensor]:
    """Weights and statistics of a block, by layer, on the CPU."""
    return {
        f"{name}.{k}": v.cpu() for name, layer in worker.block.layers for k, v in layer.state_dict().items()
    }


def prepare(plan: Plan, rank: int) -> None:
    """Threads and numerics of this process, the same in the oracle."""
    if plan.pinned and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, plan.pinned)
    torch.set_num_threads(plan.threads)
    plan.precision.use()
    device = torch.device(plan.devices[rank])
    if device.type == "cuda":
        # A queue of the hardware for each stream: a block between two others has four beside its own, and NCCL's.
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
        torch.cuda.set_device(device)
        if plan.recipe.deterministic:
            torch.backends.cudnn.deterministic = True
            torch.backends.cudnn.benchmark = False
        else:
            torch.backends.cudnn.benchmark = True


def _trace() -> str:
    """The traceback for the terminal; where torch has added its native stack, the whole of it goes to the log."""
    whole = traceback.format_exc().strip()
    plain = without_native_frames(whole)
    if plain != whole:
        print(whole, file=sys.stderr)
    return plain


def end_with_parent(connection: Connection) -> None:
    """Leave Ctrl-C to the parent, and end at once when it is gone: it never writes to `connection`, only closes it."""
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
