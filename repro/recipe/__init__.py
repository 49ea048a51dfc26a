"""What a run is: schema, loading with overrides and profiles, and identity (hash); no torch.

The schema comes with the first use of one of its names, so that listing recipes does without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from repro.recipe.identity import counted, run_hash
from repro.recipe.load import load, parse_overrides, validate
from repro.recipe.suite import Entry, catalogue, is_recipe
from repro.recipe.sweep import Given, combinations

if TYPE_CHECKING:
    from repro.recipe.optimizers import OptimizerSpec
    from repro.recipe.schema import (
        DataSpec,
        GradientRule,
        GradientSpec,
        ModelSpec,
        Recipe,
        RuntimeSpec,
        StragglerSpec,
    )

__all__ = [
    "DataSpec",
    "Entry",
    "Given",
    "GradientRule",
    "GradientSpec",
    "ModelSpec",
    "OptimizerSpec",
    "Recipe",
    "RuntimeSpec",
    "StragglerSpec",
    "catalogue",
    "combinations",
    "counted",
    "is_recipe",
    "load",
    "parse_overrides",
    "run_hash",
    "validate",
]


def __getattr__(name: str) -> Any:
    """A class of the schema."""
    if name not in __all__:
        raise AttributeError(f"module 'repro.recipe' has no attribute '{name}'")
    return getattr(import_module("repro.recipe.schema"), name)
