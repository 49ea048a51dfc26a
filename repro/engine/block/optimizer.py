"""The optimiser of one block: torch's own class, rates by the block's own updates, and weights that can be renewed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from repro.engine.block.learning_rate import learning_rate
from repro.recipe import OptimizerSpec
from repro.recipe.optimizers import SGD, AdamW, Muon, NAdam

RateRule = Callable[[float, int], float]


@dataclass
class _Slot:
    """Where a weight lives, in its layer and in its optimiser: parts[part].param_groups[group]["params"][index]."""

    module: nn.Module
    name: str
    matrix: bool  # Muon's
    decays: bool
    part: int = 0
    group: int = 0
    index: int = 0

    @property
    def weight(self) -> nn.Parameter:
        """The present weight."""
        found = self.module._parameters[self.name]
        assert found is not None
        return found


class BlockOptimizer:
    """torch.optim's class for `spec` over the layers of a block; under `muon` a second one for its inner matrices.

    `renew` replaces every weight by a copy in a new tensor: graphs that were made with the old tensors stay
    valid, with autograd's version check on (the weight stashing of DDG and FDG).
    """

    def __init__(
        self,
        layers: Sequence[tuple[str, nn.Module]],
        spec: OptimizerSpec,
        steps_per_epoch: int,
        lr_factor: float = 1.0,
        *,
        total_updates: int = 0,
        beta1: float | None = None,
        matrices: Collection[str] = (),
    ) -> None:
        """`beta1` in the place of NAdam's; `matrices`: full names of Muon's weights."""
        self.spec, self.steps_per_epoch, self.lr_factor = spec, steps_per_epoch, lr_factor
        self.total_updates = total_updates
        self.rate_rule: RateRule | None = None  # (rate, update) -> rate, on top of all else
        self._slots: list[_Slot] = []
        for layer_name, layer in layers:
            decays = spec.weight_decay_layers is None or layer_name in spec.weight_decay_layers
            for path, module in layer.named_modules(prefix=layer_name):
                for name, _ in module.named_parameters(recurse=False):
                    self._slots.append(_Slot(module, name, f"{path}.{name}" in matrices, decays))
        self.parts: list[torch.optim.Optimizer] = []
        self._matrix_part: list[bool] = []
        for matrix in (False, True):
            groups: list[dict[str, Any]] = []
            for decays in (True, False):
                members = [s for s in self._slots if (s.matrix, s.decays) == (matrix, decays)]
                for i, slot in enumerate(members):
                    slot.part, slot.group, slot.index = len(self.parts), len(groups), i
                if members:
                    params = [_held(slot) for slot in members]
                    groups.append({"params": params, "weight_decay": spec.weight_decay if decays else 0.0})
            if groups:
                self.parts.append(_build(spec, groups, matrix, beta1))
                self._matrix_part.append(matrix)

    @property
    def weights(self) -> list[Tensor]:
        """The present weights, in a fixed order."""
        return [module._parameters[name] for module, name in self._places]  # type: ignore[misc]

    @property
    def _places(self) -> list[tuple[nn.Module, str]]:
        return [(slot.module, slot.name) for slot in self._slots]

    def rate(self, update: int, *, matrix: bool = False) -> float:
        """The rate of update number `update`: of Muon's matrices, or of all other weights."""
        spec = self.spec
        base = spec.adamw_lr if isinstance(spec, Muon) and not matrix else None
        rate = learning_rate(spec, update, self.steps_per_epoch, self.total_updates, base) * self.lr_factor
        return rate if self.rate_rule is None else self.rate_rule(rate, update)

    def step(self, update: int) -> None:
        """Apply the gradients in the weights' .grad as update number `update`, and clear them."""
        if self.spec.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.weights, self.spec.clip_norm)
        for slot in self._slots:
            weight = slot.weight
            if slot.matrix and weight.ndim > 2:  # filters, as the matrix that shares their memory
                self._param(slot).grad = None if weight.grad is None else weight.grad.flatten(1)
                weight.grad = None
        for part, matrix in zip(self.parts, self._matrix_part, strict=True):
            rate = self.rate(update, matrix=matrix)
            for group in part.param_groups:
                group["lr"] = rate
            part.step()
            part.zero_grad(set_to_none=True)

    def renew(self, into: Sequence[Tensor] | None = None) -> None:
        """Move every weight, with its gradient and its state, to a new tensor of the same value; `into`: these tensors."""
        for number, slot in enumerate(self._slots):
            part, old, held = self.parts[slot.part], slot.weight, self._param(slot)
            new = nn.Parameter(old.detach().clone()) if into is None else into[number]
            if old.grad is not None:
                new.grad, old.grad = old.grad, None
            slot.module._parameters[slot.name] = new  # type: ignore[assignment]
            now = _held(slot)
            part.param_groups[slot.group]["params"][slot.index] = now
            if held in part.state:
                part.state[now] = part.state.pop(held)

    def swap(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """Put `weights` in the place of the present ones; returns those. The optimiser's state is not touched."""
        before = self.weights
        for (module, name), weight in zip(self._places, weights, strict=True):
            module._parameters[name] = weight  # type: ignore[assignment]
        return before

    @contextmanager
    def holding(self, weights: Sequence[Tensor] | None) -> Iterator[None]:
        """With `weights` in the place of the present ones while it is open; None: nothing is changed."""
        before = None if weights is None else self.swap(weights)
        try:
            yield
        finally:
            if before is not None:
                self.swap(before)

    def states(self) -> list[dict[str, Any]]:
        """Each weight's state in its optimiser, in the order of `weights`; empty before its first update."""
        return [self.parts[slot.part].state.get(self._param(slot), {}) for slot in self._slots]

    def directions(self) -> list[Tensor | None]:
        """Of each weight what an update goes along, times the rate: momentum, or Adam's corrected step; None before."""
        spec = self.spec
        if isinstance(spec, (AdamW, NAdam)):
            beta1 = self.parts[0].param_groups[0]["betas"][0] if self.parts else spec.beta1
            return [_adam_step(state, beta1, spec.beta2, spec.eps) for state in self.states()]
        return [state.get("momentum_buffer") for state in self.states()]

    def state_dict(self) -> list[dict[str, Any]]:
        """State of each torch optimiser, for a checkpoint."""
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, state: Sequence[dict[str, Any]]) -> None:
        """Inverse of `state_dict`."""
        for part, known in zip(self.parts, state, strict=True):
            part.load_state_dict(known)

    def state_tensors(self) -> list[Tensor]:
        """Momentum buffers, moments and counts, for counting memory."""
        states = (state for part in self.parts for state in part.state.values())
        return [v for state in states for v in state.values() if isinstance(v, Tensor)]

    def _param(self, slot: _Slot) -> Tensor:
        found: Tensor = self.parts[slot.part].param_groups[slot.group]["params"][slot.index]
        return found


def _held(slot: _Slot) -> nn.Parameter:
    """What the optimiser holds of a weight: itself, or for Muon's filters a matrix [out, rest] on the same memory."""
    weight = slot.weight
    if not slot.matrix or weight.ndim == 2:
        return weight
    return nn.Parameter(weight.detach().view(weight.shape[0], -1))


def _adam_step(state: dict[str, Any], beta1: float, beta2: float, eps: float) -> Tensor | None:
    if not state:
        return None
    t = float(state["step"])
    size = state["exp_avg_sq"].div(1.0 - beta2**t).sqrt().add(eps)
    step: Tensor = state["exp_avg"].div(1.0 - beta1**t).div(size)
    return step


def _build(
    spec: OptimizerSpec, groups: list[dict[str, Any]], matrix: bool, beta1: float | None
) -> torch.optim.Optimizer:
    if isinstance(spec, SGD):
        return torch.optim.SGD(groups, lr=spec.lr, momentum=spec.momentum, nesterov=spec.nesterov)
    if isinstance(spec, Muon) and matrix:
        return torch.optim.Muon(
            groups, lr=spec.lr, momentum=spec.momentum, nesterov=spec.nesterov, ns_steps=spec.ns_steps,
            adjust_lr_fn=spec.adjust_lr,
        )  # fmt: skip
    if isinstance(spec, NAdam):
        betas = (spec.beta1 if beta1 is None else beta1, spec.beta2)
        return torch.optim.NAdam(
            groups, lr=spec.lr, betas=betas, eps=spec.eps, momentum_decay=spec.momentum_decay,
            decoupled_weight_decay=True,
        )  # fmt: skip
    assert isinstance(spec, (AdamW, Muon))
    return torch.optim.AdamW(groups, lr=spec.lr, betas=(spec.beta1, spec.beta2), eps=spec.eps)
