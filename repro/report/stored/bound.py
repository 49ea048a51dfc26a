"""What a row could reach: the simulator on the row's own compute times, with free communication."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from statistics import median
from typing import Any

from repro.report.stored.group import Group
from repro.store import StoredRun

BATCHES = 80  # simulated; the steady state of every setting in use is reached well before
MOST_DELAYED = 400  # simulated under random delays, which have no steady state
_periods: dict[tuple[Any, ...], float] = {}  # of what was simulated: several tables ask for the same
_WORK = ("F", "R", "B", "U", "M")


def busy_per_block(run: StoredRun) -> list[float]:
    """Median seconds of compute per batch, a number a block; empty where the run has none."""
    busy = (run.result or {}).get("busy_seconds")
    return (
        [float(b) for b in busy]
        if isinstance(busy, list) and all(isinstance(b, (int, float)) for b in busy)
        else []
    )


def slowest_block(run: StoredRun) -> float | None:
    """Compute seconds per batch of the slowest block."""
    busy = busy_per_block(run)
    return max(busy) if busy else None


def simulated_seconds(run: StoredRun, method: Mapping[str, Any] | None = None) -> float | None:
    """Seconds per batch of the run's schedule if its blocks computed as measured and messages cost nothing.

    `method`: of another method's schedule on the same compute times, a replay taking as long as the forward.
    """
    found = _model(run, BATCHES, method)
    if found is None:
        return None
    from repro.schedule import simulate

    schedule, duration, key = found
    if key not in _periods:
        _periods[key] = simulate(schedule, duration).period()
    return _periods[key]


def simulated_slowdown(run: StoredRun) -> float | None:
    """Percent that the run's own random delays cost if every block had a device of its own and messages cost nothing."""
    found = _model(run, min(MOST_DELAYED, int((run.result or {}).get("num_steps") or BATCHES)))
    if found is None:
        return None
    from repro.schedule import simulate
    from repro.seeding import derive

    schedule, duration, _ = found
    spec, busy = run.recipe.get("straggler") or {}, busy_per_block(run)
    seen: set[tuple[int, int]] = set()

    def delayed(block: int, action: Any) -> float:
        """As engine/processes/delays.py: a sleep before the batch's first action, or none."""
        key = (block, action.batch)
        chosen = derive(run.seed, "straggler", *key) < float(spec.get("probability", 0.0)) * 2**63
        sleep = float(spec.get("delay", 0.0)) * busy[block] if chosen and key not in seen else 0.0
        seen.add(key)
        return sleep + duration(block, action)

    return 100.0 * (simulate(schedule, delayed).end / simulate(schedule, duration).end - 1.0)


def _model(
    run: StoredRun, num_batches: int, other: Mapping[str, Any] | None = None
) -> tuple[Any, Callable[[int, Any], float], tuple[Any, ...]] | None:
    """A schedule, how long each action takes, and all numbers of both; None where the run has no compute times.

    A block's compute time per batch is divided among forward, recompute and backward as its recorded timeline
    shows, or as 1 : 1 : 2 without one.
    """
    from repro.methods import stored_method

    busy = busy_per_block(run)
    blocks = len(busy)
    if not blocks or min(busy) <= 0:
        return None
    try:
        method = stored_method(other or run.recipe.get("method"))
        schedule = method.schedule(blocks, num_batches, {})
        own = stored_method(run.recipe.get("method")).schedule(blocks, 1, {})
        micro = max(1, method.micro_batches(int(run.recipe.get("data", {}).get("batch_size", 1))))
    except (ValueError, TypeError, AttributeError):
        return None
    recorded = _shares(run, blocks)
    costs = [recorded[k] or _default_shares(own.recompute[k]) for k in range(blocks)]
    costs = [{"R": shares["F"], **shares} for shares in costs]

    def duration(block: int, action: Any) -> float:
        kind = action.kind.value
        parts = 1 if kind in ("U", "M") else micro
        return busy[block] * costs[block].get(kind, 0.0) / parts

    key = method.model_dump_json(), num_batches, micro, *busy, *(tuple(sorted(c.items())) for c in costs)
    return schedule, duration, key


def bound(group: Group, base: Group | None) -> float | None:
    """Largest possible speed-up over `base` (BP): its blocks' compute time, over the simulated time of `group`.

    Simulated on the group's own compute times; where its blocks shared a core or device, and so slowed each
    other down, on those of BP, whose blocks compute one at a time (None for DNI, whose module BP has not).
    """
    if base is None:
        return None
    shared = group.oversubscribed and group is not base
    if shared and group.method == "dni":
        return None
    alone = [sum(busy_per_block(run)) for run in base.complete if busy_per_block(run)]
    simulated = (
        [simulated_seconds(run, group.settings.get("method")) for run in base.complete]
        if shared
        else [simulated_seconds(run) for run in group.complete]
    )
    periods = [p for p in simulated if p]
    if not alone or not periods:
        return None
    return median(alone) / median(periods)


def read_timeline(run: StoredRun) -> list[tuple[int, str, float, float, bool]]:
    """Recorded spans (block, action, start, end, waiting) in seconds; empty where none are stored."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        stored = json.loads((run.folder.path / "timeline.json").read_text(encoding="utf-8"))
        return [
            (int(s[0]), str(s[1]), float(s[2]), float(s[3]), bool(s[4]) if len(s) > 4 else False)
            for s in stored["spans"]
        ]
    return []


def _default_shares(recompute: bool) -> dict[str, float]:
    return {"F": 0.25, "R": 0.25, "B": 0.5} if recompute else {"F": 1 / 3, "B": 2 / 3}


def _shares(run: StoredRun, blocks: int) -> list[dict[str, float] | None]:
    """How each block's compute is divided among kinds of action, from the recorded timeline without its first batch."""
    totals: list[dict[str, float]] = [{} for _ in range(blocks)]
    for block, action, start, end, waiting in read_timeline(run):
        first = action[1:].split(".")[0].split("^")[0]
        if not waiting and action[:1] in _WORK and first != "0" and 0 <= block < blocks:
            totals[block][action[0]] = totals[block].get(action[0], 0.0) + end - start
    return [
        {kind: value / sum(total.values()) for kind, value in total.items()}
        if total.get("F") and total.get("B") and sum(total.values()) > 0
        else None
        for total in totals
    ]
