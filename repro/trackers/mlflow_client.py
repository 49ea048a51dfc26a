"""`--log mlflow`: a run of MLflow for each seed, through its client; MLFLOW_TRACKING_URI says where."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from repro.store import write_atomically
from repro.trackers.numbers import numbers
from repro.trackers.tracker import Row, Run, Tracker

FILE = "mlflow-run"  # in the run's folder: the id under which a resumed run goes on
TOGETHER = 200  # numbers sent in one request
_STATUS = {"complete": "FINISHED", "interrupted": "KILLED"}


class MLflow(Tracker):
    """Experiment: the recipe. Run: a seed. Parameters: the settings. Metrics: the numbers of rows by batch."""

    def __init__(self) -> None:
        self._client: Any = None
        self._id = ""
        self._step = 0
        self._waiting: list[Any] = []

    def begin(self, run: Run) -> None:
        """Make the run in MLflow, or open the one that was begun."""
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        self._client = MlflowClient()
        self._step = run.first
        file = run.folder / FILE
        if run.first and file.is_file():
            self._id = file.read_text(encoding="utf-8").strip()
            self._client.update_run(self._id, status="RUNNING")
            return
        found = self._client.get_experiment_by_name(run.recipe)
        experiment = found.experiment_id if found else self._client.create_experiment(run.recipe)
        tags = {"repro.hash": run.hash, "repro.seed": str(run.seed), "repro.folder": str(run.folder)}
        made = self._client.create_run(experiment, run_name=f"{run.title} seed {run.seed}", tags=tags)
        self._id = str(made.info.run_id)
        _write(file, self._id)
        settings = [Param(key, str(value)[:500]) for key, value in _flat(run.settings)]
        for start in range(0, len(settings), 100):  # MLflow takes no more at once
            self._client.log_batch(self._id, params=settings[start : start + 100])

    def row(self, row: Row) -> None:
        """Keep its numbers until there are enough for a request, or an epoch is over."""
        from mlflow.entities import Metric

        if isinstance(row.get("step"), int):
            self._step = row["step"]
        now = int(1000 * time.time())
        self._waiting += [Metric(name, value, now, self._step) for name, value in numbers(row)]
        if len(self._waiting) >= TOGETHER or row.get("kind") == "epoch":
            self._send()

    def end(self, result: Row) -> None:
        """Send what is left and how the run ended."""
        if self._id:
            self._send()
            self._client.set_terminated(self._id, _STATUS.get(str(result.get("status")), "FAILED"))

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._client.log_batch(self._id, metrics=waiting)


def _write(file: Path, text: str) -> None:
    write_atomically(file, text + "\n")


def _flat(values: dict[str, Any], front: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        found += _flat(value, f"{front}{key}.") if isinstance(value, dict) else [(f"{front}{key}", value)]
    return found
