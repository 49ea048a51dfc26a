"""Starts the processes of a run, watches all of them at once, and ends them all when one fails.

Workers come from a fork server that has imported the engine once (CPU) or are spawned (CUDA); the parent
never opens CUDA. A worker ends itself when its pipe to the parent closes, so nothing outlives a killed
parent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import isfinite
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from repro.engine.processes import checkpoint
from repro.engine.processes import fork_server as server
from repro.engine.processes.block_log import close_log, open_log
from repro.engine.processes.child import BlockFailed, Child, Team, blame, end_all, start_child
from repro.engine.processes.reporter import describe
from repro.engine.transport.loopback import ADDRESS, listen
from repro.engine.transport.meeting import Meeting
from repro.errors import RunFailed
from repro.planning.block_times import BlockTimes
from repro.planning.run_plan import Plan, packed

GATHER_SECONDS = 1.0  # after a failure, for the block that caused it to report


class Diverged(RunFailed):
    """A loss, a weight's gradient or a statistic was not finite: which, of which block, at which batch."""

    def __init__(
        self, batch: int, value: float, block: int, tensor: str = "the loss", words: str = ""
    ) -> None:
        super().__init__(f"{tensor} is {value} at batch {batch} in {words or f'block {block}'}")
        self.batch, self.value, self.block, self.tensor = batch, value, block, tensor


@dataclass
class Listener:
    """What the caller wants to hear while a run goes on; every hook may be left out."""

    step: Callable[[int, float, int], None] = lambda batch, loss, samples: None
    epoch: Callable[[int, dict[str, float]], None] = lambda epoch, numbers: None
    committed: Callable[[int, int], None] = lambda epoch, updates: None
    stalled: Callable[[str], None] = lambda text: None


@dataclass
class Launch:
    """One engine run. `resume`: a checkpoint folder; `final_weights`: where blocks leave their weights.

    `folder`: the run's own, for the log of its blocks. `team`: where blocks have processes on several hosts.
    """

    plan: Plan
    seed: int
    checkpoints: Path | None = None
    resume: Path | None = None
    final_weights: Path | None = None
    typical_seconds: tuple[float, ...] | None = None
    block_times: tuple[BlockTimes, ...] | None = None  # timing-only: blocks wait instead of computing
    checkpoint_extra: Callable[[], dict[str, Any]] = dict
    folder: Path | None = None
    team: Team | None = None

    def run(self, listener: Listener | None = None) -> list[dict[str, Any]]:
        """Run to the end; returns the blocks' summaries, by rank.

        Raises BlockFailed (after ending every process), Diverged, or KeyboardInterrupt as it came.
        """
        listener = listener or Listener()
        plan = self.plan
        runtime = plan.recipe.runtime
        # The sequential engine has all blocks in one process; otherwise each block of each replica has its own.
        alone = [(rank,) for rank in range(plan.ranks)]
        shares = [tuple(range(plan.ranks))] if plan.engine == "sequential" else alone
        team = self.team if len(shares) > 1 else None
        store, meeting = None, Meeting(0)
        if team is not None:
            meeting = team.meeting()
        elif len(shares) > 1:
            store = rendezvous(runtime.port, runtime.rendezvous_seconds)
            meeting = Meeting(store.port)
        status = server.context(plan.devices[0]).RawArray("q", 3 * plan.ranks)
        children: list[Child] = []
        log, failure = open_log(self.folder), None
        try:
            for ranks in shares:
                job = self.job(ranks, meeting, log)
                if team is None or 0 in ranks:
                    children.append(start_child(ranks, plan.devices[0], job, status))
                else:
                    children.append(team.start(ranks[0], plan, job, status))
            self._watch(children, listener, status)
        except BlockFailed as error:
            failure = error
            raise
        finally:
            end_all(children)
            kept = close_log(log, keep=failure is not None or self.folder is not None)
            if failure is not None:
                failure.log = kept
        summaries = [summary for c in children for _, summary in sorted(c.summaries.items())]
        return on_one_clock(summaries, meeting.hosts)

    def job(self, ranks: tuple[int, ...], meeting: Meeting, log: Path) -> dict[str, Any]:
        """What a process needs to run `ranks`."""
        return {
            "plan": packed(self.plan),
            "ranks": ranks,
            "seed": self.seed,
            "meeting": meeting,
            "checkpoints": self.checkpoints,
            "resume": self.resume,
            "final_weights": self.final_weights,
            "log": log,
            "typical_seconds": self.typical_seconds,
            "block_times": self.block_times,
        }

    def _watch(self, children: list[Child], listener: Listener, status: Any) -> None:
        saved: dict[int, dict[int, tuple[str, str]]] = {}
        failed_at: float | None = None
        heard = time.monotonic()
        while not all(c.done and c.closed for c in children):
            sources: list[Any] = [c.connection for c in children if not c.closed]
            timeout = 0.1 if failed_at is not None else min(5.0, self.plan.recipe.runtime.stall_seconds)
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
                    raise blame(causes or lost, self.plan.rank_words)
            patience = self.plan.recipe.runtime.stall_seconds
            if time.monotonic() - heard > patience:
                heard = time.monotonic()
                names = [self.plan.rank_words(rank) for rank in range(self.plan.ranks)]
                listener.stalled(f"nothing for {patience:g} s: {describe(status, names)}")

    def _hear(self, child: Child, listener: Listener, saved: dict[int, dict[int, tuple[str, str]]]) -> None:
        try:
            message = child.connection.recv()
        except (EOFError, OSError):
            child.closed = True
            return
        kind, *rest = message
        if kind == "step":
            batch, loss, samples = rest
            listener.step(batch, loss, samples)
            if not isfinite(loss):
                raise Diverged(batch, loss, self.plan.blocks - 1)
        elif kind == "epoch":
            epoch, numbers = rest
            listener.epoch(epoch, numbers)
            if not isfinite(numbers["test_loss"]):
                batch = next(n for n, e in self.plan.evaluations.items() if e == epoch) - 1
                raise Diverged(batch, numbers["test_loss"], self.plan.blocks - 1, "the test loss")
        elif kind == "diverged":
            rank, batch, tensor, value = rest
            raise Diverged(batch, value, rank % self.plan.blocks, tensor, self.plan.rank_words(rank))
        elif kind == "saved":
            rank, epoch, updates, file, digest = rest
            files = saved.setdefault(epoch, {})
            files[rank] = (file, digest)
            if len(files) == self.plan.ranks and self.checkpoints is not None:
                checkpoint.commit(self.checkpoints, epoch, updates, saved.pop(epoch), self.checkpoint_extra())
                listener.committed(epoch, updates)
        elif kind == "done":
            rank, summary = rest
            child.summaries[rank] = summary
        elif kind == "failed":
            rank, trace, text, secondary, code = rest
            child.failure = (rank, trace, text, secondary, code)


def check_port(port: int) -> None:
    """Raise UserError if `port` is in use (0 stands for any free one), MissingError without a loopback address."""
    listen(port).close()


def rendezvous(port: int, patience: float = 60.0) -> TCPStore:
    """Open the store where the blocks meet, on the loopback address alone; port 0 takes any free one.

    Raises what `check_port` raises. By itself the store would listen on every address of the machine.
    """
    server = listen(port)
    return TCPStore(
        ADDRESS,
        server.getsockname()[1],
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=patience),
        master_listen_fd=server.detach(),
    )


def on_one_clock(summaries: list[dict[str, Any]], hosts: Sequence[str]) -> list[dict[str, Any]]:
    """The summaries with the times of blocks on other hosts (by block, () if none) on the clock of block 0's host.

    All blocks leave the barrier at their start at about the same moment; that ties a host's clock to block 0's.
    """
    begin = summaries[0]["start"]
    return [
        s
        if not hosts or hosts[k] == hosts[0]
        else {**s, "start": begin, "end": s["end"] + begin - s["start"]}
        for k, s in enumerate(summaries)
    ]
