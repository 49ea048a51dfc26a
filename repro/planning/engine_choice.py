"""Which engine carries out a run: a process per block, or all blocks in turn in one process."""

from __future__ import annotations

from repro.errors import UserError
from repro.recipe import Recipe

ENGINES = ("auto", "processes", "sequential")
ONE_PROGRAM = ("gradient-gap", "bias")  # experiments that run as the oracle, whatever the engine


def choose_engine(recipe: Recipe, asked: str, places: int, device: str) -> tuple[str, str]:
    """Return ("processes", "sequential" or "oracle") and why, for a run with `places` cores (or GPUs) of its own.

    `asked` = "auto" takes a process per block where every block has a core or GPU, or where a time is what the
    recipe is about, and the sequential engine otherwise. UserError where "sequential" is asked for and cannot be.
    """
    if recipe.experiment in ONE_PROGRAM:
        return "oracle", f"{recipe.experiment} is one program in one process"
    if about_time(recipe):
        if asked == "sequential":
            raise UserError(
                f"--engine sequential: {recipe.name} delays its blocks at random to see what that costs in time, and "
                "one process for all blocks has no such time. Allowed: processes, auto"
            )
        return "processes", "the result is a time"
    if asked != "auto":
        return asked, "asked for"
    ranks = recipe.ranks
    needed = ranks if device == "cuda" else ranks * (recipe.runtime.threads or 1)
    what = "GPU" if device == "cuda" else "core"
    have = f"{places} {what}{'' if places == 1 else 's'}"
    if ranks == 1 or needed <= places:
        return "processes", f"a {what} for every block{recipe.of_replicas}"
    return (
        "sequential",
        f"{recipe.blocks} blocks{recipe.of_replicas} would share {have}; --engine processes runs them all the same",
    )


def about_time(recipe: Recipe) -> bool:
    """Whether a time is the result: the straggler experiment, or random delays in a training."""
    return recipe.experiment == "straggler" or (
        recipe.straggler.probability > 0 and recipe.straggler.delay > 0
    )


def engine_words(name: str, engine: str, reason: str) -> str:
    """The line that says what was chosen."""
    times = "; its times enter no table" if engine == "sequential" else ""
    return f"{name}: engine {engine} ({reason}){times}"
