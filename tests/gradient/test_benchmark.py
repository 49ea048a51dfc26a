"""The benchmarks' rows, on shapes that take no time, and the order of the real networks' convolutions."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from repro import models
from repro.gradient import benchmark, network_benchmark, number_convolutions, trace
from repro.gradient.geometry import ConvShape, Geometry
from repro.recipe.schema import ModelSpec


@pytest.mark.parametrize("processor_time", [False, True])
def test_kernel_rows(processor_time: bool) -> None:
    shapes = [ConvShape(4, 4, 6, 6, 4, Geometry((3, 3), padding=(1, 1)))]
    rows = benchmark.rows("cpu", shapes=shapes, repeats=3, processor_time=processor_time)
    assert [(r["shape"], r["layout"], r["kernel"]) for r in rows] == [
        ("4->4 @6", layout, kernel) for layout in ("contiguous", "channels_last") for kernel in ("cpu", "torch")
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
    assert [(r["estimator"], r["schedule"]) for r in rows] == [("full", "all"), ("zero", "s1"), ("top1", "s1")]
    assert "share_of_zero" in rows[2]
    assert rows[1]["saved_low"] <= rows[1]["saved_high"]


@pytest.mark.parametrize(
    ("name", "count"), [("resnet20", 19), ("resnet14", 13), ("vgg19", 16), ("resnet164", 163), ("cnn2", 2)]
)
def test_networks_register_their_convolutions_in_forward_order(name: str, count: int) -> None:
    layers = [(f.name, f.build(0)) for f in models.layers(ModelSpec(name=name), (3, 32, 32), 10)]
    numbers = number_convolutions(layers)
    assert list(numbers) == list(trace(layers, (3, 32, 32)))
    assert len(numbers) == count
