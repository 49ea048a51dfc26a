"""`repro bench engine` holds its rounds against layer times of its own, not of another day."""

import json
from pathlib import Path

import pytest

from repro import paths
from repro.benchmarks.engine import EngineBench
from repro.planning.run_plan import make_plan


def test_the_layers_are_measured_anew_once_a_bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path))
    bench = EngineBench(model="tiny", image_size=8, batch_size=4, steps=2)
    plan = bench.plan("bp", 2)
    make_plan(plan.recipe, "cpu", measure=True)  # leaves its costs in the machine's cache
    for file in paths.costs().glob("*.json"):
        stored = json.loads(file.read_text())
        stored["layers"] = [[1e6, 1e6, *sizes] for _, _, *sizes in stored["layers"]]
        file.write_text(json.dumps(stored))
    cached = make_plan(plan.recipe, "cpu", measure=True).costs
    assert cached is not None
    assert cached[0].forward == pytest.approx(1e6), "the machine's cache is read elsewhere"
    fresh = EngineBench(model="tiny", image_size=8, batch_size=4, steps=2).plan("bp", 2)
    assert fresh.costs is not None
    assert max(cost.forward for cost in fresh.costs) < 1e3
    assert bench.plan("dsp", 2).costs == plan.costs, "all methods of a bench share one measurement"
