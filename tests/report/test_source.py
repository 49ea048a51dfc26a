"""Which seeds enter a mean, and which are named as missing, failed, stale or unreadable."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from repro.report import tables
from repro.report.pages import formats
from repro.report.stored.source import Source
from repro.report.table import Measured, Table
from tests.report.factory import make_run, training

NAME = "bp-resnet98-k2"


def accuracy(table: Table, index: int = 0) -> Measured:
    value = table.rows[index]["test_accuracy_last"]
    assert isinstance(value, Measured)
    return value


def five(root: Path) -> list[Path]:
    command = ("repro", "run", NAME, "--seeds", "5")
    return [make_run(root, NAME, s, epochs=training(3, best=90 + s), command=command) for s in range(5)]


def test_seeds_that_did_not_finish_are_counted_and_named(tmp_path: Path) -> None:
    folders = five(tmp_path)
    (folders[0] / "result.json").unlink()
    metrics = folders[2] / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:60])
    lines = (folders[4] / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folders[4] / "metrics.jsonl").write_text("".join(lines[:3]))
    shutil.copytree(folders[1], folders[1].with_name("seed-7"))  # a copy counts once
    table = tables.build("accuracy", tmp_path)
    assert len(table.rows) == 1
    assert (accuracy(table).n, accuracy(table).started) == (2, 5)
    assert "(2/5)" in formats.render(table, "txt")
    assert [r["note"] for r in table.rows] == ["3 seed(s) unfinished"]
    without_result, cut_short = table.problems
    assert without_result.endswith("seed 0 unfinished")
    assert "seeds 2, 4 unfinished: metrics.jsonl does not hold" in cut_short


def test_failed_and_diverged_seeds_enter_no_mean(tmp_path: Path) -> None:
    make_run(tmp_path, NAME, 0, epochs=training(3, best=90))
    make_run(tmp_path, NAME, 1, status="failed")
    make_run(tmp_path, NAME, 2, status="diverged")
    make_run(tmp_path, NAME, 3, status="unfinished")
    table = tables.build("accuracy", tmp_path)
    assert (accuracy(table).n, accuracy(table).started) == (1, 4)
    assert ["seed 1 failed" in p for p in table.problems] == [True, False, False]
    assert "seed 2 diverged" in table.problems[1]
    assert "1 seed(s) diverged; 1 seed(s) failed; 1 seed(s) unfinished" in formats.render(table, "txt")


def test_a_seed_asked_for_and_never_begun_is_named(tmp_path: Path) -> None:
    make_run(tmp_path, NAME, 0, epochs=training(3), command=("repro", "run", NAME, "--seeds=3"))
    table = tables.build("accuracy", tmp_path)
    assert accuracy(table).started == 3
    (problem,) = table.problems
    assert "seeds 1, 2 asked for and never started" in problem


def test_a_broken_recipe_file_is_named(tmp_path: Path) -> None:
    folders = five(tmp_path)
    (folders[3] / "recipe.yaml").write_text("")
    table = tables.build("accuracy", tmp_path)
    assert (accuracy(table).n, accuracy(table).started) == (4, 5)
    assert "seed 3 unreadable" in table.problems[0]


def test_of_one_setting_s_older_recipes_only_the_newest_is_shown(tmp_path: Path) -> None:
    """Field report B05: what the recipe was before its edit enters no number once the new settings have run."""
    for seed in range(2):
        make_run(
            tmp_path, NAME, seed, epochs=training(3, best=80), number="aaaaaaaaaaaa", begun=1000,
            settings={"optimizer.lr": 0.05},
        )  # fmt: skip
        make_run(tmp_path, NAME, seed, epochs=training(3, best=90), number="000000000000", begun=2000)
    table = tables.build("accuracy", tmp_path)
    assert len(table.rows) == 1
    assert accuracy(table).n == 2
    found = accuracy(table).estimate
    assert found is not None
    assert found.mean > 65
    assert (
        "aaaaaaaaaaaa): stale, left out (seeds 0, 1; against 000000000000: optimizer.lr 0.05 -> 0.005)"
        in table.problems[0]
    )
    assert table.rows[0]["note"] == ""


def test_settings_given_by_the_command_are_a_row_of_their_own(tmp_path: Path) -> None:
    """Field report F38, with runs that hold their command line only."""
    for seed in range(2):
        make_run(tmp_path, NAME, seed, epochs=training(3, best=80), number="aaaaaaaaaaaa", begun=1000)
        make_run(
            tmp_path, NAME, seed, epochs=training(3, best=90), number="000000000000", begun=2000,
            settings={"optimizer.lr": 0.05}, command=("repro", "run", NAME, "--set", "lr=0.05"),
        )  # fmt: skip
    table = tables.build("accuracy", tmp_path)
    assert [(row["method"], accuracy(table, i).n) for i, row in enumerate(table.rows)] == [
        ("BP, lr 0.005", 2),
        ("BP, lr 0.05", 2),
    ]
    assert table.problems == []
    assert "with optimizer.lr 0.005 -> 0.05" in str(table.rows[1]["note"])


def test_newer_settings_without_a_finished_seed_do_not_hide_the_finished_ones(tmp_path: Path) -> None:
    make_run(tmp_path, NAME, 0, epochs=training(3), number="aaaaaaaaaaaa", begun=1000)
    make_run(
        tmp_path, NAME, 0, status="unfinished", number="bbbbbbbbbbbb", begun=2000, settings={"epochs": 3}
    )
    table = tables.build("accuracy", tmp_path)
    assert accuracy(table).n == 1
    assert "no seed is complete yet" in table.problems[0]
    assert "a newer set of runs (bbbbbbbbbbbb) is not complete yet" in str(table.rows[0]["note"])


def two_sets(root: Path, first: dict[str, Any], second: dict[str, Any]) -> None:
    """The recipe has been edited twice since."""
    for letter, lr, more in (("a", 0.05, first), ("b", 0.06, second)):
        make_run(root, NAME, 0, epochs=training(3), number=letter * 12, settings={"optimizer.lr": lr}, **more)


def test_a_clone_shows_the_same_set_as_the_tree_it_was_made_from(tmp_path: Path) -> None:
    """The newest by its own record, whatever times a checkout gives to the files."""
    two_sets(tmp_path, {"begun": 2000}, {"begun": 1000})
    for first, second in ((1, 9), (9, 1)):
        for letter, time in (("a", first), ("b", second)):
            for file in (tmp_path / NAME / (letter * 12)).rglob("*"):
                os.utime(file, (time, time))
        assert "bbbbbbbbbbbb): stale, left out" in tables.build("accuracy", tmp_path).problems[0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"begun": 1000}, {"begun": 9000, "recorded": False}),  # a record beats the time of a file
        (
            {"begun": 9000, "recorded": False},
            {"begun": 1000, "recorded": False},
        ),  # files alone: the newer one
    ],
)
def test_times_of_files_count_only_without_a_record(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any]
) -> None:
    two_sets(tmp_path, first, second)
    assert "bbbbbbbbbbbb): stale, left out" in tables.build("accuracy", tmp_path).problems[0]


def test_a_default_that_has_changed_since_is_flagged(tmp_path: Path) -> None:
    folder = make_run(tmp_path, NAME, 0, epochs=training(3))
    recipe = folder / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("momentum: 0.9", "momentum: 0.8"))
    table = tables.build("accuracy", tmp_path)
    assert "stale, the recipe has changed since: optimizer.momentum 0.9 -> 0.8" in table.problems[0]


def test_changes_that_alter_no_number_are_not_flagged(tmp_path: Path) -> None:
    folder = make_run(
        tmp_path, NAME, 0, epochs=training(3), settings={"runtime.threads": 2, "data.num_workers": 3}
    )
    text = (folder / "recipe.yaml").read_text()
    (folder / "recipe.yaml").write_text(
        "\n".join(reversed(text.split("\ndata:")[:1])) + "\ndata:" + text.split("\ndata:")[1]
    )
    assert tables.build("accuracy", tmp_path).problems == []


def test_profiles_devices_and_data_sets_are_never_mixed(tmp_path: Path) -> None:
    make_run(tmp_path, NAME, 0, profile="smoke", number="a" * 12, epochs=training(2))
    make_run(tmp_path, NAME, 0, profile="quick", number="b" * 12, epochs=training(2))
    make_run(tmp_path, NAME, 0, profile="smoke", number="c" * 12, epochs=training(2), device="cuda")
    make_run(
        tmp_path,
        NAME,
        0,
        profile="smoke",
        number="d" * 12,
        epochs=training(2),
        settings={"data.name": "colours"},
    )
    table = tables.build("accuracy", tmp_path)
    assert len(table.rows) == 4
    assert len(tables.build("accuracy", tmp_path, profile="quick").rows) == 1


def test_several_thread_counts_are_marked_in_accuracy_and_split_in_speed(tmp_path: Path) -> None:
    for seed, count in enumerate((1, 1, 2)):
        make_run(tmp_path, NAME, seed, epochs=training(2), threads=count)
    table = tables.build("accuracy", tmp_path)
    assert len(table.rows) == 1
    assert "mixed thread counts: 1 / 2" in str(table.rows[0]["note"])
    speed = tables.build("speedup", tmp_path)
    assert [row["threads"] for row in speed.rows] == ["1", "2"]


def test_reference_runs_stand_in_and_the_caption_says_so(tmp_path: Path, reference: Path) -> None:
    make_run(reference, "dsp-resnet98-k2", 0, epochs=training(2))
    shown = formats.render(tables.build("accuracy", tmp_path / "none"), "txt")
    assert "Reference runs of the project" in shown
    make_run(tmp_path / "own", NAME, 0, epochs=training(2))
    own = tables.build("accuracy", tmp_path / "own")
    assert [row["recipe"] for row in own.rows] == [NAME]
    asked = tables.build("accuracy", tmp_path / "own", reference=True)
    assert [row["recipe"] for row in asked.rows] == ["dsp-resnet98-k2"]
    assert json.loads(formats.render(asked, "json"))["environment"]["source"] == "reference"


def test_nothing_found_names_the_command(tmp_path: Path) -> None:
    for name in ("speedup", "accuracy", "memory", "straggler", "gradient-approximation", "kernels", "bias"):
        table = tables.build(name, tmp_path)
        assert table.rows == []
        assert table.problems  # --strict ends with 1
        for format in formats.FORMATS:
            formats.render(table, format)
        assert "repro " in formats.render(table, "txt")


def test_bench_rows_are_found_beside_the_runs(tmp_path: Path) -> None:
    (tmp_path / "results" / "bench").mkdir(parents=True)
    (tmp_path / "results" / "bench" / "kernels.json").write_text('{"rows": [{"kernel": "cpu"}]}')
    found, reference = Source(tmp_path / "results" / "runs").bench("kernels")
    assert found == {"rows": [{"kernel": "cpu"}]}
    assert not reference
