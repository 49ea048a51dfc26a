"""`repro list`: an overview of one screen, and rows that words and options narrow down."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from repro.commands.listing import list_recipes
from repro.commands.overview import overview
from repro.errors import UserError
from repro.recipe import catalogue, is_recipe
from tests.conftest import ROOT


def names(capsys: pytest.CaptureFixture[str], *words: str, **options: str | None) -> list[str]:
    asked = {"group": None, "method": None, "model": None, "data": None, **options}
    list_recipes(words, as_json=True, **asked)  # type: ignore[arg-type]
    return [row["name"] for row in json.loads(capsys.readouterr().out)["rows"]]


def test_the_overview_fits_a_screen_and_names_everything() -> None:
    lines = overview().splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    text = " ".join(overview().split())
    for entry in catalogue().values():
        assert entry.model in text
        assert entry.word in text
    for word in (
        "straggler",
        "gradient-gap",
        "s630",
        "free",
        "sgd",
        "paper",
        "k2, k4",
        "1909.02625",
        "1908.05460",
        "2505.01099",
    ):
        assert word in text


def test_the_overviews_examples_are_recipes() -> None:
    text = " ".join(overview().split())
    examples = [
        re.split(" gradient-approximation:| asynchronous:| Narrow", part)[0]
        for part in text.split("examples ")[1:]
    ]
    found = [name for part in examples for name in part.split(", ")]
    assert len(found) > 5
    assert [name for name in found if not is_recipe(name)] == []


def test_all_words_must_match(capsys: pytest.CaptureFixture[str]) -> None:
    found = names(capsys, "dsp", "resnet98")
    assert {"dsp-resnet98", "dsp-resnet98-k4", "straggler-dsp-resnet98-s630"} <= set(found)
    assert all("dsp-resnet98" in name for name in found)
    assert names(capsys, "DSP", "resnet98", "k4") == ["dsp-resnet98-k4"]
    assert "bp-resnet164" in names(capsys, "fig. 4")  # in what it reproduces
    assert set(names(capsys, "imagenet")) == {e.name for e in catalogue().values() if e.data == "imagenet"}


def test_options_narrow_down(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {name: catalogue()[name] for name in names(capsys, method="fr", data="imagenet")}
    assert sorted({(e.method, e.data) for e in rows.values()}) == [("fr", "imagenet")]
    assert all(name.startswith("cdni-vgg19") for name in names(capsys, method="cdni", model="vgg19"))
    assert names(capsys, "s1", group="gradient-approximation", model="vgg19", method="top1") == [
        "top1-vgg19-s1",
        "top1-vgg19-s1-paper",
    ]


def test_without_words_json_has_every_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert names(capsys) == list(catalogue())


@pytest.mark.parametrize(
    ("option", "value", "near"),
    [
        ("method", "top2", "top1"),
        ("model", "resnet99", "resnet98"),
        ("data", "cifar", "cifar10"),
        ("group", "dps", "dsp"),
    ],
)
def test_an_unknown_option_names_the_nearest(option: str, value: str, near: str) -> None:
    asked = {"group": None, "method": None, "model": None, "data": None, option: value}
    with pytest.raises(
        UserError, match=rf"--{option} '{value}' is unknown. Did you mean '{near}'\? Allowed: "
    ):
        list_recipes([], as_json=False, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "hint"),
    [(["resnet99"], "Did you mean 'resnet98'"), (["dsp", "k5"], "any other works in a name")],
)
def test_nothing_found_is_said(words: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    list_recipes(words, None, None, None, None, False)
    said = capsys.readouterr()
    assert said.out == ""
    assert f"no recipe is listed under all of: {' '.join(words)}" in said.err
    assert hint in said.err


def test_rows_are_cut_on_a_terminal_and_whole_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    list_recipes(["dsp", "resnet98"], None, None, None, None, False)
    whole = capsys.readouterr().out
    assert "(its delays are not published, these are ours)" in whole
    assert whole.splitlines()[0].split() == ["name", "method", "model", "data", "K", "reproduces"]
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    list_recipes(["dsp", "resnet98"], None, None, None, None, False)
    cut = capsys.readouterr().out.splitlines()
    assert max(map(len, cut)) == 90
    assert [line.split()[0] for line in cut] == [line.split()[0] for line in whole.splitlines()]


@pytest.mark.parametrize("words", ["list", "list dsp", "list --json"])
def test_a_reader_that_leaves_ends_it_with_0(words: str) -> None:
    command = f"set -o pipefail; {sys.executable} {ROOT / 'cli.py'} {words} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


def test_the_schema_is_not_needed_to_list() -> None:
    """What pydantic there is comes with Typer."""
    code = (
        "import sys; from repro.commands.listing import list_recipes\n"
        "list_recipes([], None, None, None, None, False); list_recipes(['dsp'], None, None, None, None, False)\n"
        "print([m for m in ('pydantic', 'torch', 'numpy', 'repro.recipe.schema') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
