"""The same update rule as a plain program in one process: the reference that the engine must equal bit for bit.

It shares models, data and the random numbers of layers with the engine, and nothing of its machinery: no
actions, queues or messages, weights that are never changed in place, and optimisers written out. Time t
counts updates:

    for t = 0 .. N-1:
        every block k, from the first:  forward all batches up to t + m_k with W_k^(t)
        every block k, from the last:   gradient of batch t at W_k^(t) (replayed), or in its forward's graph
        every block k:                  W_k^(t) -> W_k^(t+1)

Where a schedule keeps versions, a batch is forwarded in its own step instead, at W_k^(max(0, t - m_k)), and its
gradient is taken there. Where the weights of now are read through the graph of then, see late_leaves.py.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from repro import data, gradient, models
from repro.methods.dni import DNI
from repro.models.norm_statistics import DeferredStatistics, batch_norms, set_tracking
from repro.oracle.calibration import fresh_statistics, put_back
from repro.oracle.late_leaves import differentiate_late
from repro.oracle.net import Kept, Net, Weights
from repro.oracle.predictors import predictors
from repro.oracle.shards import Part, parts_of
from repro.oracle.updates import Updates
from repro.planning.run_plan import Plan

# (t, weights of all blocks before update t, gradients of all blocks that update t uses)
Observer = Callable[[int, list[Weights], list[Weights]], None]


@dataclass
class OracleResult:
    """Losses of all batches, test losses and what goes with them by epoch, and the final state of every layer."""

    losses: list[float] = field(default_factory=list)
    test_losses: dict[int, float] = field(default_factory=dict)
    test_scores: dict[int, dict[str, float]] = field(default_factory=dict)  # by epoch, all that is measured
    state: dict[str, Tensor] = field(default_factory=dict)
    weights: set[str] = field(default_factory=set)  # those of `state` that are weights


class Oracle:
    """The program above for one plan and seed."""

    def __init__(
        self,
        plan: Plan,
        seed: int,
        observer: Observer | None = None,
        on_loss: Callable[[int, float, int], None] | None = None,
        on_epoch: Callable[[int, dict[str, float]], None] | None = None,
        device: str = "cpu",
    ) -> None:
        self.plan, self.seed, self.observer = plan, seed, observer
        self.on_loss, self.on_epoch = on_loss, on_epoch
        recipe = plan.recipe
        self.data = data.load(recipe.data, plan.data_root, seed, device)
        self.autocast = recipe.autocast == "bfloat16"
        schedule = plan.schedule()
        self.m, self.replays = schedule.staleness, schedule.recompute
        factories = models.layers(recipe.model, self.data.image_shape, plan.num_classes, plan.memory_format)
        layers = [(f.name, f.build(seed).to(device)) for f in factories]
        if plan.approximates:
            self.approximation: gradient.Approximation | None = gradient.attach(
                layers, recipe.gradient, seed=seed, steps_per_epoch=plan.steps_per_epoch, epochs=recipe.epochs,
                numbers=gradient.number_convolutions(layers),
            )  # fmt: skip
        else:
            self.approximation = None
        self.nets = [
            Net(
                layers[a:b],
                seed,
                models.mutates_input(
                    nn.Sequential(*(m for _, m in layers[a:b])),
                    factories[a].zeros((2, *plan.shapes[a]), device),
                ),
            )
            for a, b in plan.layer_spans
        ]
        self.weights: list[Weights] = [
            {name: p.detach().clone().requires_grad_() for name, p in net.named_parameters()}
            for net in self.nets
        ]
        self.taken_at: list[Weights] = [{} for _ in self.nets]  # the weights that the last gradients are of
        self.keeps = schedule.kept_versions
        self.updates = Updates(plan, layers, self.nets, self.m, self.keeps)
        self.ahead = tuple(0 if self.keeps else m for m in self.m)  # batches forwarded before their own step
        self.history = [
            deque([weights], maxlen=1 + (m if self.keeps else 0))
            for weights, m in zip(self.weights, self.m, strict=True)
        ]
        self.late = [schedule.present_weights and m > 0 for m in self.m]
        for k, net in enumerate(self.nets):
            if self.late[k]:
                differentiate_late(net, lambda k=k: self.updates.backward_weights(k, self.weights[k]))  # type: ignore[misc]
        self.norms = [batch_norms(net) for net in self.nets]
        self.deferred = (
            [DeferredStatistics(norms) for norms in self.norms]
            if recipe.method.micro_batches(recipe.data.batch_size // recipe.replicas) > 1
            else None
        )
        self.predictors = predictors(plan, seed, device) if schedule.synthetic else None
        self.kept: list[dict[tuple[int, int], Kept]] = [{} for _ in self.nets]
        # arrived, not yet forwarded
        self.inputs: list[dict[tuple[int, int], Tensor]] = [{} for _ in self.nets]
        self.true_gradients: list[dict[int, tuple[Tensor, Tensor, Tensor]]] = [{} for _ in self.nets]

    def run(self) -> OracleResult:
        """All batches of the plan, with the evaluations where the engine has them."""
        plan, result, begin = self.plan, OracleResult(), time.monotonic()
        forwarded = [0] * plan.blocks
        for t in range(plan.num_batches):
            for k in range(plan.blocks):
                while forwarded[k] <= min(t + self.ahead[k], plan.num_batches - 1):
                    self._forward(k, forwarded[k])
                    forwarded[k] += 1
            loss, gradients = self._backward(t)
            result.losses.append(loss)
            if self.on_loss is not None:
                self.on_loss(t, loss, self.data.train_batch_size(t))
            if self.observer is not None:
                self.observer(t, self.weights, gradients)
            self._update(t, gradients)
            for versions, weights in zip(self.history, self.weights, strict=True):
                versions.append(weights)
            if self.predictors is not None:
                self._learn(t)
            if t + 1 in plan.evaluations:
                epoch = plan.evaluations[t + 1]
                result.test_scores[epoch] = found = self._evaluate()
                result.test_losses[epoch] = found["test_loss"]
                if self.on_epoch is not None:
                    self.on_epoch(epoch, self._epoch_numbers(epoch, result, time.monotonic() - begin))
        for k, (net, weights) in enumerate(zip(self.nets, self.weights, strict=True)):
            state = {**dict(net.named_buffers()), **weights}
            for key, value in state.items():
                result.state[self.updates.full_name(k, key)[1]] = value.detach()
            result.weights |= {self.updates.full_name(k, key)[1] for key in weights}
        return result

    def exact_gradients(self, t: int) -> list[Weights]:
        """The gradient of plain back-propagation on batch t at the present weights; changes nothing."""
        x = self.data.train_images(t)
        leaves = [{name: w.detach().requires_grad_() for name, w in block.items()} for block in self.weights]
        for k, (net, weights) in enumerate(zip(self.nets, leaves, strict=True)):
            set_tracking(self.norms[k], False)
            x = self._call(net, weights, x, t)
        loss = models.cross_entropy(x, self.data.train_labels(t))
        flat = [w for block in leaves for w in block.values()]
        found = iter(torch.autograd.grad(loss, flat, allow_unused=True))
        return [
            {
                name: torch.zeros_like(w) if g is None else g
                for (name, w), g in zip(block.items(), found, strict=False)
            }
            for block in leaves
        ]

    def _epoch_numbers(self, epoch: int, result: OracleResult, seconds: float) -> dict[str, float]:
        steps = len(result.losses)
        recent = range(max(0, steps - self.plan.steps_per_epoch), steps)
        sizes = [self.data.train_batch_size(i) for i in recent]
        return {
            "train_loss": sum(result.losses[i] * n for i, n in zip(recent, sizes, strict=True)) / sum(sizes),
            **result.test_scores[epoch],
            "train_seconds": seconds,
        }

    # -- one step -----------------------------------------------------------------------------------------

    def _parts(self, batch: int) -> list[Part]:
        return parts_of(self.plan, self.data.train_batch_size(batch))

    def _forward(self, k: int, batch: int) -> None:
        if k == 0:
            images = self.data.train_images(batch)
            for part in self._parts(batch):
                self.inputs[0][batch, part.number] = images[part.where].contiguous()
        mode = self.plan.recipe.norm_statistics
        counts = not self.replays[k] or mode in ("forward", "both")
        used = self.updates.forward_weights(k, self.history[k][0], batch)
        for part in self._parts(batch):
            j = part.number
            x = self.inputs[k].pop((batch, j)).detach().requires_grad_(k > 0)
            with torch.set_grad_enabled(not self.replays[k]):
                y = self._apply(k, x, used, batch, part, counts)
            if k + 1 < self.plan.blocks:
                self.inputs[k + 1][batch, j] = y.detach()
            self.kept[k][batch, j] = Kept(x, None if self.replays[k] else y, used)

    def _backward(self, t: int) -> tuple[float, list[Weights]]:
        """Loss of batch t and the gradient of every block's weights."""
        blocks, parts = self.plan.blocks, self._parts(t)
        size = self.data.train_batch_size(t)
        counts = self.plan.recipe.norm_statistics in ("recompute", "both")
        labels = self.data.train_labels(t)
        # Within a replica gradients add up over its micro-batches, then over the replicas.
        shards: list[list[Weights]] = [[{} for _ in range(self.plan.recipe.replicas)] for _ in self.nets]
        loss = 0.0
        arriving: dict[int, Tensor | None] = {part.number: None for part in parts}
        for k in reversed(range(blocks)):
            for part in parts:
                j, where = part.number, part.where
                kept = self.kept[k].pop((t, j))
                y, used = kept.y, kept.weights
                if y is None:
                    used = kept.weights if self.keeps else self.weights[k]
                    y = self._apply(k, kept.x, used, t, part, counts)
                self.taken_at[k] = used
                outer = arriving[j]
                output = y.detach()
                if k == blocks - 1:
                    share = (where.stop - where.start) / size
                    y = models.cross_entropy(y, labels[where])
                    y = y if share == 1.0 else y * share
                    loss += float(y.detach())
                elif self.predictors is not None:
                    assert outer is not None
                    self.true_gradients[k][t] = (output, labels, outer)
                    with torch.no_grad():
                        outer = self.predictors[k][0](output.float(), labels).to(output.dtype)
                wanted = [*used.values(), *([kept.x] if k else [])]
                found: Sequence[Tensor | None] = [None] * len(wanted)
                if self.late[k]:
                    set_tracking(self.norms[k], False)
                    if self.approximation is not None:
                        self.approximation.set_batch(t, j)
                if y.requires_grad:
                    found = torch.autograd.grad(y, wanted, outer, allow_unused=True)
                arriving[j] = found[-1] if k else None
                mine = shards[k][part.replica]
                for name, g in zip(used, found, strict=False):
                    if g is not None:
                        mine[name] = g if name not in mine else mine[name] + g
        return loss, [
            {name: reduce(Tensor.add, (shard[name] for shard in of_block)) for name in of_block[0]}
            for of_block in shards
        ]

    def _update(self, t: int, gradients: list[Weights]) -> None:
        for k, found in enumerate(gradients):
            if self.deferred is not None:
                self.deferred[k].commit()
            self.weights[k] = self.updates.step(k, t, self.weights[k], self.taken_at[k], found)
        self.updates.done = t + 1

    # -- parts --------------------------------------------------------------------------------------------

    def _apply(self, k: int, x: Tensor, weights: Weights, batch: int, part: Part, counts: bool) -> Tensor:
        micro, counts = part.number, counts and part.replica == 0  # BN statistics are replica 0's
        if self.approximation is not None:
            self.approximation.set_batch(batch, micro)
        set_tracking(self.norms[k], counts and self.deferred is None)
        if self.deferred is not None:
            self.deferred[k].active = counts
        y = self._call(self.nets[k], weights, x, batch, micro)
        if self.deferred is not None:
            self.deferred[k].active = False
        return y

    def _learn(self, t: int) -> None:
        """Every predictor takes one Adam step on the batch that is `lag` old."""
        assert self.predictors is not None
        assert isinstance(self.plan.recipe.method, DNI)
        batch = t - self.plan.recipe.method.lag
        for k, (module, adam) in enumerate(self.predictors):
            if batch in self.true_gradients[k]:
                output, labels, true_gradient = self.true_gradients[k].pop(batch)
                adam.zero_grad(set_to_none=True)
                target = true_gradient.float().contiguous()
                torch.autograd.backward(functional.mse_loss(module(output.float(), labels), target))
                adam.step()

    @torch.no_grad()
    def _evaluate(self) -> dict[str, float]:
        total, correct = 0.0, 0
        for norms, net in zip(self.norms, self.nets, strict=True):
            set_tracking(norms, True)
            net.eval()
        running = fresh_statistics(self._calibrate, self.norms, self.plan.recipe.norm_recalibration)
        for step in range(self.data.test_steps):
            x = self.data.test_images(step)
            for net, weights in zip(self.nets, self.weights, strict=True):
                x = self._call(net, weights, x)
            labels = self.data.test_labels(step)
            total += float(models.cross_entropy(x, labels, "sum"))
            correct += int((x.argmax(-1) == labels).sum())
        put_back(running)
        for net in self.nets:
            net.train()
        return self.data.scores(total, correct)

    def _calibrate(self, batch: int) -> None:
        x = self.data.train_images(batch)
        x = x[: sum(part.where.stop - part.where.start for part in self._parts(batch) if part.replica == 0)]
        for net, weights in zip(self.nets, self.weights, strict=True):
            x = self._call(net, weights, x)

    def _call(self, net: Net, weights: Weights, x: Tensor, batch: int = 0, micro: int = 0) -> Tensor:
        """The forward of one block; autocast is closed before a backward, and before the loss, which is float32."""
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=self.autocast):
            y: Tensor = functional_call(net, weights, (x, batch, micro))
        return y
