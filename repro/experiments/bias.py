"""Bias of the gradient estimators at untrained layers (claim G8): no training, one (input, dy) pair a batch."""

from __future__ import annotations

from time import monotonic
from typing import Any

from repro import data, models
from repro.engine.processes.entry import prepare
from repro.experiments.session import Session
from repro.gradient.estimator_bias import measure

MOST_PAIRS = 100


def run(session: Session) -> dict[str, Any]:
    """Measure on the recipe's own batches and return the rows; nothing is trained, so there are no steps."""
    plan, recipe = session.plan, session.plan.recipe
    session.folder.metrics.write_text("")
    session.progress.start(plan, session.seed, 0)
    prepare(plan, 0)
    batches = data.load(recipe.data, plan.data_root, session.seed)
    factories = models.layers(recipe.model, plan.image_shape, plan.num_classes, plan.memory_format)
    layers = [(f.name, f.build(session.seed)) for f in factories]
    pairs = min(MOST_PAIRS, plan.num_batches)
    start = monotonic()
    rows = measure(
        layers,
        plan.image_shape,
        plan.num_classes,
        recipe.gradient,
        seed=session.seed,
        batches=((batches.train_images(i), batches.train_labels(i)) for i in range(pairs)),
        pairs=pairs,
    )
    return {"num_steps": 0, "train_seconds": monotonic() - start, "bias": rows}
