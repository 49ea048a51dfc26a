"""Queues for a wanted loss of throughput: the smallest staleness whose pace, simulated under recorded jitter, is enough.

Between blocks k and k+1 there are always s_k = m_k - m_{k+1} = p_k + q_{k+1} messages, outputs and gradients
together: what one side adds the other takes. So with queues of exactly p and q (`split`) each is full all the
time and the two blocks stay within a batch of each other, however large s is; with s places for both (`shared`)
the distance moves between 0 and s, and a longer queue absorbs more. Neither changes a number or the memory of
both blocks together. More staleness, or more room, never slows a pipeline down (its times are sums and maxima),
which is what the search leans on.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from repro.planning.block_times import BlockTimes
from repro.planning.jitter import Jitter, compute
from repro.report.stats import Estimate, mean_interval
from repro.schedule import Action, Kind, Staleness, simulate
from repro.schedule.decoupled import by_staleness

BATCHES = 500  # simulated behind the fill
REPEATS = 5  # resampled runs: seeds 0, 1, ..., the same for all candidates
LONGEST = 32  # largest p + q of a boundary that is tried
Queues = Literal["split", "shared"]
Slack = tuple[int, ...]  # p + q of each boundary


def setting_of(slack: Sequence[int]) -> Staleness:
    """The setting with these slacks; half of each is p, the larger rest q (Eq. 6 holds: q >= 1)."""
    p = [s // 2 for s in slack]
    m = [sum(slack[k:]) for k in range(len(slack) + 1)]
    return Staleness((*p, 0), tuple(m))


@dataclass
class Bootstrap:
    """Simulated runs whose batches are drawn with replacement from the recorded ones, block by block."""

    jitter: Jitter
    repeats: int = REPEATS
    batches: int = BATCHES
    _drawn: dict[tuple[int, int], tuple[random.Random, list[BlockTimes]]] = field(
        default_factory=dict, repr=False
    )
    _known: dict[tuple[Staleness, Queues], Estimate] = field(default_factory=dict, repr=False)

    def pace(self, setting: Staleness, queues: Queues) -> Estimate:
        """Throughput over that of the slowest block without any waiting, with its interval over the repeats."""
        if (setting, queues) not in self._known:
            found = mean_interval(self._run(setting, queues, repeat) for repeat in range(self.repeats))
            assert found is not None
            self._known[setting, queues] = found
        return self._known[setting, queues]

    def bound(self, replays: Sequence[bool]) -> float:
        """Seconds per batch of the slowest block on the average."""
        means = []
        for k in range(self.jitter.blocks):
            seconds = self.jitter.busy(k, replays[k])
            means.append(sum(seconds) / len(seconds))
        return max(means)

    def _run(self, setting: Staleness, queues: Queues, repeat: int) -> float:
        blocks, fill = setting.blocks, setting.m[0] + 1
        count = fill + self.batches + 3 * setting.m[0]
        schedule = by_staleness(setting, count, {}, recompute=True, shared=queues == "shared")
        drawn = [self._draw(repeat, k, count) for k in range(blocks)]

        def seconds(block: int, action: Action) -> float:
            return drawn[block][action.batch].of(action.kind)

        ends = [s.end for s in simulate(schedule, seconds).of(blocks - 1) if s.action.kind is Kind.UPDATE]
        work = max(
            sum(compute(times, schedule.recompute[k]) for times in drawn[k][fill:count])
            for k in range(blocks)
        )  # fmt: skip
        return work / (ends[-1] - ends[fill - 1])

    def _draw(self, repeat: int, block: int, count: int) -> list[BlockTimes]:
        """The first `count` batches of a block in a repeat: the same for all candidates."""
        key = (repeat, block)
        if key not in self._drawn:
            self._drawn[key] = random.Random(f"jitter {repeat} {block}"), []
        generator, drawn = self._drawn[key]
        drawn += generator.choices(self.jitter.samples[block], k=max(0, count - len(drawn)))
        return drawn


@dataclass(frozen=True)
class Proposal:
    """The setting found, and whether its queues must be shared."""

    setting: Staleness
    queues: Queues
    pace: Estimate


def search(bootstrap: Bootstrap, loss: float) -> Proposal | None:
    """The setting of smallest total staleness (sum of m) with a mean pace of at least 1 - `loss`.

    Split queues where they are enough. None where even LONGEST at every boundary is too slow.
    """
    boundaries = bootstrap.jitter.blocks - 1
    wanted = 1.0 - loss

    def enough(slack: Slack) -> bool:
        return bootstrap.pace(setting_of(slack), "shared").mean >= wanted

    shortest: Slack = (1,) * boundaries
    if enough(shortest):
        return _cheapest(bootstrap, setting_of(shortest), wanted)
    if not enough((LONGEST,) * boundaries):
        return None
    least = tuple(_least(b, boundaries, enough) for b in range(boundaries))
    queue, seen = [(_total(least), least)], {least}
    while queue:
        _, slack = heapq.heappop(queue)
        if enough(slack):
            return _cheapest(bootstrap, setting_of(slack), wanted)
        for b in range(boundaries):
            longer = (*slack[:b], slack[b] + 1, *slack[b + 1 :])
            if longer not in seen and slack[b] < LONGEST:
                seen.add(longer)
                heapq.heappush(queue, (_total(longer), longer))
    return None


def _least(boundary: int, boundaries: int, enough: Callable[[Slack], bool]) -> int:
    """The shortest slack of a boundary that is enough where all others are as long as can be: by bisection."""
    low, high = 1, LONGEST
    while low < high:
        middle = (low + high) // 2
        slack = tuple(middle if b == boundary else LONGEST for b in range(boundaries))
        low, high = (low, middle) if enough(slack) else (middle + 1, high)
    return low


def _cheapest(bootstrap: Bootstrap, setting: Staleness, wanted: float) -> Proposal:
    split = bootstrap.pace(setting, "split")
    if split.mean >= wanted:
        return Proposal(setting, "split", split)
    return Proposal(setting, "shared", bootstrap.pace(setting, "shared"))


def _total(slack: Slack) -> int:
    """Sum of m: boundary b counts for the blocks 0..b."""
    return sum((b + 1) * s for b, s in enumerate(slack))
