"""A block's synthetic-gradient module in action: predicts, and learns when the true gradient comes (DNI)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from repro.methods.dni import DNI
from repro.models.gradient_predictor import build_synthetic
from repro.planning.counted_memory import tensor_bytes
from repro.planning.run_plan import Plan

Key = tuple[int, int]


class SyntheticInterface:
    """The predictor behind a block, with the outputs whose true gradients have not come yet.

    It computes in float32; what it predicts has the type of the block's output, `dtype`.
    """

    def __init__(self, module: torch.nn.Module, lr: float, dtype: torch.dtype) -> None:
        self.module, self.dtype = module.train(), dtype
        self.adam = torch.optim.Adam(module.parameters(), lr=lr)
        self.stored: OrderedDict[Key, tuple[Tensor, Tensor]] = OrderedDict()

    @classmethod
    def build(cls, plan: Plan, index: int, seed: int, device: torch.device) -> SyntheticInterface | None:
        """The predictor for block `index`'s output; None for the last block, which has the loss."""
        if index == plan.blocks - 1:
            return None
        method = plan.recipe.method
        assert isinstance(method, DNI)
        _, high = plan.layer_spans[index]
        module = build_synthetic(
            seed,
            plan.names[high - 1],
            (1, *plan.shapes[high]),
            hidden=method.hidden,
            kernel=method.kernel,
            num_classes=plan.num_classes,
            conditional=method.conditional,
        )
        return cls(module.to(device), method.lr, plan.dtype(high))

    def store(self, key: Key, output: Tensor, labels: Tensor) -> None:
        """Keep a block's output until its true gradient comes."""
        self.stored[key] = (output.detach().float(), labels)

    @torch.no_grad()
    def predict(self, key: Key) -> Tensor:
        """The predicted gradient of the stored output; BN in training mode, its statistics untouched by learning."""
        output, labels = self.stored[key]
        predicted: Tensor = self.module(output, labels)
        return predicted.to(self.dtype)

    def learn(self, key: Key, true_gradient: Tensor) -> None:
        """One Adam step on the mean squared error of the prediction for a batch that is now known."""
        output, labels = self.stored.pop(key)
        self.adam.zero_grad(set_to_none=True)
        torch.autograd.backward(
            functional.mse_loss(self.module(output, labels), true_gradient.float().contiguous())
        )
        self.adam.step()

    def held_bytes(self) -> int:
        """Bytes of stored outputs, the module and its optimiser."""
        moments = [v for s in self.adam.state.values() for v in s.values() if isinstance(v, Tensor)]
        stored = sum(tensor_bytes(pair) for pair in self.stored.values())
        return stored + 2 * tensor_bytes(self.module.parameters()) + tensor_bytes(moments)

    def state(self) -> dict[str, Any]:
        """Module, optimiser and stored outputs."""
        return {
            "module": self.module.state_dict(),
            "adam": self.adam.state_dict(),
            "stored": [(key, output, labels) for key, (output, labels) in self.stored.items()],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Inverse of `state`."""
        self.module.load_state_dict(state["module"])
        self.adam.load_state_dict(state["adam"])
        self.stored = OrderedDict(
            ((int(k[0]), int(k[1])), (output, labels)) for k, output, labels in state["stored"]
        )
