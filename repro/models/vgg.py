"""VGG-19 with BatchNorm for small images (Simonyan and Zisserman, arXiv 1409.1556; CIFAR head of one linear layer).

Sixteen 3x3 convolutions of widths 64 (2), 128 (2), 256 (4), 512 (8) on maps of 32, 16, 8, 4, 2 for 32x32
images; 20.0 M weights. Images smaller than 32 skip the last pools, those that would leave less than one
pixel.
"""

from __future__ import annotations

from functools import partial

from torch import nn

from repro.models.layer import LayerFactory
from repro.models.parts import ConvUnit, PooledHead

STAGES = (
    (64, 2),
    (128, 2),
    (256, 4),
    (512, 4),
    (512, 4),
)  # (channels, convolutions), each stage ends in a pool


def _unit(channels: int, out: int, batch_norm: bool, pool: bool, dropout: float) -> nn.Sequential:
    parts = [*ConvUnit(channels, out, batch_norm=batch_norm).named_children()]
    unit = nn.Sequential()
    for name, part in parts:
        unit.add_module(name, part)
    if pool:
        unit.add_module("pool", nn.MaxPool2d(2))
    if dropout:
        unit.add_module("dropout", nn.Dropout(dropout))
    return unit


def layers(channels: int, side: int, classes: int, batch_norm: bool, dropout: float) -> list[LayerFactory]:
    """conv1 .. conv16 (a pool belongs to the layer before it), head. Dropout follows each pool, where asked for."""
    found: list[LayerFactory] = []
    before = channels
    for width, number in STAGES:
        for last in [False] * (number - 1) + [True]:
            pool = last and side >= 2
            side = side // 2 if pool else side
            make = partial(_unit, before, width, batch_norm, pool, dropout if last else 0.0)
            found.append(LayerFactory(f"conv{len(found) + 1}", make))
            before = width
    return [*found, LayerFactory("head", partial(PooledHead, before, classes))]
