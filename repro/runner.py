"""Recipes x seeds -> runs: locks, skips what is finished, goes on after a failure, resumes what was cut off."""

from __future__ import annotations

import logging
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from repro import paths
from repro.engine.processes.child import BlockFailed, Team
from repro.engine.processes.launch import Diverged, check_port
from repro.errors import ReproError, UserError
from repro.experiments import experiment
from repro.experiments.session import Session
from repro.holding import Hold, InUse, TakenOver, holding
from repro.holding.holder import job_id
from repro.planning.engine_choice import choose_engine, engine_words
from repro.planning.gradient_plan import check_gradient
from repro.planning.machine import environment
from repro.planning.run_plan import Plan, make_plan
from repro.planning.seats import Seats
from repro.progress import Progress, score_words
from repro.recipe import Given, Recipe
from repro.store import COMPLETE, RunFolder

logger = logging.getLogger(__name__)


class Terminated(BaseException):
    """SIGTERM has come: end everything in order, exit 143."""


@dataclass
class Outcome:
    """How a seed ended: done, skipped, failed or diverged."""

    recipe: str
    seed: int
    status: str
    message: str = ""
    exit_code: int = 0


def plan_runs(
    recipes: Sequence[Recipe],
    given: Sequence[Given],
    out: Path,
    device: str,
    engine: str = "auto",
    seats: Seats | None = None,
    log: Sequence[str] = (),
) -> list[Plan]:
    """Resolve all recipes before anything runs, so that a wrong one stops the command first.

    `given`: what the command asked of each. Those that would be one run are planned once.
    `engine`: "auto", "processes" or "sequential"; `seats`: how the machine is divided (default: one run has it all).
    `log`: trackers that hear the rows of every run.
    """
    seats = seats or Seats.on(device, 1, False)
    engines = [choose_engine(recipe, engine, seats.places, device) for recipe in recipes]
    for recipe in recipes:
        if recipe.ranks > 1:
            check_port(recipe.runtime.port)
    check_writable(out)
    plans = [
        replace(
            seats.checked(make_plan(recipe, device, engine=chosen, share=seats.cores)),
            given=asked,
            log=tuple(log),
        )
        for recipe, asked, (chosen, _) in zip(recipes, given, engines, strict=True)
    ]
    if engine == "auto":
        for plan, (chosen, reason) in zip(plans, engines, strict=True):
            if plan.ranks > 1 and chosen != "oracle":
                logger.info(engine_words(plan.recipe.name, chosen, reason))
    plans = without_duplicates(plans)
    for plan in plans:
        check_gradient(plan)
    return plans


def without_duplicates(plans: Sequence[Plan], say: Callable[[str], None] = logger.info) -> list[Plan]:
    """The plans whose runs are different ones; says which others would give the same numbers."""
    found: dict[tuple[str, str], Plan] = {}
    for plan in plans:
        first = found.setdefault((plan.recipe.name, plan.hash), plan)
        if first is not plan:
            say(f"{plan.title}: the same run as {first.title}, run once")
    return list(found.values())


def check_writable(out: Path) -> None:
    """Raise UserError where results cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / f".write-test-{os.getpid()}"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise UserError(f"--runs {out}: results cannot be written there ({error.strerror})") from None


def run_all(
    plans: Sequence[Plan],
    seeds: Sequence[int],
    out: Path,
    progress: Progress,
    *,
    fail_fast: bool,
    fresh: bool,
    team: Team | None = None,
) -> list[Outcome]:
    """Run every plan under the first seed, then the next: what is compared by seed runs close together in time.

    A seed that another process holds is waited for after the others. `team`: the processes of blocks on several
    hosts; once a host is lost, nothing more is run.

    Raises KeyboardInterrupt or Terminated after leaving a resumable state.
    """
    outcomes: list[Outcome] = []
    later: list[tuple[Plan, int]] = []
    for blocking, jobs in ((False, [(plan, seed) for seed in seeds for plan in plans]), (True, later)):
        for plan, seed in jobs:
            outcome = run_seed(plan, seed, out, progress, blocking=blocking, fresh=fresh, team=team)
            if outcome is None:
                later.append((plan, seed))
                continue
            outcomes.append(outcome)
            if outcome.exit_code and (fail_fast or (team is not None and team.lost)):
                return outcomes
    return outcomes


def run_seed(
    plan: Plan,
    seed: int,
    out: Path,
    progress: Progress,
    *,
    blocking: bool,
    fresh: bool,
    team: Team | None = None,
) -> Outcome | None:
    """Run a seed unless it is finished. None where another process holds it; with `blocking` that is waited for."""
    folder = RunFolder(paths.seed_folder(out, plan.recipe.name, plan.hash, seed))
    if folder.finished() and not fresh:
        progress.say(f"{plan.title} seed {seed}: already complete ({folder.path})")
        return Outcome(plan.title, seed, "skipped")
    try:
        period = plan.recipe.runtime.heartbeat_seconds
        with holding(
            folder.path, blocking=blocking, say=progress.say, period=period, batches=plan.num_batches
        ) as hold:
            if folder.finished() and not (fresh and not blocking):
                return Outcome(plan.title, seed, "skipped")
            return run_one(plan, seed, folder, progress, hold, fresh=fresh and not blocking, team=team)
    except InUse:
        return None


def run_one(
    plan: Plan,
    seed: int,
    folder: RunFolder,
    progress: Progress,
    hold: Hold,
    *,
    fresh: bool,
    team: Team | None = None,
) -> Outcome:
    """Run one seed and write its result; a failure becomes an outcome, an interruption is raised again."""
    if fresh:
        if folder.metrics.exists() or folder.result.exists():
            progress.say(f"{plan.title} seed {seed}: --fresh deletes what was run before in {folder.path}")
        for path in (folder.metrics, folder.result):
            path.unlink(missing_ok=True)
        shutil.rmtree(folder.checkpoints, ignore_errors=True)
    session = Session(plan, seed, folder, progress, team, still_held=hold.check)
    name = plan.title
    try:
        folder.result.unlink(missing_ok=True)
        folder.write_recipe(plan.recipe.model_dump(mode="json"))
        folder.write_environment(
            {
                **environment(),
                **({"given": plan.given.record()} if plan.given else {}),
                **({"job": job} if (job := job_id()) else {}),
            }
        )
        fields = experiment(plan.recipe.experiment)(session)
        session.close()
        hold.check()
        result = {**session.identity(), "status": COMPLETE, **fields}
        folder.write_result(result)
        session.ended(result)
        shutil.rmtree(folder.checkpoints, ignore_errors=True)
    except TakenOver as error:  # the folder is another's: nothing may be written there
        session.close()
        progress.say(str(error))
        return Outcome(name, seed, "taken over", str(error), error.exit_code)
    except Diverged as error:
        place = {"step": error.batch, "block": error.block, "tensor": error.tensor, "value": error.value}
        return _ended(session, "diverged", str(error), 1, diverged=place)
    except BlockFailed as error:
        if error.trace:
            progress.say(error.trace.rstrip())
        if error.log is not None:
            progress.say(f"what the libraries below said is in {error.log}")
        return _ended(session, "failed", str(error), error.exit_code)
    except ReproError as error:
        return _ended(session, "failed", str(error), error.exit_code)
    except OSError as error:
        return _ended(session, "failed", f"results cannot be written: {error}", 1)
    except (KeyboardInterrupt, Terminated):
        _ended(session, "interrupted", "interrupted; the same command goes on from the last checkpoint", 130)
        raise
    found = score_words(fields, "_last")
    tail = f", {found}" if found else ""
    seconds = fields.get("train_seconds")
    progress.end(f"done in {seconds:.1f} s{tail}" if seconds is not None else "done")
    return Outcome(name, seed, COMPLETE)


def _ended(session: Session, status: str, message: str, code: int, **more: Any) -> Outcome:
    session.close()
    session.progress.title = f"{session.plan.title} seed {session.seed}"
    result = {**session.identity(), "status": status, "error": message, **more}
    with suppress(OSError):  # a full disk must not hide the first error
        session.folder.write_result(result)
    session.ended(result)
    session.progress.end(f"{status}: {message}")
    return Outcome(session.plan.title, session.seed, status, message, code)


@contextmanager
def orderly_end() -> Iterator[None]:
    """Turn SIGTERM into Terminated while the context is open."""

    def raise_terminated(*_: Any) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
