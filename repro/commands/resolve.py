"""From what a user typed to recipes: device and profile where none was given."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from repro.errors import MissingError, UserError
from repro.recipe import Recipe, load, parse_overrides


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


def choose_recipe(name: str, profile: str | None, settings: Sequence[str], device: str = "cpu") -> Recipe:
    """Load a recipe. Without a profile: paper when a GPU is there for every block, else quick; says so on stderr."""
    overrides = parse_overrides(settings)
    if profile is not None:
        recipe: Recipe = load(name, profile, overrides)
        return recipe
    paper: Recipe = load(name, "paper", overrides)
    enough = device == "cuda" and gpu_count() >= paper.blocks
    chosen = paper if enough else load(name, "quick", overrides)
    reason = "a GPU for every block" if enough else f"profile paper needs {paper.blocks} GPU(s)"
    print(f"{chosen.name}: profile {chosen.profile} ({reason})", file=sys.stderr, flush=True)
    return chosen


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
