"""How far a run has come, from the end of its metrics.jsonl: a long file is not read."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TAIL_BYTES = 1 << 16


@dataclass(frozen=True)
class Reached:
    """Batches trained, epochs evaluated, and the pace: seconds a batch of training up to the last evaluation."""

    batches: int = 0
    epoch: int = 0
    seconds_per_batch: float | None = None


def reached(metrics: Path) -> Reached:
    """Where a run stands; nothing where there is no row yet, or what there is cannot be read."""
    batches, epoch, pace = 0, 0, None
    for row in _rows(metrics):
        step, evaluated = row.get("step"), row.get("epoch")
        if row.get("kind") == "step" and isinstance(step, int):
            batches = step + 1
        elif row.get("kind") == "epoch" and isinstance(evaluated, int):
            epoch, seconds = evaluated, row.get("train_seconds")
            if batches and isinstance(seconds, (int, float)):
                pace = seconds / batches
    return Reached(batches, epoch, pace)


def _rows(metrics: Path) -> list[dict[str, Any]]:
    """The rows in the last TAIL_BYTES of the file."""
    try:
        with metrics.open("rb") as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(max(0, length - TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return []
    found = []
    for line in lines[1 if length > TAIL_BYTES else 0 :]:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            found.append(row)
    return found
