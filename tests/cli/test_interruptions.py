"""A killed worker, Ctrl-C, a killed parent, a second command: nothing is lost and nothing is left running."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.programs import (
    SMOKE,
    TINY,
    alive,
    blocks,
    call,
    children,
    finish,
    gone,
    numbers,
    results,
    start,
    wait_for,
)

LONG = ["run", TINY["dsp"], "--set", "blocks=3", "--set", "epochs=14", *SMOKE]


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LONG run to its end without interruption."""
    folder = tmp_path_factory.mktemp("untouched")
    finish(LONG, folder)
    return folder


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
    ]
    process = start(*words)
    wait_for(process, "seed 1: epoch 2")
    os.kill(blocks(process.pid)[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == 1
    assert "signal 9" in errors
    assert [r["status"] for r in results(tmp_path)] == ["complete", "failed", "complete"]
    again = call(*words)
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
    assert gone(below)
    assert not results(tmp_path)
    newest = max(tmp_path.glob("*/*/seed-0/checkpoints/epoch-*"), key=lambda p: int(p.name[6:]))
    file = newest / "block-1.pt"
    if file.exists():  # a damaged checkpoint is named and passed over
        file.write_bytes(file.read_bytes()[:-100])
    assert "going on after batch" in finish(LONG, tmp_path)
    assert numbers(tmp_path) == numbers(untouched)


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
