"""What every method would reach with K blocks on a user's own layer times and links: the simulator, no training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from repro.errors import UserError
from repro.methods import Method, parse_method
from repro.methods.dsp import DSP
from repro.planning.block_times import duration, from_layers, message_bytes
from repro.planning.partition import LayerCost, best_cut, spans
from repro.schedule import Links, simulate

# DNI is left out: its predictor's time is in no layer's. FR and DDG without the authors' waits, which change no number.
METHODS: tuple[dict[str, Any], ...] = (
    {"name": "bp"},
    {"name": "gpipe", "micro": 4},
    {"name": "gpipe", "micro": 4, "rematerialise": False},
    {"name": "fr", "locking": "free"},
    {"name": "ddg", "locking": "free"},
    {"name": "2bw", "micro": 4},
    {"name": "fdg"},
    {"name": "dsp", "staleness": "p=1 q=1"},
    {"name": "dsp", "staleness": "p=5 q=2"},  # longer queues hide slower links
)


@dataclass(frozen=True)
class Network:
    """What is cut: the layers' costs for one batch, and the shapes between them (without the batch)."""

    model: str
    batch_size: int
    costs: tuple[LayerCost, ...]
    shapes: tuple[tuple[int, ...], ...]


def predict(
    network: Network, blocks: Sequence[int], *, latency: float = 0.0, bandwidth: float = float("inf")
) -> list[dict[str, Any]]:
    """A row per K and method: seconds per batch, speed-up over one device, and the same with free messages.

    `latency` in seconds, `bandwidth` in bytes per second. Transfers run beside compute as in the engine. The cut
    is each method's own best one. UserError where K is more than the layers.
    """
    found = []
    for count in blocks:
        if not 1 <= count <= len(network.costs):
            raise UserError(
                f"--blocks {count} is not possible with the {len(network.costs)} layers of {network.model}: "
                f"give 1..{len(network.costs)}"
            )
        for settings in METHODS:
            method = parse_method(settings)
            try:
                method.check(count, network.batch_size)
            except ValueError:
                continue  # more micro-batches than samples, or fewer than blocks
            found.append(_row(network, method, count, latency, bandwidth))
    return found


def _row(network: Network, method: Method, count: int, latency: float, bandwidth: float) -> dict[str, Any]:
    fill = max(method.schedule(count, 1, {}).staleness)
    schedule = method.schedule(count, 4 * fill + 60, {})
    cut = best_cut(network.costs, schedule.recompute)
    parts = spans(cut, len(network.costs))
    micro = max(1, method.micro_batches(network.batch_size))
    sizes = message_bytes(network.shapes, parts, network.batch_size, micro)
    work = duration(from_layers(parts, network.costs), micro)
    period = simulate(schedule, work, Links(sizes, latency, bandwidth)).period()
    without = simulate(schedule, work).period()
    alone = sum(c.forward + c.backward for c in network.costs)
    return {
        "blocks": count,
        "method": _short(method, count),
        "settings": method.label(count),
        "seconds_per_batch": period,
        "speedup": alone / period,
        "efficiency": alone / period / count,
        "speedup_with_free_messages": alone / without,
        "largest_message_bytes": round(max(sizes, default=0.0)),
        "cut": list(cut),
    }


def _short(method: Method, blocks: int) -> str:
    """The same name for every K: DSP's queues are written "p=1 q=1"."""
    return f"DSP({method.staleness})" if isinstance(method, DSP) else method.label(blocks)
