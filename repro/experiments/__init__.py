"""What a recipe can ask for beyond the schema: one file per experiment, each turning a plan and a seed into a run."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from repro.experiments.session import Session

_FILES = {"train": "train", "straggler": "straggler", "gradient-gap": "gradient_gap", "bias": "bias"}


def experiment(name: str) -> Callable[[Session], dict[str, Any]]:
    """Return the function that runs experiment `name` and gives the fields of its result."""
    found: Callable[[Session], dict[str, Any]] = import_module(f"repro.experiments.{_FILES[name]}").run
    return found
