"""Timing-only runs: waits without drift, messages of true size, the simulator's times; nothing is trained or reported."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repro.benchmarks.pipeline import seconds_per_batch
from repro.engine.block.pace import Pace
from repro.engine.processes.launch import Launch
from repro.errors import UserError
from repro.planning.block_times import BlockTimes, duration, from_run, message_sizes, micro_batches
from repro.planning.run_plan import Plan, make_plan
from repro.recipe import run_hash
from repro.report import tables
from repro.report.stored.source import Source
from repro.schedule import simulate
from tests.conftest import ROOT

TIMES = BlockTimes(forward=0.02, recompute=0.02, backward=0.04, update=0.002, graph_bytes=1 << 20)


def plan(tiny: Callable[..., Any], method: Any, blocks: int, batches: int = 24) -> Plan:
    return replace(
        make_plan(tiny(method=method, blocks=blocks, **{"data.last_batch": "drop"}), "cpu"),
        num_batches=batches,
        evaluations={},
    )


def test_waits_do_not_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    now, late = [100.0], iter([0.004, 0.0, 0.003, 0.0, 0.0, 0.001])
    monkeypatch.setattr("repro.engine.block.pace.time.monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += seconds + next(late)

    monkeypatch.setattr("repro.engine.block.pace.time.sleep", sleep)
    pace = Pace()
    for _ in range(5):
        pace.pass_time(0.01, waited=0.0)
    assert now[0] == pytest.approx(100.05), "what one wait was late is taken off the next"
    pace.pass_time(0.01, waited=0.0)
    assert now[0] == pytest.approx(100.061)
    now[0] += 0.5  # a wait for a message
    late = iter([0.3, 0.0])
    pace.pass_time(0.01, waited=0.5)
    assert now[0] == pytest.approx(100.871), (
        "a wait for a message has swallowed the lateness: the next is whole"
    )
    pace.pass_time(0.01, waited=0.5)
    assert now[0] == pytest.approx(100.881), "a stall of the machine is not caught up with"


@pytest.mark.alone
@pytest.mark.parametrize(
    ("method", "blocks"),
    [
        ({"name": "bp"}, 2),
        ({"name": "dsp"}, 4),
        ({"name": "gpipe", "micro": 2}, 4),
        ({"name": "2bw", "micro": 4}, 4),
    ],
    ids=str,
)
def test_waits_in_real_processes_take_the_simulators_time(
    method: Any, blocks: int, tiny: Callable[..., Any]
) -> None:
    timed = plan(tiny, method, blocks)
    summaries = Launch(timed, seed=0, block_times=(TIMES,) * blocks).run()
    expected = seconds_per_batch(
        simulate(timed.schedule(), duration((TIMES,) * blocks, micro_batches(timed))), timed.schedule()
    )
    # Far more blocks than cores may be busy with other work here: only the order of magnitude is asserted from above.
    assert 0.97 * expected < summaries[-1]["seconds_per_batch"] < 1.6 * expected
    assert [s["updates"] for s in summaries] == [24] * blocks
    assert [s["weight_change"] for s in summaries] == [0.0] * blocks


def test_messages_and_queues_have_their_true_size(tiny: Callable[..., Any]) -> None:
    timed = plan(tiny, {"name": "dsp"}, 3)
    first, *_, last = Launch(timed, seed=0, block_times=(TIMES,) * 3).run()
    real, *_, real_last = Launch(timed, seed=0).run()
    assert first["activation_bytes"] - first["graph_bytes"] == real["activation_bytes"] - real["graph_bytes"]
    assert (
        last["activation_bytes"] - last["graph_bytes"]
        == real_last["activation_bytes"] - real_last["graph_bytes"]
    )
    assert max(message_sizes(timed)) > 0


def test_durations_of_a_run_are_read_back(tiny: Callable[..., Any]) -> None:
    summaries = Launch(plan(tiny, {"name": "dsp"}, 2), seed=0, block_times=(TIMES, TIMES)).run()
    first, last = from_run(summaries)
    assert first.forward == pytest.approx(0.02, rel=0.3)
    assert first.recompute == pytest.approx(0.02, rel=0.3)
    assert last.backward == pytest.approx(0.04, rel=0.3)
    assert first.graph_bytes == 1 << 20


def test_only_straggler_recipes_may_be_timing_only_and_the_hash_says_so(tiny: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match="only straggler recipes may ask for it, not experiment = 'train'"):
        tiny(timing_only=True)
    with pytest.raises(UserError, match="predictor is not known"):
        tiny(timing_only=True, experiment="straggler", method={"name": "dni"}, blocks=2)
    where: dict[str, Any] = {"device": "cpu", "data_identity": "d", "cut": ()}
    real, timed = (tiny(experiment="straggler", timing_only=t) for t in (False, True))
    assert run_hash(real, **where) != run_hash(timed, **where)


def test_a_timing_only_run_is_marked_and_read_by_no_table_but_its_own(
    repro: Callable[..., Any], tmp_path: Path
) -> None:
    recipe = str(ROOT / "tests" / "recipes_for_tests" / "tiny-dsp.yaml")
    refused = repro("run", recipe, "--profile", "smoke", "--timing-only")
    assert refused.returncode == 2
    assert "only straggler recipes may ask for it" in refused.stderr
    begin = time.monotonic()
    more = [
        "--set",
        "experiment=straggler",
        "--set",
        "straggler={probability: 0.5, delay: 3.0}",
        "--set",
        "blocks=3",
    ]
    found = repro("run", recipe, "--profile", "smoke", "--timing-only", *more, "--runs", str(tmp_path))
    assert found.returncode == 0, found.stderr
    assert time.monotonic() - begin < 60
    (file,) = tmp_path.glob("*/*/seed-0/result.json")
    result = json.loads(file.read_text())
    assert result["timing_only"] is True
    assert result["test_accuracy_last"] is None
    assert result["straggler"]["delayed_seconds"] > result["straggler"]["clean_seconds"]
    rows = [json.loads(line) for line in (file.parent / "metrics.jsonl").read_text().splitlines()]
    assert rows
    assert all("loss" not in row for row in rows)
    source = Source(tmp_path, fallback=False)
    assert source.find(lambda run: True).groups == []
    assert len(source.find(lambda run: True, timing_only=True).groups) == 1
    table = tables.build_from("straggler", source)
    assert [row["note"] for row in table.rows] == ["timing only, no training"] or "timing only" in str(
        table.rows
    )
