"""Rate rescheduling: stale blocks begin with a smaller learning rate (PipeMare's T1)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from repro.corrections.correction import Correction, Place


class Rescheduling(Correction):
    """lr_k(u) = lr(u) / tau^p(u) with tau = m_k, p = 1 - min(u / T, 1), T = `epochs` epochs (arXiv 1910.05124).

    u counts the block's own updates; tau < 1 leaves lr as it is. AsyncPP's code takes 6 to 8 epochs.
    """

    name: Literal["rescheduling"] = "rescheduling"
    epochs: Annotated[int, Field(ge=1, strict=True)] = 6

    def rate(self, rate: float, update: int, place: Place) -> float:
        """The divided rate."""
        if place.staleness < 1:
            return rate
        power = 1.0 - min(update / (self.epochs * place.steps_per_epoch), 1.0)
        return float(rate / place.staleness**power)

    def label(self) -> str:
        """Rescheduling (6 epochs)."""
        return f"rescheduling ({self.epochs} epoch{'s' if self.epochs > 1 else ''})"
