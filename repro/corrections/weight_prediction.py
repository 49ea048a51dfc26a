"""Weight prediction: a forward meets the weights that its own update is expected to find (SpecTrain, XPipe)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from repro.corrections.correction import Correction, Facts

if TYPE_CHECKING:
    from torch import Tensor


class Prediction(Correction):
    """W_hat = W - lr s v for the forward and its graph; the update is applied to W (arXiv 1809.02839).

    s: updates between the forward of batch t and its own update, t - u where the block has made u updates. So
    s = m_k in the steady state and t for the first batches t < m_k, whose forwards meet the first weights. lr:
    the rate of the block's next update. v: the momentum buffer as torch.optim.SGD keeps it; for AdamW and NAdam
    Adam's step, the corrected first moment over the root of the corrected second one (XPipe, arXiv 1911.04610).
    Weight decay that is not in v is not predicted. Before the first update there is no v, and W_hat = W. A
    method that replays has its forward predicted and its replay at W.
    """

    name: Literal["prediction"] = "prediction"

    def check(self, facts: Facts) -> None:
        """Needs staleness, and a direction."""
        super().check(facts)
        if not facts.has_direction:
            raise ValueError(
                "correction 'prediction' goes along the optimiser's momentum, and "
                + {
                    "sgd": "optimizer.momentum = 0.0 has none: give optimizer.momentum > 0",
                    "muon": "Muon's direction would take a Newton-Schulz iteration a forward: take sgd, adamw or nadam",
                }.get(facts.optimizer, f"{facts.optimizer} keeps none")
            )

    def ahead(self, weight: Tensor, direction: Tensor, rate: float, updates: int) -> Tensor:
        """W - (lr s) v."""
        return weight.sub(direction, alpha=rate * updates)
