"""Field reports that no other file tests, and that every report has its row and its test in docs/reliability.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.engine.processes.launch import Launch, Listener
from repro.planning.run_plan import make_plan
from tests.conftest import ROOT
from tests.programs import RUNS, SMOKE, TINY, blocks, finish, numbers, settings, start, wait_for

REPORTS = [
    *(f"B{n:02}" for n in (*range(1, 12), 13, 15, 16, 17, 21, 22, 24, 26, 29, 30, 31, 32, 34, 36, 38, 39, 40, 41, 43, 44)),
    *("B49", "B50", "B51", "B52"),
    *(f"F{n}" for n in range(36, 41)),
]  # fmt: skip


def test_every_report_has_a_row_and_every_test_named_there_exists() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text()
    rows = re.findall(r"^\| ([BF]\d\d) \|", text, flags=re.M)
    assert rows == REPORTS
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) >= len(REPORTS)
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text())
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, (
            f"{file}::{name}"
        )


def losses(recipe: Any, seed: int = 0) -> list[float]:
    """Step losses of an engine run."""
    found: list[float] = []
    Launch(make_plan(recipe, "cpu"), seed).run(Listener(step=lambda i, loss, n: found.append(loss)))
    return found


def test_b38_seeds_differ_pairwise_and_zero_repeats(tiny: Callable[..., Any]) -> None:
    recipe = tiny(max_steps=1, epochs=1)
    firsts = [losses(recipe, seed)[0] for seed in range(5)]
    assert len(set(firsts)) == 5
    assert losses(recipe, 0)[0] == firsts[0]


def test_b10_a_block_has_a_bounded_number_of_threads(tmp_path: Path) -> None:
    words = ["run", TINY["dsp"], *settings(blocks=4, epochs=40), *SMOKE]
    process = start(*words, RUNS, str(tmp_path))
    wait_for(process, "epoch 1")
    try:
        counts = [len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in blocks(process.pid)]
    finally:
        process.kill()
        process.communicate()
    assert len(counts) == 4
    assert max(counts) <= 12  # one that computes, the watch on the parent, and those of gloo and the store


@pytest.mark.faults
@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_b22_twenty_short_runs_end_quietly(count: int, tiny: Callable[..., Any], tmp_path: Path) -> None:
    recipe = tiny(blocks=count, method={"name": "dsp"}, max_steps=1, epochs=1)
    plan = make_plan(recipe, "cpu")
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert len(Launch(plan, 0, folder=folder).run()) == count
        assert not (folder / "blocks.log").exists(), (folder / "blocks.log").read_text()


@pytest.mark.faults
@pytest.mark.parametrize("method", [{"name": "dsp"}, {"name": "gpipe", "micro": 5}, {"name": "ddg"}], ids=str)
@pytest.mark.parametrize("blocks", [2, 3, 4])
@pytest.mark.parametrize("side", [8, 32, 128])
def test_b44_messages_of_any_size_pass_both_ways(
    side: int, blocks: int, method: Any, tiny: Callable[..., Any]
) -> None:
    """From kilobytes to tens of megabytes between blocks."""
    images = {"name": "synthetic", "batch_size": 32, "train_limit": 128, "test_limit": 32, "image_size": side}
    found = losses(tiny(blocks=blocks, method=method, data=images, epochs=1))
    assert len(found) == 4


@pytest.mark.faults
@pytest.mark.parametrize("file", ["metrics.jsonl", "result.json", "recipe.yaml", "env.json"])
@pytest.mark.parametrize("lost", [1, 7, 500])
def test_b03_a_cut_results_file_bends_no_table_and_is_made_whole(
    file: str, lost: int, repro: Callable[..., Any], tmp_path: Path
) -> None:
    words = ["run", TINY["bp"], "--set", "blocks=1", *SMOKE]
    finish(words, tmp_path)
    before = numbers(tmp_path)
    path = next(tmp_path.glob(f"*/*/seed-0/{file}"))
    path.write_bytes(path.read_bytes()[:-lost])
    done = repro("table", "accuracy", "--profile", "smoke", RUNS, str(tmp_path))
    assert done.returncode == 0, done.stderr
    if file == "metrics.jsonl" or (file == "result.json" and lost > 2):
        assert "1/1" not in done.stdout
    finish(words, tmp_path)
    assert numbers(tmp_path) == before
