"""Approximations inside a network, and inside a part of one."""

from __future__ import annotations

import copy
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.errors import MissingError, UserError
from repro.gradient import Approximation, attach, number_convolutions
from repro.gradient import approximation as module
from repro.recipe.schema import GradientRule, GradientSpec
from repro.seeding import derive

Net = list[tuple[str, nn.Module]]


def network() -> Net:
    torch.manual_seed(0)
    block = nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(4, 6, 3, padding="same", bias=False), norm=nn.BatchNorm2d(6), relu=nn.ReLU(),
            conv2=nn.Conv2d(6, 6, 3, stride=2, padding=1), project=nn.Conv2d(6, 6, 1),
        )
    )  # fmt: skip
    return [("stem", nn.Conv2d(3, 4, 3, padding=1)), ("block", block), ("last", nn.Conv2d(6, 5, 3))]


def put(net: Net, numbers: dict[str, int] | None = None, **settings: Any) -> Approximation:
    return attach(
        net,
        GradientSpec(**settings),
        seed=7,
        steps_per_epoch=4,
        epochs=3,
        numbers=numbers or number_convolutions(net),
    )


def images(size: int = 8) -> Tensor:
    return torch.randn(3, 3, size, size, generator=torch.Generator().manual_seed(1))


def run(net: Net, x: Tensor) -> Tensor:
    for _, layer in net:
        x = layer(x)
    return x


def gradients(net: Net, y: Tensor) -> dict[str, Tensor]:
    names = {f"{layer}.{name}": p for layer, m in net for name, p in m.named_parameters()}
    return dict(zip(names, torch.autograd.grad((y**2).mean(), list(names.values())), strict=True))


def test_schedule_decides_which_convolutions_are_zero() -> None:
    net = network()
    approximation = put(net, estimator="zero", schedule=(GradientRule(layers="2::2", batches="1::2"),))
    for batch in range(4):
        approximation.set_batch(batch)
        found = gradients(net, run(net, images()))
        for name, zero in {"stem": 0, "block.conv1": 1, "block.conv2": 0, "last": 1}.items():
            assert bool((found[f"{name}.weight"] == 0).all()) == bool(zero and batch % 2), (name, batch)
    assert approximation.report()["uses"] == {"full": 12, "zero": 4}


def test_full_uses_the_library_and_changes_no_bit() -> None:
    net = network()
    expected = gradients(net, run(net, images()))
    approximation = put(net, estimator="full")
    found = gradients(net, run(net, images()))
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert approximation.report()["uses"] == {"full": 4}


def test_output_and_everything_but_filters_stay_exact() -> None:
    net = network()
    expected_y = run(net, images())
    expected = gradients(net, expected_y)
    put(net, estimator="top1")
    y = run(net, images())
    assert torch.equal(y, expected_y)
    found = gradients(net, y)
    exact = [name for name, g in found.items() if g.dim() != 4 or "project" in name]
    assert len(exact) == 7
    for name in exact:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-6)
    assert not torch.allclose(found["last.weight"], expected["last.weight"])


def test_kept_graphs_and_replays_use_their_own_batch() -> None:
    net = network()
    approximation = put(net, estimator="random")

    def forward(batch: int, micro: int = 0) -> Tensor:
        approximation.set_batch(batch, micro)
        return run(net, images())

    graphs = {key: forward(*key) for key in ((0, 0), (1, 0), (1, 1))}
    late = {key: gradients(net, y)["block.conv2.weight"] for key, y in graphs.items()}
    for (batch, micro), found in late.items():
        assert torch.equal(found, gradients(net, forward(batch, micro))["block.conv2.weight"])  # replayed
        generator = torch.Generator().manual_seed(derive(7, "gradient", 3, batch, micro))
        assert torch.equal(found, torch.randn(found.shape, generator=generator) / 128)
    assert not torch.equal(late[1, 0], late[1, 1])


@pytest.mark.parametrize("estimator", ["random", "sampled", "top1"])
def test_a_cut_network_draws_the_same(estimator: str) -> None:
    whole, cut = network(), network()
    numbers = number_convolutions(whole)
    one = put(whole, estimator=estimator, schedule="s3")
    parts = [
        put(cut[:1], numbers, estimator=estimator, schedule="s3"),
        put(cut[1:], numbers, estimator=estimator, schedule="s3"),
    ]
    for each in (one, *parts):
        each.set_batch(1)
    expected, found = gradients(whole, run(whole, images())), gradients(cut, run(cut, images()))
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert sum(p.report()["uses"].get(estimator, 0) for p in parts) == one.report()["uses"][estimator] == 2


def test_forwards_without_graph_are_not_counted_and_stay_plain() -> None:
    net = network()
    approximation = put(net, estimator="top1")
    with torch.no_grad():
        run(net, images())
    assert approximation.report()["uses"] == {}


@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_fallbacks_are_counted_with_their_reason() -> None:
    net: Net = [
        ("reflect", nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect")),
        ("uneven", nn.Conv2d(4, 4, 4, padding="same")),
        ("fine", nn.Conv2d(4, 4, 3, padding="valid")),
    ]
    plain = gradients(net, run(net, images()))
    approximation = put(net, estimator="zero")
    for _ in range(2):
        found = gradients(net, run(net, images()))
    report = approximation.report()
    assert report["uses"] == {"full": 4, "zero": 2}
    assert report["fallbacks"] == [
        {"layer": "reflect", "reason": "padding_mode 'reflect'", "count": 2},
        {"layer": "uneven", "reason": "padding 'same' that differs between the sides", "count": 2},
    ]
    assert torch.equal(found["uneven.weight"], plain["uneven.weight"])


class Standardised(nn.Conv2d):
    """A convolution whose forward is not that of its class."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._conv_forward(x, self.weight - self.weight.mean(), self.bias)


def test_a_convolution_with_a_forward_of_its_own_keeps_it() -> None:
    net: Net = [("own", Standardised(3, 4, 3)), ("plain", nn.Conv2d(4, 4, 3))]
    expected = run(net, images())
    plain = gradients(net, expected)
    approximation = put(net, estimator="zero")
    found = run(net, images())
    assert torch.equal(found, expected)
    assert torch.equal(gradients(net, found)["own.weight"], plain["own.weight"])
    (row,) = approximation.report()["fallbacks"]
    assert (row["layer"], row["reason"]) == ("own", "Standardised has a forward of its own")


def test_single_images_and_mixed_types_fall_back() -> None:
    net: Net = [("conv", nn.Conv2d(3, 4, 3))]
    approximation = put(net, estimator="top1")
    run(net, images()[0])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        run(net, images())
    reasons = [row["reason"] for row in approximation.report()["fallbacks"]]
    assert reasons == ["autocast", "input of 3 dimensions"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_trains_in_every_type_and_layout(dtype: torch.dtype, layout: torch.memory_format) -> None:
    net = network()
    for _, layer in net:
        layer.to(dtype=dtype, memory_format=layout)
    approximation = put(net, estimator="top1")
    optimizer = torch.optim.SGD([p for _, m in net for p in m.parameters()], lr=0.05)
    x, losses = images(12).to(dtype).contiguous(memory_format=layout), []
    for batch in range(12):
        approximation.set_batch(batch)
        loss = (run(net, x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    assert approximation.report()["uses"] == {"top1": 48}
    assert sum(approximation.report()["kernels"].values()) == 48


def test_detach_and_copies() -> None:
    net = network()
    state = {k: v.clone() for _, m in net for k, v in m.state_dict().items()}
    approximation = put(net, estimator="zero")
    assert {k for _, m in net for k in m.state_dict()} == set(state)
    twin = copy.deepcopy(net)
    with torch.no_grad():
        next(twin[0][1].parameters()).zero_()
    assert not torch.equal(run(twin, images()), run(net, images()))  # a copy reads its own weights
    approximation.detach()
    assert gradients(net, run(net, images()))["stem.weight"].abs().sum() > 0


def test_measured_stores_and_reads_its_timings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from repro.gradient import timings

    calls: list[str] = []

    def measure(shape: Any, *_: Any) -> dict[str, float]:
        calls.append(shape.label)
        return {"dense_ms": 2.0, "ms": 1.0 if shape.out_channels == 6 else 3.0}

    monkeypatch.setattr(timings, "measure", measure)
    settings = GradientSpec(estimator="zero", schedule="measured")
    for _ in range(2):
        net = network()
        approximation = attach(
            net,
            settings,
            seed=0,
            steps_per_epoch=4,
            epochs=1,
            numbers=number_convolutions(net),
            timings=tmp_path,
        )
        for _ in range(2):
            found = gradients(net, run(net, images()))
        assert [bool((found[f"{n}.weight"] == 0).all()) for n in ("stem", "block.conv1", "block.conv2", "last")] == [
            False, True, True, False,
        ]  # fmt: skip
        report = approximation.report()
        assert report["faster"] == {"1": False, "2": True, "3": True, "4": False}
        assert report["uses"] == {"full": 4, "zero": 4}
    assert len(calls) == 4  # the second network read the file
    assert [p.suffix for p in tmp_path.iterdir() if p.suffix == ".json"] == [".json"]


def test_measuring_for_real(tmp_path: Path) -> None:
    net: Net = [("conv", nn.Conv2d(3, 4, 3))]
    approximation = attach(
        net, GradientSpec(estimator="zero", schedule="measured"), seed=0, steps_per_epoch=1, epochs=1,
        numbers=number_convolutions(net), timings=tmp_path,
    )  # fmt: skip
    run(net, images())
    assert set(approximation.report()["faster"]) == {"1"}


def test_errors_come_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="stem"):
        put(network(), estimator="top1", schedule=(GradientRule(layers="sten"),))
    with pytest.raises(UserError, match="no convolution"):
        attach([], GradientSpec(), seed=0, steps_per_epoch=1, epochs=1, numbers={})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MissingError):
        put(network(), estimator="top1", kernel="cupy")
    with pytest.raises(MissingError):
        put(network(), kernel="cupy", schedule=(GradientRule(estimator="top1"),))
    assert put(network(), estimator="zero", kernel="cupy") is not None  # no top1, no kernel
    assert module.check_kernel(GradientSpec(estimator="top1", kernel="cpu"), torch.device("cpu")) is None  # type: ignore[func-returns-value]
