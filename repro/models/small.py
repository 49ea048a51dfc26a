"""Small networks: the 2-layer CNN of the gradient-approximation paper, and two for the tests."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn
from torch.nn import functional

from repro.models.layer import LayerFactory
from repro.models.parts import ConvUnit, HiddenLinear, PooledHead
from repro.models.resnet import BasicBlock


def _pooled(channels: int, out: int) -> nn.Sequential:
    unit = nn.Sequential()
    unit.add_module("conv", nn.Conv2d(channels, out, 5, 1, 2))
    unit.add_module("relu", nn.ReLU(inplace=True))
    unit.add_module("pool", nn.MaxPool2d(3, 2, 1))
    return unit


def _full(inputs: int, outputs: int, flatten: bool = False) -> nn.Sequential:
    unit = nn.Sequential()
    if flatten:
        unit.add_module("flatten", nn.Flatten())
    unit.add_module("linear", HiddenLinear(inputs, outputs))
    unit.add_module("relu", nn.ReLU(inplace=True))
    return unit


def cnn2_layers(channels: int, height: int, width: int, classes: int) -> list[LayerFactory]:
    """conv1, conv2 (5x5, 64 channels, ReLU, max-pool 3/2), fc1 (384), fc2 (192), fc3 (arXiv 1908.05460; 24x24 images).

    1,068,298 weights for 3x24x24 images and 10 classes.
    """
    for _ in range(2):
        height, width = (height + 1) // 2, (width + 1) // 2
    return [
        LayerFactory("conv1", partial(_pooled, channels, 64)),
        LayerFactory("conv2", partial(_pooled, 64, 64)),
        LayerFactory("fc1", partial(_full, 64 * height * width, 384, flatten=True)),
        LayerFactory("fc2", partial(_full, 384, 192)),
        LayerFactory("fc3", partial(nn.Linear, 192, classes)),
    ]


def mlp_layers(inputs: int, classes: int, hidden: int, width: int) -> list[LayerFactory]:
    """hidden{1..} (linear, ReLU), head: a network without convolutions, on images taken as vectors of `inputs` numbers."""
    found = [LayerFactory("hidden1", partial(_full, inputs, width, flatten=True))]
    found += [LayerFactory(f"hidden{i}", partial(_full, width, width)) for i in range(2, hidden + 1)]
    return [*found, LayerFactory("head", partial(nn.Linear, width, classes))]


def tiny_layers(channels: int, classes: int, batch_norm: bool, dropout: float) -> list[LayerFactory]:
    """Eight layers with everything that can go wrong in a pipeline: BN, in-place ReLU, a shortcut, dropout."""
    unit = partial(ConvUnit, batch_norm=batch_norm)
    return [
        LayerFactory("conv1", partial(unit, channels, 8)),
        LayerFactory("conv2", partial(unit, 8, 8)),
        LayerFactory("conv3", partial(unit, 8, 16, stride=2)),
        LayerFactory("residual", partial(BasicBlock, 16, 16, 1, batch_norm)),
        LayerFactory("conv4", partial(unit, 16, 16)),
        LayerFactory("dropout", partial(nn.Dropout, dropout)),
        LayerFactory("conv5", partial(unit, 16, 16)),
        LayerFactory("head", partial(PooledHead, 16, classes)),
    ]


class ReluFirst(nn.Module):
    """A ReLU that overwrites its input, then a convolution: what a pipeline must not let reach a stored tensor."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, out, H, W]; x is changed."""
        y: Tensor = self.conv(functional.relu_(x))
        return y


def _relu_head(channels: int, classes: int) -> nn.Sequential:
    return nn.Sequential(nn.ReLU(inplace=True), PooledHead(channels, classes))


def tiny_relu_layers(channels: int, classes: int) -> list[LayerFactory]:
    """Eight layers that each start with an in-place ReLU (field report B24)."""
    found = [LayerFactory("conv1", partial(ReluFirst, channels, 8))]
    found += [LayerFactory(f"conv{i}", partial(ReluFirst, 8, 8)) for i in range(2, 8)]
    return [*found, LayerFactory("head", partial(_relu_head, 8, classes))]
