"""Delay compensation: the gradient's first-order change from the weights that it was taken at (DC-ASGD)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from repro.corrections.correction import Correction, Facts

if TYPE_CHECKING:
    from torch import Tensor


class Compensation(Correction):
    """g + strength g g (W_now - W_then), element by element (arXiv 1609.08326).

    W_then: the weights at which g was taken: a stashing method's kept version, predicted ones included. With
    `adaptive` the strength is divided by sqrt(s + 1e-7), s = `running` s + (1 - `running`) g g (`running` and the
    1e-7 are ours). The compensated gradient is what is checked, clipped and given to the optimiser.
    """

    name: Literal["compensation"] = "compensation"
    strength: Annotated[float, Field(gt=0.0)] = 0.04
    adaptive: bool = False
    running: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.95

    def check(self, facts: Facts) -> None:
        """Needs gradients of other weights than those they update."""
        super().check(facts)
        if facts.two_weights:
            raise ValueError(
                f"correction 'compensation' with method '{facts.method}': its gradient is of no one set of weights "
                "(activations of then, weights of now), so that W_now - W_then is not known; take correction 'discrepancy'"
            )
        if any(facts.replays):
            raise ValueError(
                f"correction 'compensation' with method '{facts.method}': it replays at the weights of now, so that "
                "W_now - W_then is zero; take a method that stashes (ddg, fdg)"
            )

    def compensate(self, gradient: Tensor, now: Tensor, then: Tensor, memory: dict[str, Tensor]) -> Tensor:
        """The compensated gradient."""
        square = gradient.mul(gradient)
        change = square.mul(self.strength)
        if self.adaptive:
            mean = memory.get("mean_square")
            mean = square.mul(1.0 - self.running) if mean is None else (
                mean.mul(self.running).add(square, alpha=1.0 - self.running)
            )  # fmt: skip
            memory["mean_square"] = mean
            change = change.div(mean.add(1e-7).sqrt())
        return gradient.add(change.mul(now.sub(then)))

    def label(self) -> str:
        """Compensation 0.04, or adaptive."""
        return f"{'adaptive ' if self.adaptive else ''}compensation {self.strength:g}"
