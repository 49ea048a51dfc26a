"""Which estimator each convolution uses on each batch.

Convolutions are numbered from 1 in forward order (3x3 and larger only); batches and epochs from 0.

    s1     every 4th convolution from the 2nd, every batch (published)
    s2     every convolution, every 4th batch (ours: the published s2 and s3 are not known to us)
    s3     every 2nd convolution from the 2nd, every 2nd batch (ours)
    early  s1 in the first half of the epochs, full after (the paper's suggestion)
    all    every convolution, every batch
    measured   like all, where the estimate was measured faster than the library's gradient here (ours)
    alternate  the second convolution, every 2nd batch (the paper's schedule for the 2-layer CNN)

"Every 4th batch" is the 4th, the 8th and so on: batches 3, 7, ... A recipe may give rules of its own instead;
the first rule that covers (convolution, batch, epoch) decides, and where none does the gradient is full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.errors import UserError
from repro.gradient.rules import Rule, read
from repro.recipe.schema import ESTIMATORS, GradientRule, GradientSpec


@dataclass(frozen=True)
class Schedule:
    """The estimator of every (convolution, batch) of a run.

    `measured`: the convolutions that take part are only those that were measured faster; see Approximation.
    """

    name: str
    rules: tuple[Rule, ...]
    numbers: Mapping[str, int]  # full name -> number, over the whole network
    steps_per_epoch: int
    epochs: int
    measured: bool = False

    def estimator(self, layer_number: int, batch: int, epoch: int | None = None) -> str:
        """Name of the estimator of convolution `layer_number` on `batch`; the epoch follows from the batch."""
        epoch = batch // self.steps_per_epoch if epoch is None else epoch
        for rule in self.rules:
            if layer_number in rule.layers and batch in rule.batches and epoch in rule.epochs:
                return rule.estimator
        return "full"

    def grid(self, first: int, last: int, epoch: int | None = None) -> NDArray[np.int8]:
        """Estimators of batches first..last as indices into ESTIMATORS, [convolutions, batches]."""
        batches = np.arange(first, last)
        epochs = batches // self.steps_per_epoch if epoch is None else np.full_like(batches, epoch)
        found = np.zeros((len(self.numbers), len(batches)), np.int8)
        for rule in reversed(self.rules):
            hit = np.ones(len(batches), bool)
            for values, stride in ((batches, rule.batches), (epochs, rule.epochs)):
                hit &= (values >= stride.start) & ((values - stride.start) % stride.step == 0)
                if stride.stop is not None:
                    hit &= values < stride.stop
            for number in rule.layers:
                found[number - 1, hit] = ESTIMATORS.index(rule.estimator)
        return found


def build(settings: GradientSpec, numbers: Mapping[str, int], steps_per_epoch: int, epochs: int) -> Schedule:
    """Make a recipe's schedule for a network whose convolutions are `numbers` (name -> number from 1).

    UserError for a rule that cannot be read or names a layer that is not there.
    """
    if not numbers:
        raise UserError("gradient: the network has no convolution of 3x3 or larger to approximate.")
    name: str = "rules"
    if isinstance(settings.schedule, str):
        name, rules = settings.schedule, _named(settings.schedule, epochs)
        places = [f"gradient.schedule '{name}'"] * len(rules)
    else:
        rules = settings.schedule
        places = [f"gradient.schedule[{i}]" for i in range(len(rules))]
    read_rules = tuple(
        read(rule, place, settings.estimator, numbers) for rule, place in zip(rules, places, strict=True)
    )
    return Schedule(
        name, read_rules, dict(numbers), max(1, steps_per_epoch), epochs, measured=name == "measured"
    )


def _named(name: str, epochs: int) -> tuple[GradientRule, ...]:
    half = (epochs + 1) // 2
    return {
        "s1": (GradientRule(layers="2::4"),),
        "s2": (GradientRule(batches="3::4"),),
        "s3": (GradientRule(layers="2::2", batches="1::2"),),
        "early": (GradientRule(layers="2::4", epochs=f":{half}"),),
        "all": (GradientRule(),),
        "measured": (GradientRule(),),
        "alternate": (GradientRule(layers="2", batches="1::2"),),
    }[name]
