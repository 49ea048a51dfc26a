"""`repro run`: recipes over seeds, with one summary at the end."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from repro import paths, trackers
from repro.cluster.options import QueueOptions
from repro.commands.resolve import choose_all, choose_device, choose_seeds
from repro.errors import UserError


def run_recipes(
    names: Sequence[str],
    seeds: int | None,
    seed_list: str | None,
    profile: str | None,
    settings: Sequence[str],
    sweeps: Sequence[str],
    runs: Path | None,
    device: str,
    dry_run: bool,
    fail_fast: bool,
    fresh: bool,
    engine: str = "auto",
    jobs: int = 1,
    force: bool = False,
    launcher: str = "local",
    nodes: int | None = None,
    rendezvous: str | None = None,
    queue: QueueOptions | None = None,
    log: Sequence[str] = (),
) -> int:
    """Resolve everything, then run; returns the exit code (the first failure's, 130 or 143 if interrupted).

    `log`: trackers, each a word that `trackers.named` knows.
    `engine`: "auto", "processes" or "sequential"; `jobs`: runs at once, more than there are cores with `force` only.
    `launcher`: "local", "torchrun" for a pipeline over several hosts (started by torchrun, this is one of them), or
    "slurm", which takes what `queue` asks for.
    """
    queue = queue or QueueOptions()
    if launcher == "torchrun" or "TORCHELASTIC_RUN_ID" in os.environ:
        from repro.commands.hosts import Asked, start_on_hosts, take_part

        queue.refuse(launcher)
        words = Asked(
            names,
            seeds,
            seed_list,
            profile,
            settings,
            sweeps,
            runs,
            device,
            fail_fast,
            fresh,
            engine,
            jobs,
            log,
        )
        return (
            start_on_hosts(words, nodes, rendezvous, dry_run) if launcher == "torchrun" else take_part(words)
        )
    for option, value in (("--nnodes", nodes), ("--rdzv", rendezvous)):
        if value is not None:
            raise UserError(
                f"{option} {value} belongs to --launcher torchrun: give it, or leave {option} out"
            )
    chosen_seeds = choose_seeds(seeds, seed_list)
    if launcher == "slurm":
        from repro.commands.launch_slurm import Jobs, submit_recipes

        _refuse_local_options(jobs, fail_fast, force)
        folder = runs or paths.runs()
        asked_for = Jobs(
            names, chosen_seeds, profile, settings, sweeps, folder, device, engine, dry_run, fresh, log
        )
        return submit_recipes(asked_for, queue)
    queue.refuse(launcher)
    trackers.check(log)
    if device != "cuda" and not dry_run:
        from repro.engine.processes import fork_server as server

        server.warm_up()
    asked = choose_all(names, profile, settings, sweeps, "cpu" if device == "cpu" else "cuda")
    recipes, given = [recipe for recipe, _ in asked], [chosen for _, chosen in asked]
    device = choose_device(device)

    from repro.planning.seats import Seats
    from repro.progress import progress_for_terminal
    from repro.runner import Terminated, orderly_end, plan_runs, run_all
    from repro.side_by_side import SideBySide

    folder = runs or paths.runs()
    if dry_run:
        from repro.commands.plan import describe_plans

        describe_plans(recipes, given, chosen_seeds, folder, device, engine, Seats.on(device, jobs, force))
        return 0
    logging.basicConfig(
        level=logging.INFO, format="%(message)s", stream=sys.stderr
    )  # downloads, image checks
    with orderly_end():
        progress = None
        try:
            seats = Seats.on(device, jobs, force)
            plans = plan_runs(recipes, given, folder, device, engine, seats, log)
            progress = progress_for_terminal()
            if jobs > 1:
                several = SideBySide(seats, folder, progress, fail_fast=fail_fast, fresh=fresh)
                outcomes = several.run(plans, chosen_seeds)
            else:
                outcomes = run_all(plans, chosen_seeds, folder, progress, fail_fast=fail_fast, fresh=fresh)
        except KeyboardInterrupt:
            return 130
        except Terminated:
            return 143
        finally:
            if progress is not None:
                progress.close()
    bad = [o for o in outcomes if o.exit_code]
    done = len(outcomes) - len(bad)
    print(f"{done} of {len(plans) * len(chosen_seeds)} seeds complete in {folder}", file=sys.stderr)
    for outcome in bad:
        print(f"{outcome.recipe} seed {outcome.seed}: {outcome.status}", file=sys.stderr)
    return bad[0].exit_code if bad else 0


def _refuse_local_options(jobs: int, fail_fast: bool, force: bool) -> None:
    """UserError for options that mean nothing where every seed is a job of its own."""
    for given, option, instead in (
        (jobs != 1, f"--jobs {jobs}", "give --at-once, the jobs that may run at a time"),
        (force, "--force", "leave it out"),
        (fail_fast, "--fail-fast", "leave it out; `scancel` ends the others"),
    ):
        if given:
            raise UserError(f"{option} with --launcher slurm: every seed is a job of its own; {instead}")
