"""A run on disk: recipe.yaml, env.json, metrics.jsonl and, written last, result.json."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

COMPLETE = "complete"
# Of a run whose blocks did not have the machine to themselves no report reads these (`StoredRun.timed`).
TIMES = (
    "train_seconds", "seconds_per_batch", "images_per_second", "tokens_per_second", "busy_seconds", "busy_seconds_total",
    "typical_busy_seconds", "straggler",
)  # fmt: skip
# Nor these of the sequential engine: its queues hardly fill, and one process holds all blocks.
MEMORY = ("peak_memory_bytes", "activation_bytes", "memory_formula_bytes", "rss_bytes")
STATUSES = (COMPLETE, "failed", "diverged", "interrupted")


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text` in one step: a reader sees the old file or the new one, whole.

    Raises OSError (a full disk, no permission), leaving the old file as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON with full float precision; a number that is not finite becomes the text "nan", "inf" or "-inf"."""
    return json.dumps(_finite(value), indent=indent, sort_keys=indent is not None, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read a metrics file; an incomplete last line is dropped with a warning, it is what a kill leaves."""
    rows: list[dict[str, Any]] = []
    if not path.is_file():
        return rows
    data = path.read_bytes()
    lines = data.split(b"\n")
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or number == len(lines) - 1:  # the last piece has no newline behind it
            warnings.warn(f"{path}: line {number + 1} is incomplete and left out", stacklevel=2)
            continue
        rows.append(row)
    return rows


def _ends_whole(path: Path) -> bool:
    """Whether the last line of a file has its newline (or there is none)."""
    try:
        return path.read_bytes()[-1:] in (b"", b"\n")
    except OSError:
        return True


@dataclass
class RunFolder:
    """One seed of one recipe under one hash: `<out>/<recipe>/<hash>/seed-<s>/`."""

    path: Path

    @property
    def metrics(self) -> Path:
        """One JSON object a line: steps and epochs."""
        return self.path / "metrics.jsonl"

    @property
    def result(self) -> Path:
        """The completion record."""
        return self.path / "result.json"

    @property
    def checkpoints(self) -> Path:
        """Consistent states of all blocks."""
        return self.path / "checkpoints"

    def read_recipe(self) -> dict[str, Any]:
        """The resolved recipe; empty where there is none or it cannot be read."""
        try:
            text = (self.path / "recipe.yaml").read_text(encoding="utf-8")
            found = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except (OSError, ValueError, yaml.YAMLError):
            return {}
        return found if isinstance(found, dict) else {}

    def read_environment(self) -> dict[str, Any]:
        """Versions, devices, command line and what it asked for; empty where there is none or it cannot be read."""
        try:
            found = json.loads((self.path / "env.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def read_result(self) -> dict[str, Any] | None:
        """The result, or None where there is none or it cannot be read."""
        try:
            found = json.loads(self.result.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and found.get("status") in STATUSES else None

    def finished(self) -> bool:
        """Whether the run is complete and its metrics hold what the result says."""
        result = self.read_result()
        if result is None or result["status"] != COMPLETE:
            return False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = read_metrics(self.metrics)
        steps = sum(row.get("kind") == "step" for row in rows)
        # A cut last line may be an epoch's: the steps alone would not tell.
        return bool(steps == result.get("num_steps")) and _ends_whole(self.metrics)

    def write_recipe(self, recipe: Mapping[str, Any]) -> None:
        """Store the resolved recipe."""
        write_atomically(self.path / "recipe.yaml", yaml.safe_dump(dict(recipe), sort_keys=False))

    def write_environment(self, environment: Mapping[str, Any]) -> None:
        """Store versions, devices, threads, git commit and command line."""
        write_atomically(self.path / "env.json", to_json(environment, indent=1) + "\n")

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Store the completion record; the last thing that a run writes."""
        write_atomically(self.result, to_json(result, indent=1) + "\n")

    def cut_metrics(self, steps: int, epochs: int) -> None:
        """Drop all rows beyond the first `steps` batches and `epochs` epochs: where a resumed run goes on."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = read_metrics(self.metrics)
        kept = [
            row
            for row in rows
            if (row.get("kind") == "step" and row["step"] < steps)
            or (row.get("kind") == "epoch" and row["epoch"] <= epochs)
        ]
        write_atomically(self.metrics, "".join(to_json(row) + "\n" for row in kept))


@dataclass(frozen=True)
class StoredRun:
    """A run as reports read it: its result, recipe, environment and (on demand) metrics."""

    folder: RunFolder
    recipe_name: str
    hash: str
    seed: int
    recipe: dict[str, Any]
    environment: dict[str, Any]
    result: dict[str, Any] | None  # None: no readable result, the run did not finish
    note: str = ""
    _rows: list[list[dict[str, Any]]] = field(default_factory=list, compare=False, repr=False)

    @property
    def timed(self) -> bool:
        """Whether its times may be compared: not those of the sequential engine, nor of runs beside each other."""
        return bool((self.result or {}).get("timed", True))

    @property
    def status(self) -> str:
        """complete, failed, diverged, interrupted, or unfinished."""
        return "unfinished" if self.result is None else str(self.result["status"])

    def metrics(self) -> list[dict[str, Any]]:
        """All rows of the metrics file, read once."""
        if not self._rows:
            rows = read_metrics(self.folder.metrics)
            self._rows.append(rows if self.timed else [_without(row, ("train_seconds",)) for row in rows])
        return self._rows[0]

    def epochs(self) -> list[dict[str, Any]]:
        """Rows of kind epoch in order."""
        return sorted((r for r in self.metrics() if r.get("kind") == "epoch"), key=lambda r: r["epoch"])


def comparable(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result as reports may read it: without times, and memory, that say nothing about the method."""
    hidden = () if result.get("timed", True) else TIMES
    sequential = "sequential" in str(result.get("engine", ""))
    return _without(result, (*hidden, *(MEMORY if sequential else ())))


def _without(row: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in names}


def read_runs(root: Path, recipe: str = "*") -> list[StoredRun]:
    """All runs under `root`, or those of one recipe, in a stable order (recipe, hash, seed), whatever they were made in.

    A folder whose name or recipe does not match what it holds (a copy under another name) is left out.
    """
    return sorted(_scan(root, recipe), key=lambda r: (r.recipe_name, r.hash, r.seed))


def seed_folders(root: Path, recipe: str = "*") -> Iterator[tuple[RunFolder, int]]:
    """Every folder of a seed under `root`, or of one recipe, with the seed that its name says."""
    for path in root.glob(f"{recipe}/*/seed-*"):
        digits = path.name.removeprefix("seed-")
        if path.is_dir() and digits.isdigit() and str(int(digits)) == digits:
            yield RunFolder(path), int(digits)


def _scan(root: Path, name: str) -> Iterator[StoredRun]:
    for folder, seed in seed_folders(root, name):
        path, recipe = folder.path, folder.read_recipe()
        if not recipe:
            continue
        environment = folder.read_environment()
        result, note = folder.read_result(), ""
        if result is not None:
            identity = (result.get("recipe"), result.get("hash"), result.get("seed"))
            if identity != (path.parent.parent.name, path.parent.name, seed):
                continue  # a copy under another name: it counts once, where it was made
            result = comparable(result)
            if result["status"] == COMPLETE and not folder.finished():
                result, note = None, "metrics.jsonl does not hold the steps that result.json names"
        yield StoredRun(
            folder, path.parent.parent.name, path.parent.name, seed, recipe, environment, result, note
        )
