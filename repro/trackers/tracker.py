"""What a tracker is: something that hears a run begin, its rows, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """The run that rows are of. `settings`: the resolved recipe; `first`: the batch that it begins, or goes on, at."""

    title: str
    recipe: str
    hash: str
    seed: int
    folder: Path
    settings: dict[str, Any]
    first: int = 0


class Tracker:
    """Base of all trackers; what it raises is said once, and it hears no more."""

    def begin(self, run: Run) -> None:
        """Before the first row."""

    def row(self, row: Row) -> None:
        """A row of metrics.jsonl, as it is written."""

    def end(self, result: Row) -> None:
        """The fields of result.json, whatever the status. Called once, last."""


class Calls(Tracker):
    """A user's function, called with every row and the run; the result comes as a row of kind "result"."""

    def __init__(self, function: Callable[[dict[str, Any], Run], object]) -> None:
        self._function = function
        self._run: Run | None = None

    def begin(self, run: Run) -> None:
        """Remember the run."""
        self._run = run

    def row(self, row: Row) -> None:
        """Pass a copy on."""
        assert self._run is not None
        self._function(dict(row), self._run)

    def end(self, result: Row) -> None:
        """Pass the result on."""
        self.row({"kind": "result", **result})
