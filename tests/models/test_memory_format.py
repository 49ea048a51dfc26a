"""Layers with channels last: the same function, and the same layout at both borders, forward and backward."""

from __future__ import annotations

import pytest
import torch

from repro import models
from repro.recipe import ModelSpec


@pytest.mark.parametrize("name", ["resnet14", "vgg19", "cnn2", "tiny"])
def test_same_numbers_in_another_order(name: str) -> None:
    plain = models.layers(ModelSpec(name=name), (3, 32, 32), 10)
    turned = models.layers(ModelSpec(name=name), (3, 32, 32), 10, "channels_last")
    x = y = torch.randn((4, 3, 32, 32), generator=torch.Generator().manual_seed(0))
    for a, b in zip(plain, turned, strict=True):
        first, second = a.build(0), b.build(0)
        assert first.state_dict().keys() == second.state_dict().keys()
        x, y = first(x), second(y)
        assert y.dim() != 4 or y.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 8, 5, 5), (3, 1, 5, 5), (3, 8, 1, 1), (1, 8, 5, 5)])
def test_every_gradient_has_its_channels_last(shape: tuple[int, int, int, int]) -> None:
    """With one channel or one pixel too, where torch's own test of the layout says yes to both."""
    from repro.models.memory_format import arranged

    _, channels, height, width = shape
    expected = (channels * height * width, 1, channels * width, channels)
    seen: list[tuple[int, ...]] = []
    x = torch.randn(shape).requires_grad_()
    inner = x * 1.0
    inner.register_hook(lambda gradient: seen.append(gradient.stride()))
    outer = arranged(inner)
    assert outer.stride() == expected
    torch.autograd.backward(outer, torch.randn(shape))
    assert seen == [expected]
    torch.testing.assert_close(outer, inner)
