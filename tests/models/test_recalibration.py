"""Statistics re-estimated for an evaluation: training does not notice, and the test loss no longer lags (F40)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from repro import data, models
from repro.engine.processes.launch import Launch, Listener
from repro.models.norm_statistics import batch_norms, recalibrated
from repro.planning.run_plan import make_plan
from repro.verification import compare

Run = tuple[list[float], list[float]]


def train(recipe: Any, folder: Path | None = None) -> Run:
    """Losses of all batches, and test losses of all epochs, with the sequential engine."""
    losses: list[float] = []
    tests: list[float] = []
    Launch(make_plan(recipe, "cpu", engine="sequential"), 0, final_weights=folder).run(
        Listener(
            step=lambda batch, loss, samples: losses.append(loss),
            epoch=lambda epoch, numbers: tests.append(numbers["test_loss"]),
        )
    )
    return losses, tests


@pytest.mark.parametrize("method", ["dsp", "gpipe", "ddg"])
def test_training_losses_are_the_same_bits_with_and_without(method: str, tiny: Callable[..., Any]) -> None:
    recipe = {"method": {"name": method}, "blocks": 2, "epochs": 2}
    without, ordinary = train(tiny(**recipe))
    losses, tests = train(tiny(**recipe, norm_recalibration=3))
    assert losses == without
    assert tests != ordinary
    assert len(tests) == 2


@pytest.mark.parametrize(("engine", "method"), [("processes", "dsp"), ("sequential", "ddg")])
def test_the_oracle_re_estimates_the_same_statistics(
    engine: str, method: str, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    recipe = tiny(method={"name": method}, blocks=3, max_steps=9, epochs=2, norm_recalibration=4)
    found = compare(recipe, 0, "cpu", tmp_path, engine)
    assert found.holds(0.0), "\n".join(found.lines(0.0))


def test_at_a_large_rate_the_test_loss_is_near_that_of_training_mode(
    tiny: Callable[..., Any], tmp_path: Path
) -> None:
    """F40: within a factor of two of the loss in training mode on the same samples; running statistics are not."""
    large = {"model": {"name": "tiny"}, "optimizer.lr": 0.4, "epochs": 1, "max_steps": 6}
    _, lagging = train(tiny(**large), tmp_path)
    _, tests = train(tiny(**large, norm_recalibration=6))
    recipe = tiny(**large)
    plan = make_plan(recipe, "cpu")
    batches = data.load(recipe.data, plan.data_root, 0)
    layers = [(f.name, f.build(0)) for f in models.layers(recipe.model, plan.image_shape, plan.num_classes)]
    net = torch.nn.Sequential(*(layer for _, layer in layers)).train()
    state = torch.load(tmp_path / "block-0.pt")
    for name, layer in layers:
        prefix = f"{name}."
        layer.load_state_dict({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})
    with torch.no_grad():
        total = sum(
            float(
                functional.cross_entropy(net(batches.test_images(i)), batches.test_labels(i), reduction="sum")
            )
            for i in range(batches.test_steps)
        )
    expected = total / batches.test_size
    assert expected / 2 < tests[-1] < 2 * expected
    assert abs(tests[-1] - expected) < abs(lagging[-1] - expected)


def test_the_running_statistics_come_back() -> None:
    norm = torch.nn.BatchNorm2d(3)
    net = torch.nn.Sequential(norm)
    net(torch.randn(8, 3, 4, 4))
    before = {k: v.clone() for k, v in norm.state_dict().items()}
    x = torch.randn(16, 3, 4, 4) * 3 + 1
    with recalibrated(batch_norms(net)):
        net(x)
        net(x + 2)
        assert norm.running_mean is not None
        assert torch.allclose(norm.running_mean, x.mean((0, 2, 3)) + 1, atol=1e-5)
    assert norm.momentum == 0.1
    assert all(torch.equal(v, before[k]) for k, v in norm.state_dict().items())
