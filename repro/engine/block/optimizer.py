"""SGD for one block, with step decays counted in the block's own updates and weights that can be renewed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from repro.recipe import OptimizerSpec


def learning_rate(spec: OptimizerSpec, update: int, steps_per_epoch: int) -> float:
    """Rate of update number `update` (from 0): lr times decay for every milestone epoch that has been completed."""
    passed = sum(update >= epoch * steps_per_epoch for epoch in spec.milestones)
    return float(spec.lr * spec.decay**passed)


class BlockOptimizer:
    """torch.optim.SGD over the layers of a block.

    `renew` replaces every weight by a copy in a new tensor: graphs that were made with the old tensors stay
    valid, with autograd's version check on (the weight stashing of DDG and FDG).
    """

    def __init__(
        self,
        layers: Sequence[tuple[str, nn.Module]],
        spec: OptimizerSpec,
        steps_per_epoch: int,
        lr_factor: float = 1.0,
    ) -> None:
        self.spec, self.steps_per_epoch, self.lr_factor = spec, steps_per_epoch, lr_factor
        self._slots: list[tuple[nn.Module, str]] = []  # where each weight lives
        groups: dict[bool, list[Tensor]] = {True: [], False: []}
        self._places: list[tuple[bool, int]] = []
        for layer_name, layer in layers:
            decays = spec.weight_decay_layers is None or layer_name in spec.weight_decay_layers
            for module in layer.modules():
                for name, weight in module.named_parameters(recurse=False):
                    self._slots.append((module, name))
                    self._places.append((decays, len(groups[decays])))
                    groups[decays].append(weight)
        self._groups = [decays for decays in (True, False) if groups[decays]]
        self.sgd = None
        if self._groups:
            self.sgd = torch.optim.SGD(
                [
                    {"params": groups[d], "weight_decay": spec.weight_decay if d else 0.0}
                    for d in self._groups
                ],
                lr=spec.lr,
                momentum=spec.momentum,
                nesterov=spec.nesterov,
            )

    @property
    def weights(self) -> list[Tensor]:
        """The present weights, in a fixed order."""
        return [module._parameters[name] for module, name in self._slots]  # type: ignore[misc]

    def step(self, update: int) -> None:
        """Apply the gradients in the weights' .grad as update number `update`, and clear them."""
        if self.sgd is None:
            return
        rate = learning_rate(self.spec, update, self.steps_per_epoch) * self.lr_factor
        for group in self.sgd.param_groups:
            group["lr"] = rate
        self.sgd.step()
        self.sgd.zero_grad(set_to_none=True)

    def renew(self, into: Sequence[Tensor] | None = None) -> None:
        """Move every weight, with its gradient and momentum, to a new tensor of the same value; `into`: these tensors."""
        if self.sgd is None:
            return
        for number, ((module, name), (decays, index)) in enumerate(
            zip(self._slots, self._places, strict=True)
        ):
            old = module._parameters[name]
            assert old is not None
            new = nn.Parameter(old.detach().clone()) if into is None else into[number]
            if old.grad is not None:
                new.grad, old.grad = old.grad, None
            module._parameters[name] = new  # type: ignore[assignment]
            self.sgd.param_groups[self._groups.index(decays)]["params"][index] = new
            if old in self.sgd.state:
                self.sgd.state[new] = self.sgd.state.pop(old)

    def swap(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """Put `weights` in the place of the present ones; returns those. The optimiser's state is not touched."""
        before = self.weights
        for (module, name), weight in zip(self._slots, weights, strict=True):
            module._parameters[name] = weight  # type: ignore[assignment]
        return before

    def state_tensors(self) -> list[Tensor]:
        """Momentum buffers, for counting memory."""
        if self.sgd is None:
            return []
        return [v for state in self.sgd.state.values() for v in state.values() if isinstance(v, Tensor)]
