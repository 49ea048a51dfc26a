"""`repro bench sequential`: the sequential engine against a bare loop of the same passes, and two runs at once.

The bare loop does what the engine has to do and nothing else: for each batch the forwards, replays and
backwards of all blocks and their optimiser steps, in plain PyTorch, on the same samples, cut and threads. It
does not reproduce the staleness, which costs no time by itself.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from repro import data
from repro.benchmarks.engine import START_SECONDS, EngineBench
from repro.benchmarks.rounds import ratios, with_interval
from repro.benchmarks.turns import Turn, Turns
from repro.cores import cores
from repro.engine.block.build import build_block
from repro.engine.processes.launch import Launch
from repro.errors import RunFailed, UserError, nearest
from repro.planning.run_plan import Plan
from repro.planning.seats import Seats
from repro.progress import Progress
from repro.runner import run_all
from repro.side_by_side import SideBySide
from repro.store import RunFolder

METHODS = ("bp", "dsp", "fdg", "gpipe")
WARM_UP = 5  # batches left out


@dataclass
class SequentialBench:
    """Settings of the benchmark, each to be given as `--set name=value`."""

    model: str = "resnet98"
    image_size: int = 32
    batch_size: int = 16
    blocks: int = 3
    steps: int = 12
    rounds: int | None = None  # None: as many as fit into `minutes`
    minutes: float = 4.0
    methods: tuple[str, ...] = METHODS
    jobs: int = 2  # runs at once; 1 leaves the comparison out
    job_steps: int = 20  # batches of each of those runs
    turns: Turns = field(default_factory=lambda: Turns("sequential"))

    def rows(self) -> list[dict[str, Any]]:
        """Measure in turn: a row a method, and one for runs side by side."""
        for name in self.methods:
            if name not in METHODS:
                raise UserError(f"methods = '{name}'.{nearest(name, METHODS)} Allowed: {', '.join(METHODS)}")
        if cores() < self.jobs:
            raise UserError(f"jobs = {self.jobs} is more than the {cores()} core(s) here: give 1..{cores()}")
        bench = self._bench(self.steps)
        plans = {name: replace(bench.plan(name, self.blocks), engine="sequential") for name in self.methods}
        systems = {
            name: Turn(partial(_engine_and_bare, plan), START_SECONDS + 2 * self.steps * _work(plan))
            for name, plan in plans.items()
        }
        if self.jobs > 1:
            batch = _work(bench.plan("bp", 1))
            expected = (1 + self.jobs) * (START_SECONDS + self.job_steps * batch)
            systems["jobs"] = Turn(self._jobs_round, expected)
        found = self.turns.measure(systems)
        rows = []
        for name, plan in plans.items():
            if times := found[name]:
                engine, bare = [e for e, _ in times], [b for _, b in times]
                rows.append(
                    {
                        "what": "sequential engine",
                        "method": plan.recipe.method.label(plan.blocks),
                        "blocks": plan.blocks,
                        "model": self.model,
                        **with_interval("seconds_per_batch", engine),
                        **with_interval("bare_loop_seconds", bare),
                        **with_interval("overhead", ratios(engine, bare)),
                    }
                )
        return rows + ([self._jobs_row(found["jobs"])] if found.get("jobs") else [])

    def _bench(self, steps: int) -> EngineBench:
        return EngineBench(
            model=self.model, image_size=self.image_size, batch_size=self.batch_size, steps=steps
        )

    def _jobs_round(self) -> tuple[float, float, float]:
        """`jobs` seeds one after the other and all at once, each on one core with one thread."""
        plan = replace(self._bench(self.job_steps).plan("bp", 1), engine="sequential")
        one, first = throughput(plan, self.jobs, 1)
        several, second = throughput(plan, self.jobs, self.jobs)
        return one, several, first / second

    def _jobs_row(self, found: Sequence[tuple[float, float, float]]) -> dict[str, Any]:
        alone, beside, wall = (list(values) for values in zip(*found, strict=True))
        return {
            "what": f"{self.jobs} runs at once",
            "method": "BP",
            "blocks": 1,
            "model": self.model,
            **with_interval("images_per_second_in_turn", alone),
            **with_interval("images_per_second", beside),
            **with_interval("throughput_ratio", ratios(beside, alone)),
            **with_interval("wall_clock_ratio", wall),  # with the start of the processes
        }


def _work(plan: Plan) -> float:
    """Seconds of a batch where one process makes all passes, replays among them."""
    assert plan.costs is not None
    spans = zip(plan.layer_spans, plan.schedule(evaluations=False).recompute, strict=True)
    return sum(
        c.forward * (2 if replays else 1) + c.backward
        for (low, high), replays in spans
        for c in plan.costs[low:high]
    )


def _engine_and_bare(plan: Plan) -> tuple[float, float]:
    """Seconds per batch of the engine, and of the bare loop right after it."""
    return float(Launch(plan, seed=0).run()[-1]["seconds_per_batch"]), bare_passes(plan)


def throughput(plan: Plan, runs: int, jobs: int) -> tuple[float, float]:
    """Images per second of `runs` seeds while they train, `jobs` at a time, and the seconds of the whole command."""
    with tempfile.TemporaryDirectory(prefix="repro-bench-") as folder:
        out, seeds, begin = Path(folder), range(runs), time.monotonic()
        if jobs == 1:
            outcomes = run_all([plan], seeds, out, _Quiet(), fail_fast=True, fresh=False)
        else:
            seats = Seats.on("cpu", jobs, force=False)
            several = SideBySide(seats, out, _Quiet(), fail_fast=True, fresh=False)
            outcomes = several.run([seats.checked(plan)], seeds)
        seconds = time.monotonic() - begin
        if any(outcome.exit_code for outcome in outcomes):
            raise RunFailed("a run of the benchmark failed")
        found = [RunFolder(path).read_result() for path in sorted(out.glob("*/*/seed-*"))]
    rates = [float(result["images_per_second"]) for result in found if result is not None]
    return (sum(rates) if jobs > 1 else len(rates) / sum(1 / rate for rate in rates)), seconds


class _Quiet(Progress):
    def say(self, text: str) -> None:
        """Nothing."""


def bare_passes(plan: Plan) -> float:
    """Median seconds per batch of the plan's forwards, replays, backwards and steps, as one plain loop."""
    before = torch.get_num_threads()
    torch.set_num_threads(plan.threads)
    try:
        schedule = plan.schedule()
        batches = data.load(plan.recipe.data, plan.data_root, 0)
        blocks = [build_block(plan, k, 0, schedule) for k in range(plan.blocks)]
        nets = [torch.nn.Sequential(*(layer for _, layer in block.layers)).train() for block in blocks]
        times = [time.perf_counter()]
        for i in range(plan.num_batches):
            images, labels = batches.train_images(i), batches.train_labels(i)
            count = plan.recipe.method.micro_batches(len(images))
            parts = list(zip(images.tensor_split(count), labels.tensor_split(count), strict=True))
            _train(nets, schedule.recompute, parts)
            for block in blocks:
                for part in block.optimizer.parts:
                    part.step()
                    part.zero_grad(set_to_none=True)
            times.append(time.perf_counter())
    finally:
        torch.set_num_threads(before)
    intervals = [b - a for a, b in itertools.pairwise(times)]
    return median(intervals[WARM_UP:] or intervals)


def _train(
    nets: Sequence[torch.nn.Module], recompute: Sequence[bool], parts: Sequence[tuple[Tensor, Tensor]]
) -> None:
    """All passes of one batch, its micro-batches one behind the other; leaves the gradients in .grad."""
    last = len(nets) - 1
    inputs: list[list[Tensor]] = []
    outputs: list[list[Tensor]] = []
    for images, labels in parts:
        x, xs, ys = images, [], []
        for k, net in enumerate(nets):
            leaf = x.detach().requires_grad_(k > 0)
            with torch.set_grad_enabled(not recompute[k]):
                y = net(leaf) if k < last else functional.cross_entropy(net(leaf), labels) / len(parts)
            xs.append(leaf)
            ys.append(y)
            x = y
        inputs.append(xs)
        outputs.append(ys)
    for (_, labels), xs, ys in zip(parts, inputs, outputs, strict=True):
        gradient: Tensor | None = None
        for k in reversed(range(len(nets))):
            y = ys[k]
            if recompute[k]:
                y = (
                    nets[k](xs[k])
                    if k < last
                    else functional.cross_entropy(nets[k](xs[k]), labels) / len(parts)
                )
            torch.autograd.backward(y, gradient)
            gradient = xs[k].grad
        ys[last].item()
