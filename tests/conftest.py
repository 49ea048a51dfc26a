"""Shared by all tests: small recipes, and one machine-independent place for caches.

How the suite stays fast: see "Tests that stay fast" in docs/reliability.md.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
TINY = {
    "name": "tiny",
    "group": "dsp",
    "reproduces": "a test",
    "profile": "smoke",
    "model": {"name": "tiny", "dropout": 0.1},
    "data": {"name": "colours", "batch_size": 32, "test_batch_size": 64},
    "method": {"name": "bp"},
    "cut": "estimated",
    "runtime": {"threads": 1},
    "epochs": 2,
    "optimizer": {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.0005},
}


@pytest.fixture(scope="session", autouse=True)
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    os.environ["REPRO_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    return


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Any]:
    """Make a `Recipe` of the tiny net; dotted keys override (`tiny(**{"method.name": "dsp", "blocks": 3})`)."""
    from repro.recipe import validate

    def make(**overrides: Any) -> Any:
        raw: dict[str, Any] = {k: dict(v) if isinstance(v, dict) else v for k, v in TINY.items()}
        for key, value in overrides.items():
            *parents, last = key.split(".")
            node = raw
            for parent in parents:
                node = node.setdefault(parent, {})
            node[last] = value
        return validate(raw)

    return make


@pytest.fixture(scope="session")
def repro() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line as a user does, in a process of its own (`tests.programs.call`)."""
    from tests.programs import call

    return call
