"""A value that is not finite, wherever it comes up first, stops the seed within a batch and is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from repro.engine.block.build import build_block
from repro.engine.block.finite import FiniteCheck, NotFinite
from repro.engine.processes.launch import Diverged, Launch
from repro.planning.run_plan import make_plan
from tests.programs import RUNS, SMOKE, TINY, results, settings


@pytest.fixture
def middle(tiny: Callable[..., Any]) -> Any:
    """Block 1 of 3, alone: with BatchNorm, after one whole batch."""
    plan = make_plan(tiny(blocks=3, **{"model.dropout": 0.0}), "cpu")
    block = build_block(plan, 1, 0, plan.schedule())
    pass_batch(block, plan, 0)
    block.plan = plan
    return block


def pass_batch(block: Any, plan: Any, batch: int, x: float = 0.5, dy: float = 1e-3) -> None:
    """A forward of [8, ...] around `x`, a backward of a gradient around `dy`, and the update."""
    low, high = plan.layer_spans[1]
    draw = torch.Generator().manual_seed(batch)
    images = torch.randn((8, *plan.shapes[low]), generator=draw)
    images[0].flatten()[0] = x
    block.forward((batch, 0), images)
    if block.recompute:
        block.replay((batch, 0))
    gradient = torch.randn((8, *plan.shapes[high]), generator=draw) * 1e-3
    gradient[0].flatten()[0] = dy
    block.backward((batch, 0), gradient)
    block.update()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_gradient_is_named_and_changes_no_weight(middle: Any, value: float) -> None:
    before = [w.detach().clone() for w in middle.optimizer.weights]
    with pytest.raises(NotFinite, match=r"the gradient of .*\..* is .* at batch 1"):
        pass_batch(middle, middle.plan, 1, dy=value)
    assert all(torch.equal(a, b) for a, b in zip(before, middle.optimizer.weights, strict=True))
    assert middle.updates == 1


@pytest.mark.parametrize("place", ["running_mean", "running_var"])
def test_a_statistic_is_named(middle: Any, place: str) -> None:
    layer, norm = next(
        (name, m) for name, layer in middle.layers for m in layer.modules() if isinstance(m, nn.BatchNorm2d)
    )
    getattr(norm, place)[1] = float("inf")
    with pytest.raises(NotFinite, match=rf"the statistic {layer}.*{place} is inf at batch 1"):
        pass_batch(middle, middle.plan, 1)


def test_large_but_finite_values_are_let_pass() -> None:
    """The norm of a gradient may overflow where no value has."""
    layer = nn.Linear(4, 4)
    for weight in layer.parameters():
        weight.grad = torch.full_like(weight, 3e38)
    check = FiniteCheck([("fc", layer)])
    check.check(0)
    layer.bias.grad[2] = float("nan")  # type: ignore[index]
    with pytest.raises(NotFinite) as found:
        check.check(7)
    assert (found.value.batch, found.value.tensor) == (7, "the gradient of fc.bias")


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_every_block_stops_within_a_batch(blocks: int, tiny: Callable[..., Any]) -> None:
    import multiprocessing

    recipe = tiny(blocks=blocks, method={"name": "dsp"}, optimizer={"lr": 1e30}, epochs=20)
    with pytest.raises(Diverged) as found:
        Launch(make_plan(recipe, "cpu"), 0).run()
    assert 0 <= found.value.block < blocks
    assert found.value.batch <= 1 + 2 * blocks
    assert not [p for p in multiprocessing.active_children() if p.name.startswith("repro block")]


def test_the_record_says_step_block_and_tensor(repro: Callable[..., Any], tmp_path: Path) -> None:
    words = ["run", TINY["dsp"], *settings(lr=1e30, blocks=3), RUNS, str(tmp_path), *SMOKE]
    done = repro(*words)
    assert done.returncode == 1
    result = results(tmp_path)[0]
    assert result["status"] == "diverged"
    place = result["diverged"]
    assert set(place) == {"step", "block", "tensor", "value"}  # type: ignore[call-overload]
    assert place["value"] in ("nan", "inf", "-inf")  # type: ignore[index]
    assert f"diverged: {place['tensor']} is " in done.stderr  # type: ignore[index]
    assert f"in block {place['block']}" in done.stderr  # type: ignore[index]
    assert "Traceback" not in done.stderr
    text = next(tmp_path.glob("*/*/seed-0/metrics.jsonl")).read_text()
    assert all(json.loads(line) for line in text.splitlines())
    assert "NaN" not in text


def test_an_experiment_in_one_process_stops_too(repro: Callable[..., Any], tmp_path: Path) -> None:
    more = settings(experiment="gradient-gap", lr=1e30, blocks=2, epochs=4)
    done = repro("run", TINY["dsp"], *more, RUNS, str(tmp_path), *SMOKE)
    assert done.returncode == 1, done.stderr
    assert results(tmp_path)[0]["status"] == "diverged"
