"""The command line as a user meets it: exit codes, plain sentences, nothing half-written, no process left."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.programs import TINY, results

Repro = Callable[..., "subprocess.CompletedProcess[str]"]
SMOKE = ["--profile", "smoke", "--set", "runtime.threads=1"]
LATE = ["--set", "straggler.probability=0.5", "--set", "straggler.delay=1"]
WIDE = ["--set", "blocks=2", "--set", "threads=64", "--engine", "processes"]


def test_a_run_leaves_a_complete_record_and_a_second_one_skips_it(repro: Repro, tmp_path: Path) -> None:
    words = ["run", TINY["bp"], TINY["dsp"], "--seeds", "2", "--runs", str(tmp_path), *SMOKE]
    first = repro(*words)
    assert first.returncode == 0, first.stderr
    found = results(tmp_path)
    assert [(r["recipe"], r["seed"], r["status"]) for r in found] == [
        (name, seed, "complete") for name in ("tiny-bp", "tiny-dsp") for seed in (0, 1)
    ]
    needed = (
        "status recipe hash profile seed method blocks device threads data num_steps updates weight_change"
    )
    needed += (
        " train_seconds seconds_per_batch images_per_second busy_seconds peak_memory_bytes test_accuracy_last"
    )
    needed += " test_accuracy_best oversubscribed rss_bytes"
    for result in found:
        assert not [key for key in needed.split() if key not in result]
        assert result["updates"] == [result["num_steps"]] * 2
        assert all(change > 0 for change in result["weight_change"])  # type: ignore[attr-defined]
    folder = next(tmp_path.glob("tiny-dsp/*/seed-0"))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [r["step"] for r in rows if r["kind"] == "step"] == list(range(14))
    assert [r["epoch"] for r in rows if r["kind"] == "epoch"] == [1, 2]
    assert {"recipe.yaml", "env.json", "metrics.jsonl", "result.json"} <= {p.name for p in folder.iterdir()}
    assert not (folder / "checkpoints").exists()
    losses = [r["loss"] for r in rows if r["kind"] == "step"]
    other = next(tmp_path.glob("tiny-dsp/*/seed-1/metrics.jsonl")).read_text().splitlines()
    assert losses[0] != json.loads(other[0])["loss"]
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json*")}
    second = repro(*words)
    assert second.returncode == 0
    assert second.stderr.count("already complete") == 4
    assert before == {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json*")}


def test_output_without_a_terminal_is_plain(repro: Repro, tmp_path: Path) -> None:
    done = repro("run", TINY["bp"], "--runs", str(tmp_path), *SMOKE)
    assert done.returncode == 0
    assert done.stdout == ""
    assert "\r" not in done.stderr
    assert "\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) < 10


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        (["run", "dsp-resnet146"], 2, ["dsp-resnet146", "Did you mean 'dsp-resnet164'"]),
        (["run", TINY["bp"], "--set", "lrr=1"], 2, ["lrr"]),
        (["run", TINY["bp"], "--set", "blocks=9"], 2, ["blocks = 9", "8 layers", "1..8"]),
        (["run", TINY["bp"], "--set", "blocks=0"], 2, ["blocks = 0"]),
        (["run", TINY["dsp"], "--set", "staleness=1,0;1,0", "--set", "blocks=2"], 2, ["Eq. 6"]),
        (["run", TINY["bp"], "--set", "cut=[9]"], 2, ["cut = [9]", "8 layers"]),
        (["run", TINY["gpipe"], "--set", "method.micro=33"], 2, ["method.micro = 33", "32"]),
        (["run", TINY["bp"], "--seeds", "0"], 2, ["--seeds 0"]),
        (["run", TINY["bp"], "--seed-list", "a"], 2, ["--seed-list 'a'"]),
        (["run", TINY["bp"], "--seeds", "1", "--seed-list", "1"], 2, ["exclude"]),
        (["run", TINY["bp"], "--profile", "fast"], 2, ["fast", "paper, reference, quick, smoke"]),
        (["run", TINY["bp"], "--device", "tpu"], 2, ["tpu"]),
        (["run", TINY["bp"], "--engine", "parallel"], 2, ["parallel", "sequential"]),
        (["run", TINY["bp"], "--jobs", "0"], 2, ["--jobs 0"]),
        (["run", TINY["bp"], "--jobs", "999"], 2, ["--jobs 999", "to use", "--force"]),
        (["run", TINY["bp"], "--jobs", "2", *WIDE], 2, ["--jobs 2", "takes 128", "--force"]),
        (["run", TINY["dsp"], "--engine", "sequential", *LATE], 2, ["--engine sequential", "in time"]),
        (["run", TINY["dsp"], "--jobs", "2", *LATE], 2, ["--jobs 2", "is a time"]),
        (["run", TINY["bp"], "--set", "norm_recalibration=8"], 2, ["norm_recalibration = 8", "0..7"]),
        (["run", TINY["bp"], "--set", "norm_recalibration=-1"], 2, ["norm_recalibration = -1"]),
        (["run", TINY["bp"], "--set", "data.name=cifar10"], 3, ["cifar"]),
        (["run", TINY["bp"], "--set", "data.name=imagenet"], 3, ["imagenet"]),
        (["run"], 2, ["RECIPE"]),
        (["verify", TINY["bp"], "--steps", "0"], 2, ["--steps 0"]),
        (["bench", "engin"], 2, ["Did you mean 'engine'"]),
        (["list", "--group", "dps"], 2, ["Did you mean 'dsp'"]),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, list) and value else str(value),
)
def test_wrong_input_is_refused_before_any_work(
    words: list[str], code: int, parts: list[str], repro: Repro, tmp_path: Path
) -> None:
    extra = ["--runs", str(tmp_path / "runs")] if words[0] == "run" else []
    if words[0] in ("run", "verify") and "--profile" not in words:
        extra += ["--profile", "smoke"]
    done = repro(
        *words, *extra, env={"REPRO_DATA": str(tmp_path / "data"), "REPRO_MIRROR": str(tmp_path / "nowhere")}
    )
    assert done.returncode == code, done.stderr
    for part in parts:
        assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("runs/*/*/seed-*"))


def test_cuda_without_a_gpu_ends_with_3(repro: Repro, tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    done = repro("run", TINY["bp"], "--device", "cuda", "--profile", "smoke", "--runs", str(tmp_path))
    assert done.returncode == 3
    assert "no CUDA device" in done.stderr


def test_an_unwritable_folder_is_named(repro: Repro, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = repro("run", TINY["bp"], "--runs", str(tmp_path / "file" / "runs"), *SMOKE)
    assert done.returncode == 2
    assert "--runs" in done.stderr


def test_a_port_in_use_is_named(repro: Repro, tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = repro("run", TINY["dsp"], "--set", f"runtime.port={port}", "--runs", str(tmp_path), *SMOKE)
    assert done.returncode == 2
    assert f"runtime.port = {port}" in done.stderr
    assert list(tmp_path.iterdir()) == [], "said before anything is written"


def test_recipes_run_seed_by_seed(repro: Repro, tmp_path: Path) -> None:
    """What is compared by seed runs close in time, and a table with one seed of everything exists early."""
    words = ["--seeds", "2", "--set", "max_steps=2", "--set", "blocks=1", "--runs", str(tmp_path), *SMOKE]
    assert repro("run", TINY["bp"], TINY["dsp"], *words).returncode == 0
    ended = sorted(tmp_path.glob("*/*/seed-*/result.json"), key=lambda path: path.stat().st_mtime_ns)
    order = [(str(run["recipe"]), run["seed"]) for run in (json.loads(path.read_text()) for path in ended)]
    assert order == [("tiny-bp", 0), ("tiny-dsp", 0), ("tiny-bp", 1), ("tiny-dsp", 1)]


@pytest.mark.parametrize(
    ("blocks", "engine"), [(1, "processes"), (2, "processes"), (4, "processes"), (4, "sequential")]
)
def test_a_label_out_of_range_ends_the_run_with_its_reason(
    blocks: int, engine: str, repro: Repro, tmp_path: Path
) -> None:
    """Field report B01: only the last block raises; the others end within seconds, the reason is said once."""
    begin = time.monotonic()
    done = repro(
        "run",
        TINY["bp"],
        "--set",
        "data.bad_label=5",
        "--set",
        f"blocks={blocks}",
        "--engine",
        engine,
        "--runs",
        str(tmp_path),
        *SMOKE,
    )
    assert time.monotonic() - begin < 60
    assert done.returncode == 1
    assert done.stderr.count("label 3 of training sample 5") == 1
    assert f"block {blocks - 1} (rank {blocks - 1})" in done.stderr
    assert results(tmp_path)[0]["status"] == "failed"


def test_a_diverging_run_says_so(repro: Repro, tmp_path: Path) -> None:
    done = repro("run", TINY["bp"], "--set", "lr=1e30", "--runs", str(tmp_path), *SMOKE)
    assert done.returncode == 1
    assert results(tmp_path)[0]["status"] == "diverged"
    text = next(tmp_path.glob("*/*/seed-0/metrics.jsonl")).read_text()
    assert "NaN" not in text


def test_help_and_list_import_nothing_heavy(repro: Repro) -> None:
    code = (
        "import sys, runpy; sys.argv = ['repro', *sys.argv[1:]]\n"
        "try: runpy.run_path('cli.py', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print(sorted(m for m in ('torch', 'pandas', 'matplotlib', 'numpy', 'scipy') if m in sys.modules), file=sys.stderr)"
    )
    for words in (["--help"], ["list"], ["list", "--json"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert done.stderr.splitlines()[-1] == "[]"
        if words[-1] == "--json":
            assert len(json.loads(done.stdout)["rows"]) > 10


def test_a_dry_run_writes_nothing(repro: Repro, tmp_path: Path) -> None:
    done = repro("run", TINY["dsp"], "--dry-run", "--runs", str(tmp_path / "runs"), "--profile", "smoke")
    assert done.returncode == 0
    assert "DSP(1,0;2,0)" in done.stdout
    assert re.search(r"engine +(processes|sequential) \(.*, 1 run\(s\) at once", done.stdout)
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_refuses_what_the_run_would(repro: Repro) -> None:
    done = repro("run", TINY["dsp"], "--dry-run", "--profile", "smoke", "--jobs", "1000")
    assert done.returncode == 2
    assert "--jobs 1000" in done.stderr


def test_a_closed_pipe_is_quiet() -> None:
    done = subprocess.run(
        f"{sys.executable} {ROOT / 'cli.py'} list | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Traceback" not in done.stderr
    assert len(done.stdout.splitlines()) == 1


def test_verify_prints_what_it_compared(repro: Repro) -> None:
    done = repro("verify", TINY["dsp"], TINY["bp"], "--steps", "9", *SMOKE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("9 losses: equal bit for bit") == 2
    assert done.stdout.count("engine and oracle agree bit for bit") == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("words", [["list"], ["table", "schedules"]])
def test_a_full_disk_is_one_sentence(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, str(ROOT / "cli.py"), *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == "repro: output: No space left on device"


@pytest.mark.parametrize(("below", "reason"), [("", "Is a directory"), ("file/page.html", "Not a directory")])
def test_a_page_that_cannot_be_written_is_one_sentence_before_it_is_made(
    below: str, reason: str, repro: Repro, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = repro("report", "--out", str(tmp_path / below), timeout=5)
    assert done.returncode == 1
    assert done.stderr == f"repro: {tmp_path / Path(below).parent}: {reason}\n"
