"""`repro bench pipeline`: real processes, channels, schedules and queues; blocks wait instead of computing.

So K may be larger than the cores: a wait takes no core, only messages (of true size) do. Three parts:
`check`   K = 2: real training, then waits of the durations that it recorded, then the simulator on the same;
`scaling` every method at every K, on measured (or given) layer times, beside the simulator;
`delays`  the slow-down under the random delays of the straggler experiment, beside the simulator.
Where the copies of many blocks' messages would fill the few cores, all waits are stretched by one factor a K
(column `stretch`), and times are given without it; messages then weigh less by that factor than they would.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from repro.benchmarks.engine import EngineBench
from repro.benchmarks.link_costs import measured_links, with_links
from repro.benchmarks.listed import block_counts, words
from repro.benchmarks.rounds import with_interval
from repro.benchmarks.turns import Turn, Turns
from repro.cores import cores
from repro.engine.processes.launch import Launch
from repro.planning.block_times import (
    BlockTimes,
    duration,
    from_layers,
    from_run,
    message_sizes,
    micro_batches,
)
from repro.planning.layer_times import read_layer_times
from repro.planning.partition import LayerCost, best_cut
from repro.planning.run_plan import Plan
from repro.recipe import StragglerSpec
from repro.schedule import Action, Kind, Links, Schedule, Timeline, simulate
from repro.seeding import derive

METHODS = ("bp", "gpipe", "fr-free", "ddg-free", "fdg", "dsp")
CHECKED = ("bp", "gpipe", "ddg-free", "dsp")
DELAYED = ("fr-mailbox", "dsp", "dsp-5-2")
START_SECONDS = 1.5  # of a set of processes
SKIPPED = 5  # batches behind the longest queue, as in the engine's own seconds per batch
MOST_LOAD = 0.1  # of the cores' time for messages, by stretching the waits

Finder = tuple[float, float, float]


@dataclass
class PipelineBench:
    """Settings of the benchmark, each to be given as `--set name=value`."""

    model: str = "resnet98"
    image_size: int = 32
    batch_size: int = 16
    blocks: str | int = "2,4,8,16"
    methods: str = ",".join(METHODS)
    steps: int = 12  # measured batches
    parts: str = "check,scaling,delays"
    probability: float = 0.1
    delay: float = 3.0
    delayed_blocks: int = 4
    delayed_steps: int = 40
    layer_times: str | None = None  # a file as of `repro plan --json`; None = measured now
    stretch: float | None = None  # of all waits; None = chosen for each K
    rounds: int | None = None
    minutes: float = 4.0
    turns: Turns = field(default_factory=lambda: Turns("pipeline"))

    def rows(self) -> list[dict[str, Any]]:
        """Measure; the rows of all parts."""
        self.turns.rounds, self.turns.minutes = self.rounds, self.minutes
        self._bench = EngineBench(
            model=self.model,
            image_size=self.image_size,
            batch_size=self.batch_size,
            steps=self.steps + SKIPPED,
        )
        self._base = self._plan("bp", 2)
        counts = block_counts(self.blocks)
        for blocks in counts:  # wrong input is refused before anything is measured
            self._costs(self._plan("bp", blocks))
        self._links: Finder = measured_links(self._base, max(message_sizes(self._base)))
        rows_of = {"check": self._check, "scaling": self._scaling, "delays": self._delays}
        systems: dict[str, Turn] = {}
        finish = {}
        for part in words(self.parts, rows_of, "parts"):
            turns, row = rows_of[part]()
            systems.update(turns)
            finish.update(dict.fromkeys(turns, row))
        found = self.turns.measure(systems)
        return [finish[name](name, values) for name, values in found.items()]

    # -- K = 2: real training beside its own waits ------------------------------------------------------------

    def _check(self) -> Any:
        plans = {f"check {name}": self._plan(name, 2) for name in CHECKED}
        turns = {}
        for name, plan in plans.items():
            plan = plans[name] = self._long(plan, self.steps)
            turns[name] = Turn(partial(self._real_and_timed, plan), 2 * self._expected(plan, 1.0))

        def row(name: str, values: list[tuple[float, float, float]]) -> dict[str, Any]:
            real, timed, simulated = zip(*values, strict=True)
            return {
                "part": "check",
                **self._where(plans[name], 1.0),
                **with_interval("real_seconds_per_batch", real),
                **with_interval("seconds_per_batch", timed),
                **with_interval("simulated_seconds", simulated),
                **with_interval("timed_over_real", [t / r for r, t, _ in values]),
                **with_interval("simulated_over_timed", [s / t for _, t, s in values]),
            }

        return turns, row

    def _real_and_timed(self, plan: Plan) -> tuple[float, float, float]:
        summaries = Launch(plan, seed=0).run()
        times = from_run(summaries, micro_batches(plan))
        timed = Launch(plan, seed=0, block_times=times).run()
        simulated = self._simulated(plan, times, with_links(plan, self._links))
        return (*(float(s[-1]["seconds_per_batch"]) for s in (summaries, timed)), simulated)  # type: ignore[return-value]

    # -- every method at every K -------------------------------------------------------------------------------

    def _scaling(self) -> Any:
        methods = list(dict.fromkeys(["bp", *words(self.methods, METHODS, "methods")]))
        plans: dict[str, tuple[Plan, float]] = {}
        for blocks in block_counts(self.blocks):
            made = {name: self._plan(name, blocks) for name in methods}
            stretch = self._stretch(blocks, made.values())
            for name, plan in made.items():
                measured = (
                    4 if name == "bp" else self.steps
                )  # BP has no fill, and every batch is like the other
                plans[f"K = {blocks} {name}"] = self._long(plan, measured, fill=name != "bp"), stretch
        turns = {
            name: Turn(partial(self._timed, plan, stretch), self._expected(plan, stretch))
            for name, (plan, stretch) in plans.items()
        }

        def row(name: str, values: list[float]) -> dict[str, Any]:
            plan, stretch = plans[name]
            times = from_layers(plan.layer_spans, self._costs(plan))
            priced = self._simulated(plan, times, with_links(plan, self._links, stretch))
            alone = sum(c.forward + c.backward for c in self._costs(plan))
            return {
                "part": "scaling",
                **self._where(plan, stretch),
                **with_interval("seconds_per_batch", values),
                "simulated_seconds": priced,
                **with_interval("simulated_over_timed", [priced / v for v in values]),
                **with_interval("speedup", [alone / v for v in values]),
                "bound": alone / self._simulated(plan, times, None),
                "bp_seconds_per_batch": alone,
            }

        return turns, row

    def _timed(self, plan: Plan, stretch: float) -> float:
        times = tuple(t.scaled(stretch) for t in from_layers(plan.layer_spans, self._costs(plan)))
        return float(Launch(plan, seed=0, block_times=times).run()[-1]["seconds_per_batch"]) / stretch

    # -- random delays -----------------------------------------------------------------------------------------

    def _delays(self) -> Any:
        plans: dict[str, tuple[Plan, float]] = {}
        for name in DELAYED:
            plan = self._plan(name, self.delayed_blocks)
            stretch = self._stretch(self.delayed_blocks, [plan])
            plans[f"delays {name}"] = replace(plan, num_batches=self.delayed_steps), stretch
        turns = {
            name: Turn(partial(self._delayed, plan, s), 2.4 * self._expected(plan, s))
            for name, (plan, s) in plans.items()
        }

        def row(name: str, values: list[tuple[float, float]]) -> dict[str, Any]:
            plan, stretch = plans[name]
            return {
                "part": "delays",
                **self._where(plan, stretch),
                "probability": self.probability,
                "delay": self.delay,
                "num_batches": plan.num_batches,
                **with_interval("slowdown_percent", [v for v, _ in values]),
                **with_interval("simulated_percent", [s for _, s in values]),
            }

        return turns, row

    def _delayed(self, plan: Plan, stretch: float) -> tuple[float, float]:
        """Slow-down in percent, timed and simulated, under the same draws."""
        times = tuple(t.scaled(stretch) for t in from_layers(plan.layer_spans, self._costs(plan)))
        spec = StragglerSpec(probability=self.probability, delay=self.delay)
        late = replace(plan, recipe=plan.recipe.model_copy(update={"straggler": spec}))
        typical = tuple(t.busy(r) for t, r in zip(times, plan.schedule().recompute, strict=True))
        seconds = []
        for run in (plan, late):
            summaries = Launch(run, seed=0, block_times=times, typical_seconds=typical).run()
            seconds.append(max(s["end"] for s in summaries) - max(s["start"] for s in summaries))
        priced = with_links(plan, self._links)
        schedule = plan.schedule()
        calm = simulate(schedule, duration(times, micro_batches(plan)), priced).end
        jittered = simulate(schedule, self._with_delays(times, typical, micro_batches(plan)), priced).end
        return 100 * (seconds[1] / seconds[0] - 1), 100 * (jittered / calm - 1)

    def _with_delays(self, times: tuple[BlockTimes, ...], typical: tuple[float, ...], micro: int) -> Any:
        seconds = duration(times, micro)

        def delayed(block: int, action: Action) -> float:
            """As engine/processes/delays.py: a sleep before a batch's first forward, or none."""
            first = action.kind is Kind.FORWARD and action.micro == 0
            chosen = first and derive(0, "straggler", block, action.batch) < self.probability * 2**63
            return seconds(block, action) + (self.delay * typical[block] if chosen else 0.0)

        return delayed

    # -- parts ---------------------------------------------------------------------------------------------------

    def _plan(self, name: str, blocks: int) -> Plan:
        settings = {"name": "dsp", "staleness": "p=5 q=2"} if name == "dsp-5-2" else None
        plan = self._bench.plan(name, blocks, settings)
        return replace(plan, cut=best_cut(self._costs(plan), plan.schedule().recompute))

    def _costs(self, plan: Plan) -> tuple[LayerCost, ...]:
        if self.layer_times is not None:
            return read_layer_times(Path(self.layer_times), plan.names)
        assert plan.costs is not None
        return plan.costs

    def _long(self, plan: Plan, measured: int, fill: bool = True) -> Plan:
        """The plan with as many batches as fill its queues, and `measured` behind them."""
        return replace(plan, num_batches=measured + (SKIPPED + max(plan.schedule().staleness) if fill else 0))

    def _stretch(self, blocks: int, plans: Any) -> float:
        if self.stretch is not None:
            return self.stretch
        if blocks <= cores():
            return 1.0
        plan = next(iter(plans))
        latency, bandwidth, copy = self._links
        work = sum(
            2 * (latency + size * (1 / copy + 2 / bandwidth)) for size in message_sizes(plan)
        ) * micro_batches(plan)
        period = sum(c.forward + c.backward for c in self._costs(plan)) / blocks
        return max(1.0, work / (MOST_LOAD * cores() * period))

    def _expected(self, plan: Plan, stretch: float) -> float:
        times = from_layers(plan.layer_spans, self._costs(plan))
        return START_SECONDS + stretch * self._timeline(plan, times, None).end

    def _simulated(self, plan: Plan, times: tuple[BlockTimes, ...], priced: Links | None) -> float:
        """Seconds per batch read off the timeline as the engine reads them off a run."""
        timeline = self._timeline(plan, times, priced)
        return seconds_per_batch(timeline, plan.schedule())

    def _timeline(self, plan: Plan, times: tuple[BlockTimes, ...], priced: Links | None) -> Timeline:
        return simulate(plan.schedule(), duration(times, micro_batches(plan)), priced)

    def _where(self, plan: Plan, stretch: float) -> dict[str, Any]:
        return {
            "method": plan.recipe.method.label(plan.blocks),
            "blocks": plan.blocks,
            "model": self.model,
            "batch_size": self.batch_size,
            "stretch": stretch,
            "message_bytes": round(max(message_sizes(plan))),
            "timing_only": True,
        }


def seconds_per_batch(timeline: Timeline, schedule: Schedule) -> float:
    """Median interval between the last block's finished batches, behind the fill: engine/processes/summary.py."""
    ends: dict[int, float] = {}
    for span in timeline.of(timeline.num_blocks - 1):
        if span.action.kind is Kind.BACKWARD:
            ends[span.action.batch] = span.end
    times = list(ends.values())
    intervals = [b - a for a, b in pairwise(times)]
    skip = max(schedule.staleness) + SKIPPED
    return median(intervals[skip:] or intervals)
