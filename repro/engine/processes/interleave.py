"""The sequential engine: the blocks of a run take turns in one process, with the bits of K processes.

The numbers depend on each block's order of actions alone. Here one action is carried out at a time: of the
highest block whose next action has what it takes. So a message is taken as soon as it can be, and no more of
them wait than the schedule needs. K = 2, DSP(1,0;2,0), what runs from left to right:

    block 0   F0    F1    F2 R0 B0 U0    F3 R1 B1 U1    F4
    block 1      F0 R0 B0 U0   F1 R1 B1 U1  ...
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro.engine.processes.worker import Worker
from repro.engine.transport.exchange import Exchange, MemoryInbox
from repro.errors import RunFailed
from repro.schedule import Action, Kind


class Interleaved:
    """All workers of a run, joined by one exchange. `acting`: the block at work, to be named where it fails."""

    def __init__(self, workers: Sequence[Worker], exchange: Exchange) -> None:
        self.workers, self.exchange = workers, exchange
        self.acting = 0

    def run(self, checkpoints: Path | None, resume: Path | None) -> list[dict[str, Any]]:
        """Train to the end, from the state in `resume` where there is one; returns the blocks' summaries."""
        actions = []
        for worker in self.workers:
            self.acting = worker.index
            actions.append(worker.begin(checkpoints, resume))
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
            self.acting = k
            self.workers[k].act(action)
            pending[k] = next(actions[k], None)
        return [worker.end() for worker in self.workers]

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
        evaluations = [worker.evaluation() for worker in self.workers]
        for _ in zip(*(evaluation.batches() for evaluation in evaluations), strict=True):
            pass
        for worker, evaluation in zip(self.workers, evaluations, strict=True):
            self.acting = worker.index
            worker.evaluated(epoch, evaluation, begin)


def _here(inbox: Any) -> bool:
    assert isinstance(inbox, MemoryInbox)
    return inbox.ready
