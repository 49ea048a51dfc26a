"""`repro clean`, and what `run --fresh` and `show` say of runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.holding import holding
from tests.report.factory import make_run

NAME = "bp-resnet98-k2"
Repro = Callable[..., Any]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A finished seed, a failed one, and one without a result."""
    make_run(tmp_path, NAME, 0)
    make_run(tmp_path, NAME, 1, status="failed")
    (make_run(tmp_path, NAME, 2) / "result.json").unlink()
    return tmp_path


def seeds(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*/*/seed-*"))


def test_what_can_go_is_listed_and_nothing_removed_without_a_word(place: Path, repro: Repro) -> None:
    done = repro("clean", "--runs", str(place))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [("seed-1  failed" in line, "seed-2  unfinished" in line) for line in lines] == [
        (True, False),
        (False, True),
    ]
    assert "--yes removes" in done.stderr
    assert seeds(place) == ["seed-0", "seed-1", "seed-2"]


def test_yes_removes_them_and_the_rest_stays(place: Path, repro: Repro) -> None:
    assert repro("clean", "--runs", str(place), "--yes").returncode == 0
    assert seeds(place) == ["seed-0"]
    again = repro("clean", "--runs", str(place), "--yes")
    assert (again.returncode, again.stdout) == (0, "")
    assert "nothing to remove" in again.stderr


def test_a_run_under_way_is_left_alone(place: Path, repro: Repro) -> None:
    with holding(next(place.glob("*/*/seed-2")), blocking=False, say=print):
        done = repro("clean", "--runs", str(place), "--yes")
    assert "in use" in done.stderr
    assert seeds(place) == ["seed-0", "seed-2"]


def test_an_unknown_recipe_is_named(place: Path, repro: Repro) -> None:
    done = repro("clean", "bp-resnet98-k3", "--runs", str(place))
    assert done.returncode == 2
    assert f"Did you mean '{NAME}'" in done.stderr


def test_show_names_the_command_and_fresh_what_it_deletes(tmp_path: Path, repro: Repro) -> None:
    words = ["tests/recipes_for_tests/tiny-bp.yaml", "--profile", "smoke", "--set", "max_steps=2"]
    root = Path(__file__).parents[2]
    run = ["run", str(root / words[0]), *words[1:], "--runs", str(tmp_path)]
    assert repro(*run).returncode == 0
    again = repro(*run, "--fresh")
    assert "seed 0: --fresh deletes what was run before in" in again.stderr
    shown = repro("show", str(root / words[0]), *words[1:], "--runs", str(tmp_path))
    assert f"--seeds 5 --profile smoke --set max_steps=2 --runs {tmp_path}" in shown.stdout


def test_a_stale_run_is_listed_with_what_has_changed(tmp_path: Path, repro: Repro) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("extends: tiny\nmethod: bp\n")
    (tmp_path / "tiny.yaml").write_text(
        (Path(__file__).parents[1] / "recipes_for_tests" / "tiny.yaml").read_text()
    )
    runs = tmp_path / "runs"
    done = repro("run", str(own), "--profile", "smoke", "--set", "max_steps=2", "--runs", str(runs))
    assert done.returncode == 0, done.stderr
    own.write_text("extends: tiny\nmethod: bp\noptimizer: {momentum: 0.5}\n")
    listed = repro("clean", "--runs", str(runs))
    assert "stale: optimizer.momentum" in listed.stdout, listed.stdout + listed.stderr
