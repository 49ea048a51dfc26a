"""What every method would reach with K blocks of R replicas on a user's layer times and links: simulated, not trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from repro.errors import UserError
from repro.methods import Method, parse_method
from repro.methods.dsp import DSP
from repro.planning.block_times import BlockTimes, duration, from_layers, message_bytes
from repro.planning.hosts_and_links import Machines
from repro.planning.partition import LayerCost, best_cut, spans
from repro.schedule import simulate

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
ONE_DEVICE_EACH = Machines()  # with free messages


@dataclass(frozen=True)
class Network:
    """What is cut: the layers' costs for one batch, and the shapes between them (without the batch).

    `weights`: bytes of each layer's weights, which replicas add up; () where there is one replica.
    """

    model: str
    batch_size: int
    costs: tuple[LayerCost, ...]
    shapes: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...] = ()


def predict(
    network: Network,
    blocks: Sequence[int],
    replicas: Sequence[int] = (1,),
    machines: Machines = ONE_DEVICE_EACH,
) -> list[dict[str, Any]]:
    """A row per R, K and method: seconds per batch, speed-up over one device, and the same with free messages.

    Transfers run beside compute as in the engine; the sum over replicas does not. The cut is each method's own best
    one. A replica takes 1/R of the batch in 1/R of the time. UserError where K is more than the layers, or R does not
    divide the batch.
    """
    check_numbers(network.batch_size, blocks, replicas, machines)
    found = []
    for copies in replicas:
        for count in blocks:
            if not 1 <= count <= len(network.costs):
                raise UserError(
                    f"--blocks {count} is not possible with the {len(network.costs)} layers of {network.model}: "
                    f"give 1..{len(network.costs)}"
                )
            for settings in METHODS:
                method = parse_method(settings)
                try:
                    method.check(count, network.batch_size // copies)
                except ValueError:
                    continue  # more micro-batches than samples, or fewer than blocks
                found.append(_row(network, method, count, copies, machines))
    return found


def check_numbers(
    batch_size: int, blocks: Sequence[int], replicas: Sequence[int], machines: Machines
) -> None:
    """UserError where R does not divide the batch, or the hosts not the ranks; before any layer is measured."""
    for copies in replicas:
        if copies < 1 or batch_size % copies:
            raise UserError(
                f"--replicas {copies} does not divide batches of {batch_size} samples: give a divisor, or another "
                "--set data.batch_size"
            )
        for count in blocks:
            machines.placed(count, copies)


def _row(network: Network, method: Method, count: int, copies: int, machines: Machines) -> dict[str, Any]:
    fill = max(method.schedule(count, 1, {}).staleness)
    schedule = method.schedule(count, 4 * fill + 60, {})
    cut = best_cut(network.costs, schedule.recompute)
    parts = spans(cut, len(network.costs))
    shard = network.batch_size // copies
    micro = max(1, method.micro_batches(shard))
    sizes = message_bytes(network.shapes, parts, shard, micro)
    times = tuple(t.scaled(1 / copies) for t in from_layers(parts, network.costs))
    weights = [sum(network.weights[a:b]) for a, b in parts]
    sums = machines.sum_seconds(weights, copies)
    period = simulate(
        schedule, duration(_with_sums(times, sums), micro), machines.links(sizes, copies)
    ).period()
    without = simulate(schedule, duration(times, micro)).period()
    alone = sum(c.forward + c.backward for c in network.costs)
    return {
        "blocks": count,
        "replicas": copies,
        "method": _short(method, count),
        "settings": method.label(count),
        "seconds_per_batch": period,
        "speedup": alone / period,
        "efficiency": alone / period / (count * copies),
        "speedup_with_free_messages": alone / without,
        "largest_message_bytes": round(max(sizes, default=0.0)),
        "sum_seconds": max(sums),
        "cut": list(cut),
    }


def _with_sums(times: Sequence[BlockTimes], sums: Sequence[float]) -> tuple[BlockTimes, ...]:
    """With the sum over the replicas as a part of the update."""
    return tuple(replace(t, update=t.update + s) for t, s in zip(times, sums, strict=True))


def _short(method: Method, blocks: int) -> str:
    """The same name for every K: DSP's queues are written "p=1 q=1"."""
    return f"DSP({method.staleness})" if isinstance(method, DSP) else method.label(blocks)
