"""A row per setting, named by what differs, and compared with the BP run of the same setting (field report F38)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from repro.report import tables
from repro.report.diff import compare
from repro.report.figures import draw_from
from repro.report.figures.palette import styles
from repro.report.pages import formats
from repro.report.pages.behind import behind
from repro.report.pages.unbroken import unbroken
from repro.report.stored.source import Source
from repro.report.table import Measured, Table
from tests.report.factory import make_run, training

BP, DSP = "bp-resnet98-k2", "dsp-resnet98-k2"
OWN = 0.005  # the rate of both recipes


def swept(root: Path, recipe: str, lr: float, seeds: int = 3, *, best: float = 90.0, **more: Any) -> None:
    """Runs of `recipe` at another rate, as `--sweep` records them; at its own, as a plain command does."""
    asked = {} if lr == OWN else {"optimizer.lr": lr}
    given = {"recipe": recipe, "overrides": asked, "swept": list(asked)}
    for seed in range(seeds):
        rows = training(4, best=best + 0.3 * seed)
        make_run(
            root, recipe, seed, epochs=rows, number=f"{recipe[:3]}{lr}".ljust(12, "0"), settings=asked,
            given=given, **more,
        )  # fmt: skip


def rows(table: Table) -> dict[str, dict[str, Any]]:
    found = {str(row["method"]): row for row in table.rows}
    assert len(found) == len(table.rows), "every row has a name of its own"
    return found


def mean(value: Any) -> float:
    assert isinstance(value, Measured)
    assert value.estimate is not None
    return value.estimate.mean


def test_two_rates_of_two_methods_are_four_rows_each_against_its_own_bp(tmp_path: Path) -> None:
    for lr, bp, dsp in ((0.01, 80.0, 79.0), (0.02, 90.0, 88.0)):
        swept(tmp_path, BP, lr, 3, best=bp, seconds_per_batch=0.3)
        swept(tmp_path, DSP, lr, 2, best=dsp, seconds_per_batch=0.2 if lr == 0.01 else 0.15)
    table = tables.build("accuracy", tmp_path)
    found = rows(table)
    assert list(found) == ["BP, lr 0.01", "BP, lr 0.02", "DSP(1,0;2,0), lr 0.01", "DSP(1,0;2,0), lr 0.02"]
    assert [row["test_accuracy_last"].n for row in found.values()] == [3, 3, 2, 2]
    assert mean(found["DSP(1,0;2,0), lr 0.01"]["difference"]) == pytest.approx(-1 * (1 - 0.1353), abs=1e-3)
    assert mean(found["DSP(1,0;2,0), lr 0.02"]["difference"]) == pytest.approx(-2 * (1 - 0.1353), abs=1e-3)
    assert table.problems == []
    speed = rows(tables.build("speedup", tmp_path))
    assert mean(speed["DSP(1,0;2,0), lr 0.01"]["speedup"]) == pytest.approx(1.5)
    assert mean(speed["DSP(1,0;2,0), lr 0.02"]["speedup"]) == pytest.approx(2.0)
    glance = [row["method"] for row in tables.build("headline-pipeline", tmp_path).rows]
    assert glance == list(found)
    listed = behind([], Source(tmp_path, fallback=False)).rows()  # of the page, which is slow as a whole
    assert listed.count(unbroken("dsp-resnet98-k2, lr 0.02")) == 1


def test_without_bp_at_the_same_setting_its_own_stands_in_and_the_note_says_so(tmp_path: Path) -> None:
    swept(tmp_path, BP, OWN, best=90)
    swept(tmp_path, BP, 0.02, best=70)
    swept(tmp_path, DSP, OWN, best=89)
    swept(tmp_path, DSP, 0.1, best=85)
    words = "against BP at its recipe's own settings: lr 0.005"
    for name, column in (("accuracy", "difference"), ("speedup", "speedup")):
        found = rows(tables.build(name, tmp_path))
        assert list(found)[:2] == ["BP, lr 0.005", "BP, lr 0.02"]
        assert words in found["DSP(1,0;2,0), lr 0.1"]["note"]
        assert "against" not in found["DSP(1,0;2,0), lr 0.005"]["note"]
        assert isinstance(found["DSP(1,0;2,0), lr 0.1"][column], Measured)
    accuracy = rows(tables.build("accuracy", tmp_path))
    assert mean(accuracy["DSP(1,0;2,0), lr 0.1"]["difference"]) == pytest.approx(-5 * (1 - 0.1353), abs=1e-3)


def test_bp_at_another_setting_alone_is_no_baseline(tmp_path: Path) -> None:
    swept(tmp_path, BP, 0.02)
    swept(tmp_path, DSP, OWN)
    found = rows(tables.build("accuracy", tmp_path))
    assert list(found) == ["BP, lr 0.02", "DSP(1,0;2,0)"], (
        "a changed rate is named though no row beside it differs"
    )
    assert found["DSP(1,0;2,0)"]["difference"] is None


def test_a_length_is_named_where_rows_differ_in_it_and_else_not(tmp_path: Path) -> None:
    short = {"settings": {"epochs": 1}, "given": {"recipe": BP, "overrides": {"epochs": 1}, "swept": []}}
    make_run(tmp_path, BP, 0, epochs=training(1), number="a" * 12, **short)
    assert [row["method"] for row in tables.build("accuracy", tmp_path).rows] == ["BP"]
    make_run(tmp_path, BP, 0, epochs=training(2), number="b" * 12)
    assert [row["method"] for row in tables.build("accuracy", tmp_path).rows] == [
        "BP, epochs 1",
        "BP, epochs 2",
    ]


def test_seeds_without_and_with_the_change_that_the_recipe_has_now_are_one_row(tmp_path: Path) -> None:
    """One hash: the values count, not how they came about; nor does a setting that changes no number."""
    for seed, asked in enumerate(
        ({}, {"optimizer.lr": OWN}, {"runtime.threads": 1}, {"data.num_workers": 2})
    ):
        make_run(
            tmp_path, BP, seed, epochs=training(2), settings=asked,
            given={"recipe": BP, "overrides": asked, "swept": []},
        )  # fmt: skip
    (row,) = tables.build("accuracy", tmp_path).rows
    assert (row["method"], row["test_accuracy_last"].n, row["note"]) == ("BP", 4, "")


def test_an_edited_recipe_makes_old_rows_stale_and_new_ones_replace_them(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("extends: bp-resnet98-k2\noptimizer: {momentum: 0.9}\n")
    runs = tmp_path / "runs"
    for lr in (0.01, 0.02):
        given = {"recipe": str(own), "overrides": {"optimizer.lr": lr}, "swept": ["optimizer.lr"]}
        make_run(
            runs, str(own), 0, epochs=training(2), number=f"{lr}".ljust(12, "0"), begun=1000,
            settings={"optimizer.lr": lr}, given=given,
        )  # fmt: skip
    assert tables.build("accuracy", runs).problems == []
    own.write_text("extends: bp-resnet98-k2\noptimizer: {momentum: 0.8}\n")
    table = tables.build("accuracy", runs)
    assert [row["method"] for row in table.rows] == ["BP, lr 0.01", "BP, lr 0.02"]
    assert {row["note"] for row in table.rows} == {"stale: the recipe has changed since"}
    legends = [g.legend for g in Source(runs).find(lambda run: True).groups]
    assert legends == ["BP, lr 0.01 (stale)", "BP, lr 0.02 (stale)"]
    assert [
        "stale, the recipe has changed since: optimizer.momentum 0.8 -> 0.9" in p for p in table.problems
    ] == [True] * 2
    make_run(
        runs,
        str(own),
        0,
        epochs=training(2),
        number="c" * 12,
        begun=2000,
        given={"recipe": str(own), "overrides": {}},
    )
    table = tables.build("accuracy", runs)
    assert [(row["method"], row["note"]) for row in table.rows] == [("BP", "")]
    assert ["stale, left out (seeds 0" in p for p in table.problems] == [True] * 2
    own.unlink()
    assert [row["note"] for row in tables.build("accuracy", runs).rows if "stale" in str(row["note"])] == []


def test_a_change_of_what_a_sweep_gave_itself_makes_it_not_stale(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("extends: bp-resnet98-k2\noptimizer: {decay: 0.3}\n")
    given = {"recipe": str(own), "overrides": {"optimizer.decay": 0.2}, "swept": ["optimizer.decay"]}
    make_run(
        tmp_path / "runs", str(own), 0, epochs=training(2), settings={"optimizer.decay": 0.2}, given=given
    )
    own.write_text("extends: bp-resnet98-k2\noptimizer: {decay: 0.4}\n")
    table = tables.build("accuracy", tmp_path / "runs")
    assert table.problems == []
    assert table.rows[0]["note"] == "with optimizer.decay 0.4 -> 0.2"


def test_claims_judge_the_recipes_own_settings_only(tmp_path: Path) -> None:
    """A rate at which DSP fails must not turn D2; it is named as not judged."""
    for recipe, best in ((BP, 90.0), (DSP, 90.2)):
        swept(tmp_path, recipe, OWN, 5, best=best)
    before = tables.build("claims", tmp_path, profile="smoke")
    swept(tmp_path, DSP, 0.3, 5, best=20.0)
    after = tables.build("claims", tmp_path, profile="smoke")
    words = "Not judged, because their commands changed the recipes' settings (--set, --sweep): DSP(1,0;2,0), lr 0.3."
    assert words in after.caption
    assert after.rows == before.rows
    (d2,) = [row for row in after.rows if row["claim"] == "D2"]
    assert d2["verdict"] == "reproduced"


def test_figures_tell_settings_of_one_method_apart(tmp_path: Path) -> None:
    for lr in (OWN, 0.01, 0.02):
        swept(tmp_path, BP, lr)
        swept(tmp_path, DSP, lr)
    swept(tmp_path, DSP, 0.1)
    source = Source(tmp_path, fallback=False)
    groups = source.find(lambda run: True).groups
    looks = styles(groups)
    assert set(looks) == {g.title for g in groups}
    assert len(set(looks.values())) == len({c for c, _ in looks.values()}) == 7
    for name in ("loss", "speedup", "memory", "headline"):
        encode, _ = draw_from(name, source)
        assert encode is not None, name
        assert encode("svg")


def test_an_estimator_is_compared_with_the_full_gradient_of_the_same_rate(tmp_path: Path) -> None:
    for name, best in (("full-resnet20", 80.0), ("top1-resnet20-s1", 79.0)):
        for lr in (0.01, 0.02):
            swept(tmp_path, name, lr, best=best + 100 * lr * (1 if name.startswith("full") else 2))
    found = {row["gradient"]: row for row in tables.build("gradient-approximation", tmp_path).rows}
    assert list(found) == ["full, lr 0.01", "full, lr 0.02", "top1 s1, lr 0.01", "top1 s1, lr 0.02"]
    left = 1 - 0.1353
    assert mean(found["top1 s1, lr 0.01"]["difference"]) == pytest.approx(0.0, abs=1e-3)
    assert mean(found["top1 s1, lr 0.02"]["difference"]) == pytest.approx(1.0 * left, abs=1e-3)


def test_a_diff_of_recipes_pairs_equal_settings(tmp_path: Path) -> None:
    for lr in (0.01, 0.02):
        swept(tmp_path, BP, lr)
        swept(tmp_path, DSP, lr)
    parts = {str(row["part"]) for row in compare(BP, DSP, tmp_path).rows if "your runs" in str(row["part"])}
    assert sorted(part.partition("; ")[2] for part in parts) == [
        "BP, lr 0.01 and DSP(1,0;2,0), lr 0.01",
        "BP, lr 0.02 and DSP(1,0;2,0), lr 0.02",
    ]


def test_without_fallback_the_reference_runs_stay_out(tmp_path: Path, reference: Path) -> None:
    swept(reference, BP, OWN)
    make_run(tmp_path / "own", "bias-resnet20", 0, steps=0, bias=[])
    for name in ("accuracy", "headline-pipeline", "claims"):
        shown = formats.render(tables.build(name, tmp_path / "own", fallback=False), "txt")
        assert "eference runs" not in shown
    assert "Reference runs" in formats.render(tables.build("accuracy", tmp_path / "own"), "txt")


def test_a_method_of_ones_own_that_is_elsewhere_now_is_not_called_stale(tmp_path: Path) -> None:
    """Its file is needed to know; the command was right when it ran."""
    asked = {"method": {"name": "./patient.py:Patient"}}
    make_run(tmp_path, BP, 0, epochs=training(2), given={"recipe": BP, "overrides": asked, "swept": []})
    recipe = tmp_path / BP / "0123456789ab" / "seed-0" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("name: bp\n", "name: ./patient.py:Patient\n"))
    table = tables.build("accuracy", tmp_path)
    assert table.problems == []
    assert "with method.name bp -> ./patient.py:Patient" in table.rows[0]["note"]


def test_corrections_and_optimisers_make_rows_of_their_own(tmp_path: Path) -> None:
    """What a name brings along at its default is not repeated behind it."""
    asked: list[dict[str, Any]] = [
        {},
        {"corrections": ["prediction", {"name": "rescheduling", "epochs": 3}]},
        {"optimizer": {"name": "nadam", "lr": 0.002, "beta1": 0.99}},
        {"optimizer": "adamw"},
    ]
    for i, overrides in enumerate(asked):
        given = {"recipe": "ddg-resnet98-k2", "overrides": overrides, "swept": []}
        make_run(
            tmp_path,
            "ddg-resnet98-k2",
            0,
            epochs=training(2),
            settings=overrides,
            given=given,
            number=f"{i}" * 12,
        )
    rows = tables.build("accuracy", tmp_path, profile="smoke").rows
    assert [row["method"] for row in rows] == [
        "DDG (mailbox)",
        "DDG (mailbox) + prediction + rescheduling (3 epochs)",
        "DDG (mailbox), AdamW",
        "DDG (mailbox), NAdam, beta1 0.99",
    ]
