"""How a filter gradient is estimated: one file for each way. Add a file here and its name below for another."""

from __future__ import annotations

from repro.gradient.estimators.estimator import Estimator
from repro.gradient.estimators.full import Full
from repro.gradient.estimators.random import Random
from repro.gradient.estimators.sampled import Sampled
from repro.gradient.estimators.shared_topk import SharedTopK
from repro.gradient.estimators.top1 import SCALES, Top1
from repro.gradient.estimators.zero import Zero

__all__ = ["SCALES", "Estimator", "build"]


def build(name: str, *, scale: str = "natural", kernel: str = "auto", samples: int = 4) -> Estimator:
    """Return the estimator `name` of a recipe (full, zero, random, top1, sampled, shared-topk).

    `scale` (paper, natural) and `kernel` belong to top1, `samples` (pixels per sample) to sampled and shared-topk.
    """
    if name == "top1":
        return Top1(scale=SCALES[scale], kernel=kernel)
    if name == "sampled":
        return Sampled(samples)
    if name == "shared-topk":
        return SharedTopK(samples)
    simple: dict[str, type[Full | Zero | Random]] = {"full": Full, "zero": Zero, "random": Random}
    return simple[name]()
