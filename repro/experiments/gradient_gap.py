"""How far a method's gradient is from BP's at the same weights and batch (Fig. 5, claims D4 and D6).

For each update t: the method's gradient of block k, and the gradient of plain back-propagation through the
whole network at W^(t) on batch t. Recorded: ||difference|| / number of parameters and the cosine per block,
and the norm of the whole BP gradient; at every step of the first hundred, then once an epoch, and at each of
the last twenty. It runs as the one-process oracle, to which the engine is equal bit for bit.
"""

from __future__ import annotations

import itertools
from statistics import median
from time import monotonic
from typing import Any

import torch
from torch import Tensor

from repro.engine.processes.entry import prepare
from repro.experiments.session import Session
from repro.oracle import Oracle, Weights

EVERY_STEP = 100  # steps at the start that are all recorded
LAST_STEPS = 20  # and at the end: one batch alone says little


def run(session: Session) -> dict[str, Any]:
    """Train as the oracle does and record the gap; returns the fields of result.json."""
    plan, folder = session.plan, session.folder
    if folder.metrics.is_file():
        session.progress.say(f"seed {session.seed}: a cut-off gradient-gap run starts again from zero")
        folder.metrics.unlink()
    session.progress.start(plan, session.seed, 0)
    prepare(plan, 0)
    times: list[float] = []

    def observe(t: int, weights: list[Weights], gradients: list[Weights]) -> None:
        times.append(monotonic())
        if t < EVERY_STEP or t % plan.steps_per_epoch == 0 or t >= plan.num_batches - LAST_STEPS:
            session.write({"kind": "gap", "step": t, **gap(oracle, t, weights, gradients)})

    oracle = Oracle(plan, session.seed, observe, on_loss=session.step, on_epoch=session.epoch)
    start = monotonic()
    before = [{name: w.detach() for name, w in block.items()} for block in oracle.weights]
    oracle.run()
    changes = [
        float(sum(float((w.detach() - old[name]).pow(2).sum()) for name, w in new.items())) ** 0.5
        for new, old in zip(oracle.weights, before, strict=True)
    ]
    intervals = [b - a for a, b in itertools.pairwise(times)]
    return {
        "updates": [plan.num_batches] * plan.blocks,
        "weight_change": changes,
        "train_seconds": monotonic() - start,
        "seconds_per_batch": median(intervals) if intervals else None,
        **session.scores(),
    }


def gap(oracle: Oracle, t: int, weights: list[Weights], gradients: list[Weights]) -> dict[str, Any]:
    """Difference per parameter and cosine of each block's gradient against BP's, and the norm of BP's gradient."""
    exact = oracle.exact_gradients(t)
    difference, cosine = [], []
    for found, true in zip(gradients, exact, strict=True):
        a, b = _flat(found, true), _flat(true, true)
        difference.append(float((a - b).norm()) / max(1, b.numel()))
        scale = float(a.norm() * b.norm())
        cosine.append(float(a @ b) / scale if scale > 0 else None)
    norm = float(torch.cat([_flat(g, g) for g in exact]).norm())
    return {"difference": difference, "cosine": cosine, "gradient_norm": norm}


def _flat(values: Weights, like: Weights) -> Tensor:
    """All tensors of a block as one vector in the order of `like`; a missing one is zero."""
    parts = [
        (values[name] if name in values else torch.zeros_like(g)).reshape(-1) for name, g in like.items()
    ]
    return torch.cat(parts).double() if parts else torch.zeros(0, dtype=torch.float64)
