"""The sequential engine: the blocks of a run take turns in one process, with the bits of K processes.

The numbers depend on each block's order of actions alone. Here one action is carried out at a time: of the
highest block whose next action has what it takes. So a message is taken as soon as it can be, and no more of
them wait than the schedule needs. K = 2, DSP(1,0;2,0), what runs from left to right:

    block 0   F0    F1    F2 R0 B0 U0    F3 R1 B1 U1    F4
    block 1      F0 R0 B0 U0   F1 R1 B1 U1  ...

Several replicas go in step: an action is carried out in each of them, the first one first, before the next is chosen. At
an update the rows of a block's replicas are added up in between.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro.engine.processes.replica_update import own_row, take_sum
from repro.engine.processes.worker import Worker
from repro.engine.transport.exchange import Exchange, MemoryInbox
from repro.engine.transport.replica_sum import added_up
from repro.errors import RunFailed
from repro.schedule import Action, Kind


class Interleaved:
    """All workers of a run by rank, each replica's joined by one exchange: `exchange` is the first one's.

    `acting`: the rank at work, to be named where it fails.
    """

    def __init__(self, workers: Sequence[Worker], exchange: Exchange) -> None:
        self.all, self.exchange = workers, exchange
        self.blocks = workers[0].plan.blocks
        self.workers = workers[: self.blocks]  # of replica 0, which is asked what can go on
        self.acting = 0

    def run(self, checkpoints: Path | None, resume: Path | None) -> list[dict[str, Any]]:
        """Train to the end, from the state in `resume` where there is one; returns the blocks' summaries."""
        every = []
        for worker in self.all:
            self.acting = worker.rank
            every.append(worker.begin(checkpoints, resume))
        actions = every[: self.blocks]  # the same in all replicas
        pending = [next(rest, None) for rest in actions]  # each block's next action
        while any(action is not None for action in pending):
            if all(action is not None and action.kind is Kind.EVALUATE for action in pending):
                assert pending[0] is not None
                self._evaluate(pending[0].batch)
                pending = [next(rest, None) for rest in actions]
                continue
            k = self._next(pending)
            action = pending[k]
            assert action is not None
            self._act(self.all[k :: self.blocks], action)
            pending[k] = next(actions[k], None)
        return [worker.end() for worker in self.all]

    def _act(self, replicas: Sequence[Worker], action: Action) -> None:
        """Carry out an action of a block in all its `replicas`."""
        if len(replicas) > 1 and action.kind is Kind.UPDATE:
            total = added_up([own_row(worker, action) for worker in replicas])
            for worker in replicas:
                take_sum(worker, action, total)
        for worker in replicas:
            self.acting = worker.rank
            worker.act(action)

    def _next(self, pending: Sequence[Action | None]) -> int:
        """The highest block that can go on."""
        for k in reversed(range(len(pending))):
            action = pending[k]
            if action is not None and self._ready(self.workers[k], action):
                return k
        waits = ", ".join(f"block {k} at {action}" for k, action in enumerate(pending) if action is not None)
        raise RunFailed(f"no block can go on: {waits}")

    def _ready(self, worker: Worker, action: Action) -> bool:
        """Whether what the action takes is here. An evaluation needs all blocks, so it is never ready by itself."""
        below, above = worker.below, worker.above
        if action.kind is Kind.EVALUATE:
            return False
        if action.kind is Kind.AWAIT_FORWARDS:
            return self.exchange.forwarded >= action.batch
        if worker.skips(action):
            return True
        if action.kind is Kind.FORWARD:
            return below is None or _here(below)
        if action.kind is Kind.BACKWARD:
            return worker.last or worker.synthetic is not None or _here(above)
        if action.kind in (Kind.AWAIT_GRADIENT, Kind.MODULE):
            return _here(above)
        return True

    def _evaluate(self, epoch: int) -> None:
        """All blocks stand behind the same update: each test batch passes through all of them before the next."""
        begin = time.monotonic()
        evaluations = [worker.evaluation() for worker in self.all]
        for first in range(0, len(evaluations), self.blocks):
            for _ in zip(*(e.batches() for e in evaluations[first : first + self.blocks]), strict=True):
                pass
        for worker, evaluation in zip(self.all, evaluations, strict=True):
            self.acting = worker.rank
            worker.evaluated(epoch, evaluation, begin)


def _here(inbox: Any) -> bool:
    assert isinstance(inbox, MemoryInbox)
    return inbox.ready
