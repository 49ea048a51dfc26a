"""DNI's predictors in the oracle: one behind each block but the last, with its Adam."""

from __future__ import annotations

import torch
from torch import nn

from repro.methods.dni import DNI
from repro.models.gradient_predictor import build_synthetic
from repro.planning.run_plan import Plan


def predictors(plan: Plan, seed: int, device: str) -> list[tuple[nn.Module, torch.optim.Adam]]:
    """The predictors of a plan whose method is DNI."""
    method = plan.recipe.method
    assert isinstance(method, DNI)
    found: list[tuple[nn.Module, torch.optim.Adam]] = []
    for _, high in plan.layer_spans[:-1]:
        module = build_synthetic(
            seed, plan.names[high - 1], (1, *plan.shapes[high]), hidden=method.hidden,
            kernel=method.kernel, num_classes=plan.num_classes, conditional=method.conditional,
        ).to(device)  # fmt: skip
        found.append((module, torch.optim.Adam(module.parameters(), lr=method.lr)))
    return found
