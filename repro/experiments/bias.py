"""Bias of the gradient estimators at an untrained layer (claim G8): no training, many random pairs."""

from __future__ import annotations

from time import monotonic
from typing import Any

from repro.experiments.session import Session


def run(session: Session) -> dict[str, Any]:
    """Measure and return the rows; nothing is trained, so there are no steps."""
    from repro.gradient.bias import measure

    session.folder.metrics.write_text("")
    session.progress.start(session.plan, session.seed, session.plan.num_batches)
    start = monotonic()
    rows = measure(session.plan.recipe, seed=session.seed)
    return {"num_steps": 0, "train_seconds": monotonic() - start, "bias": rows}
