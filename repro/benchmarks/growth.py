"""`repro bench growth`: seconds per batch and memory against K, depth and batch size, and the powers they grow with.

K beyond the cores is no measurement of speed with real compute: `repro bench pipeline` goes on from there to 16.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

from repro.benchmarks.engine import EngineBench, expected_seconds
from repro.benchmarks.rounds import with_interval
from repro.benchmarks.turns import Turn, Turns
from repro.engine.processes.launch import Launch
from repro.errors import UserError
from repro.planning.run_plan import Plan


@dataclass
class GrowthBench:
    """Settings of the benchmark, each to be given as `--set name=value`."""

    blocks: str | int = "1,2,3,4"
    depths: str | int = "20,56,98,164"  # resnet<n>
    batch_sizes: str | int = "8,16,32,64"
    depth: int = 56  # where depth is not what varies
    batch_size: int = 16
    image_size: int = 16
    steps: int = 16
    methods: str = "bp,dsp"
    rounds: int | None = None
    minutes: float = 4.0
    turns: Turns = field(default_factory=lambda: Turns("growth"))
    _costs: tempfile.TemporaryDirectory[str] = field(default_factory=tempfile.TemporaryDirectory)

    def rows(self) -> list[dict[str, Any]]:
        """A row per method and point, and one per method and axis with the fitted powers."""
        self.turns.rounds, self.turns.minutes = self.rounds, self.minutes
        axes = {
            "blocks": _numbers(self.blocks, "blocks"),
            "depth": _numbers(self.depths, "depths"),
            "batch_size": _numbers(self.batch_sizes, "batch_sizes"),
        }
        points: dict[str, tuple[str, str, int, Plan]] = {}
        for method in self.methods.split(","):
            for axis, values in axes.items():
                for value in values:
                    points[f"{method} {axis} {value}"] = method, axis, value, self._plan(method, axis, value)
        systems = {
            name: Turn(partial(_measure, plan), expected_seconds(plan)) for name, (*_, plan) in points.items()
        }
        found = self.turns.measure(systems)
        rows = [self._row(*points[name], runs) for name, runs in found.items()]
        return rows + _fits(rows)

    def _plan(self, method: str, axis: str, value: int) -> Plan:
        depth = value if axis == "depth" else self.depth
        bench = EngineBench(
            model=f"resnet{depth}",
            image_size=self.image_size,
            batch_size=value if axis == "batch_size" else self.batch_size,
            steps=self.steps,
            _costs=self._costs,
        )
        plan = bench.plan(method, value if axis == "blocks" else 2)
        return replace(plan, num_batches=max(self.steps, 8 + max(plan.schedule().staleness)))

    def _row(
        self, method: str, axis: str, value: int, plan: Plan, runs: Sequence[tuple[float, int, int]]
    ) -> dict[str, Any]:
        return {
            "part": axis,
            "value": value,
            "method": method.upper(),
            "model": plan.recipe.model.name,
            "blocks": plan.blocks,
            "batch_size": plan.recipe.data.batch_size,
            "oversubscribed": plan.oversubscribed,
            **with_interval("seconds_per_batch", [seconds for seconds, _, _ in runs]),
            "largest_block_bytes": round(median(largest for _, largest, _ in runs)),
            "all_blocks_bytes": round(median(total for _, _, total in runs)),
        }


def _measure(plan: Plan) -> tuple[float, int, int]:
    """Seconds per batch, counted peak bytes of the largest block, and of all."""
    summaries = Launch(plan, seed=0).run()
    peaks = [int(s["peak_memory_bytes"]) for s in summaries]
    return float(summaries[-1]["seconds_per_batch"]), max(peaks), sum(peaks)


def _fits(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Least squares of log(number) over log(value): number ~ value ** power; points with shared cores left out."""
    found = []
    for method, axis in dict.fromkeys((row["method"], row["part"]) for row in rows):
        points = [r for r in rows if (r["method"], r["part"]) == (method, axis)]
        fit: dict[str, Any] = {"part": "power", "axis": axis, "method": method}
        for name in ("seconds_per_batch", "largest_block_bytes", "all_blocks_bytes"):
            kept = [r for r in points if not (name == "seconds_per_batch" and r["oversubscribed"])]
            pairs = [(math.log(r["value"]), math.log(r[name])) for r in kept]
            fit[f"{name}_power"] = power(pairs)
            fit[f"{name}_points"] = len(pairs)
        found.append(fit)
    return found


def power(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Slope of the least-squares line through (x, y); None with fewer than two different x."""
    if len({x for x, _ in pairs}) < 2:
        return None
    x0, y0 = (sum(p[i] for p in pairs) / len(pairs) for i in (0, 1))
    return sum((x - x0) * (y - y0) for x, y in pairs) / sum((x - x0) ** 2 for x, _ in pairs)


def _numbers(text: str | int, name: str) -> list[int]:
    words = [w.strip() for w in str(text).split(",")]
    if not all(w.isdigit() and int(w) >= 1 for w in words):
        raise UserError(f"{name} = '{text}': give whole numbers >= 1 separated by commas, for example 1,2,4")
    return sorted({int(w) for w in words})
