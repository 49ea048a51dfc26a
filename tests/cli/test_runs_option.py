"""--runs is where runs lie and --out is what is written, in every verb (field report F39)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cli import app
from repro import paths
from repro.errors import UserError
from tests.conftest import ROOT
from tests.report.factory import make_run, training

Repro = Callable[..., "subprocess.CompletedProcess[str]"]
NAME = "bp-resnet98-k2"
READING = (
    ["table", "accuracy"],
    ["figures", "loss", "--format", "svg"],
    ["report"],
    ["show", NAME, "--profile", "smoke"],
    ["diff", NAME, "dsp-resnet98-k2"],
)


def call(*words: str) -> object:
    return app(list(words), standalone_mode=False)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with one run of the user's, in `mine`, and one of the project's."""
    make_run(tmp_path / "mine", NAME, 0, epochs=training(2))
    make_run(tmp_path / "reference", "dsp-resnet98-k2", 0, epochs=training(2))
    monkeypatch.setattr(paths, "reference", lambda: tmp_path / "reference")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
def test_a_folder_without_runs_is_refused_by_every_reading_verb(words: list[str], place: Path) -> None:
    (place / "empty").mkdir()
    for folder, said in (
        ("nothing", "there is no such folder"),
        ("mien", "Did you mean 'mine'"),
        ("empty", "holds no run"),
        (".", "Did you mean --runs mine?"),
    ):
        with pytest.raises(UserError, match=f"--runs {folder}") as caught:
            call(*words, "--runs", folder)
        assert said in str(caught.value)
        assert caught.value.exit_code == 2
    assert sorted(p.name for p in place.iterdir()) == ["empty", "mine", "reference"], "nothing is written"


@pytest.mark.parametrize(
    "words",
    [["run", NAME], ["table", "accuracy"], ["show", NAME], ["diff", NAME, NAME]],
    ids=lambda words: words[0],
)
def test_the_old_spelling_names_the_new_one(words: list[str], repro: Repro, place: Path) -> None:
    done = repro(*words, "--out", "mine", cwd=place)
    assert done.returncode == 2
    assert done.stderr == "repro: --out mine: the folder of runs is given by --runs: write --runs mine\n"
    assert done.stdout == ""


@pytest.mark.parametrize("words", [["figures", "loss"], ["report"]], ids=lambda words: words[0])
def test_runs_are_never_taken_for_a_place_to_write(words: list[str], place: Path) -> None:
    with pytest.raises(UserError, match=r"this folder holds runs .* give --runs mine"):
        call(*words, "--out", "mine")


def test_what_lies_in_the_folder_is_shown_and_nothing_else(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call("table", "accuracy", "--runs", "mine")
    shown = capsys.readouterr().out
    assert "BP" in shown
    assert "DSP" not in shown
    call("table", "straggler", "--runs", "mine")
    assert "No finished straggler run" in capsys.readouterr().out
    call("table", "accuracy")
    shown = capsys.readouterr().out
    assert "Reference runs of the project" in shown
    assert "DSP(1,0;2,0)" in shown
    with pytest.raises(UserError, match="exclude each other"):
        call("table", "accuracy", "--runs", "mine", "--reference")


def test_figures_read_the_one_and_write_the_other(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call("figures", "loss", "--runs", "mine", "--out", "pictures", "--format", "svg")
    assert capsys.readouterr().out == "pictures/loss.svg\n"


def test_no_help_offers_the_old_spelling(repro: Repro) -> None:
    for verb in ("run", "show", "table", "diff"):
        words = repro(verb, "--help").stdout.split()
        assert "--runs" in words
        assert "--out" not in words
    makefile = (ROOT / "Makefile").read_text()
    assert "--out" not in makefile
