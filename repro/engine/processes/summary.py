"""What a block reports of itself at the end of a run: times, memory, how far its weights have moved."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from repro.planning.counted_memory import tensor_bytes

if TYPE_CHECKING:
    from repro.engine.processes.worker import Worker


def summary(worker: Worker, end: float) -> dict[str, Any]:
    """Fields of one block; `end`: when its last action was done (monotonic seconds)."""
    block = worker.block
    weights = block.optimizer.weights
    moved = (
        float((a.detach() - b).pow(2).sum()) for a, b in zip(weights, worker.weights_before, strict=True)
    )
    skip = max(worker.schedule.staleness) + 5  # the fill, and a few batches in which everything warms up
    intervals = [b - a for a, b in pairwise(worker.losses.times)]
    busy = worker.watch.busy_per_batch()
    sums = 0 if worker.network.sum_replicas is None else worker.network.sum_replicas.held_bytes
    static = block.static_bytes() + sums + worker.share.held_bytes
    peak = static + worker.peak_bytes
    if worker.device.type == "cuda" and worker.plan.engine == "processes":  # the allocator knows no blocks
        peak = torch.cuda.max_memory_allocated(worker.device)
    approximation = block.approximation
    return {
        "start": worker.started,
        "end": end,
        "evaluation_seconds": worker.evaluation_seconds,
        "checkpoint_seconds": worker.checkpoint_seconds,
        "updates": block.updates,
        "weight_change": sum(moved) ** 0.5,
        "seconds_per_batch": median(intervals[skip:] or intervals) if intervals else None,
        "busy_seconds": median(busy[skip:] or busy) if busy else 0.0,
        "busy_seconds_total": sum(busy),
        "activation_bytes": worker.peak_bytes,
        "static_bytes": static,
        "peak_memory_bytes": peak,
        "weights_bytes": tensor_bytes(weights),
        "predictor_bytes": worker.predictor_bytes,
        "graph_bytes": max(block.graph_bytes.values(), default=0),
        "threads": torch.get_num_threads(),
        "waited_seconds": worker.watch.waited,
        "spans": worker.watch.spans(worker.started),
        "delays": worker.straggler.count,
        "gradient": None if approximation is None else approximation.report(),
    }
