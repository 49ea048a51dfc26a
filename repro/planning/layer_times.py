"""A user's own layer times: read from a file, checked against the recipe's layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from repro.errors import UserError
from repro.planning.partition import LayerCost

FIELDS = ("forward_seconds", "backward_seconds")
SHAPE = '{"layers": [{"name": "conv1", "forward_seconds": 0.01, "backward_seconds": 0.02}, ...]}'


def read_layer_times(path: Path, names: Sequence[str]) -> tuple[LayerCost, ...]:
    """Seconds of each layer for one batch, from JSON or YAML as `repro plan RECIPE --json` writes it.

    `names`: the recipe's layers, which the file must name in the same order. Raises UserError saying what is wrong.
    """
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--layer-times {path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, yaml.YAMLError):
        raise UserError(f"--layer-times {path}: neither JSON nor YAML; expected {SHAPE}") from None
    rows = found.get("layers") if isinstance(found, Mapping) else found
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise UserError(f"--layer-times {path}: expected {SHAPE}")
    given = [str(row.get("name")) for row in rows]
    if given != list(names):
        raise UserError(f"--layer-times {path}: {_difference(given, names)}")
    return tuple(LayerCost(_seconds(path, row, FIELDS[0]), _seconds(path, row, FIELDS[1])) for row in rows)


def layer_rows(names: Sequence[str], costs: Sequence[LayerCost]) -> list[dict[str, Any]]:
    """What `read_layer_times` reads."""
    return [
        {"name": name, "forward_seconds": cost.forward, "backward_seconds": cost.backward}
        for name, cost in zip(names, costs, strict=True)
    ]


def _seconds(path: Path, row: Mapping[str, Any], field: str) -> float:
    value = row.get(field)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise UserError(
            f"--layer-times {path}: {field} of layer {row['name']} is {value!r}: give seconds, a number >= 0"
        )
    return float(value)


def _difference(given: Sequence[str], names: Sequence[str]) -> str:
    if len(given) != len(names):
        return f"it has {len(given)} layers, the recipe's model has {len(names)} ({names[0]} .. {names[-1]})"
    place = next(i for i, (a, b) in enumerate(zip(given, names, strict=True)) if a != b)
    return f"layer {place} is '{given[place]}', the recipe's model has '{names[place]}' there"
