"""`repro verify`: the K-process engine against the one-process oracle."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from repro.commands.resolve import choose_recipe
from repro.errors import UserError
from repro.recipe import Recipe

GPU_TOLERANCE = 1e-4  # relative, of losses and weights; on CPU they must be equal bit for bit


def verify_recipes(
    names: Sequence[str],
    profile: str | None,
    settings: Sequence[str],
    steps: int,
    seed: int,
    device: str,
    engine: str = "processes",
) -> int:
    """Compare each recipe, all resolved before the first; 0 only if all of them agree."""
    if steps < 1:
        raise UserError(f"--steps {steps}: give a whole number >= 1")
    recipes = [choose_recipe(name, profile, [*settings, f"max_steps={steps}"], device) for name in names]
    return max(verify_recipe(recipe, seed, device, engine) for recipe in recipes)


def verify_recipe(recipe: Recipe, seed: int, device: str, engine: str) -> int:
    """Run engine and oracle from the same seed; prints what was compared; 0 only if all is equal."""

    from repro.engine.processes import fork_server as server

    if device == "cpu":
        server.warm_up()

    from repro.planning.engine_choice import choose_engine
    from repro.verification import compare

    engine, _ = choose_engine(recipe, "processes" if engine == "auto" else engine, 1, device)
    engine = "processes" if engine == "oracle" else engine

    replicas = "" if recipe.replicas == 1 else f", {recipe.replicas} replicas"
    if engine == "sequential":
        what = f"sequential engine ({recipe.blocks} blocks{replicas})"
    else:
        what = f"engine with {recipe.ranks} process{'es' if recipe.ranks > 1 else ''}"
        what += f" ({recipe.blocks} block{'s' if recipe.blocks > 1 else ''}{replicas})" if replicas else ""
    print(
        f"{recipe.name}: {what} against the oracle, seed {seed}",
        file=sys.stderr,
    )
    with tempfile.TemporaryDirectory(prefix="repro-verify-") as folder:
        found = compare(recipe, seed, device, Path(folder), engine)
    for line in found.lines(GPU_TOLERANCE if device == "cuda" else 0.0):
        print(line)
    return 0 if found.holds(GPU_TOLERANCE if device == "cuda" else 0.0) else 1
