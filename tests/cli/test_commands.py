"""The command line as a user meets it: exit codes, plain sentences, nothing half-written, no process left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.programs import TINY, alive, children, results, start, wait_for

Repro = Callable[..., "subprocess.CompletedProcess[str]"]
SMOKE = ["--profile", "smoke", "--set", "runtime.threads=1"]
LATE = ["--set", "straggler.probability=0.5", "--set", "straggler.delay=1"]
WIDE = ["--set", "blocks=2", "--set", "threads=64", "--engine", "processes"]
PROCESSES = ["--engine", "processes"]  # more blocks than this machine may have cores
LONG = ["run", TINY["dsp"], "--set", "blocks=3", "--set", "epochs=14", *SMOKE, *PROCESSES]


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


def test_a_killed_worker_fails_its_seed_and_the_others_go_on(tmp_path: Path) -> None:
    """Field reports B01 and B15."""
    words = [
        "run",
        TINY["dsp"],
        "--seeds",
        "3",
        "--set",
        "blocks=3",
        "--set",
        "epochs=12",
        "--runs",
        str(tmp_path),
        *SMOKE,
        *PROCESSES,
    ]
    process = start(*words)
    wait_for(process, "seed 1: epoch 2")
    workers = [pid for pid in children(process.pid) if len(children(pid)) == 0]
    killed = next(p for p in workers if "forkserver" in Path(f"/proc/{p}/cmdline").read_text())
    os.kill(killed, signal.SIGKILL)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == 1
    assert "signal 9" in errors
    assert [r["status"] for r in results(tmp_path)] == ["complete", "failed", "complete"]
    again = subprocess.run(
        [sys.executable, str(ROOT / "cli.py"), *words], capture_output=True, text=True, timeout=90, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert again.returncode == 0
    assert again.stderr.count("already complete") == 2
    assert [r["status"] for r in results(tmp_path)] == ["complete"] * 3


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_ends_everything_and_the_same_command_goes_on(
    number: int, code: int, tmp_path: Path, untouched: Path
) -> None:
    process = start(*LONG, "--runs", str(tmp_path))
    wait_for(process, "epoch 3")
    below = children(process.pid)
    begin = time.monotonic()
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - begin < 10
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    time.sleep(0.5)
    assert not alive(below)
    assert results(tmp_path)[0]["status"] == "interrupted"
    assert "going on after batch" in finish(LONG, tmp_path)
    assert numbers(tmp_path) == numbers(untouched)


def test_a_killed_parent_leaves_no_process_and_the_run_goes_on(tmp_path: Path, untouched: Path) -> None:
    """Field reports B02 and B06."""
    process = start(*LONG, "--runs", str(tmp_path))
    wait_for(process, "epoch 3")
    below = children(process.pid)
    process.kill()
    process.wait()
    end = time.monotonic() + 10
    while alive(below) and time.monotonic() < end:
        time.sleep(0.1)
    assert not alive(below)
    assert not results(tmp_path)
    newest = max(tmp_path.glob("*/*/seed-0/checkpoints/epoch-*"), key=lambda p: int(p.name[6:]))
    file = newest / "block-1.pt"
    if file.exists():  # a damaged checkpoint is named and passed over
        file.write_bytes(file.read_bytes()[:-100])
    assert "going on after batch" in finish(LONG, tmp_path)
    assert numbers(tmp_path) == numbers(untouched)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LONG run to its end without interruption."""
    folder = tmp_path_factory.mktemp("untouched")
    finish(LONG, folder)
    return folder


def finish(words: list[str], folder: Path) -> str:
    """Run a command to its end; returns what it said."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "cli.py"), *words, "--runs", str(folder)], capture_output=True, text=True,
        timeout=120, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


def numbers(folder: Path) -> tuple[object, ...]:
    """Everything in a run's record that must not depend on interruptions."""
    rows = [
        json.loads(line) for line in next(folder.glob("*/*/seed-0/metrics.jsonl")).read_text().splitlines()
    ]
    for row in rows:
        row.pop("train_seconds", None)
    result = results(folder)[0]
    steps = [r for r in rows if r["kind"] == "step"]
    epochs = [r for r in rows if r["kind"] == "epoch"]
    return steps, epochs, result["weight_change"], result["test_accuracy_best"], result["updates"]


def test_two_commands_share_the_seeds(tmp_path: Path) -> None:
    """Field report B04: each seed is run once, by one of them."""
    words = ["run", TINY["bp"], "--seeds", "3", "--runs", str(tmp_path), *SMOKE]
    pair = [start(*words), start(*words)]
    errors = [p.communicate(timeout=120)[1] for p in pair]
    assert [p.returncode for p in pair] == [0, 0], errors
    assert sum(e.count(": done in") for e in errors) == 3
    assert [r["status"] for r in results(tmp_path)] == ["complete"] * 3
    for path in tmp_path.glob("*/*/seed-*/metrics.jsonl"):
        assert sum('"step"' in line and '"loss"' in line for line in path.read_text().splitlines()) == 14


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


def test_a_page_that_cannot_be_written_is_one_sentence(repro: Repro, tmp_path: Path) -> None:
    done = repro("report", "--out", str(tmp_path))
    assert done.returncode == 1
    assert f"repro: {tmp_path}: Is a directory" in done.stderr
    assert "Traceback" not in done.stderr
