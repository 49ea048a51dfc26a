"""What a run is: schema, loading with overrides and profiles, and identity (hash); no torch."""

from repro.recipe.identity import counted, run_hash
from repro.recipe.load import Entry, catalogue, load, parse_overrides, validate
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
from repro.recipe.sweep import Given, combinations

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
    "load",
    "parse_overrides",
    "run_hash",
    "validate",
]
