"""How far one seed is: from its folder, and from its job in a queue where it has one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from repro.cluster.slurm_queue import Queued
from repro.cluster.submissions import SILENCE_SECONDS, Job, Submission
from repro.holding import holder as holders
from repro.holding.holder import Found, moment
from repro.standing.metrics_tail import reached
from repro.store import COMPLETE, RunFolder


class State(StrEnum):
    """What a seed is doing."""

    NOT_STARTED = "not started"
    QUEUED = "queued"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    DIVERGED = "diverged"
    FAILED = "failed"
    DONE = "done"


@dataclass(frozen=True)
class Standing:
    """A row of `repro status`; times are Unix seconds."""

    recipe: str
    seed: int
    state: State
    profile: str = ""
    settings: str = ""  # what the command had changed
    hash: str = ""
    where: str = ""
    job: str = ""
    since: float | None = None
    batch: int | None = None
    batches: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    ends: float | None = None
    note: str = ""

    @property
    def open(self) -> bool:
        """Whether it runs or waits."""
        return self.state in (State.RUNNING, State.QUEUED)


def of_folder(folder: RunFolder, now: float | None = None) -> Standing | None:
    """The standing of a seed's folder; None where it holds no run. `now`: Unix seconds."""
    now = time.time() if now is None else now
    recipe = folder.read_recipe()
    found = holders.read(folder.path)
    if not recipe and found is None:
        return None
    environment = folder.read_environment()
    given = environment.get("given")
    base = Standing(
        recipe=folder.path.parent.parent.name,
        seed=int(folder.path.name.removeprefix("seed-")),
        state=State.INTERRUPTED,
        profile=str(recipe.get("profile", "")),
        settings=changed(given.get("overrides")) if isinstance(given, Mapping) else "",
        hash=folder.path.parent.name,
        job=str(environment.get("job", "")),
        epochs=recipe.get("epochs"),
    )
    if found is not None and found.holder.alive(now - found.beat):
        return _running(folder, base, found, now, str(recipe.get("experiment", "train")))
    result = folder.read_result()
    if result is None:
        return _cut_off(folder, base, found)
    return _ended(folder, base, result)


def _running(folder: RunFolder, base: Standing, found: Found, now: float, experiment: str) -> Standing:
    holder, far = found.holder, reached(folder.metrics)
    silent = now - found.beat
    ends = _expected_end(now, far.batches, holder.batches, far.seconds_per_batch, holder.since)
    return replace(
        base,
        state=State.RUNNING,
        where=f"{holder.host} pid {holder.pid}",
        job=holder.job or "",
        since=holder.since or None,
        batch=far.batches,
        batches=holder.batches,
        epoch=far.epoch,
        ends=ends if experiment == "train" else None,  # others train more than once, or not at all
        note=f"no sign of life for {silent:.0f} s" if silent > holder.silence else "",
    )


def _expected_end(now: float, done: int, total: int | None, pace: float | None, since: float) -> float | None:
    if not total or not done or done > total:
        return None
    pace = pace if pace is not None else (now - since) / done if since else None
    return None if pace is None else now + (total - done) * pace


def _cut_off(folder: RunFolder, base: Standing, found: Found | None) -> Standing:
    far = reached(folder.metrics)
    note = "ended without a word"
    since = None
    if found is not None:
        note = f"{found.holder.words()} gave its last sign of life at {moment(found.beat)}"
        since = found.beat
    return replace(base, batch=far.batches, epoch=far.epoch, since=since, note=note)


def _ended(folder: RunFolder, base: Standing, result: Mapping[str, Any]) -> Standing:
    status, steps = str(result["status"]), result.get("num_steps")
    with suppress(OSError):
        base = replace(base, since=folder.result.stat().st_mtime)
    if folder.finished():
        return replace(base, state=State.DONE, batch=steps, batches=steps, epoch=base.epochs)
    far = reached(folder.metrics)
    base = replace(base, batch=far.batches, batches=steps, epoch=far.epoch)
    if status == COMPLETE:
        return replace(base, note="metrics.jsonl does not hold the steps that result.json names")
    return replace(base, state=State(status), note=str(result.get("error", "")))


def with_job(base: Standing | None, job: Job, queue: Mapping[str, Queued] | None, now: float) -> Standing:
    """The standing of a submitted seed: what its folder says (`base`), unless its job waits or has failed before it."""
    told: Submission = job.submission
    fresh = base or Standing(
        told.recipe, told.seed, State.QUEUED, told.profile, changed(told.overrides), job=told.job
    )
    if base is not None and base.state in (State.RUNNING, State.DONE):
        return base
    waiting = replace(fresh, state=State.QUEUED, job=told.job, since=told.submitted, where=told.partition)
    known = queue.get(told.job) if queue is not None else None
    if known is not None and known.waits:
        again = f"goes on from batch {fresh.batch}" if fresh.batch else ""
        expected = f"expected to start {known.start}" if known.start else ""
        return replace(waiting, note="; ".join(filter(None, (known.reason, expected, again))))
    if job.end is not None:
        return _job_over(fresh, base, job)
    beats = job.start is not None and now - job.beat <= SILENCE_SECONDS
    if known is not None or (queue is None and beats):  # a queue that does not know it has ended it
        start = job.start or {}
        host = f"{start.get('host', '')} pid {start.get('pid', '')}" if start else told.partition
        return replace(
            fresh,
            state=State.RUNNING,
            job=told.job,
            where=host,
            since=_number(start.get("since")),
            note="starting",
        )
    if queue is None and job.start is None:
        return replace(waiting, note="as submitted; no queue here to ask")
    if base is not None:
        return base
    return replace(
        fresh, state=State.INTERRUPTED, note="its job is no longer in the queue: cancelled, or its node died"
    )


def _job_over(fresh: Standing, base: Standing | None, job: Job) -> Standing:
    assert job.end is not None
    if base is not None:
        return base  # the folder tells more
    code, words = job.end.get("code"), str(job.end.get("words", ""))
    state = State.INTERRUPTED if code in (130, 143) or not isinstance(code, int) or code < 0 else State.FAILED
    if code == 0:
        state, words = State.DONE, "its folder is not here"
    return replace(fresh, state=state, since=_number(job.end.get("at")), note=words)


def changed(overrides: object) -> str:
    """Settings that a command had changed, as --set would take them."""
    return (
        " ".join(f"{key}={value}" for key, value in overrides.items())
        if isinstance(overrides, Mapping)
        else ""
    )


def iso(seconds: float | None) -> str | None:
    """Local time with its offset, to the second."""
    return (
        None
        if seconds is None
        else datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
