"""Discrepancy correction: the backward meets an estimate of its forward's weights (PipeMare's T2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from repro.corrections.correction import Correction, Facts, Place

if TYPE_CHECKING:
    from torch import Tensor


class Discrepancy(Correction):
    """Backward at u = W - (tau_fwd - tau_bwd) delta (arXiv 1910.05124).

    delta = gamma delta + (1 - gamma) (W^(t+1) - W^(t)) from 0, gamma = D^(1 / (tau_fwd - tau_bwd)), D = `decay`.
    Here tau_fwd = m_k and tau_bwd = 0: a backward uses the weights of now.
    """

    name: Literal["discrepancy"] = "discrepancy"
    decay: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.135  # D; about exp(-2)

    def check(self, facts: Facts) -> None:
        """Needs a method whose forward and backward use different weights, without a replay."""
        super().check(facts)
        if not facts.two_weights:
            why = (
                "the forward that its gradient belongs to is made again at the weights of now"
                if any(facts.replays)
                else "its backward uses the weights that its forward used"
            )
            raise ValueError(
                f"correction 'discrepancy' with method '{facts.method}': {why}, so that there is no discrepancy; "
                "take method 'pipemare'"
            )

    def backward(self, weight: Tensor, memory: dict[str, Tensor], place: Place) -> Tensor:
        """U, or the weight itself before the first update and in a block without staleness."""
        delta = memory.get("delta")
        return weight if delta is None or place.staleness < 1 else weight.sub(delta.mul(place.staleness))

    def moved(self, before: Tensor, after: Tensor, memory: dict[str, Tensor], place: Place) -> None:
        """Delta follows the weight."""
        if place.staleness < 1:
            return
        gamma = self.decay ** (1.0 / place.staleness)
        step = after.sub(before)
        delta = memory.get("delta")
        memory["delta"] = (
            step.mul(1.0 - gamma) if delta is None else delta.mul(gamma).add(step, alpha=1.0 - gamma)
        )
