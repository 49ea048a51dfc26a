"""Train one seed with the engine, from its last consistent checkpoint where there is one."""

from __future__ import annotations

from typing import Any

from repro import data
from repro.engine.processes import checkpoint
from repro.engine.processes.launch import Launch, Listener
from repro.experiments.session import Session, rates, timings
from repro.planning.gradient_plan import fallback_words, summary
from repro.store import read_metrics, to_json, write_atomically


def run(session: Session) -> dict[str, Any]:
    """Run to the end; returns the fields of result.json beyond the run's identity."""
    plan, folder = session.plan, session.folder
    launch = Launch(
        plan,
        session.seed,
        checkpoints=folder.checkpoints,
        folder=folder.path,
        team=session.team,
        checkpoint_extra=lambda: {
            "train_seconds": session.epochs[-1]["train_seconds"] if session.epochs else 0.0,
            "restarted": session.restarted,
            "engines": [*session.engines, plan.engine],
            "timed": session.timed,
        },
    )
    _resume(session, launch)
    session.progress.start(plan, session.seed, session.steps)
    first_step = session.steps
    summaries = launch.run(Listener(step=session.step, epoch=session.epoch, stalled=session.progress.say))
    samples = samples_from(session, first_step)
    fields = timings(summaries, plan, samples)
    fields["train_seconds"] += session.earlier_seconds
    if fields["train_seconds"] > 0:
        fields.update(rates(plan, samples_from(session, 0), fields["train_seconds"]))
    fields.update(session.scores(), resumed=session.restarted)
    of_blocks = summaries[: plan.blocks]  # of replica 0
    gradients = [s["gradient"] for s in of_blocks if s["gradient"] is not None]
    if gradients:
        fields["gradient"] = summary(plan, gradients)
        if words := fallback_words(fields["gradient"]):
            session.progress.say(f"{plan.recipe.name} seed {session.seed}: {words}")
    skipped = _data(session).skipped
    if skipped:
        fields["skipped"] = {"count": len(skipped), "names": list(skipped)}
    spans = [[k, *span] for k, s in enumerate(of_blocks) for span in s["spans"]]
    timeline = folder.path / "timeline.json"
    timeline.unlink(missing_ok=True)
    if session.timed:
        write_atomically(timeline, to_json({"blocks": plan.blocks, "spans": spans}) + "\n")
    return fields


def _resume(session: Session, launch: Launch) -> None:
    """Go on from the newest whole checkpoint, or from zero; says which where something had been begun."""
    folder, progress = session.folder, session.progress
    begun = folder.metrics.is_file() and folder.metrics.stat().st_size > 0
    found = checkpoint.newest(folder.checkpoints, session.plan.ranks, progress.say)
    if found is None:
        if begun:
            progress.say(
                f"seed {session.seed}: cut off before its first checkpoint, starting again from zero"
            )
        folder.metrics.unlink(missing_ok=True)
        return
    launch.resume, manifest = found
    updates, epoch = int(manifest["updates"]), int(manifest["epoch"])
    folder.cut_metrics(updates, epoch)
    session.epochs = [row for row in read_metrics(folder.metrics) if row["kind"] == "epoch"]
    session.steps, session.restarted = updates, int(manifest.get("restarted", 0)) + 1
    session.earlier_seconds = float(manifest.get("train_seconds", 0.0))
    session.engines = tuple(manifest.get("engines", ()))
    session.timed = session.timed and bool(manifest.get("timed", True))
    progress.say(f"seed {session.seed}: going on after batch {updates} (checkpoint of epoch {epoch})")


def samples_from(session: Session, first: int) -> int:
    """Training samples in batches first..num_batches-1."""
    batches = _data(session)
    return sum(batches.train_batch_size(i) for i in range(first, session.plan.num_batches))


def _data(session: Session) -> data.Data:
    return data.load(session.plan.recipe.data, session.plan.data_root, session.seed)
