"""`make gpu-check` on a machine without a GPU: what can be held here of the script that runs on one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from repro.benchmarks import gpu_check
from repro.benchmarks.gpu_check import GpuCheck, network_shapes
from tests.conftest import ROOT


def test_the_shapes_are_those_of_both_networks() -> None:
    labels = [shape.label for shape in network_shapes(2)]
    assert len(labels) == len(set(labels)) == 15
    assert {"3->16 @32", "16->32 @32 s2x2", "512->512 @2"} <= set(labels)


def test_what_is_not_reached_is_named_and_fails(tmp_path: Path) -> None:
    file = tmp_path / "check.json"
    assert GpuCheck("cpu", 0.0, file).run() == 1
    rows = json.loads(file.read_text())["rows"]
    assert [row["part"] for row in rows] == ["tests", "oracle", "loop", "kernels"]
    assert all(row["words"] == "not reached: no time left" for row in rows)


def test_rows_are_on_disk_before_the_next_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = GpuCheck("cpu", 1.0, tmp_path / "check.json")

    def oracle() -> object:
        yield {"holds": True, "words": "first"}
        stored = json.loads(check.file.read_text())["rows"]
        assert [row["words"] for row in stored if row["part"] == "oracle"] == ["first"]
        raise RuntimeError("the GPU has gone")

    nothing = iter(())
    for part in ("_tests", "_loop", "_kernels"):
        monkeypatch.setattr(check, part, lambda: nothing)
    monkeypatch.setattr(check, "_oracle", oracle)
    assert check.run() == 1
    words = [row["words"] for row in json.loads(check.file.read_text())["rows"]]
    assert words == ["first", "RuntimeError: the GPU has gone"]


def test_a_test_that_fails_is_a_row_and_one_that_hangs_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tests" / "schedule" / "test_a.py"
    file.parent.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    check = GpuCheck("cpu", 0.5, tmp_path / "check.json")
    file.write_text("def test_holds(): pass\ndef test_fails(): assert 0\n")
    rows = list(check._tests())
    assert [row["words"] for row in rows] == [
        "FAILED tests/schedule/test_a.py::test_fails",
        "1 failed, 1 passed",
    ]
    file.write_text("import time\ndef test_hangs(): time.sleep(100)\n")
    monkeypatch.setattr(gpu_check, "LEAST_SECONDS", 1.0)
    rows += check._tests()
    assert rows[-1]["words"].endswith("; cut off after 1 s")
    assert not any(row["holds"] for row in rows)


def test_the_engine_under_autocast_is_held_against_the_oracle(tmp_path: Path) -> None:
    assert (2, "dsp", {"autocast": "bfloat16"}) in gpu_check.CASES
    check = GpuCheck("cpu", 1.0, tmp_path / "check.json")
    (row,) = check._guarded(check._against_oracle, 2, "dsp", {"autocast": "bfloat16"})
    assert row["holds"] is True, row
    assert row["tolerance"] == 0.0
    (row,) = check._guarded(check._against_oracle, 2, "no-such-method", {})
    assert row["holds"] is False
    assert "no-such-method" in row["words"]


@pytest.mark.skipif(torch.cuda.device_count() > 0, reason="needs a machine without a GPU")
def test_without_a_gpu_it_says_so_and_ends_with_3() -> None:
    words = [sys.executable, "-m", "repro.benchmarks.gpu_check"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 3
    assert "no CUDA device" in done.stderr
