"""`repro run`: recipes over seeds, with one summary at the end."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from repro import paths
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
) -> int:
    """Resolve everything, then run; returns the exit code (the first failure's, 130 or 143 if interrupted).

    `engine`: "auto", "processes" or "sequential"; `jobs`: runs at once, more than there are cores with `force` only.
    `launcher`: "local", or "torchrun" for a pipeline over several hosts. Started by torchrun, this is one of them.
    """
    if launcher == "torchrun" or "TORCHELASTIC_RUN_ID" in os.environ:
        from repro.commands.hosts import Asked, start_on_hosts, take_part

        words = Asked(
            names, seeds, seed_list, profile, settings, sweeps, runs, device, fail_fast, fresh, engine, jobs
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
            plans = plan_runs(recipes, given, folder, device, engine, seats)
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
