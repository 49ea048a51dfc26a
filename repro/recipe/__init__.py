"""What a run is: schema, loading with overrides and profiles, and identity (hash); no torch."""

from repro.recipe.identity import run_hash
from repro.recipe.load import load, parse_overrides, validate
from repro.recipe.schema import (
    DataSpec,
    GradientRule,
    GradientSpec,
    ModelSpec,
    OptimizerSpec,
    Recipe,
    RuntimeSpec,
    StragglerSpec,
)
from repro.recipe.suite import Entry, catalogue, is_recipe

__all__ = [
    "DataSpec",
    "Entry",
    "GradientRule",
    "GradientSpec",
    "ModelSpec",
    "OptimizerSpec",
    "Recipe",
    "RuntimeSpec",
    "StragglerSpec",
    "catalogue",
    "is_recipe",
    "load",
    "parse_overrides",
    "run_hash",
    "validate",
]
