"""The bias measurement on vectors whose bias is known, and on a small network."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from torch import nn

from repro.errors import UserError
from repro.gradient.estimator_bias import compare, measure
from repro.recipe.schema import GradientSpec


def vectors(bias: float, pairs: int = 200, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Full gradients with mean (1, 0, 0, ...) and estimates whose mean is off by `bias` in the next direction."""
    generator = np.random.default_rng(3)
    full = generator.normal(size=(pairs, 30)) * noise
    full[:, 0] += 1
    estimates = full + generator.normal(size=full.shape) * noise
    estimates[:, 1] += bias
    return estimates, full


@pytest.mark.parametrize("bias", [0.0, 0.5, 2.0])
def test_interval_holds_the_true_bias(bias: float) -> None:
    """The noise alone is 5.5 times the mean's norm; it must not count as bias."""
    row = compare(*vectors(bias))
    for name, truth in {
        "relative_bias": bias,
        "norm_ratio": (1 + bias**2) ** 0.5,
        "mean_cosine": 1 / (1 + bias**2) ** 0.5,
    }.items():
        low, value, high = row[f"{name}_low"], row[name], row[f"{name}_high"]
        assert low is not None
        assert value is not None
        assert high is not None
        assert low - 1e-9 <= truth <= high + 1e-9, name
        assert high - low < 1.0


def test_equal_vectors_have_no_bias() -> None:
    row = compare(*[vectors(0.0, noise=0.1)[1]] * 2)
    assert row["relative_bias"] == 0
    assert row["norm_ratio"] == row["mean_cosine"] == pytest.approx(1)


def test_a_mean_that_is_only_noise_is_left_open() -> None:
    estimates, full = np.random.default_rng(0).normal(size=(2, 10, 500))
    assert compare(estimates, full)["mean_cosine"] is None


def network() -> list[tuple[str, nn.Module]]:
    import torch

    torch.manual_seed(0)
    body = OrderedDict(
        conv1=nn.Conv2d(3, 8, 3), norm=nn.BatchNorm2d(8), relu=nn.ReLU(), conv2=nn.Conv2d(8, 8, 3)
    )
    return [
        ("body", nn.Sequential(body)),
        ("head", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))),
    ]


def test_rows_of_a_network() -> None:
    net = network()
    before = [p.clone() for _, m in net for p in m.parameters()]
    rows = measure(net, (3, 8, 8), 4, GradientSpec(samples=2), seed=1, batch_size=16, pairs=12)
    assert [(r["layer"], r["estimator"]) for r in rows] == [
        ("body.conv2", e) for e in ("full", "top1", "random", "sampled")
    ]
    assert rows[0]["relative_bias"] == 0
    assert rows[0]["relative_bias_high"] == 0
    assert all(
        (p == q).all() for p, q in zip(before, (p for _, m in net for p in m.parameters()), strict=True)
    )
    assert all(p.grad is None for _, m in net for p in m.parameters())
    assert rows == measure(network(), (3, 8, 8), 4, GradientSpec(samples=2), seed=1, batch_size=16, pairs=12)


def test_wrong_names_and_too_few_pairs() -> None:
    with pytest.raises(UserError, match=r"Did you mean 'body\.conv1'"):
        measure(network(), (3, 8, 8), 4, GradientSpec(), seed=0, convolutions=["body.conv11"])
    with pytest.raises(UserError, match="at least 3"):
        measure(network(), (3, 8, 8), 4, GradientSpec(), seed=0, pairs=2)
