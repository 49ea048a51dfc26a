"""`repro bench gradient`: training steps of the recipes, the estimators of filter gradients in turn in one process.

Whole runs one after another tell little: a machine's speed drifts between them by more than an estimator saves. Here
all recipes of a network train it together: a block of steps (whole cycles of the schedule) under one, the same
batches under the next, and so on, round after round; each round begins with another one. Data, network, optimiser,
layout and threads are the recipes' own; the weights are shared, so no loss of these steps says anything.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from repro import data, gradient, models
from repro.benchmarks.rounds import t_interval, with_interval
from repro.benchmarks.turns import Turns, clock
from repro.engine.block.optimizer import BlockOptimizer
from repro.errors import RunFailed, UserError, nearest
from repro.planning.run_plan import data_root
from repro.recipe import Recipe, load
from repro.report import stats

# What takes turns: the recipes of a network; beside ResNet-20 the network that is simply smaller (claim G7).
RECIPES = {
    "cnn2": ("full-cnn2", *(f"{e}-cnn2" for e in ("zero", "random", "top1", "sampled")), "top1-cnn2-paper"),
    "resnet20": ("full-resnet20", *(f"{e}-resnet20-s1" for e in ("zero", "random", "top1", "sampled")),
                 "top1-resnet20-s1-paper", "full-resnet14"),
    "vgg19": ("full-vgg19", *(f"{e}-vgg19-s1" for e in ("zero", "random", "top1", "sampled")), "top1-vgg19-s1-paper"),
}  # fmt: skip
CYCLE = {"alternate": 2, "s1": 1}  # batches after which the schedule repeats itself
# A network without a profile `reference`: the published batch on maps of the published size.
ELSEWHERE = {
    "data.name": "fashion-mnist", "data.image_size": 32, "data.batch_size": 128, "data.augment": "none",
    "data.train_limit": 2560, "data.test_limit": 2000, "runtime.threads": 1,
}  # fmt: skip
FEWEST, MOST = 2, 60  # rounds; without time for the fewest a network is left out


@dataclass
class GradientBench:
    """Settings of the benchmark, each to be given as `--set name=value`."""

    networks: str = ",".join(RECIPES)
    profile: str = "reference"
    steps: int = 4  # of a block
    rounds: int | None = None  # of each network; None: as many as fit, at most 60
    minutes: float = 4.0
    turns: Turns = field(default_factory=lambda: Turns("gradient"))

    def rows(self) -> list[dict[str, Any]]:
        """Measure; a row a recipe. What has been measured so far after Ctrl-C."""
        names = [word.strip() for word in str(self.networks).split(",")]
        for name in names:
            if name not in RECIPES:
                raise UserError(f"networks = '{name}'.{nearest(name, RECIPES)} Allowed: {', '.join(RECIPES)}")
        if self.steps < 1 or self.steps % math.lcm(*CYCLE.values()):
            raise UserError(f"steps = {self.steps}: give whole cycles of the schedules, a multiple of 2")
        self.turns.say(f"gradient: {len(names)} networks, at most {clock(60 * self.minutes)}")
        begin, found = time.monotonic(), []
        for i, name in enumerate(names):
            left = 60 * self.minutes - (time.monotonic() - begin)
            found += self._network(name, left / (len(names) - i))
            if self.turns.interrupted:
                break
        return found

    def _network(self, name: str, seconds: float) -> list[dict[str, Any]]:
        recipes = [self._recipe(word) for word in RECIPES[name]]
        before, begin = torch.get_num_threads(), time.monotonic()
        torch.set_num_threads(recipes[0].runtime.threads or before)
        times: list[list[float]] = [[] for _ in recipes]
        systems = _Systems(recipes)
        try:
            warm = min(self.steps, math.lcm(*CYCLE.values()))
            a_round = sum(systems.block(i, 0, warm) for i in range(len(recipes))) * self.steps
            fits = int((seconds - (time.monotonic() - begin)) / a_round)
            rounds = self.rounds or min(MOST, fits)
            if rounds < FEWEST and self.rounds is None:
                self.turns.say(
                    f"gradient: no time for {name} (a round takes {clock(a_round)}): --set minutes=N or networks={name}"
                )
                return []
            self.turns.say(f"gradient: {name}, {rounds} rounds, about {clock(rounds * a_round)}")
            for number in range(rounds):
                for i in _rotated(range(len(recipes)), number):
                    times[i].append(systems.block(i, number * self.steps, self.steps))
        except KeyboardInterrupt:
            self.turns.interrupted = True
            self.turns.say("gradient: interrupted; what follows was measured before")
        finally:
            torch.set_num_threads(before)
        whole = min(map(len, times))
        return (
            [self._row(r, t[:whole], times[0][:whole]) for r, t in zip(recipes, times, strict=True)]
            if whole
            else []
        )

    def _recipe(self, name: str) -> Recipe:
        with suppress(UserError):
            found: Recipe = load(name, self.profile)
            return found
        other: Recipe = load(name, "quick", ELSEWHERE)
        return other

    def _row(self, recipe: Recipe, own: Sequence[float], full: Sequence[float]) -> dict[str, Any]:
        size = recipe.data.image_size
        approximated = recipe.gradient.estimator != "full"
        return {
            "recipe": recipe.name,
            "model": recipe.model.name,
            "estimator": recipe.gradient.estimator,
            "schedule": recipe.gradient.schedule if approximated else "none",
            "scale": recipe.gradient.scale if approximated else None,
            "data": recipe.data.name + (f" @{size}" if size else ""),
            "batch_size": recipe.data.batch_size,
            "layout": recipe.memory_format,
            "threads": torch.get_num_threads() if recipe.runtime.threads is None else recipe.runtime.threads,
            "block_steps": self.steps,
            **with_interval("seconds", own),
            **saved(own, full),
            "seconds_rounds": list(own),
        }


def saved(own: Sequence[float], full: Sequence[float]) -> dict[str, Any]:
    """Share of the time that is saved, from the logarithms of the ratios of the rounds, with its 95 % t interval."""
    if own == full:
        return {}
    found = stats.ratio(dict(enumerate(own)), dict(enumerate(full)), paired=True)
    assert found is not None
    return t_interval("saved", found.moved(lambda x: 1.0 - x))


class _Systems:
    """The recipes' networks, shared by recipes of the same one, and what each recipe makes of them."""

    def __init__(self, recipes: Sequence[Recipe]) -> None:
        self.recipes = recipes
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        root = data_root(recipes[0])
        data.prepare(recipes[0].data, root)
        self.batches = data.load(recipes[0].data, root, 0)
        nets: dict[str, tuple[Any, Any]] = {}
        self.systems: list[tuple[nn.Module, Any, Any]] = []  # network, optimiser, approximation
        for recipe in recipes:
            if recipe.model.name not in nets:
                nets[recipe.model.name] = self._built(recipe)
            layers, optimizer = nets[recipe.model.name]
            approximation = None
            if recipe.gradient.estimator != "full":
                approximation = gradient.attach(
                    layers,
                    recipe.gradient,
                    seed=0,
                    steps_per_epoch=self.batches.steps_per_epoch,
                    epochs=recipe.epochs,
                    numbers=gradient.number_convolutions(layers),
                )
                approximation.detach()
            self.systems.append((nn.Sequential(*(layer for _, layer in layers)), optimizer, approximation))

    def _built(self, recipe: Recipe) -> tuple[Any, Any]:
        shape, classes = self.batches.image_shape, self.batches.num_classes
        factories = models.layers(recipe.model, shape, classes, recipe.memory_format)
        layers = [(f.name, f.build(0).to(self.device).train()) for f in factories]
        (optimizer,) = BlockOptimizer(layers, recipe.optimizer, self.batches.steps_per_epoch).parts
        return layers, optimizer

    def block(self, i: int, first: int, count: int) -> float:
        """Mean seconds of `count` training steps from batch `first` on under recipe `i`; RunFailed where it diverges."""
        net, optimizer, approximation = self.systems[i]
        if approximation is not None:
            approximation.attach()
        begin = time.perf_counter()
        loss = math.nan
        for batch in range(first, first + count):
            if approximation is not None:
                approximation.set_batch(batch)
            images = self.batches.train_images(batch).to(self.device)
            labels = self.batches.train_labels(batch).to(self.device)
            found = models.cross_entropy(net(images), labels)
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(found)
            optimizer.step()
            loss = found.item()
        seconds = (time.perf_counter() - begin) / count
        if approximation is not None:
            approximation.detach()
        if not math.isfinite(loss):
            raise RunFailed(f"{self.recipes[i].name}: the loss is {loss} at batch {first + count - 1}")
        return seconds


def _rotated(places: Sequence[int], by: int) -> list[int]:
    by %= len(places)
    return [*places[by:], *places[:by]]
