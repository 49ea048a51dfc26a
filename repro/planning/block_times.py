"""How long a block's actions take: from measured layers, or from what a real run recorded; and what they predict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from repro.planning.partition import LayerCost, graph_bytes
from repro.planning.run_plan import Plan
from repro.schedule import Action, Kind

_WARM_UP = 5  # recorded batches left out


@dataclass(frozen=True)
class BlockTimes:
    """Seconds of a block's actions for one whole batch, and the bytes that the graph of its forward keeps."""

    forward: float
    recompute: float
    backward: float
    update: float = 0.0
    graph_bytes: int = 0

    def scaled(self, factor: float) -> BlockTimes:
        """The same work on a machine that takes `factor` times as long."""
        return BlockTimes(
            factor * self.forward,
            factor * self.recompute,
            factor * self.backward,
            factor * self.update,
            self.graph_bytes,
        )

    def busy(self, recompute: bool) -> float:
        """Seconds of all actions of a batch; `recompute`: whether its forward is replayed."""
        return self.forward + (self.recompute if recompute else 0.0) + self.backward + self.update

    def of(self, kind: Kind) -> float:
        """Seconds of an action on a whole batch."""
        found = {
            Kind.FORWARD: self.forward,
            Kind.RECOMPUTE: self.recompute,
            Kind.BACKWARD: self.backward,
            Kind.UPDATE: self.update,
        }
        return found.get(kind, 0.0)


def from_layers(spans: Sequence[tuple[int, int]], costs: Sequence[LayerCost]) -> tuple[BlockTimes, ...]:
    """Sums over each block's range of layers; a replay takes as long as a forward, an update nothing."""
    found = []
    for low, high in spans:
        forward = sum(c.forward for c in costs[low:high])
        backward = sum(c.backward for c in costs[low:high])
        found.append(BlockTimes(forward, forward, backward, graph_bytes=graph_bytes(costs[low:high])))
    return tuple(found)


def from_run(summaries: Sequence[Mapping[str, Any]], micro_batches: int = 1) -> tuple[BlockTimes, ...]:
    """Medians over the batches that the blocks of a run recorded action by action, warm-up left out."""
    found = []
    for summary in summaries:
        totals: dict[str, dict[int, float]] = {}
        for name, begin, end, waiting in summary["spans"]:
            action = Action.parse(name)
            if not waiting:
                batches = totals.setdefault(action.kind.value, {})
                batches[action.batch] = batches.get(action.batch, 0.0) + end - begin
        times = {
            kind: median([t for b, t in batches.items() if b >= _WARM_UP] or list(batches.values()))
            for kind, batches in totals.items()
        }
        forward = times.get("F", 0.0)
        found.append(
            BlockTimes(
                forward,
                times.get("R", forward),
                times.get("B", 0.0),
                times.get("U", 0.0),
                int(summary["graph_bytes"]) * micro_batches,
            )
        )
    return tuple(found)


def duration(times: Sequence[BlockTimes], micro_batches: int = 1) -> Callable[[int, Action], float]:
    """What the simulator asks for: seconds of an action of a block, on one micro-batch where it has several."""

    def seconds(block: int, action: Action) -> float:
        parts = 1 if action.kind is Kind.UPDATE else micro_batches
        return times[block].of(action.kind) / parts

    return seconds


def message_bytes(
    shapes: Sequence[Sequence[int]],
    spans: Sequence[tuple[int, int]],
    batch_size: int,
    micro_batches: int = 1,
    number_bytes: Callable[[int], int] = lambda boundary: 4,
) -> tuple[float, ...]:
    """Bytes of one message over each boundary between blocks: a (micro-)batch of maps.

    `shapes`: input of each layer, then the output, without the batch; `number_bytes`: of a number there.
    """
    return tuple(
        number_bytes(high) * batch_size * math.prod(shapes[high]) / micro_batches for _, high in spans[:-1]
    )


def micro_batches(plan: Plan) -> int:
    """Messages that a batch is cut into."""
    return max(1, plan.recipe.method.micro_batches(plan.recipe.shard_size))


def message_sizes(plan: Plan) -> tuple[float, ...]:
    """`message_bytes` of a plan."""
    size, parts = plan.recipe.shard_size, micro_batches(plan)
    return message_bytes(plan.shapes, plan.layer_spans, size, parts, lambda b: plan.dtype(b).itemsize)
