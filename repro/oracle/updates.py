"""What an update does to the weights of a block, with the optimiser and the corrections written out."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from repro.corrections import Place
from repro.oracle.corrections import Corrected
from repro.oracle.net import Net, Weights
from repro.oracle.update_rules import Rule, clipped, laid_out_as, rate_of
from repro.planning.optimizer_rules import inner_matrices
from repro.planning.run_plan import Plan


class Updates:
    """The optimisers and corrections of all blocks; `done`: updates that every block has made."""

    def __init__(
        self,
        plan: Plan,
        layers: Sequence[tuple[str, nn.Module]],
        nets: Sequence[Net],
        m: Sequence[int],
        keeps: bool,
    ) -> None:
        self.plan, self.spec, self.nets, self.done = plan, plan.recipe.optimizer, nets, 0
        self.m, self.keeps = m, keeps
        self.predicted: list[dict[int, Weights]] = [
            {} for _ in nets
        ]  # of batches to come, where versions are kept
        matrices = inner_matrices(layers, self.spec)
        self.rules = [Rule(self.spec, matrices, staleness, plan.blocks) for staleness in m]
        self.corrected = [
            Corrected(
                plan.recipe.corrections, Place(k, plan.blocks, m[k], plan.steps_per_epoch), self.rules[k]
            )
            for k in range(plan.blocks)
        ]

    def full_name(self, k: int, name: str) -> tuple[str, str]:
        """The layer of a weight or statistic of block k, and the whole name in the network."""
        _, number, rest = name.split(".", 2)
        layer = self.nets[k].names[int(number)]
        return layer, f"{layer}.{rest}"

    def forward_weights(self, k: int, weights: Weights, batch: int) -> Weights:
        """What block k forwards `batch` with now, its weights (the batch's version of them) being `weights`."""
        if self.keeps:
            return self.predicted[k].pop(batch, weights)
        return self._predict(k, weights, batch - self.done, self.done)

    def backward_weights(self, k: int, weights: Weights) -> Weights:
        """What a backward of block k reads that reads the weights of now."""
        return self.corrected[k].backward_weights(weights)

    def _predict(self, k: int, weights: Weights, s: int, done: int) -> Weights:
        names = {name: self.full_name(k, name)[1] for name in weights}
        return self.corrected[k].forward_weights(weights, names, s, self._rate(k, "", done))

    def step(self, k: int, t: int, now: Weights, then: Weights, gradients: Weights) -> Weights:
        """Block k's weights after update t; the gradients are of the weights `then`."""
        spec = self.spec
        found = {n: self.corrected[k].gradient(n, g, now[n], then[n]) for n, g in gradients.items()}
        if spec.clip_norm is not None and found:
            names = [name for name in now if name in found]
            own = [laid_out_as(found[n], now[n]) for n in names]
            found = dict(zip(names, clipped(own, spec.clip_norm), strict=True))
        after: Weights = {}
        for name, w in now.items():
            if name not in found:
                after[name] = w
                continue
            layer, full = self.full_name(k, name)
            decays = spec.weight_decay_layers is None or layer in spec.weight_decay_layers
            rate, decay = self._rate(k, full, t), spec.weight_decay if decays else 0.0
            after[name] = self.rules[k].step(full, w.detach(), found[name], rate, decay).requires_grad_()
        self.corrected[k].follow(now, after)
        if self.keeps:
            ahead = self._predict(k, after, self.m[k], t + 1)
            if ahead is not after:
                self.predicted[k][t + 1 + self.m[k]] = ahead
        return after

    def _rate(self, k: int, name: str, t: int) -> float:
        """The learning rate of a weight of block k in update t."""
        plan, recipe = self.plan, self.plan.recipe
        rate = rate_of(self.spec, self.rules[k].top(name), t, plan.steps_per_epoch, recipe.epochs)
        return self.corrected[k].rate(rate * recipe.method.lr_factor(k, plan.blocks), t)
