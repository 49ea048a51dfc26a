"""Batches, and seconds, until a test loss is reached: gain in time x loss per sample in one number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from repro.report import stats
from repro.report.stats import Estimate
from repro.report.stored.bound import busy_per_block, simulated_seconds
from repro.report.stored.group import Group
from repro.store import StoredRun

BITS, LOSS = "test_bits_per_byte", "test_loss"
_EQUAL = 80  # batches simulated for blocks of equal cost


def loss_name(group: Group) -> str:
    """The test loss of the group's evaluations: bits per byte of a text, else cross-entropy."""
    rows = [row for run in group.complete for row in run.epochs()]
    return BITS if any(BITS in row for row in rows) else LOSS


def losses(run: StoredRun, name: str) -> list[tuple[float, float]]:
    """(batches, test loss) at each evaluation, in order."""
    rows = [row for row in run.epochs() if isinstance(row.get(name), (int, float))]
    last = int((run.result or {}).get("num_steps") or 0)
    per_epoch = _steps_per_epoch(run, last)
    return [
        (min(row["epoch"] * per_epoch, last or row["epoch"] * per_epoch), float(row[name])) for row in rows
    ]


def best(name: str) -> Callable[[StoredRun], float | None]:
    """Reader of a run's smallest test loss."""
    return lambda run: min((loss for _, loss in losses(run, name)), default=None)


def last(name: str) -> Callable[[StoredRun], float | None]:
    """Reader of a run's test loss at the end."""

    def read(run: StoredRun) -> float | None:
        found = losses(run, name)
        return found[-1][1] if found else None

    return read


def batches_to(name: str, target: float) -> Callable[[StoredRun], float | None]:
    """Reader of the batches until the test loss first is at most `target`, on the straight line between evaluations.

    None where it is never reached; the first evaluation, before which nothing is known, counts in full.
    """

    def read(run: StoredRun) -> float | None:
        before: tuple[float, float] | None = None
        for batch, loss in losses(run, name):
            if loss <= target:
                if before is None or before[1] <= loss:
                    return batch
                share = (before[1] - target) / (before[1] - loss)
                return before[0] + share * (batch - before[0])
            before = batch, loss
        return None

    return read


def seconds_by_seed(group: Group) -> dict[int, float]:
    """Seconds per batch of the seeds whose blocks had a core or device each; never of the sequential engine."""
    if group.oversubscribed:
        return {}
    return {seed: value for seed, value in group.values("seconds_per_batch").items() if value > 0}


def donor(group: Group, groups: list[Group]) -> Group | None:
    """The group whose times stand for this one's: itself, else the same training of another length that has times."""
    if seconds_by_seed(group):
        return group
    found = [g for g in groups if _work(g) == _work(group) and seconds_by_seed(g)]
    return max(found, key=lambda g: (len(seconds_by_seed(g)), g.recipe == group.recipe), default=None)


def seconds_to(batches: Mapping[int, float], group: Group, timed: Group | None) -> Estimate | None:
    """Geometric mean of batches x seconds a batch: seed by seed where both are of the same runs, else of both means."""
    if timed is None or not batches:
        return None
    seconds = seconds_by_seed(timed)
    own = timed is group
    return stats.ratio(batches, {s: 1.0 / v for s, v in seconds.items()}, paired=own)


def gain(batches: Estimate | None, speed: Estimate | None) -> Estimate | None:
    """The product of two independent ratios; the interval adds the squares of half-widths on the log scale."""
    from math import exp, hypot, log

    if batches is None or speed is None:
        return None
    mean, n = batches.mean * speed.mean, min(batches.n, speed.n)
    if batches.high is None or speed.high is None or batches.low is None or speed.low is None:
        return Estimate(mean, None, None, n)
    half = hypot(log(batches.high / batches.low) / 2, log(speed.high / speed.low) / 2)
    return Estimate(mean, mean * exp(-half), mean * exp(half), n)


def predicted_speed(group: Group, base: Group, groups: list[Group]) -> tuple[float | None, str]:
    """Largest possible speed per batch over BP, simulated with free messages; and from what: the predicted column's.

    On the compute times of BP where any run of it has them, else for blocks of equal cost (backward = 2 forwards).
    None for DNI, whose predictor's time neither has.
    """
    if group.method == "dni":
        return None, ""
    method = group.settings.get("method")
    timed = donor(base, groups)
    runs = [run for run in (timed.complete if timed else []) if busy_per_block(run)]
    pairs = [(sum(busy_per_block(run)), simulated_seconds(run, method)) for run in runs]
    known = [alone / period for alone, period in pairs if period]
    if known:
        return median(known), "BP's times"
    equal = _of_equal_blocks(group)
    return (None, "") if equal is None else (equal, "equal blocks")


def _of_equal_blocks(group: Group) -> float | None:
    from repro.methods import stored_method
    from repro.schedule import simulate

    try:
        method = stored_method(group.settings.get("method"))
        schedule = method.schedule(group.blocks, _EQUAL, {})
        micro = max(1, method.micro_batches(int(group.settings.get("data", {}).get("batch_size", 1))))
    except (ValueError, TypeError, AttributeError):
        return None
    costs = {"F": 1.0, "R": 1.0, "B": 2.0}

    def duration(block: int, action: Any) -> float:
        return costs.get(action.kind.value, 0.0) / micro

    return 3.0 * group.blocks / simulate(schedule, duration).period()


def _work(group: Group) -> tuple[Any, ...]:
    """What decides the time of a batch: all but how long it trains and how much data there is."""
    data = group.settings.get("data") or {}
    size = tuple(data.get(key) for key in ("name", "batch_size", "image_size", "context"))
    others = ("method", "optimizer", "corrections", "memory_format")
    settings = repr([_without_length(group.settings.get(key)) for key in others])
    return group.profile, group.device, group.blocks, group.replicas, group.model, size, settings


def _without_length(value: Any) -> Any:
    """An optimiser's settings without those that say how long it trains."""
    if not isinstance(value, Mapping):
        return value
    left_out = ("milestones", "cosine_steps", "warmup_steps")
    return sorted((k, repr(v)) for k, v in value.items() if k not in left_out)


def _steps_per_epoch(run: StoredRun, steps: int) -> float:
    """Batches of an epoch: from the run's length, or, where max_steps may end within one, as counted in its metrics."""
    epochs, most = run.recipe.get("epochs"), run.recipe.get("max_steps")
    if not most or steps < int(most):
        return steps / int(epochs or 1)
    before = 0
    for row in run.metrics():
        if row.get("kind") == "epoch":
            return before / int(row["epoch"])
        before += row.get("kind") == "step"
    return float(steps)
