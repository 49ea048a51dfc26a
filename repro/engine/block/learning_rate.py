"""The learning rate of a block's update: warm-up, then step decays or half a cosine."""

from __future__ import annotations

import math

from repro.recipe import OptimizerSpec


def learning_rate(
    spec: OptimizerSpec,
    update: int,
    steps_per_epoch: int,
    total_updates: int = 0,
    base: float | None = None,
) -> float:
    """Rate of a block's update number `update` (from 0).

    `base` in the place of spec.lr (Muon's AdamW has its own); `total_updates`: where the cosine ends, if
    spec.cosine_steps does not say.
    """
    top = spec.lr if base is None else base
    if update < spec.warmup_steps:
        return float(spec.warmup_start + (top - spec.warmup_start) * (update / spec.warmup_steps))
    if spec.schedule == "cosine":
        end = spec.cosine_steps or total_updates
        past = min((update - spec.warmup_steps) / max(1, end - spec.warmup_steps), 1.0)
        return float(
            top * (spec.cosine_floor + (1.0 - spec.cosine_floor) * 0.5 * (1.0 + math.cos(math.pi * past)))
        )
    passed = sum(update >= epoch * steps_per_epoch for epoch in spec.milestones)
    return float(top * spec.decay**passed)
