"""`repro run --sweep` from the command line to a table: field report F38."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cli import app
from repro.errors import UserError
from tests.conftest import ROOT

Repro = Callable[..., "subprocess.CompletedProcess[str]"]
SMALL = ["--profile", "smoke", "--set", "threads=1", "--set", "max_steps=2", "--set", "blocks=1"]


@pytest.fixture
def recipes(tmp_path: Path) -> dict[str, Path]:
    """A user's own files, which a test may edit."""
    folder = tmp_path / "recipes"
    shutil.copytree(ROOT / "tests" / "recipes_for_tests", folder)
    return {method: folder / f"tiny-{method}.yaml" for method in ("bp", "dsp")}


def accuracy(repro: Repro, runs: Path) -> dict[str, dict[str, object]]:
    done = repro("table", "accuracy", "--runs", str(runs), "--format", "json")
    assert done.returncode == 0, done.stderr
    return {row["method"]: row for row in json.loads(done.stdout)["rows"]}


def test_two_rates_of_two_methods_make_four_rows(
    repro: Repro, recipes: dict[str, Path], tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    names = [str(path) for path in recipes.values()]
    words = ["run", *names, "--seeds", "2", "--sweep", "lr=0.01,0.02", "--runs", str(runs), *SMALL]
    # a setting without effect: the same runs again
    words += ["--sweep", "gradient.kernel=auto,reference"]
    done = repro(*words)
    assert done.returncode == 0, done.stderr
    assert "8 of 8 seeds complete" in done.stderr
    assert done.stderr.count("run once") == 4
    assert "tiny-dsp, lr 0.02, kernel auto seed 1: done" in done.stderr
    given = [
        json.loads(path.read_text())["given"] for path in sorted(runs.glob("tiny-dsp/*/seed-0/env.json"))
    ]
    assert sorted(g["overrides"]["optimizer.lr"] for g in given) == [0.01, 0.02]
    assert all(g["recipe"] == str(recipes["dsp"]) for g in given)
    assert all(g["swept"] == ["optimizer.lr", "gradient.kernel"] for g in given)
    found = accuracy(repro, runs)
    assert {name: (row["n"], row["started"]) for name, row in found.items()} == dict.fromkeys(
        ("BP, lr 0.01", "BP, lr 0.02", "DSP(0;0), lr 0.01", "DSP(0;0), lr 0.02"), (2, 2)
    )
    shown = repro("show", names[0], "--profile", "smoke", "--runs", str(runs))
    assert [line for line in shown.stdout.splitlines() if "seeds 0, 1 complete" in line and "lr 0.0" in line][
        1:
    ]
    base = recipes["bp"].parent / "tiny.yaml"
    base.write_text(base.read_text().replace("momentum: 0.9", "momentum: 0.8"))
    stale = accuracy(repro, runs)
    assert list(stale) == list(found)
    assert {row["note"] for row in stale.values()} == {"stale: the recipe has changed since"}
    assert repro("table", "accuracy", "--runs", str(runs), "--strict").returncode == 1


def test_a_dry_run_shows_every_combination(repro: Repro, tmp_path: Path) -> None:
    sweeps = ["--sweep", "staleness=1,0;2,0", "--sweep", "staleness=2,0;4,0", "--sweep", "lr=0.1,0.2"]
    name = str(ROOT / "tests" / "recipes_for_tests" / "tiny-dsp.yaml")
    done = repro("run", name, *sweeps, "--dry-run", "--profile", "smoke", "--runs", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("tiny-dsp")] == [
        f"tiny-dsp, staleness {staleness}, lr {lr} (profile smoke)"
        for staleness in ("1,0;2,0", "2,0;4,0")
        for lr in (0.1, 0.2)
    ]
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        ("lr=", ["--sweep 'lr='", "names no value"]),
        ("lrr=1,2", ["unknown setting 'lrr'", "Did you mean 'lr'"]),
        ("optimizer.lrr=1,2", ["unknown setting 'optimizer.lrr'", "Did you mean 'lr'"]),
        ("lr=0.1,x", ["bp-resnet98 with --sweep optimizer.lr=x", "number"]),
        (
            "staleness=1,1,0;4,2,0",
            ["bp-resnet98 with --sweep method.staleness=1,1,0;4,2,0", "unknown setting"],
        ),
        ("runtime.threads=1,2", ["runtime.threads is in --set and in --sweep"]),
    ],
)
def test_a_wrong_sweep_is_refused_before_anything_runs(sweep: str, words: list[str], tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        app(
            ["run", "bp-resnet98", "--sweep", sweep, "--runs", str(tmp_path / "runs"), *SMALL, "--dry-run"],
            standalone_mode=False,
        )
    assert caught.value.exit_code == 2
    for word in words:
        assert word in str(caught.value)
    assert not (tmp_path / "runs").exists()
