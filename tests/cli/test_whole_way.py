"""The whole way on real recipes: every method, experiment and estimator runs, and fills its tables and figures."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(600)  # the first test makes all the runs
Repro = Callable[..., "subprocess.CompletedProcess[str]"]

METHODS = ("bp", "gpipe", "fr", "ddg", "fdg", "dni", "cdni", "dsp")
TRAIN = [f"{method}-resnet98" for method in METHODS]
STRAGGLER = [f"straggler-{method}-resnet98" for method in ("bp", "gpipe", "fr", "ddg", "fdg", "dsp")]
GAP = [f"gradient-gap-{method}-resnet98" for method in ("bp", "fr", "dsp")]
ESTIMATORS = ("full", "zero", "random", "top1", "sampled", "shared-topk")
APPROXIMATION = [f"{estimator}-cnn2" for estimator in ESTIMATORS]
RECIPES = [*TRAIN, *STRAGGLER, *GAP, *APPROXIMATION, "bias-resnet20"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, repro: Repro) -> Path:
    """All of them, one seed each, by one command; six updates fill every queue of three blocks."""
    out = tmp_path_factory.mktemp("whole") / "runs"
    done = repro(
        "run",
        *RECIPES,
        "--profile",
        "smoke",
        "--set",
        "runtime.threads=1",
        "--set",
        "max_steps=6",
        "--engine",
        "processes",
        "--runs",
        str(out),
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    return out


def test_every_recipe_leaves_a_complete_seed(runs: Path) -> None:
    found = {path.parts[-4]: json.loads(path.read_text()) for path in runs.glob("*/*/seed-0/result.json")}
    assert set(found) == set(RECIPES)
    assert {result["status"] for result in found.values()} == {"complete"}


@pytest.mark.parametrize(
    ("table", "count"),
    [
        ("speedup", len(TRAIN)),
        ("accuracy", len(TRAIN + APPROXIMATION)),
        ("straggler", len(STRAGGLER)),
        ("bias", None),
    ],
)
def test_every_table_has_a_row_for_each(runs: Path, repro: Repro, table: str, count: int | None) -> None:
    done = repro("table", table, "--runs", str(runs), "--format", "json", "--profile", "smoke")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == count if count else rows


def test_every_figure_is_drawn(runs: Path, repro: Repro, tmp_path: Path) -> None:
    names = ["loss", "timeline", "straggler", "gradient-gap", "memory", "gradient-approximation", "schedules"]
    place = ["--runs", str(runs), "--out", str(tmp_path), "--format", "svg", "--profile", "smoke"]
    done = repro("figures", *names, *place)
    assert done.returncode == 0, done.stderr
    assert sorted(path.stem for path in tmp_path.glob("*.svg")) == sorted(names)
