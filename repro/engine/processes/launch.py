"""Starts the processes of a run, watches all of them at once, and ends them all when one fails.

Workers come from a fork server that has imported the engine once (CPU) or are spawned (CUDA); the parent
never opens CUDA. A worker ends itself when its pipe to the parent closes, so nothing outlives a killed
parent.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from repro.engine.processes import checkpoint
from repro.engine.processes import fork_server as server
from repro.engine.processes.entry import run_blocks
from repro.engine.processes.reporter import describe
from repro.errors import RunFailed, UserError
from repro.planning.run_plan import Plan, packed

GRACE_SECONDS = 2.0  # between asking processes to end and killing them
GATHER_SECONDS = 1.0  # after a failure, for the block that caused it to report
STALL_SECONDS = 900.0  # without any message: say who waits for what


class BlockFailed(RunFailed):
    """A block's process has raised or died; carries the index and, if there is one, its traceback."""

    def __init__(self, block: int, message: str, trace: str, exit_code: int = 1) -> None:
        super().__init__(f"block {block} (rank {block}) failed: {message}")
        self.block, self.trace, self.exit_code = block, trace, exit_code


class Diverged(RunFailed):
    """The loss of a batch was not finite."""

    def __init__(self, batch: int, loss: float) -> None:
        super().__init__(f"diverged: the loss of batch {batch} is {loss}")
        self.batch, self.loss = batch, loss


@dataclass
class Listener:
    """What the caller wants to hear while a run goes on; every hook may be left out."""

    step: Callable[[int, float, int], None] = lambda batch, loss, samples: None
    epoch: Callable[[int, dict[str, float]], None] = lambda epoch, numbers: None
    committed: Callable[[int, int], None] = lambda epoch, updates: None
    stalled: Callable[[str], None] = lambda text: None


@dataclass
class _Child:
    """A process, the blocks in it, and what it has told: summaries by block; a failure as (block, trace, ...)."""

    blocks: tuple[int, ...]
    process: Any
    connection: Connection
    summaries: dict[int, dict[str, Any]] = field(default_factory=dict)
    failure: tuple[int, str, str, bool, int] | None = None
    closed: bool = False

    @property
    def done(self) -> bool:
        """Whether all its blocks have finished."""
        return len(self.summaries) == len(self.blocks)


@dataclass
class Launch:
    """One engine run. `resume`: a checkpoint folder; `final_weights`: where blocks leave their weights."""

    plan: Plan
    seed: int
    checkpoints: Path | None = None
    resume: Path | None = None
    final_weights: Path | None = None
    typical_seconds: tuple[float, ...] | None = None
    checkpoint_extra: Callable[[], dict[str, Any]] = dict

    def run(self, listener: Listener | None = None) -> list[dict[str, Any]]:
        """Run to the end; returns the blocks' summaries.

        Raises BlockFailed (after ending every process), Diverged, or KeyboardInterrupt as it came.
        """
        listener = listener or Listener()
        plan = self.plan
        # The sequential engine has all blocks in one process; otherwise each block has its own.
        alone = [(k,) for k in range(plan.blocks)]
        shares = [tuple(range(plan.blocks))] if plan.engine == "sequential" else alone
        store = rendezvous(plan.recipe.runtime.port) if len(shares) > 1 else None
        context = server.context(plan.devices[0])
        status = context.RawArray("q", 3 * plan.blocks)
        children: list[_Child] = []
        try:
            for blocks in shares:
                ours, theirs = context.Pipe()
                job = {
                    "plan": packed(plan),
                    "blocks": blocks,
                    "seed": self.seed,
                    "port": store.port if store is not None else 0,
                    "checkpoints": self.checkpoints,
                    "resume": self.resume,
                    "final_weights": self.final_weights,
                    "typical_seconds": self.typical_seconds,
                }
                name = f"repro block {', '.join(map(str, blocks))}"
                process = context.Process(target=run_blocks, args=(job, theirs, status), name=name)
                process.start()
                theirs.close()
                children.append(_Child(blocks, process, ours))
            self._watch(children, listener, status)
        finally:
            _end_all(children)
        return [summary for c in children for _, summary in sorted(c.summaries.items())]

    def _watch(self, children: list[_Child], listener: Listener, status: Any) -> None:
        saved: dict[int, dict[int, tuple[str, str]]] = {}
        failed_at: float | None = None
        heard = time.monotonic()
        while not all(c.done and c.closed for c in children):
            sources: list[Any] = [c.connection for c in children if not c.closed]
            timeout = 0.1 if failed_at is not None else 5.0
            ready = wait(sources, timeout=timeout)
            for child in children:
                if child.connection in ready:
                    heard = time.monotonic()
                    self._hear(child, listener, saved)
            lost = [c for c in children if c.failure is not None or (c.closed and not c.done)]
            if lost and failed_at is None:
                failed_at = time.monotonic()
            if failed_at is not None:
                causes = [c for c in lost if c.failure is None or not c.failure[3]]
                if causes or time.monotonic() - failed_at > GATHER_SECONDS:
                    raise _blame(causes or lost)
            if time.monotonic() - heard > STALL_SECONDS:
                heard = time.monotonic()
                listener.stalled(describe(status, self.plan.blocks))

    def _hear(self, child: _Child, listener: Listener, saved: dict[int, dict[int, tuple[str, str]]]) -> None:
        try:
            message = child.connection.recv()
        except (EOFError, OSError):
            child.closed = True
            return
        kind, *rest = message
        if kind == "step":
            batch, loss, samples = rest
            listener.step(batch, loss, samples)
            if not abs(loss) < float("inf"):
                raise Diverged(batch, loss)
        elif kind == "epoch":
            listener.epoch(*rest)
        elif kind == "saved":
            block, epoch, updates, file, digest = rest
            files = saved.setdefault(epoch, {})
            files[block] = (file, digest)
            if len(files) == self.plan.blocks and self.checkpoints is not None:
                checkpoint.commit(self.checkpoints, epoch, updates, saved.pop(epoch), self.checkpoint_extra())
                listener.committed(epoch, updates)
        elif kind == "done":
            block, summary = rest
            child.summaries[block] = summary
        elif kind == "failed":
            block, trace, text, secondary, code = rest
            child.failure = (block, trace, text, secondary, code)


def check_port(port: int) -> None:
    """Raise UserError if `port` is in use; 0 stands for any free one."""
    if port == 0:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise UserError(
                f"runtime.port = {port} cannot be used ({error.strerror}): give a free port in 1..65535, or 0 for any"
            ) from None


def rendezvous(port: int) -> TCPStore:
    """Open the store where the blocks meet; port 0 takes any free one. UserError if the port is in use."""
    check_port(port)
    return TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)


def _blame(children: list[_Child]) -> BlockFailed:
    child = next((c for c in children if c.failure is not None), children[0])
    if child.failure is not None:
        block, trace, message, _, code = child.failure
        return BlockFailed(block, message, trace, code)
    child.process.join(GRACE_SECONDS)
    code = child.process.exitcode
    how = f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
    return BlockFailed(child.blocks[0], f"its process (pid {child.process.pid}) {how}", "")


def _end_all(children: list[_Child]) -> None:
    """End what is still running: ask, wait a little, kill; leaves no process behind."""
    running = [c for c in children if c.process.is_alive()]
    if any(not c.done for c in children):
        for child in running:
            child.process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for child in running:
        child.process.join(max(0.0, deadline - time.monotonic()))
        if child.process.is_alive():
            child.process.kill()
            child.process.join()
    for child in children:
        with suppress(OSError):
            child.connection.close()
