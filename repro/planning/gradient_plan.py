"""The gradient schedule of a plan: checked before anything runs, described for `repro show` and for results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from repro import gradient, models
from repro.errors import UserError
from repro.gradient import kernels
from repro.gradient.drawing import draw, fraction
from repro.gradient.schedules import Schedule, build
from repro.planning.run_plan import Plan


def check_gradient(plan: Plan) -> None:
    """Raise UserError for rules that do not fit the network, MissingError for a kernel that cannot run here."""
    asked = plan.approximates or plan.recipe.experiment == "bias"
    if asked and not gradient.number_convolutions(_layers(plan)):
        spec = plan.recipe.gradient
        what = (
            f"experiment = '{plan.recipe.experiment}'"
            if not plan.approximates
            else f"gradient.estimator = '{spec.estimator}'"
        )
        raise UserError(
            f"{what}: {plan.recipe.model.name} has no convolution of 3x3 or larger, so that there is no filter gradient to "
            "estimate: take another network, or gradient.estimator=full"
        )
    if plan.recipe.experiment == "bias":  # it measures top1, whatever the recipe's estimator
        kernels.require(plan.recipe.gradient.kernel, torch.device(plan.devices[0]))
    if plan.approximates:
        gradient.check_kernel(plan.recipe.gradient, torch.device(plan.devices[0]))
        _schedule(plan, _layers(plan))


def describe(plan: Plan, faster: Mapping[int, bool] | None = None) -> dict[str, Any]:
    """Estimator, schedule and the realised fraction by layers and by FLOPs.

    `faster`: which convolutions the estimate was measured faster on; without it the fractions of `measured` are None.
    """
    layers = _layers(plan)
    schedule = _schedule(plan, layers)
    share = fraction(schedule, gradient.trace(layers, plan.image_shape, plan.recipe.data.batch_size), faster)
    return {
        **plan.recipe.gradient.model_dump(mode="json"),
        "fraction_layers": None if share is None else share.layers,
        "fraction_flops": None if share is None else share.flops,
    }


def drawing(plan: Plan) -> str:
    """The grid of convolutions and batches, and the realised fractions in words."""
    layers = _layers(plan)
    schedule = _schedule(plan, layers)
    facts = describe(plan)
    words = "depends on the times measured on the device"
    if facts["fraction_layers"] is not None:
        words = f"{facts['fraction_layers']:.1%} by layers, {facts['fraction_flops']:.1%} by FLOPs"
    return f"{draw(schedule)}\napproximated: {words}"


def summary(plan: Plan, reports: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What result.json holds of a run's approximation: `describe` and the counts of all blocks."""
    counts = merged(reports)
    faster = counts.get("faster")
    known = None if faster is None else {int(number): chosen for number, chosen in faster.items()}
    return {**describe(plan, known), **counts}


def fallback_words(counts: Mapping[str, Any]) -> str:
    """Which convolutions fell back to the full gradient, and why; "" where none did."""
    parts = [f"{f['layer']} ({f['reason']}, {f['count']} times)" for f in counts["fallbacks"]]
    return f"full gradient in place of the estimate: {', '.join(parts)}" if parts else ""


def merged(reports: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The counts of all blocks as one."""
    found: dict[str, Any] = {"uses": {}, "fallbacks": [], "kernels": {}}
    for report in reports:
        for part in ("uses", "kernels"):
            for name, count in report[part].items():
                found[part][name] = found[part].get(name, 0) + count
        found["fallbacks"] += report["fallbacks"]
        if "faster" in report:
            found.setdefault("faster", {}).update(report["faster"])
    return found


def _layers(plan: Plan) -> list[tuple[str, torch.nn.Module]]:
    return [
        (f.name, f.build(0)) for f in models.layers(plan.recipe.model, plan.image_shape, plan.num_classes)
    ]


def _schedule(plan: Plan, layers: list[tuple[str, torch.nn.Module]]) -> Schedule:
    numbers = gradient.number_convolutions(layers)
    return build(plan.recipe.gradient, numbers, plan.steps_per_epoch, plan.recipe.epochs)
