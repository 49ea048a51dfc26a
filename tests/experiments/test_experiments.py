"""Stragglers, gradient gap, bias and counted memory: each against something known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.engine.block.stopwatch import Stopwatch
from repro.engine.processes.delays import Straggler
from repro.experiments import experiment
from repro.experiments.session import Session
from repro.planning.run_plan import make_plan
from repro.progress import Progress
from repro.recipe import StragglerSpec
from repro.store import RunFolder, read_metrics


class Silent(Progress):
    """Says nothing."""

    def say(self, text: str) -> None:
        """Nothing."""


def run(recipe: Any, folder: Path, seed: int = 0) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Result fields and metrics of one seed."""
    folder.mkdir(parents=True, exist_ok=True)
    session = Session(make_plan(recipe, "cpu"), seed, RunFolder(folder), Silent())
    fields = experiment(recipe.experiment)(session)
    session.close()
    return fields, read_metrics(RunFolder(folder).metrics)


def test_delays_depend_on_seed_block_and_batch_alone() -> None:
    spec = StragglerSpec(probability=0.3, delay=1.0)
    pattern = [Straggler(spec, 0, 1).delayed(i) for i in range(2000)]
    assert pattern == [Straggler(spec, 0, 1, typical=5.0).delayed(i) for i in range(2000)]
    assert pattern != [Straggler(spec, 0, 2).delayed(i) for i in range(2000)]
    assert pattern != [Straggler(spec, 1, 1).delayed(i) for i in range(2000)]
    assert 0.25 < sum(pattern) / 2000 < 0.35  # five standard deviations of a binomial


def test_a_delay_is_its_multiple_of_the_typical_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    slept: list[float] = []
    monkeypatch.setattr("repro.engine.processes.delays.time.sleep", slept.append)
    late = Straggler(StragglerSpec(probability=1.0, delay=2.5), 0, 0, typical=0.1)
    late.sleep(0, Stopwatch(torch.device("cpu")))
    assert slept == [0.25]
    assert late.count == 1


def test_stragglers_cost_time_and_change_no_number(tiny: Callable[..., Any], tmp_path: Path) -> None:
    recipe = tiny(
        experiment="straggler", blocks=2, method={"name": "dsp"}, straggler={"probability": 0.5, "delay": 4.0}
    )
    fields, rows = run(recipe, tmp_path / "late")
    calm, calm_rows = run(tiny(blocks=2, method={"name": "dsp"}), tmp_path / "calm")
    steps = [r for r in rows if r["kind"] == "step"]
    assert steps == [r for r in calm_rows if r["kind"] == "step"]
    assert fields["weight_change"] == calm["weight_change"]
    found = fields["straggler"]
    assert all(count > 0 for count in found["delays"])
    assert found["delayed_seconds"] > found["clean_seconds"]
    ratio = found["delayed_seconds"] / found["clean_seconds"]
    assert found["slowdown_percent"] == pytest.approx(100 * (ratio - 1))


def test_bp_has_no_gap_to_bp(tiny: Callable[..., Any], tmp_path: Path) -> None:
    recipe = tiny(experiment="gradient-gap", blocks=3, model={"name": "tiny", "batch_norm": False})
    _, rows = run(recipe, tmp_path)
    gaps = [r for r in rows if r["kind"] == "gap"]
    assert len(gaps) == 14
    for row in gaps:
        assert max(row["difference"]) < 1e-9
        assert min(row["cosine"]) > 1 - 1e-6


def test_dsp_starts_without_a_gap_and_then_has_one_below_the_last_block(
    tiny: Callable[..., Any], tmp_path: Path
) -> None:
    short = {"blocks": 3, "method": {"name": "dsp"}, "max_steps": 8}
    recipe = tiny(experiment="gradient-gap", **short)
    fields, rows = run(recipe, tmp_path)
    gaps = [r["difference"] for r in rows if r["kind"] == "gap"]
    assert max(gaps[0]) < 1e-9  # all forwards used the weights of the start
    assert min(min(row[:2]) for row in gaps[2:]) > 1e-7
    engine, engine_rows = run(tiny(**short), tmp_path / "engine")
    losses = [r["loss"] for r in rows if r["kind"] == "step"]
    assert losses == [r["loss"] for r in engine_rows if r["kind"] == "step"]
    assert fields["test_accuracy_last"] == engine["test_accuracy_last"]


@pytest.mark.parametrize("name", ["2bw", "pipemare", "delayed"])
def test_the_gap_of_a_late_gradient_begins_at_zero_and_is_measured_at_the_weights_of_now(
    name: str, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    recipe = tiny(
        experiment="gradient-gap",
        blocks=3,
        method={"name": name},
        max_steps=8,
        epochs=2,
        model={"name": "tiny", "batch_norm": False},
    )
    _, rows = run(recipe, tmp_path)
    gaps = [r["difference"] for r in rows if r["kind"] == "gap"]
    assert max(gaps[0]) < 1e-8
    late = [0, 1] if name == "pipemare" else [0, 1, 2]  # its last block is never late
    assert min(row[k] for row in gaps[2:] for k in late) > 1e-7


def test_bias_gives_a_row_for_each_layer_and_estimator(tiny: Callable[..., Any], tmp_path: Path) -> None:
    fields, _ = run(tiny(experiment="bias", **{"gradient.estimator": "top1"}), tmp_path)
    assert {r["estimator"] for r in fields["bias"]} == {"full", "top1", "random", "sampled"}
    assert fields["num_steps"] == 0


METHODS = [
    {"name": "dsp"},
    {"name": "dsp", "staleness": "p=2 q=1"},
    {"name": "fr"},
    {"name": "ddg", "locking": "free"},
    {"name": "fdg"},
    {"name": "bp"},
    {"name": "gpipe", "micro": 4},
    {"name": "gpipe", "micro": 4, "rematerialise": False},
    {"name": "2bw", "micro": 4},
    {"name": "2bw", "micro": 4, "rematerialise": True},
    {"name": "pipemare"},
    {"name": "delayed", "delay": 3},
]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_counted_memory_is_near_the_formula(method: Any, tiny: Callable[..., Any], tmp_path: Path) -> None:
    """D5, in small: counted by the engine (hooks on the real graph, queue entries) against the closed form."""
    recipe = tiny(
        model={"name": "resnet20"},
        data={"name": "synthetic", "batch_size": 16, "train_limit": 192, "test_limit": 16, "image_size": 16},
        cut="measured",
        blocks=2,
        epochs=1,
        method=method,
    )
    fields, _ = run(recipe, tmp_path)
    for counted, formula, static in zip(
        fields["activation_bytes"], fields["memory_formula_bytes"], fields["static_bytes"], strict=True
    ):
        assert counted == pytest.approx(formula - static, rel=0.15)
