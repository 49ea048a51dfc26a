"""Field reports of what a command runs in: no terminal (B30), no GPU (B39), loader processes below blocks (B50)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from repro import paths
from repro.errors import MissingError
from repro.recipe import catalogue
from tests.conftest import ROOT
from tests.programs import RUNS, SMOKE, TINY, call, children, gone, numbers, settings, start, wait_for


def test_b30_lines_come_one_by_one_while_the_run_goes_on(tmp_path: Path) -> None:
    """Three blocks, a dumb terminal, and Python's own buffering as it is by default."""
    plain = {"PYTHONUNBUFFERED": "", "TERM": "dumb", "NO_COLOR": "1"}
    process = start(
        "run", TINY["dsp"], *settings(blocks=3, epochs=400), *SMOKE, RUNS, str(tmp_path), env=plain
    )
    seen = wait_for(process, "epoch 3")
    assert process.poll() is None, "it was still running"
    process.terminate()
    output, rest = process.communicate(timeout=30)
    assert process.returncode == 143
    assert output == ""
    assert not set("\r\x1b") & set(seen + rest)
    epochs = [line for line in seen.splitlines() if "epoch" in line]
    assert [re.search(r"seed 0: epoch (\d+)", line)[1] for line in epochs] == ["1", "2", "3"]  # type: ignore[index]


@pytest.mark.alone
def test_b30_the_first_line_comes_within_five_seconds(tmp_path: Path) -> None:
    """A new interpreter, its output buffered as it is by default; the run is then ended."""
    begin = time.monotonic()
    process = start("run", TINY["dsp"], *SMOKE, RUNS, str(tmp_path), env={"PYTHONUNBUFFERED": ""}, real=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    seconds = time.monotonic() - begin
    process.terminate()
    process.communicate(timeout=30)
    assert "tiny-dsp seed 0" in line
    assert seconds < 5


@pytest.mark.parametrize(
    "words",
    [
        ["show", TINY["bp"], "--json"],
        ["doctor", "--json"],
        ["table", "accuracy", "--reference", "--format", "json"],
    ],
    ids=lambda words: words[0],
)
def test_b30_json_on_stdout_is_one_document(words: list[str]) -> None:
    done = call(*words)
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict)


def test_b30_a_table_into_a_closed_pipe_is_quiet() -> None:
    process = start("table", "accuracy", "--reference")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.wait(60)
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_b39_a_cupy_that_cannot_be_imported_harms_no_cpu_run(tmp_path: Path) -> None:
    """As where CuPy is installed without its CUDA libraries: whoever imports it fails."""
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy" / "__init__.py").write_text("raise RuntimeError('CuPy was imported')\n")
    env = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    out = ["--runs", str(tmp_path / "runs")]
    run = ["run", TINY["bp"], *settings(epochs=1, gradient__estimator="top1"), *SMOKE]
    for words in (["list"], [*run, *out], ["table", "accuracy", *out, "--profile", "smoke"]):
        done = call(*words, env=env)
        assert done.returncode == 0, done.stderr
    refused = call(*run, *settings(gradient__kernel="cupy"), *out, env=env)
    assert refused.returncode == 3
    assert refused.stderr.count("\n") == 1
    assert "kernel = cupy needs a CUDA GPU" in refused.stderr


def test_b50_a_zip_archive_says_that_it_has_no_recipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "_TREE", tmp_path / "repro.pyz")
    with pytest.raises(MissingError, match=r"repro\.pyz.recipes: install the project by pip"):
        catalogue()


@pytest.mark.faults
def test_b50_four_blocks_with_loader_processes_started_as_a_module(tmp_path: Path) -> None:
    """`python -m cli`: the same bits as without loader processes, and none of them is left."""
    from PIL import Image

    draw = np.random.default_rng(0)
    for split, count in (("train", 6), ("val", 2)):
        for label in ("cat", "dog"):
            folder = tmp_path / "data" / "imagenet" / split / label
            folder.mkdir(parents=True)
            for i in range(count):
                Image.fromarray(draw.integers(0, 256, (20, 20, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    env = {"REPRO_DATA": str(tmp_path / "data")}
    images = {"data__name": "imagenet", "data__image_size": 16, "data__batch_size": 4}
    words = ["run", TINY["dsp"], *settings(blocks=4, **images), *SMOKE]
    alone = call(*words, RUNS, str(tmp_path / "alone"), env=env)
    assert alone.returncode == 0, alone.stderr
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "cli",
            *words,
            *settings(data__num_workers=2),
            RUNS,
            str(tmp_path / "loaders"),
        ],
        cwd=ROOT,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(process, "epoch 1", seconds=120)
    below = children(process.pid)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert gone(below)
    assert numbers(tmp_path / "loaders") == numbers(tmp_path / "alone")
