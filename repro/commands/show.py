"""`repro show RECIPE`: what would run, what is known about it, and what has been run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from repro import paths
from repro.commands.resolve import choose_device, choose_recipe
from repro.commands.runs_folder import runs_to_read
from repro.errors import UserError
from repro.recipe import Recipe, load, parse_overrides, validate
from repro.report.stored.group import value_words
from repro.report.stored.origin import flatten

if TYPE_CHECKING:
    from repro.planning.run_plan import Plan

DEFAULT_SEEDS = 5  # what a table wants of a recipe


def show_recipe(
    name: str, profile: str | None, settings: Sequence[str], runs: Path | None, as_json: bool
) -> None:
    """Print the resolved recipe, the changes, the published numbers, the runs and the predicted time."""
    folder = runs_to_read(runs)
    recipe = choose_recipe(name, profile, settings, choose_device("auto") if profile is None else "cpu")
    values = recipe.model_dump(mode="json")
    changed = changes(recipe, name, settings)
    published = published_numbers(recipe)
    done = seeds_done(recipe, folder)
    reference = seeds_done(recipe, paths.reference())
    time, basis = predicted_seconds(recipe, folder)
    drawing = schedule_drawing(recipe)
    every = all_runs(recipe, folder)
    if as_json:
        row = {
            "recipe": values,
            "changed": changed,
            "published": published,
            "seeds_complete": done,
            "reference_seeds": reference,
            "runs": every,
            "seconds": time,
            "seconds_from": basis,
        }
        print(json.dumps({"rows": [row], "environment": {}}, indent=1))
        return
    print(yaml.safe_dump(values, sort_keys=False).rstrip())
    print("\n# changed against the recipe in its paper profile")
    print("\n".join(f"#   {key}: {old} -> {new}" for key, (old, new) in changed.items()) or "#   nothing")
    print("# published")
    print("\n".join(f"#   {line}" for line in published) or "#   not published here")
    left = [s for s in range(DEFAULT_SEEDS) if s not in done]
    print(
        f"# seeds complete: {', '.join(map(str, done)) or 'none'}; left of {DEFAULT_SEEDS}: {', '.join(map(str, left))}"
    )
    if left:
        print(f"# what makes them: {run_command(name, recipe, settings, runs)}")
    if every:
        print(f"# runs of this recipe in {folder}, under all settings")
        print("\n".join(f"#   {_in_words(row)}" for row in every))
    if reference:
        print(
            f"# the project's reference runs have seeds {', '.join(map(str, reference))} (--reference shows them in tables)"
        )
    unknown = (
        f"not known; `repro plan {name} --profile {recipe.profile}` measures the layers for a prediction"
    )
    print(f"# time to train a seed here: {f'{time:.0f} s, {basis}' if time else unknown}")
    if drawing:
        print("\n" + drawing)


def run_command(name: str, recipe: Recipe, settings: Sequence[str], runs: Path | None) -> str:
    """The command that runs the seeds which are not complete yet."""
    words = ["repro", "run", name, "--seeds", str(DEFAULT_SEEDS), "--profile", recipe.profile]
    words += [word for pair in settings for word in ("--set", pair)]
    return shlex.join(words + (["--runs", str(runs)] if runs else []))


def changes(recipe: Recipe, name: str, settings: Sequence[str]) -> dict[str, list[Any]]:
    """Settings that differ from the paper profile without overrides: key -> [there, here]."""
    base = flatten(load(name, "paper").model_dump(mode="json"))
    here = flatten(recipe.model_dump(mode="json"))
    keys = [k for k in here if here[k] != base.get(k) and k != "profile"]
    asked = parse_overrides(settings)
    keys += [k for k in asked if k in here and k not in keys]
    return {k: [base.get(k), here[k]] for k in keys}


def published_numbers(recipe: Recipe) -> list[str]:
    """Lines about this recipe's model and method from published.yaml, each with its source."""
    from repro.report.stored.published import about

    return about(recipe)


def seeds_done(recipe: Recipe, out: Path) -> list[int]:
    """Seeds that are complete under these settings (the cut and the data's digest may still tell them apart)."""
    from repro.store import COMPLETE, read_runs

    found = set()
    for run in read_runs(out, recipe.name):
        if run.status == COMPLETE and same_settings(run.recipe, recipe):
            found.add(run.seed)
    return sorted(found)


def all_runs(recipe: Recipe, folder: Path) -> list[dict[str, Any]]:
    """A row for each profile, device and setting that the recipe has been run under; stale ones are named so."""
    from repro.report.stored.source import Source

    found = Source(folder, fallback=False).find(lambda run: run.recipe_name == recipe.name)
    rows: list[dict[str, Any]] = [
        {
            "settings": {key: here for key, (_, here) in group.changed.items()},
            "profile": group.profile,
            "device": group.device,
            "hash": group.hash,
            "seeds_complete": [run.seed for run in group.complete],
            "seeds_begun": list(group.started),
            "note": "; ".join([*group.marks, *([group.stale] if group.stale else [])]),
        }
        for group in found.groups
    ]
    left_out = [{"note": words} for words in found.problems if "left out" in words]
    return [*rows, *left_out]


def _in_words(row: dict[str, Any]) -> str:
    if "hash" not in row:
        return str(row["note"])
    changed = ", ".join(f"{key} {value_words(value)}" for key, value in row["settings"].items())
    seeds = ", ".join(map(str, row["seeds_complete"])) or "none"
    unfinished = len(row["seeds_begun"]) - len(row["seeds_complete"])
    more = f", {unfinished} not finished" if unfinished else ""
    place = ", ".join(word for word in (row["profile"], row["device"], row["hash"]) if word)
    stale = f"; {row['note']}" if "stale" in row["note"] else ""
    return f"{changed or 'own settings'} ({place}): seeds {seeds} complete{more}{stale}"


def same_settings(stored: Mapping[str, Any], recipe: Recipe) -> bool:
    """Whether a stored run has these settings; one from before a setting existed had its default.

    What is stored is data: a Python file in it is only read where the recipe names the same one.
    """
    if _classes(stored) != _classes(recipe.model_dump()):
        return False
    try:
        return bool(validate(stored) == recipe)
    except (UserError, ValueError, TypeError):
        return False


def _classes(settings: Mapping[str, Any]) -> list[Any]:
    """The method and the corrections by name, each of which may be a Python file."""
    found = [settings.get("method"), *(settings.get("corrections") or ())]
    return [part.get("name") if isinstance(part, Mapping) else part for part in found]


def predicted_seconds(recipe: Recipe, out: Path) -> tuple[float | None, str]:
    """Seconds of training a seed on this machine, and where the number comes from; None where nothing is known.

    The median of complete seeds of the same settings on a machine of this name; else the schedule simulated
    with layer times, where they have been measured here (`repro plan`, or a run whose cut asks for them), and
    without evaluations.
    """
    from statistics import median

    from repro.store import COMPLETE, read_runs

    times = [
        float(run.result["train_seconds"])
        for run in read_runs(out, recipe.name)
        if run.status == COMPLETE
        and run.result is not None
        and run.timed
        and same_settings(run.recipe, recipe)
        and run.result.get("machine") in (None, _this_machine())
    ]
    if times:
        return median(times), f"median of {len(times)} finished"
    plan = _plan_without_fetching(recipe)
    if plan is None or plan.costs is None:
        return None, ""
    from repro.planning.run_plan import predicted_seconds_per_batch

    return plan.num_batches * predicted_seconds_per_batch(plan), "predicted from layer times"


def _this_machine() -> str:
    import torch

    from repro.planning.machine import machine_name

    return machine_name(torch.device(choose_device("auto")))


def schedule_drawing(recipe: Recipe) -> str:
    """The gradient schedule (layer x batch) where filter gradients are approximated, with its realised fractions.

    Its columns are batches, so that it needs the size of the data set; nothing is fetched for it.
    """
    if recipe.gradient.estimator == "full" and isinstance(recipe.gradient.schedule, str):
        return ""
    from repro.planning.gradient_plan import drawing

    plan = _plan_without_fetching(recipe)
    return (
        drawing(plan)
        if plan
        else f"# the schedule is drawn where {recipe.data.name} is: it needs the number of batches"
    )


def _plan_without_fetching(recipe: Recipe) -> Plan | None:
    """The plan, nothing measured for it; None where the data are not here."""
    from repro import data
    from repro.errors import MissingError
    from repro.planning.run_plan import data_root, make_plan

    try:
        data.load(recipe.data, data_root(recipe), 0)
        return make_plan(recipe, choose_device("auto"), measure=False)
    except MissingError:
        return None
