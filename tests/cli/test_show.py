"""`repro show`: what a user learns of a recipe before running it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Repro = Callable[..., "subprocess.CompletedProcess[str]"]


def test_without_data_only_the_drawing_is_missing(repro: Repro, tmp_path: Path) -> None:
    done = repro("show", "top1-resnet20-s1", "--profile", "paper", env={"REPRO_DATA": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert "milestones" in done.stdout
    assert "the schedule is drawn where cifar10 is" in done.stdout
    assert list(tmp_path.iterdir()) == [], "show fetches nothing"


def test_an_estimator_given_by_hand_is_drawn_too(repro: Repro) -> None:
    done = repro(
        "show",
        "bp-resnet98",
        "--profile",
        "smoke",
        "--set",
        "estimator=top1",
        "--set",
        "gradient.schedule=s1",
    )
    assert done.returncode == 0, done.stderr
    assert "approximated: " in done.stdout
    assert " by FLOPs" in done.stdout


def test_json_has_the_recipe_and_what_was_changed(repro: Repro) -> None:
    done = repro("show", "dsp-resnet98", "--profile", "smoke", "--set", "lr=0.02", "--json")
    (row,) = json.loads(done.stdout)["rows"]
    assert row["recipe"]["optimizer"]["lr"] == 0.02
    assert row["changed"]["optimizer.lr"] == [0.01, 0.02]


def test_the_time_is_predicted_once_layers_are_measured(repro: Repro, tmp_path: Path) -> None:
    words = ("dsp-resnet98", "--profile", "smoke", "--set", "model.name=tiny", "--set", "max_steps=20")
    env = {"REPRO_CACHE": str(tmp_path)}
    before = repro("show", *words, env=env, cwd=tmp_path)
    assert "not known; `repro plan" in before.stdout
    assert repro("plan", *words, env=env).returncode == 0
    (row,) = json.loads(repro("show", *words, "--json", env=env, cwd=tmp_path).stdout)["rows"]
    assert row["seconds_from"] == "predicted from layer times"
    assert row["seconds"] > 0
