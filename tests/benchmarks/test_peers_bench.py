"""`repro bench peers` and `pipeline` end to end at the smallest size: rows, files, tables, figures, exit codes."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.benchmarks.peers import PeersBench
from repro.benchmarks.pipeline import PipelineBench
from repro.errors import UserError
from repro.report import figures, tables
from tests.programs import start

SMALL = ["--set", "model=tiny", "--set", "image_size=8", "--set", "batch_size=8", "--set", "rounds=1"]


def test_peers_stand_beside_each_other(repro: Callable[..., Any], tmp_path: Path) -> None:
    words = ["--set", "steps=7", "--set", "methods=dsp", "--set", "micro=2,4", "--json"]
    schedules = ["--set", "schedules=Schedule1F1B,ScheduleInterleaved1F1B"]
    found = repro(
        "bench", "peers", *SMALL, "--set", "memory_format=channels_last", *words, *schedules, cwd=tmp_path
    )
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    rows = {(r["system"], r["method"], r["micro_batches"], r["threads"]): r for r in document["rows"]}
    torch = "torch.distributed.pipelining"
    assert {
        ("repro", "BP", 1, 1),
        (torch, "ScheduleInterleaved1F1B", 4, 1),
        ("PyTorch loop", "loop", 1, 1),
    } <= set(rows)
    assert [r["best_peer"] for r in document["rows"]].count(True) == 1
    for row in rows.values():
        assert row["images_per_second"] > 0
        assert row["grown_bytes"] > 0
        base = rows["repro", "BP", 1, 1]["images_per_second"]
        assert row["ratio_to_bp"] == pytest.approx(row["images_per_second"] / base)
    assert rows[torch, "Schedule1F1B", 2, 1]["bound"] == pytest.approx(4 / 3)
    assert rows[torch, "ScheduleInterleaved1F1B", 4, 1]["bound"] == pytest.approx(8 / 4.5)
    assert "peers: round 1/1, 1/" in found.stderr
    stored = tmp_path / "results" / "bench" / "peers.json"
    again = repro("bench", str(stored), "--compare", str(stored), cwd=tmp_path)
    assert again.returncode == 0
    assert "none of" in again.stderr
    for row in document["rows"]:  # an older, faster one
        for name in ("images_per_second", "images_per_second_low", "images_per_second_high"):
            row[name] *= 2
    older = tmp_path / "older.json"
    older.write_text(json.dumps({**document, "name": "peers"}))
    worse = repro("bench", str(stored), "--compare", str(older), cwd=tmp_path)
    assert worse.returncode == 1
    assert "peers: slower: repro, BP" in worse.stderr
    table = tables.build("peers", tmp_path / "results" / "runs")
    assert len(table.rows) == len(rows)
    files, notes = figures.draw(["peers"], tmp_path / "results" / "runs", tmp_path / "f", ("svg",))
    assert (len(files), notes) == (1, [])


def test_networks_share_the_minutes_and_end_with_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each network is measured by itself; Ctrl-C in one ends all and keeps what there is."""

    def measure(bench: PeersBench) -> list[dict[str, Any]]:
        bench.turns.interrupted = bench.model == "vgg19"
        return [{"model": bench.model, "minutes": bench.minutes, "words": bench.turns.name}]

    monkeypatch.setattr(PeersBench, "_measure", measure)
    bench = PeersBench(model="resnet98, vgg19,resnext29", minutes=9)
    assert [(r["model"], r["minutes"]) for r in bench.rows()] == [("resnet98", 3), ("vgg19", 3)]
    assert bench.turns.interrupted


def test_pipeline_bench_gives_all_parts(repro: Callable[..., Any], tmp_path: Path) -> None:
    words = ["--set", "steps=6", "--set", "blocks=3", "--set", "methods=fdg", "--set", "delayed_blocks=2"]
    more = ["--set", "delayed_steps=12", "--set", "stretch=20", "--json"]
    found = repro("bench", "pipeline", *SMALL, *words, *more, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    rows = json.loads(found.stdout)["rows"]
    assert {r["part"] for r in rows} == {"check", "scaling", "delays"}
    assert all(r["timing_only"] for r in rows)
    scaling = {r["method"]: r for r in rows if r["part"] == "scaling"}
    assert set(scaling) == {"BP", "FDG"}
    assert scaling["BP"]["stretch"] == 20
    assert scaling["BP"]["seconds_per_batch"] >= 0.95 * scaling["BP"]["bp_seconds_per_batch"]
    table = tables.build("scaling", tmp_path / "results" / "runs")
    assert len(table.rows) == len(rows)
    files, notes = figures.draw(["scaling"], tmp_path / "results" / "runs", tmp_path / "f", ("svg",))
    assert (len(files), notes) == (1, [])


def test_wrong_settings_are_refused_before_anything_runs(repro: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="micro = '1': give numbers of micro-batches from blocks = 2"):
        PeersBench(model="tiny", image_size=8, batch_size=8, micro="1").rows()
    with pytest.raises(UserError, match="Did you mean 'resnext29'"):
        PeersBench(model="tiny, resnext2", image_size=8, batch_size=8).rows()
    with pytest.raises(UserError, match="Did you mean 'Schedule1F1B'"):
        PeersBench(model="tiny", image_size=8, batch_size=8, schedules="Schedule1F1b").rows()
    with pytest.raises(UserError, match="blocks = '1': give whole numbers > 1"):
        PipelineBench(model="tiny", image_size=8, batch_size=8, blocks="1", parts="scaling").rows()
    wrong = repro("bench", "--compare", str(tmp_path / "none.json"), cwd=tmp_path)
    assert wrong.returncode == 2
    assert "cannot be read" in wrong.stderr
    (tmp_path / "other.json").write_text("[]")
    other = repro("bench", "startup", "--compare", str(tmp_path / "other.json"), cwd=tmp_path)
    assert other.returncode == 2
    assert "is not what `repro bench` writes" in other.stderr


def test_an_interrupted_bench_prints_what_there_is_and_replaces_no_whole_one(tmp_path: Path) -> None:
    words = [
        *SMALL,
        "--set",
        "parts=scaling",
        "--set",
        "blocks=4",
        "--set",
        "methods=fdg",
        "--set",
        "stretch=60",
    ]
    process = start("bench", "pipeline", *words, cwd=tmp_path)
    assert process.stderr is not None
    for line in process.stderr:
        if "2/2" in line:
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted" in err
    assert "BP" in out
    assert "FDG" not in out
    assert [p.name for p in (tmp_path / "results" / "bench").iterdir()] == ["pipeline.interrupted.json"]
