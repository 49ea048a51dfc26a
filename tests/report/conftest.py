"""Result folders for the report tests; the project's own reference runs are kept out of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from repro import paths
from tests.report.factory import make_run, training


@pytest.fixture(autouse=True)
def reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in the place of results/reference."""
    folder = tmp_path / "reference"
    folder.mkdir()
    monkeypatch.setattr(paths, "reference", lambda: folder)
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """BP, FR and DSP at K = 2, three seeds each: times, losses and accuracies known."""
    root = tmp_path / "results" / "runs"
    for name, seconds in (("bp-resnet98-k2", 0.30), ("fr-resnet98-k2", 0.20), ("dsp-resnet98-k2", 0.16)):
        for seed in range(3):
            drift = 1 + 0.02 * seed
            rows = training(4, best=92.0 + 0.5 * seed)
            make_run(
                root, name, seed, epochs=rows, seconds_per_batch=seconds * drift, busy_seconds=[0.14, 0.15]
            )
    return root
