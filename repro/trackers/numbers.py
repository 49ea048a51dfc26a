"""The numbers of a row, under the names that trackers show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_PLACES = ("step", "epoch")


def numbers(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """("step/loss", 0.31) for each number of a row of metrics.jsonl: its kind, and its field."""
    kind = str(row.get("kind", "row"))
    for name, value in row.items():
        if name not in _PLACES and isinstance(value, (int, float)) and not isinstance(value, bool):
            yield f"{kind}/{name}", float(value)
