"""`repro run --launcher slurm`: a job for every seed that is not done, running or queued."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.cluster.options import QueueOptions, Request, resolved
from repro.cluster.submit import Wanted, parameters, submit
from repro.commands.resolve import choose_all
from repro.errors import UserError
from repro.recipe import Given, Recipe, combinations
from repro.standing.seed_standing import State, changed
from repro.standing.survey import Survey


@dataclass(frozen=True)
class Jobs:
    """The words of the command."""

    names: Sequence[str]
    seeds: Sequence[int]
    profile: str | None
    settings: Sequence[str]
    sweeps: Sequence[str]
    runs: Path
    device: str
    engine: str
    dry_run: bool
    fresh: bool
    log: Sequence[str] = ()


def submit_recipes(asked: Jobs, options: QueueOptions, executor: Any = None) -> int:
    """Submit what is left to run; job ids go to stdout. Returns the exit code."""
    request = (
        resolved(options)
        if executor is None
        else Request(options.partition or "", 60, options.at_once, False)
    )
    wanted = wanted_seeds(asked, request)
    if asked.dry_run:
        for one in wanted:
            print(f"repro {' '.join(one.words)}")
            print(f"  {' '.join(f'{k}={v}' for k, v in parameters(request, one.gpus, one.cpus).items())}")
        return 0
    left, notes = _left(wanted, asked)
    asked.runs.mkdir(parents=True, exist_ok=True)
    sent = submit(left, request, asked.runs.absolute(), executor)
    for job in sent:
        print(f"{job.job}  {job.title} seed {job.seed}")
    for note in notes:
        print(note, file=sys.stderr)
    print(f"{len(sent)} of {len(wanted)} seeds submitted to {request.partition}", file=sys.stderr)
    if sent:
        where = "" if asked.runs == Path("results/runs") else f" --runs {asked.runs}"
        print(f"`repro status --watch{where}` follows them", file=sys.stderr)
    return 0


def wanted_seeds(asked: Jobs, request: Request) -> list[Wanted]:
    """Every seed of every recipe and combination, seed by seed. UserError where a recipe is wrong."""
    device = asked.device if asked.device != "auto" else "cuda" if request.gpus else "cpu"
    if device == "cuda" and not request.gpus:
        raise UserError(f"--device cuda: partition {request.partition} has no GPUs (`sinfo -o '%P %G'`)")
    profile = asked.profile or ("paper" if device == "cuda" else None)
    chosen = choose_all(asked.names, profile, asked.settings, asked.sweeps, "cpu")
    words, _ = combinations(asked.settings, asked.sweeps)
    swept = [combination[len(asked.settings) :] for _ in asked.names for combination in words]
    return [
        _wanted(recipe, given, sweep, seed, device, asked)
        for seed in asked.seeds
        for (recipe, given), sweep in zip(chosen, swept, strict=True)
    ]


def _wanted(
    recipe: Recipe, given: Given, sweep: Sequence[str], seed: int, device: str, asked: Jobs
) -> Wanted:
    words = ["run", given.recipe, "--seed-list", str(seed), "--profile", recipe.profile, "--device", device]
    words += ["--engine", asked.engine, "--runs", str(asked.runs.absolute())]
    words += [word for setting in asked.settings for word in ("--set", setting)]
    words += [word for setting in sweep for word in ("--sweep", setting)]
    words += [word for tracker in asked.log for word in ("--log", tracker)]
    places = 1 if asked.engine == "sequential" else recipe.ranks
    gpus = places if device == "cuda" else 0
    cpus = places * (recipe.runtime.threads or 1)
    return Wanted(
        tuple(words),
        ("--fresh",) if asked.fresh else (),
        recipe.name,
        given.title(recipe.name),
        recipe.profile,
        dict(given.overrides),
        seed,
        gpus,
        cpus + recipe.data.num_workers,
    )


def _left(wanted: Sequence[Wanted], asked: Jobs) -> tuple[list[Wanted], list[str]]:
    """Those that are not done, running or queued, and a line about each of the others."""
    found = Survey(asked.runs).take()
    rows = {(row.recipe, row.profile, row.settings, row.seed): row for row in found}
    left, notes = [], []
    for one in wanted:
        row = rows.get((one.recipe, one.profile, changed(one.overrides), one.seed))
        done = row is not None and row.state is State.DONE and not asked.fresh
        if row is not None and (done or row.open):
            where = ", ".join(filter(None, (row.where, f"job {row.job}" if row.job and not done else "")))
            notes.append(
                f"{one.title} seed {one.seed}: already {row.state}" + (f" ({where})" if where else "")
            )
        else:
            left.append(one)
    return left, notes
