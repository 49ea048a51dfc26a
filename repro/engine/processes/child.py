"""A process of a run as its parent sees it: what it has told, how it is ended, how it has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from repro.engine.processes import fork_server as server
from repro.engine.processes.entry import run_blocks
from repro.engine.transport.meeting import Meeting
from repro.errors import RunFailed
from repro.planning.run_plan import Plan

GRACE_SECONDS = 2.0  # between asking processes to end and killing them


class BlockFailed(RunFailed):
    """A block's process has raised or died; carries its rank, its traceback if there is one, and the block in words."""

    def __init__(self, rank: int, message: str, trace: str, exit_code: int = 1, words: str = "") -> None:
        super().__init__(f"{words or f'block {rank}'} (rank {rank}) failed: {message}")
        self.rank, self.trace, self.exit_code = rank, trace, exit_code
        self.log: Path | None = None


@dataclass
class Child:
    """A process, the ranks in it, and what it has told: summaries by rank; a failure as (rank, trace, ...).

    `process` and `connection` are multiprocessing's, or stand in for a process on another host (repro/hosts).
    """

    ranks: tuple[int, ...]
    process: Any
    connection: Any
    summaries: dict[int, dict[str, Any]] = field(default_factory=dict)
    failure: tuple[int, str, str, bool, int] | None = None
    closed: bool = False

    @property
    def done(self) -> bool:
        """Whether all its ranks have finished."""
        return len(self.summaries) == len(self.ranks)


class Team(Protocol):
    """The processes that torchrun has started, one for each rank; this one is rank 0's."""

    lost: str  # words about the first host that went away

    def meeting(self) -> Meeting:
        """Where the blocks of the next run meet."""

    def start(self, rank: int, plan: Plan, job: dict[str, Any], status: Any) -> Child:
        """Start rank 1.. in the process that torchrun has started for it."""


def start_child(ranks: tuple[int, ...], device: str, job: dict[str, Any], status: Any) -> Child:
    """Start a process for `ranks` on this machine: forked from the server (CPU) or spawned (CUDA)."""
    context = server.context(device)
    ours, theirs = context.Pipe()
    name = f"repro block {', '.join(map(str, ranks))}"
    process = context.Process(target=run_blocks, args=(job, theirs, status), name=name)
    process.start()
    theirs.close()
    return Child(ranks, process, ours)


def blame(children: Sequence[Child], words: Callable[[int], str]) -> BlockFailed:
    """The error that says which of `children`, all lost, has brought the run down, and how; `words`: a rank's name."""
    child = next((c for c in children if c.failure is not None), children[0])
    if child.failure is not None:
        rank, trace, message, _, code = child.failure
        return BlockFailed(rank, message, trace, code, words(rank))
    return BlockFailed(child.ranks[0], how_it_ended(child.process), "", words=words(child.ranks[0]))


def how_it_ended(process: Any) -> str:
    """What is known of a process that has ended without a word."""
    process.join(GRACE_SECONDS)
    if told := getattr(process, "end_words", ""):  # of one on another host
        return str(told)
    return f"its process (pid {process.pid}) {ending(process.exitcode)}"


def ending(code: int | None) -> str:
    """An exit code of multiprocessing in words."""
    return f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"


def end_all(children: Sequence[Child]) -> None:
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
