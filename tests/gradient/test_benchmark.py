"""The benchmarks' rows, on shapes that take no time, and the order of the real networks' convolutions."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from torch import nn

from repro import models
from repro.gradient import attach, network_benchmark, number_convolutions, trace
from repro.gradient import kernel_benchmark as benchmark
from repro.gradient.clock import Clock, Clocked
from repro.gradient.estimators import Estimator, build
from repro.gradient.geometry import ConvShape, Geometry
from repro.recipe.schema import GradientSpec, ModelSpec


@pytest.mark.parametrize("processor_time", [False, True])
def test_kernel_rows(processor_time: bool) -> None:
    shapes = [ConvShape(4, 4, 6, 6, 4, Geometry((3, 3), padding=(1, 1)))]
    rows = benchmark.rows("cpu", shapes=shapes, repeats=3, processor_time=processor_time)
    assert [(r["shape"], r["layout"], r["kernel"]) for r in rows] == [
        ("4->4 @6", layout, kernel)
        for layout in ("contiguous", "channels_last")
        for kernel in ("cpu", "torch")
    ]
    for row in rows:
        assert {"dense_ms", "ms", "ratio", "error"} <= set(row)
        assert row["error"] < 1e-5
        assert row["ratio"] == pytest.approx(row["dense_ms"] / row["ms"])
        assert row["ms_low"] <= row["ms"] <= row["ms_high"]
    best = max(r["ratio"] for r in rows if r["kernel"] == "cpu")
    assert benchmark.geometric_mean(rows, "cpu") == pytest.approx(best)


def test_the_shapes_are_those_of_the_paper() -> None:
    assert [s.label for s in benchmark.SHAPES] == [
        "16->16 @32", "32->32 @16", "64->64 @8", "64->64 @32", "128->128 @16", "256->256 @8", "512->512 @4", "512->512 @2",
    ]  # fmt: skip
    assert [round(s.flops / 1e9, 1) for s in benchmark.SHAPES] == [0.6, 0.6, 0.6, 9.7, 9.7, 9.7, 9.7, 2.4]


def test_network_rows(tmp_path: Path) -> None:
    net: list[tuple[str, nn.Module]] = [
        ("a", nn.Conv2d(3, 4, 3)), ("b", nn.Conv2d(4, 4, 3)), ("c", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())),
    ]  # fmt: skip
    rows = network_benchmark.rows(
        net, (3, 8, 8), 4, model="tiny", batch_size=4, repeats=3, timings=tmp_path,
        variants=(("zero", "s1"), ("top1", "s1")),
    )  # fmt: skip
    assert [(r["estimator"], r["schedule"]) for r in rows] == [
        ("full", "none"), ("full", "s1"), ("zero", "s1"), ("top1", "s1"),
    ]  # fmt: skip
    plain, full, zero, top1 = rows
    assert "filter_seconds" not in plain
    assert 0 < zero["filter_seconds"] < min(full["filter_seconds"], top1["filter_seconds"])
    assert top1["filter_seconds"] < top1["seconds"]
    assert {"share_of_zero", "filter_share_of_zero"} <= set(top1)
    assert zero["saved_low"] <= zero["saved_high"]


@pytest.mark.parametrize("name", ["full", "zero", "top1"])
def test_a_clocked_estimator_gives_the_same_bits_and_adds_up_its_time(name: str) -> None:
    x, dy, weight = torch.randn(2, 3, 5, 5), torch.randn(2, 4, 5, 5), torch.randn(4, 3, 3, 3)
    arguments = x, dy, weight, Geometry((3, 3), padding=(1, 1)), 0
    clock, estimator = Clock(), build(name)
    clocked = Clocked(estimator, clock)
    assert (clocked.name, clocked.needs_input) == (estimator.name, estimator.needs_input)
    start = time.perf_counter()
    assert torch.equal(clocked(*arguments), estimator(*arguments))
    clocked(*arguments)
    passed = time.perf_counter() - start
    assert 0 < clock.take() < passed
    assert clock.take() == 0


def test_the_plain_network_is_clocked_where_the_schedule_would_approximate(tmp_path: Path) -> None:
    net: list[tuple[str, nn.Module]] = [("a", nn.Conv2d(3, 4, 3)), ("b", nn.Conv2d(4, 4, 3))]
    settings = GradientSpec.model_validate({"estimator": "top1", "schedule": "all"})
    seen: list[str] = []

    def full_instead(estimator: Estimator) -> Estimator:
        seen.append(estimator.name)
        return build("full")

    x = torch.randn(2, 3, 8, 8)
    found = []
    for replace in (None, full_instead):
        numbers = number_convolutions(net)
        approximation = attach(
            net, settings, seed=0, steps_per_epoch=1, epochs=1, numbers=numbers, replace=replace
        )
        approximation.set_batch(0)
        net[1][1].zero_grad()
        net[1][1](net[0][1](x)).square().sum().backward()
        approximation.detach()
        found.append(net[1][1].weight.grad.clone())
    net[1][1].zero_grad()
    net[1][1](net[0][1](x)).square().sum().backward()
    assert seen == ["top1"]
    assert torch.allclose(found[1], net[1][1].weight.grad, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found[0], found[1], rtol=1e-1)


@pytest.mark.parametrize(
    ("name", "count"), [("resnet20", 19), ("resnet14", 13), ("vgg19", 16), ("resnet164", 163), ("cnn2", 2)]
)
def test_networks_register_their_convolutions_in_forward_order(name: str, count: int) -> None:
    layers = [(f.name, f.build(0)) for f in models.layers(ModelSpec(name=name), (3, 32, 32), 10)]
    numbers = number_convolutions(layers)
    assert list(numbers) == list(trace(layers, (3, 32, 32)))
    assert len(numbers) == count
