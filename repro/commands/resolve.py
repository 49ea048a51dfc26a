"""From what a user typed to recipes: device and profile where none was given."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from repro.errors import MissingError, UserError, nearest
from repro.recipe import Given, Recipe, combinations, load, parse_overrides
from repro.recipe.load import ALIASES


def gpu_count() -> int:
    """Usable CUDA devices, counted without opening one."""
    import torch

    return torch.cuda.device_count()


def choose_device(device: str) -> str:
    """auto -> cuda where there is a GPU. MissingError where cuda is asked for and absent."""
    if device == "cpu":
        return "cpu"
    count = gpu_count()
    if device == "cuda" and count == 0:
        raise MissingError("--device cuda: this machine has no CUDA device; use --device cpu")
    return "cuda" if count else "cpu"


def choose_recipe(
    name: str,
    profile: str | None,
    settings: Sequence[str],
    device: str = "cpu",
    *,
    said: set[str] | None = None,
) -> Recipe:
    """Load a recipe. Without a profile: paper when a GPU is there for every block, else quick.

    Says so on stderr, a line that is in `said` not again.
    """
    overrides = parse_overrides(settings)
    if profile is not None:
        recipe: Recipe = load(name, profile, overrides)
        return recipe
    paper: Recipe = load(name, "paper", overrides)
    enough = device == "cuda" and gpu_count() >= paper.ranks
    chosen = paper if enough else load(name, "quick", overrides)
    reason = "a GPU for every block" if enough else f"profile paper needs {paper.ranks} GPU(s)"
    line = f"{chosen.name}: profile {chosen.profile} ({reason})"
    if said is None or line not in said:
        print(line, file=sys.stderr, flush=True)
    if said is not None:
        said.add(line)
    return chosen


def choose_all(
    names: Sequence[str], profile: str | None, settings: Sequence[str], sweeps: Sequence[str], device: str
) -> list[tuple[Recipe, Given]]:
    """Every recipe under every combination of the swept values, with what the command asked of it.

    UserError names the combination that a recipe refuses; nothing has run then.
    """
    words, swept = combinations(settings, sweeps)
    found, said = [], set[str]()
    for name in names:
        for chosen in words:
            try:
                recipe = choose_recipe(name, profile, chosen, device, said=said)
            except UserError as error:
                raise _about_sweep(error, name, chosen[len(settings) :]) from None
            where = str(Path(name).absolute()) if is_file(name) else recipe.name
            found.append((recipe, Given(where, parse_overrides(chosen), swept)))
    return found


def _about_sweep(error: UserError, name: str, chosen: Sequence[str]) -> UserError:
    """The error, with the combination of values that it is about; an unknown key may be meant as a short name."""
    words = str(error)
    for key in (word.partition("=")[0] for word in chosen):
        if f"unknown setting '{key}'." in words and "Did you mean" not in words:
            words = words.replace(f"'{key}'.", f"'{key}'.{nearest(key, ALIASES)}")
    return UserError(f"{name} with --sweep {' '.join(chosen)}: {words}") if chosen else error


def is_file(name: str) -> bool:
    """Whether a word means a recipe's file, not its name."""
    return name.endswith((".yaml", ".yml")) or "/" in name


def choose_seeds(seeds: int | None, seed_list: str | None) -> list[int]:
    """The seeds that --seeds or --seed-list name; UserError where they are wrong."""
    if seeds is not None and seed_list is not None:
        raise UserError("--seeds and --seed-list exclude each other: give one of them")
    if seed_list is not None:
        words = [w.strip() for w in seed_list.split(",")]
        if not all(w.isdigit() for w in words):
            raise UserError(
                f"--seed-list {seed_list!r}: give whole numbers >= 0 separated by commas, for example 0,3"
            )
        return sorted({int(w) for w in words})
    count = 1 if seeds is None else seeds
    if count < 1:
        raise UserError(f"--seeds {count}: give a whole number >= 1")
    return list(range(count))
