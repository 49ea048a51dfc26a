"""ImageNet ResNet-18 and ResNet-50 from torchvision's blocks, as a list of layers.

11.7 M and 25.6 M weights for 1000 classes. The DSP paper's ImageNet models are not named in what we have;
these two are our choice. `to_torchvision` and `from_torchvision` map the names of weights, so they can be
carried both ways.
"""

from __future__ import annotations

from functools import partial

from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck

from repro.models.layer import LayerFactory
from repro.models.parts import PooledHead

SIZES = {18: (BasicBlock, (2, 2, 2, 2)), 50: (Bottleneck, (3, 4, 6, 3))}


def _stem(channels: int) -> nn.Sequential:
    stem = nn.Sequential()
    stem.add_module("conv1", nn.Conv2d(channels, 64, 7, 2, 3, bias=False))
    stem.add_module("bn1", nn.BatchNorm2d(64))
    stem.add_module("relu", nn.ReLU(inplace=True))
    stem.add_module("maxpool", nn.MaxPool2d(3, 2, 1))
    return stem


def _block(kind: type[BasicBlock] | type[Bottleneck], before: int, width: int, stride: int) -> nn.Module:
    out = width * kind.expansion
    shortcut = None
    if stride != 1 or before != out:
        shortcut = nn.Sequential(nn.Conv2d(before, out, 1, stride, bias=False), nn.BatchNorm2d(out))
    block: nn.Module = kind(before, width, stride, shortcut)
    return block


def layers(depth: int, channels: int, classes: int) -> list[LayerFactory]:
    """stem, stage{1..4}.block{1..}, head."""
    kind, counts = SIZES[depth]
    found = [LayerFactory("stem", partial(_stem, channels))]
    before = 64
    for stage, number in enumerate(counts, start=1):
        width = 64 * 2 ** (stage - 1)
        for index in range(1, number + 1):
            stride = 2 if stage > 1 and index == 1 else 1
            found.append(
                LayerFactory(f"stage{stage}.block{index}", partial(_block, kind, before, width, stride))
            )
            before = width * kind.expansion
    return [*found, LayerFactory("head", partial(PooledHead, before, classes))]


def to_torchvision(name: str) -> str:
    """Name of one of our weights ("stage2.block1.conv1.weight") in torchvision's state_dict ("layer2.0.conv1.weight")."""
    first, _, rest = name.partition(".")
    if first == "stem":
        return rest
    if first == "head":
        return rest.replace("linear.", "fc.")
    block, _, rest = rest.partition(".")
    return f"layer{first.removeprefix('stage')}.{int(block.removeprefix('block')) - 1}.{rest}"


def from_torchvision(name: str) -> str:
    """Inverse of `to_torchvision`: "layer2.0.conv1.weight" -> "stage2.block1.conv1.weight"."""
    first, _, rest = name.partition(".")
    if first == "fc":
        return f"head.linear.{rest}"
    if not first.startswith("layer"):
        return f"stem.{name}"
    block, _, rest = rest.partition(".")
    return f"stage{first.removeprefix('layer')}.block{int(block) + 1}.{rest}"
