"""Straggler experiment (our definition, dsp.md section 5): the same seed without and with random delays.

Slow-down % = 100 (time with delays / time without - 1). The delays are the same for every method: whether
batch i of block k is delayed depends on (seed, k, i), its length on the block's compute time in the run
without delays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from repro.engine.processes.launch import Launch, Listener
from repro.errors import RunFailed
from repro.experiments.session import Session, timings
from repro.experiments.train import samples_from
from repro.planning.block_times import from_layers
from repro.recipe import StragglerSpec


def run(session: Session) -> dict[str, Any]:
    """Two engine runs; the losses of both must be equal, a delay changes no number."""
    plan, folder = session.plan, session.folder
    if folder.metrics.is_file():
        session.progress.say(f"seed {session.seed}: a cut-off straggler run starts again from zero")
        folder.metrics.unlink()
    losses: list[float] = []
    session.progress.start(plan, session.seed, 0)
    session.progress.say(f"seed {session.seed}: first without delays")
    times = None
    if plan.recipe.timing_only:
        assert plan.costs is not None
        times = from_layers(plan.layer_spans, plan.costs)
        plan = replace(plan, evaluations={})  # nothing is trained, so there is nothing to evaluate
        session.progress.say(f"seed {session.seed}: timing only, blocks wait as long as their layers take")
    calm = replace(plan, recipe=plan.recipe.model_copy(update={"straggler": StragglerSpec()}))
    clean = Launch(calm, session.seed, block_times=times, folder=folder.path, team=session.team).run(
        Listener(step=lambda batch, loss, samples: losses.append(loss), stalled=session.progress.say)
    )
    session.progress.say(f"seed {session.seed}: now with delays")
    typical = tuple(float(s["busy_seconds"]) for s in clean)
    step = _same(losses, session) if times is None else _timed(session)
    delayed = Launch(
        plan,
        session.seed,
        typical_seconds=typical,
        block_times=times,
        folder=folder.path,
        team=session.team,
    ).run(Listener(step=step, epoch=session.epoch, stalled=session.progress.say))
    samples = samples_from(session, 0)
    before, after = timings(clean, calm, samples), timings(delayed, plan, samples)
    slow, fast = after["train_seconds"], before["train_seconds"]
    return {
        **after,
        **session.scores(),
        "straggler": {
            "clean_seconds": fast,
            "delayed_seconds": slow,
            "slowdown_percent": 100.0 * (slow / fast - 1.0),
            "delays": [int(s["delays"]) for s in delayed],
        },
    }


def _timed(session: Session) -> Any:
    """A batch has passed; there is no loss to record."""

    def step(batch: int, loss: float, samples: int) -> None:
        session.steps = batch + 1
        session.write({"kind": "step", "step": batch})

    return step


def _same(losses: list[float], session: Session) -> Any:
    def step(batch: int, loss: float, samples: int) -> None:
        if loss != losses[batch]:
            raise RunFailed(
                f"the loss of batch {batch} is {loss!r} with delays and {losses[batch]!r} without"
            )
        session.step(batch, loss, samples)

    return step
