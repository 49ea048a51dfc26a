"""`repro bench methods`: seconds per batch of all methods of the DSP paper's tables, in turn, round after round.

`real`    K = 2, a core a block: real training at the size of the profile `reference`;
`timed`   K = 3 and 4: real processes, messages and queues whose blocks wait as long as their layers, measured just
          before, take (docs/performance.md, Timing only); nothing is trained.
Ratios are formed within a round, and a row holds every round, so that claims and tables can take t intervals over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from repro.benchmarks.engine import START_SECONDS, EngineBench, expected_seconds
from repro.benchmarks.listed import block_counts, words
from repro.benchmarks.rounds import ratio_in_turn, with_interval
from repro.benchmarks.turns import Turn, Turns
from repro.engine.processes.launch import Launch
from repro.planning.block_times import from_layers
from repro.planning.partition import best_cut
from repro.planning.run_plan import Plan, bound

METHODS: dict[str, dict[str, Any]] = {
    "bp": {"name": "bp"},
    "gpipe": {"name": "gpipe", "micro": 4},
    "fr-mailbox": {"name": "fr", "locking": "mailbox"},
    "fr-barrier": {"name": "fr", "locking": "barrier"},
    "fr-free": {"name": "fr", "locking": "free"},
    "ddg-mailbox": {"name": "ddg", "locking": "mailbox"},
    "fdg": {"name": "fdg"},
    "dsp": {"name": "dsp", "staleness": "p=1 q=1"},
    "dsp-2-1": {"name": "dsp", "staleness": "p=2 q=1"},
    "dsp-5-2": {"name": "dsp", "staleness": "p=5 q=2"},
    "dsp-5-2-shared": {"name": "dsp", "staleness": "p=5 q=2", "queues": "shared"},
}
IN_TABLES = tuple(
    name for name in METHODS if not name.endswith("-shared")
)  # ours is for `repro bench delays`
PARTS = ("real", "timed")
SKIPPED = 5  # batches behind the longest queue, as in the engine's own seconds per batch


@dataclass
class MethodsBench:
    """Settings of the benchmark, each to be given as `--set name=value`."""

    model: str = "resnet98"
    image_size: int = 12
    batch_size: int = 32
    blocks: str | int = "3,4"  # of the part `timed`
    methods: str = ",".join(IN_TABLES)
    parts: str = ",".join(PARTS)
    steps: int = 20  # measured batches of a run
    memory_format: str = "contiguous"
    rounds: int | None = None
    minutes: float = 4.0
    turns: Turns = field(default_factory=lambda: Turns("methods"))

    def rows(self) -> list[dict[str, Any]]:
        """Measure; a row per part, K and method."""
        names = list(dict.fromkeys(["bp", *words(self.methods, METHODS, "methods")]))
        parts = words(self.parts, PARTS, "parts")
        counts = block_counts(self.blocks) if "timed" in parts else []
        bench = engine_bench(self)
        kinds = [("real", 2)] * ("real" in parts) + [("timed", k) for k in counts]
        plans = {
            (part, blocks, name): _long(planned(bench, name, blocks), self.steps)
            for part, blocks in kinds
            for name in names
        }
        systems = {
            f"{part}, K = {blocks}, {name}": Turn(
                partial(_real if part == "real" else _timed, plan), _seconds(part, plan)
            )
            for (part, blocks, name), plan in plans.items()
        }
        self.turns.rounds, self.turns.minutes = self.rounds, self.minutes
        measured = self.turns.measure(systems)
        found = {key: measured.get(said, []) for key, said in zip(plans, systems, strict=True)}
        return [
            self._row(key, plans[key], own, found[key[0], key[1], "bp"]) for key, own in found.items() if own
        ]

    def _row(
        self, key: tuple[str, int, str], plan: Plan, own: Sequence[float], bp: Sequence[float]
    ) -> dict[str, Any]:
        part, _blocks, name = key
        assert plan.costs is not None
        alone = sum(c.forward + c.backward for c in plan.costs)
        return {
            "part": part,
            **where(self, name, plan),
            "timing_only": part == "timed",
            "oversubscribed": part == "real" and plan.oversubscribed,
            "num_batches": plan.num_batches,
            **with_interval("seconds_per_batch", own),
            **ratio_in_turn("speedup_over_bp", bp, own),
            "bound": alone / bound(plan, plan.costs),
            "seconds_rounds": list(own),
        }


def engine_bench(bench: Any) -> EngineBench:
    """What makes the plans of a benchmark with these settings, and measures its layers once."""
    return EngineBench(
        model=bench.model,
        image_size=bench.image_size,
        batch_size=bench.batch_size,
        steps=bench.steps + SKIPPED,
        memory_format=bench.memory_format,
    )


def planned(bench: EngineBench, name: str, blocks: int) -> Plan:
    """The plan of a method of METHODS, cut by its measured layers for its own kind of work."""
    plan = bench.plan(name, blocks, METHODS[name])
    assert plan.costs is not None
    return replace(plan, cut=best_cut(plan.costs, plan.schedule().recompute))


def where(bench: Any, name: str, plan: Plan) -> dict[str, Any]:
    """What a row is of."""
    staleness = plan.schedule().staleness
    return {
        "system": name,
        "method": plan.recipe.method.label(plan.blocks),
        "blocks": plan.blocks,
        "model": bench.model,
        "image_size": bench.image_size,
        "batch_size": bench.batch_size,
        "memory_format": bench.memory_format,
        "staleness": list(staleness),
        "slack": staleness[0] - staleness[1],
    }


def _long(plan: Plan, measured: int) -> Plan:
    return replace(plan, num_batches=measured + SKIPPED + max(plan.schedule().staleness))


def _real(plan: Plan) -> float:
    return float(Launch(plan, seed=0).run()[-1]["seconds_per_batch"])


def _timed(plan: Plan) -> float:
    assert plan.costs is not None
    times = from_layers(plan.layer_spans, plan.costs)
    return float(Launch(plan, seed=0, block_times=times).run()[-1]["seconds_per_batch"])


def _seconds(part: str, plan: Plan) -> float:
    """How long one run is expected to take."""
    if part == "real":
        return expected_seconds(plan)
    assert plan.costs is not None
    return START_SECONDS + plan.num_batches * bound(plan, plan.costs)
