"""`repro bench engine`: what the engine costs, and how near each method comes to its own bound.

All methods train the same network on the same data in the same rounds. The bound is what the simulator gives
for layer times measured in the same command, with free communication; a method's speed-up is its ratio to BP
of the same round, through the same engine. A bare PyTorch loop on the same threads is the floor of the engine
at K = 1.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from repro import data, models
from repro.benchmarks.rounds import ratios, with_interval
from repro.benchmarks.turns import Turn, Turns
from repro.engine.block.optimizer import BlockOptimizer
from repro.engine.processes.launch import Launch
from repro.planning.partition import best_cut
from repro.planning.run_plan import Plan, bound, make_plan, predicted_seconds_per_batch
from repro.recipe import validate

START_SECONDS = 1.5  # of a set of processes
METHODS = (
    "bp",
    "dsp",
    "fr-free",
    "fr-mailbox",
    "fr-barrier",
    "ddg-free",
    "ddg-mailbox",
    "ddg-barrier",
    "fdg",
    "gpipe",
)


@dataclass
class EngineBench:
    """Settings of the benchmark, each to be given as `--set name=value`."""

    model: str = "resnet98"
    image_size: int = 32
    batch_size: int = 64
    blocks: int = 2
    steps: int = 24
    rounds: int | None = None  # None: as many as fit into `minutes`
    minutes: float = 4.0
    methods: tuple[str, ...] = METHODS
    device: str = "cpu"
    memory_format: str = "contiguous"
    layers: int = 8  # these three: of model=gpt, which trains on the default text with AdamW
    width: int = 256
    context: int = 64
    turns: Turns = field(default_factory=lambda: Turns("engine"))
    _plans: dict[str, Plan] = field(default_factory=dict)
    # Not the machine's cache: what was measured on another day would be held against the rounds of today.
    _costs: tempfile.TemporaryDirectory[str] = field(default_factory=tempfile.TemporaryDirectory)

    def rows(self) -> list[dict[str, Any]]:
        """Measure and return a row a method, and one for the engine at K = 1 beside a bare loop."""
        names = list(dict.fromkeys(["bp", *self.methods]))
        self._plans = {name: self.plan(name, self.blocks) for name in names}
        single = self.plan("bp", 1)
        systems = {
            name: Turn(Launch(plan, seed=0).run, expected_seconds(plan)) for name, plan in self._plans.items()
        }
        systems["K = 1 and a bare loop"] = Turn(
            lambda: (Launch(single, seed=0).run()[-1]["seconds_per_batch"], bare_loop(single)),
            2 * expected_seconds(single),
        )
        self.turns.rounds, self.turns.minutes = self.rounds, self.minutes
        found = self.turns.measure(systems)
        pairs = found.pop("K = 1 and a bare loop", [])
        periods, busy, memory = {}, {}, {}
        for name, runs in found.items():
            periods[name] = [float(run[-1]["seconds_per_batch"]) for run in runs]
            busy[name] = [max(float(s["busy_seconds"]) for s in run) for run in runs]
            memory[name] = [memory_ratios(self._plans[name], run) for run in runs]
        periods["single"], periods["bare"] = [float(s) for s, _ in pairs], [b for _, b in pairs]
        return [self._row(name, periods, busy, memory) for name in found] + [
            {
                "method": "bp",
                "blocks": 1,
                "model": self.model,
                **with_interval("seconds_per_batch", periods["single"]),
                **with_interval("bare_loop_seconds", periods["bare"]),
                **with_interval("overhead", ratios(periods["single"], periods["bare"])),
            }
            for _ in pairs[:1]
        ]

    def _row(self, name: str, periods: Any, busy: Any, memory: Any) -> dict[str, Any]:
        plan = self._plans[name]
        assert plan.costs is not None
        alone = sum(c.forward + c.backward for c in plan.costs)
        limit = alone / bound(plan, plan.costs)
        speedups = ratios(periods["bp"], periods[name])
        return {
            "method": plan.recipe.method.label(plan.blocks),
            "blocks": plan.blocks,
            "model": self.model,
            "cut": list(plan.cut),
            "oversubscribed": plan.oversubscribed,
            **with_interval("seconds_per_batch", periods[name]),
            **with_interval("busy_seconds", busy[name]),
            **with_interval("overhead", ratios(periods[name], busy[name])),
            **with_interval("speedup_over_bp", speedups),
            "bound": limit,
            **with_interval("share_of_bound", [s / limit for s in speedups]),
            "memory_over_formula": [median(values) for values in zip(*memory[name], strict=True)],
        }

    def plan(self, name: str, blocks: int, method: dict[str, Any] | None = None) -> Plan:
        """The plan of "method" or "method-locking" (or of the settings in `method`), cut by its measured costs."""
        if method is None:
            base, _, locking = name.partition("-")
            method = {"name": base, "locking": locking} if locking else {"name": base}
        recipe = validate(
            {
                "name": f"bench-{name}",
                "group": "dsp",
                "reproduces": "benchmark",
                **self._network(),
                "method": method,
                "blocks": blocks,
                "runtime": {"threads": 1},
            }
        )
        plan = make_plan(recipe, self.device, measure=True, costs_folder=Path(self._costs.name))
        assert plan.costs is not None
        recompute = plan.schedule().recompute
        return replace(plan, cut=best_cut(plan.costs, recompute), evaluations={})

    def _network(self) -> dict[str, Any]:
        """Settings of the network, what it trains on and with."""
        sizes = {
            "batch_size": self.batch_size,
            "train_limit": self.batch_size * self.steps,
            "test_limit": self.batch_size,
        }
        if self.model == "gpt":
            return {
                "model": {"name": "gpt", "layers": self.layers, "width": self.width},
                "data": {"name": "text", "context": self.context, **sizes},
                "optimizer": {"name": "adamw", "lr": 1e-3},
            }
        return {
            "model": {"name": self.model},
            "data": {"name": "synthetic", "image_size": self.image_size, **sizes},
            "optimizer": {"lr": 0.01, "momentum": 0.9},
            "memory_format": self.memory_format,
        }


def expected_seconds(plan: Plan) -> float:
    """How long a run of the plan takes on this machine, start of the processes included."""
    return START_SECONDS + plan.num_batches * predicted_seconds_per_batch(plan)


def memory_ratios(plan: Plan, summaries: Sequence[dict[str, Any]]) -> list[float]:
    """Counted bytes of activations, queues and graphs of each block, over the formula's."""
    from repro.experiments.session import timings

    fields = timings(list(summaries), plan, 1)
    pairs = zip(
        fields["activation_bytes"], fields["memory_formula_bytes"], fields["static_bytes"], strict=True
    )
    return [counted / max(1, formula - static) for counted, formula, static in pairs]


def bare_loop(plan: Plan) -> float:
    """Median seconds per batch of plain PyTorch on the plan's data and threads: no process, no engine."""
    before = torch.get_num_threads()
    torch.set_num_threads(plan.threads)
    try:
        batches = data.load(plan.recipe.data, plan.data_root, 0)
        model, form = plan.recipe.model, plan.memory_format
        layers = [
            (f.name, f.build(0)) for f in models.layers(model, batches.image_shape, plan.num_classes, form)
        ]
        net = torch.nn.Sequential(*(layer for _, layer in layers)).train()
        (sgd,) = BlockOptimizer(layers, plan.recipe.optimizer, plan.steps_per_epoch).parts
        times = [time.perf_counter()]
        for i in range(plan.num_batches):
            loss = models.cross_entropy(net(batches.train_images(i)), batches.train_labels(i))
            sgd.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            sgd.step()
            loss.item()
            times.append(time.perf_counter())
    finally:
        torch.set_num_threads(before)
    intervals = [b - a for a, b in itertools.pairwise(times)]
    return median(intervals[5:] or intervals)
