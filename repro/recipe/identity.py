"""A run's identity: a hash over every resolved value that can change a number."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repro.recipe.schema import Recipe

# Raise when a change of the code changes the numbers that the same settings give.
NUMERICS = 1

# Settings that say where and how to run, or name things, but change no number.
_LEFT_OUT = {
    "name": True,
    "group": True,
    "reproduces": True,
    "profile": True,
    "runtime": True,
    "data": {"num_workers", "path"},
}

# Settings that came later than runs whose names must stay: left out at the value that those runs had.
_ONLY_WHEN_CHANGED = {"norm_recalibration": 0}


def run_hash(recipe: Recipe, *, device: str, data_identity: str, cut: tuple[int, ...]) -> str:
    """Return 12 hex digits that name the run's folder.

    Covers the settings, the device type ("cpu" or "cuda", not its index), K, the resolved `cut`, what the
    data set holds and the version of the numerics; not the number of threads or of loader workers.
    """
    values: dict[str, Any] = recipe.model_dump(mode="json", exclude=_LEFT_OUT)  # type: ignore[arg-type]
    for key, before in _ONLY_WHEN_CHANGED.items():
        if values.get(key) == before:
            del values[key]
    values.update(cut=list(cut), device=device.split(":")[0], data_identity=data_identity, numerics=NUMERICS)
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
