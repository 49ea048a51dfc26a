"""The optimisers written out: new weights from old ones and a gradient, nothing changed in place.

Each equals torch.optim's class on the CPU bit for bit, because it takes torch's operations in torch's order: a
fused multiply-add (addcdiv, addmm, lerp) rounds once where two operations round twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from repro.recipe import OptimizerSpec
from repro.recipe.optimizers import SGD, AdamW, Muon, NAdam

State = dict[str, Tensor]
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def rate_of(spec: OptimizerSpec, top: float, t: int, steps: int, epochs: int) -> float:
    """Learning rate of update t, with `top` where nothing is scaled."""
    if t < spec.warmup_steps:
        return spec.warmup_start + (top - spec.warmup_start) * (t / spec.warmup_steps)
    if spec.schedule == "cosine":
        end = spec.cosine_steps if spec.cosine_steps is not None else steps * epochs
        part = min((t - spec.warmup_steps) / max(1, end - spec.warmup_steps), 1.0)
        return top * (spec.cosine_floor + (1.0 - spec.cosine_floor) * 0.5 * (1.0 + math.cos(math.pi * part)))
    passed = sum(t >= epoch * steps for epoch in spec.milestones)
    return top * spec.decay**passed


def laid_out_as(g: Tensor, w: Tensor) -> Tensor:
    """The gradient in its weight's memory layout, as a weight's .grad is: sums over all of it depend on the layout."""
    return g if g.stride() == w.stride() else torch.empty_like(w, requires_grad=False).copy_(g)


def clipped(gradients: Sequence[Tensor], longest: float) -> list[Tensor]:
    """All gradients of a block, scaled down where their common norm is more than `longest`."""
    norm = torch.stack([torch.linalg.vector_norm(g) for g in gradients])
    factor = (longest / (torch.linalg.vector_norm(norm) + 1e-6)).clamp(max=1.0)
    return [g * factor for g in gradients]


class Rule:
    """The optimiser of one block: `step` gives a weight's next value; `state` holds what it remembers by name."""

    def __init__(self, spec: OptimizerSpec, matrices: frozenset[str], staleness: int, blocks: int) -> None:
        self.spec, self.matrices = spec, matrices
        self.state: dict[str, State] = {}
        self.steps: dict[str, int] = {}
        self.product: dict[str, Tensor] = {}  # NAdam's, of its momenta
        self.beta1 = 0.0
        if isinstance(spec, (AdamW, NAdam, Muon)):
            self.beta1 = spec.beta1
        if isinstance(spec, NAdam) and spec.beta1_per_block:
            self.beta1 = 0.9 + staleness / blocks * 0.09

    def top(self, name: str) -> float:
        """The learning rate that the schedule scales."""
        if isinstance(self.spec, Muon) and name not in self.matrices and self.spec.adamw_lr is not None:
            return self.spec.adamw_lr
        return self.spec.lr

    def step(self, name: str, w: Tensor, g: Tensor, rate: float, decay: float) -> Tensor:
        """The weight called `name` after an update with gradient g at `rate`; `decay`: its weight decay."""
        self.steps[name] = self.steps.get(name, 0) + 1
        if isinstance(self.spec, SGD):
            return self._sgd(self.spec, name, w, g, rate, decay)
        if isinstance(self.spec, NAdam):
            return self._nadam(self.spec, name, w, g, rate, decay)
        if isinstance(self.spec, Muon) and name in self.matrices:
            return self._muon(self.spec, name, w, g, rate, decay)
        return self._adamw(name, w, g, rate, decay)

    def _sgd(self, spec: SGD, name: str, w: Tensor, g: Tensor, rate: float, decay: float) -> Tensor:
        if decay:
            g = g.add(w, alpha=decay)
        if spec.momentum:
            before = self.state.get(name)
            v = g.clone() if before is None else before["v"].mul(spec.momentum).add(g, alpha=1)
            self.state[name] = {"v": v}
            g = g.add(v, alpha=spec.momentum) if spec.nesterov else v
        return w.add(g, alpha=-rate)

    def _moments(self, name: str, g: Tensor, beta2: float) -> tuple[Tensor, Tensor]:
        zeros = torch.zeros_like(g)
        before = self.state.get(name, {"m": zeros, "s": zeros})
        m = before["m"].lerp(g, 1 - self.beta1)
        s = before["s"].mul(beta2).addcmul(g, g, value=1 - beta2)
        self.state[name] = {"m": m, "s": s}
        return m, s

    def _adamw(self, name: str, w: Tensor, g: Tensor, rate: float, decay: float) -> Tensor:
        spec = self.spec
        assert isinstance(spec, (AdamW, Muon))
        if decay:
            w = w.mul(1 - rate * decay)
        t = float(self.steps[name])
        m, s = self._moments(name, g, spec.beta2)
        size = (s.sqrt() / (1 - spec.beta2**t) ** 0.5).add(spec.eps)
        return w.addcdiv(m, size, value=-(rate / (1 - self.beta1**t)))

    def _nadam(self, spec: NAdam, name: str, w: Tensor, g: Tensor, rate: float, decay: float) -> Tensor:
        if decay:
            w = w.mul(1 - rate * decay)
        t = float(self.steps[name])
        now = self.beta1 * (1.0 - 0.5 * 0.96 ** (t * spec.momentum_decay))
        following = self.beta1 * (1.0 - 0.5 * 0.96 ** ((t + 1) * spec.momentum_decay))
        # torch keeps the product of the momenta in single precision
        product = self.product.get(name, torch.ones((), dtype=torch.float32)) * now
        self.product[name] = product
        m, s = self._moments(name, g, spec.beta2)
        size = s.div(1 - spec.beta2**t).sqrt().add(spec.eps)
        w = w.addcdiv(g, size, value=-rate * (1.0 - now) / (1.0 - product.item()))
        return w.addcdiv(m, size, value=-rate * following / (1.0 - product.item() * following))

    def _muon(self, spec: Muon, name: str, w: Tensor, g: Tensor, rate: float, decay: float) -> Tensor:
        g = laid_out_as(g, w).flatten(1)
        before = self.state.get(name, {"v": torch.zeros_like(g)})
        v = before["v"].lerp(g, 1 - spec.momentum)
        self.state[name] = {"v": v}
        direction = orthogonal(g.lerp(v, spec.momentum) if spec.nesterov else v, spec.ns_steps)
        rows, columns = g.shape
        if spec.adjust_lr == "original":
            step = rate * math.sqrt(max(1, rows / columns))
        else:
            step = rate * (0.2 * math.sqrt(max(rows, columns)))
        return w.flatten(1).mul(1 - rate * decay).add(direction, alpha=-step).view_as(w)


def orthogonal(g: Tensor, steps: int) -> Tensor:
    """About the nearest orthogonal matrix to g [rows, columns], in bfloat16 (Newton-Schulz; Muon)."""
    a, b, c = _NEWTON_SCHULZ
    x = g.bfloat16()
    wide = x.T if x.shape[0] > x.shape[1] else x
    wide = wide / wide.norm().clamp(min=1e-7)
    for _ in range(steps):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return wide.T if x.shape[0] > x.shape[1] else wide
