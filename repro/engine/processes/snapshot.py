"""What a block saves in a checkpoint; the same for both engines, so that one goes on where the other stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.engine.processes import checkpoint
from repro.engine.processes.neighbour import Progress
from repro.engine.transport.message import Envelope

if TYPE_CHECKING:
    from repro.engine.processes.worker import Worker


def snapshot(worker: Worker, epoch: int) -> dict[str, Any]:
    """The block's state at its evaluation of `epoch`, with the messages that its neighbours have not taken by theirs."""
    pending = []
    for stream, outbox, peer in (
        ("output", worker.up, worker.index + 1),
        ("gradient", worker.down, worker.index - 1),
    ):
        if outbox is not None:
            progress = worker.neighbours.setdefault(peer, Progress(worker.schedule, peer))
            taken = progress.taken(stream, epoch)
            pending += [(e.as_plain(), t.cpu()) for e, t in outbox.waiting() if (e.batch, e.micro) > taken]
    return {
        "block": worker.block.state(),
        "order": dict(worker.order),
        "synthetic": None if worker.synthetic is None else worker.synthetic.state(),
        "pending": pending,
    }


def save(worker: Worker, folder: Path, epoch: int) -> None:
    """Write the block's part of a checkpoint, and tell the parent."""
    file, digest = checkpoint.save_block(folder, epoch, worker.rank, snapshot(worker, epoch))
    worker.reporter.saved(epoch, worker.block.updates, file, digest)


def load(worker: Worker, folder: Path) -> None:
    """Put the block where its part of the checkpoint in `folder` was made."""
    state = checkpoint.load_block(folder, worker.rank, worker.device)
    worker.block.load_state(state["block"])
    worker.order = state["order"]
    worker.pending = [(Envelope.from_plain(e), t) for e, t in state["pending"]]
    if worker.synthetic is not None:
        worker.synthetic.load_state(state["synthetic"])
