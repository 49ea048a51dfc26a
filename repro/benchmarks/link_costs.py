"""What a message of the engine costs on this machine: two blocks that compute nothing hand tensors back and forth."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median

import torch

from repro.engine.processes.launch import Launch
from repro.planning.block_times import BlockTimes, message_sizes
from repro.planning.run_plan import Plan
from repro.schedule import Links

SMALL = 1024  # bytes: the fixed cost of a message
_IDLE = BlockTimes(0.0, 0.0, 0.0)


def measured_links(bp: Plan, message_bytes: float) -> tuple[float, float, float]:
    """Latency (s), bandwidth and copy bandwidth (bytes/s) of messages of about `message_bytes`; `bp`: BP, two blocks.

    BP's period without compute is two messages, each a copy, a fixed cost and a transfer, one after the other.
    """
    copy = _copy_bandwidth(int(message_bytes))
    fixed = _half_period(bp, SMALL)
    whole = _half_period(bp, int(message_bytes))
    transfer = max(1e-9, whole - fixed - message_bytes / copy)
    return fixed, message_bytes / transfer, copy


def with_links(plan: Plan, found: tuple[float, float, float], stretch: float = 1.0) -> Links:
    """The plan's messages over links as measured; `stretch`: seconds on the wall for a second of the plan's time."""
    latency, bandwidth, copy = found
    return Links(message_sizes(plan), latency / stretch, bandwidth * stretch, copy * stretch)


def _half_period(bp: Plan, size: int) -> float:
    channels = max(1, size // (4 * bp.recipe.data.batch_size))
    shapes = tuple((channels, 1, 1) for _ in bp.shapes)
    summaries = Launch(replace(bp, shapes=shapes), seed=0, block_times=(_IDLE, _IDLE)).run()
    return float(summaries[-1]["seconds_per_batch"]) / 2


def _copy_bandwidth(size: int) -> float:
    source, times = torch.zeros(max(1, size // 4)), []
    for _ in range(9):
        begin = time.perf_counter()
        torch.empty_like(source).copy_(source)  # a message has a new buffer each time
        times.append(time.perf_counter() - begin)
    return max(1.0, size / median(times))
