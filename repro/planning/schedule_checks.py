"""What of a plan's schedule cannot be carried out, told before any process starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro.errors import UserError
from repro.schedule import Action, Deadlock, Kind, simulate

if TYPE_CHECKING:
    from repro.planning.run_plan import Plan

EVALUATION_COST = 1.0  # relative seconds of an evaluation in the deadlock check; any positive value will do


def check_boundaries(plan: Plan) -> None:
    """Raise UserError where a synthetic-gradient module would sit on a boundary that is no feature map."""
    if not plan.schedule().synthetic:
        return
    for k, (_, high) in enumerate(plan.layer_spans[:-1]):
        if len(plan.shapes[high]) != 3:
            raise UserError(
                f"method '{plan.recipe.method.name}' needs feature maps [C, H, W] between blocks, but block {k} ends with "
                f"layer {plan.names[high - 1]} of shape {list(plan.shapes[high])}: give an earlier cut or fewer blocks"
            )


def check_schedule(plan: Plan) -> None:
    """Simulate the schedule (a long one in small) and raise UserError where it deadlocks."""
    method, blocks = plan.recipe.method, plan.blocks
    if plan.num_batches <= 400:
        schedule = plan.schedule()
    else:
        deepest = max(plan.schedule().staleness)
        half = 2 * deepest + 20
        schedule = method.schedule(blocks, 2 * half, {half: 1, 2 * half: 2})

    def duration(_block: int, action: Action) -> float:
        return EVALUATION_COST if action.kind is Kind.EVALUATE else 1.0

    try:
        simulate(schedule, duration)
    except Deadlock as error:
        raise UserError(f"method '{method.name}' with blocks = {blocks}: {error}") from None
