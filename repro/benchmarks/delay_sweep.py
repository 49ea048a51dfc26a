"""`repro bench delays`: how much random delays slow each method down, over their probability and length.

Real processes, messages and queues; blocks wait as long as their layers, measured just before, take (`stretch`
shortens all waits alike, the delays too). In each round every method runs once without delays and once under each kind
of them; a round has its own seed, by which all methods meet the same delays. Slow-down: 100 (seconds with delays /
seconds without - 1), as in the straggler experiment.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from repro.benchmarks.engine import START_SECONDS
from repro.benchmarks.listed import block_counts, numbers, words
from repro.benchmarks.method_rounds import METHODS, engine_bench, planned, where
from repro.benchmarks.rounds import t_interval, with_interval
from repro.benchmarks.turns import Turn, Turns
from repro.engine.processes.launch import Launch
from repro.errors import UserError
from repro.planning.block_times import from_layers
from repro.planning.run_plan import Plan, bound
from repro.recipe import StragglerSpec
from repro.report import stats

DELAYED = ("bp", "fr-mailbox", "dsp", "dsp-2-1", "dsp-5-2", "dsp-5-2-shared")
BATCH_SECONDS = 0.025  # many batches in little time; shorter ones would be lost among messages
Kind = tuple[float, float]  # probability, length in typical batches of the block


@dataclass
class DelaysBench:
    """Settings of the benchmark, each to be given as `--set name=value`."""

    model: str = "resnet98"
    image_size: int = 12
    batch_size: int = 32
    blocks: str | int = "2,4"
    methods: str = ",".join(DELAYED)
    probabilities: str | float = "0.1"
    delays: str | float = "1,3"
    steps: int = 150  # batches of a run
    stretch: float | None = (
        None  # of all waits; None: so that BP's batch takes BATCH_SECONDS, never more than it does
    )
    memory_format: str = "contiguous"
    rounds: int | None = None
    minutes: float = 4.0
    turns: Turns = field(default_factory=lambda: Turns("delays"))

    def rows(self) -> list[dict[str, Any]]:
        """Measure; a row per K, method and kind of delay."""
        names, counts = words(self.methods, METHODS, "methods"), block_counts(self.blocks)
        kinds = [
            (p, d)
            for p in numbers(self.probabilities, "probabilities", 1.0)
            for d in numbers(self.delays, "delays", 1000.0)
        ]
        if self.stretch is not None and not 0.0 < float(self.stretch) <= 100.0:
            raise UserError(f"stretch = {self.stretch}: give a factor above 0")
        bench = engine_bench(self)
        plans = {(k, n): replace(planned(bench, n, k), num_batches=self.steps) for k in counts for n in names}
        self._stretch = self.stretch or self._short(next(iter(plans.values())))
        systems = {
            f"K = {k}, {n}": Turn(_Delayed(plan, self._stretch, kinds).run, self._seconds(plan, kinds))
            for (k, n), plan in plans.items()
        }
        self.turns.rounds, self.turns.minutes = self.rounds, self.minutes
        found = self.turns.measure(systems)
        return [
            self._row(name, plan, kind, [r[kind] for r in found[said]])
            for ((_, name), plan), said in zip(plans.items(), systems, strict=True)
            if said in found
            for kind in kinds
        ]

    def _short(self, plan: Plan) -> float:
        assert plan.costs is not None
        return float(f"{min(1.0, BATCH_SECONDS / sum(c.forward + c.backward for c in plan.costs)):.2g}")

    def _seconds(self, plan: Plan, kinds: list[Kind]) -> float:
        assert plan.costs is not None
        once = START_SECONDS + self._stretch * plan.num_batches * bound(plan, plan.costs)
        return (1 + len(kinds)) * once

    def _row(self, name: str, plan: Plan, kind: Kind, pairs: list[tuple[float, float]]) -> dict[str, Any]:
        calm, late = ({i: pair[side] for i, pair in enumerate(pairs)} for side in (0, 1))
        found = stats.ratio(late, calm, paired=True)
        percent = [100.0 * (late[i] / calm[i] - 1.0) for i in calm]
        return {
            **where(self, name, plan),
            "probability": kind[0],
            "delay": kind[1],
            "stretch": self._stretch,
            "num_batches": plan.num_batches,
            "timing_only": True,
            **with_interval("clean_seconds", list(calm.values())),
            **t_interval("slowdown_percent", None if found is None else found.scaled(100.0, -100.0)),
            "slowdown_rounds": percent,
        }


class _Delayed:
    """A method at one K: a run without delays, then one under each kind of them; each call has the next seed."""

    def __init__(self, plan: Plan, stretch: float, kinds: list[Kind]) -> None:
        assert plan.costs is not None
        self.plan, self.kinds, self.seed = plan, kinds, 0
        self.times = tuple(t.scaled(stretch) for t in from_layers(plan.layer_spans, plan.costs))
        pairs = zip(self.times, plan.schedule().recompute, strict=True)
        self.typical = tuple(t.busy(replays) for t, replays in pairs)

    def run(self) -> dict[Kind, tuple[float, float]]:
        """{kind: (seconds without delays, seconds with)}."""
        calm = self._seconds(self.plan)
        found = {}
        for probability, delay in self.kinds:
            spec = StragglerSpec(probability=probability, delay=delay)
            recipe = self.plan.recipe.model_copy(update={"straggler": spec})
            found[probability, delay] = calm, self._seconds(replace(self.plan, recipe=recipe))
        self.seed += 1
        return found

    def _seconds(self, plan: Plan) -> float:
        summaries = Launch(plan, seed=self.seed, block_times=self.times, typical_seconds=self.typical).run()
        return float(max(s["end"] for s in summaries) - max(s["start"] for s in summaries))
