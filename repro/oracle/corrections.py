"""The corrections of staleness as the oracle writes them: formulas of a block's weights by name.

A correction of a user's own has no second writing: its hooks are called here as in the engine, so that what is
checked for it is the engine's use of them.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from repro.corrections import BUILT_IN, Correction, Place
from repro.oracle.net import Weights
from repro.oracle.update_rules import Rule
from repro.recipe.optimizers import SGD, AdamW, NAdam


class Corrected:
    """The corrections of one block, in the recipe's order; what is remembered is by the weight's name."""

    def __init__(self, corrections: tuple[Correction, ...], place: Place, rule: Rule) -> None:
        self.corrections: tuple[Any, ...] = corrections
        self.m, self.steps, self.rule, self.place = place.staleness, place.steps_per_epoch, rule, place
        self.mean_square: Weights = {}
        self.delta: Weights = {}
        self.memory: dict[str, dict[str, dict[str, Tensor]]] = {c.name: {} for c in corrections}

    def rate(self, rate: float, t: int) -> float:
        """T1: lr / m^p, p from 1 down to 0 in the first `epochs` epochs."""
        for given in self.corrections:
            if not _built_in(given):
                rate = given.rate(rate, t, self.place)
            elif given.name == "rescheduling" and self.m >= 1:
                rate = rate / self.m ** (1.0 - min(t / (given.epochs * self.steps), 1.0))
        return rate

    def forward_weights(self, weights: Weights, names: dict[str, str], s: int, rate: float) -> Weights:
        """W - rate s v by the block's own name; `names`: the weights' names in the network."""
        ahead = [c for c in self.corrections if c.overrides("ahead")]
        if s < 1 or not self.rule.steps or not ahead:
            return weights
        found: Weights = {}
        for name, w in weights.items():
            v: Tensor | None = self._direction(names[name])
            value: Tensor = w.detach()
            for given in ahead:
                if v is not None:
                    predicts = _built_in(given)
                    value = value.add(v, alpha=-(rate * s)) if predicts else given.ahead(value, v, rate, s)
            found[name] = value.clone().requires_grad_()
        return found

    def gradient(self, name: str, g: Tensor, now: Tensor, then: Tensor) -> Tensor:
        """DC-ASGD: g + lambda g g (W_now - W_then)."""
        now, then = now.detach(), then.detach()
        for given in self.corrections if self.m >= 1 else ():
            if not _built_in(given):
                memory = self.memory[given.name].setdefault(name, {})
                g = given.compensate(g, now, then, memory)
            elif given.name == "compensation":
                square = g * g
                factor = square * given.strength
                if given.adaptive:
                    before, part = self.mean_square.get(name), 1.0 - given.running
                    mean = (
                        square * part if before is None else (before * given.running).add(square, alpha=part)
                    )
                    self.mean_square[name] = mean
                    factor = factor / (mean + 1e-7).sqrt()
                g = g + factor * (now - then)
        return g

    def backward_weights(self, weights: Weights) -> Weights:
        """T2: u = W - m delta."""
        found = weights
        for given in self.corrections:
            if _built_in(given) and given.name == "discrepancy" and self.m >= 1 and self.delta:
                found = {n: w.detach() - self.m * self.delta[n] for n, w in found.items()}
            elif not _built_in(given) and given.overrides("backward"):
                memory = self.memory[given.name]
                found = {
                    n: given.backward(w.detach(), memory.setdefault(n, {}), self.place)
                    for n, w in found.items()
                }
        return found if found is weights else {n: w.requires_grad_() for n, w in found.items()}

    def follow(self, before: Weights, after: Weights) -> None:
        """T2: delta is the running mean of the steps, from 0."""
        for given in self.corrections:
            if _built_in(given) and given.name == "discrepancy" and self.m >= 1:
                gamma = given.decay ** (1.0 / self.m)
                for name, w in after.items():
                    step = w.detach() - before[name].detach()
                    old = self.delta.get(name)
                    part = 1.0 - gamma
                    self.delta[name] = step * part if old is None else (old * gamma).add(step, alpha=part)
            elif not _built_in(given) and given.overrides("moved"):
                for name, w in after.items():
                    memory = self.memory[given.name].setdefault(name, {})
                    given.moved(before[name].detach(), w.detach(), memory, self.place)

    def _direction(self, name: str) -> Tensor | None:
        spec, state = self.rule.spec, self.rule.state.get(name)
        if state is None:
            return None
        if isinstance(spec, SGD):
            buffer: Tensor = state["v"]
            return buffer
        assert isinstance(spec, (AdamW, NAdam))
        t = float(self.rule.steps[name])
        corrected = state["s"] / (1.0 - spec.beta2**t)
        step: Tensor = state["m"] / (1.0 - self.rule.beta1**t) / (corrected.sqrt() + spec.eps)
        return step


def _built_in(correction: Any) -> bool:
    return BUILT_IN.get(correction.name) is type(correction)
