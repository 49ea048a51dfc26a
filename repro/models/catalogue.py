"""From the name of a model to its list of layers."""

from __future__ import annotations

import re

from repro.errors import UserError, nearest
from repro.models import bottleneck, imagenet, resnet, small, vgg
from repro.models.layer import LayerFactory
from repro.recipe.schema import ModelSpec

NAMES = (
    "resnet14",
    "resnet20",
    "resnet98",
    "resnet164",
    "preact-resnet164",
    "vgg19",
    "resnext29",
    "imagenet-resnet18",
    "imagenet-resnet50",
    "cnn2",
    "tiny",
    "tiny-relu",
)
_DROPOUT = ("vgg19", "tiny")
_WITHOUT_NORM = ("vgg19", "tiny", "tiny-relu", "cnn2")


def names() -> tuple[str, ...]:
    """Models by name; besides, any "resnet<6n+2>"."""
    return NAMES


def layers(spec: ModelSpec, image_shape: tuple[int, int, int], num_classes: int) -> list[LayerFactory]:
    """Return the layers of a model for images of [C, H, W], in forward order.

    Raises UserError for an unknown name, an option that the model does not take, or images that are too small.
    """
    name, (channels, height, width) = spec.name, image_shape
    depth = _resnet_depth(name)
    if depth is None and name not in NAMES:
        raise UserError(
            f"model.name = '{name}' is unknown.{nearest(name, NAMES)} Allowed: {', '.join(NAMES)}, or resnet<6n+2>"
        )
    if spec.dropout and name not in _DROPOUT:
        raise UserError(f"model.dropout = {spec.dropout}: {name} has no dropout, only {', '.join(_DROPOUT)} have: give 0")
    if not spec.batch_norm and depth is None and name not in _WITHOUT_NORM:
        raise UserError(f"model.batch_norm = false: {name} has no form without BatchNorm: give true")
    least = 16 if name.startswith("imagenet") else 4
    if min(height, width) < least:
        raise UserError(f"data.image_size: {name} needs images of at least {least}x{least}, got {height}x{width}")
    if depth is not None:
        return resnet.layers(depth, channels, num_classes, spec.batch_norm)
    if name.startswith("imagenet"):
        return imagenet.layers(int(name.removeprefix("imagenet-resnet")), channels, num_classes)
    if name == "preact-resnet164":
        return bottleneck.preactivation_layers(channels, num_classes)
    if name == "resnext29":
        return bottleneck.resnext_layers(channels, num_classes)
    if name == "vgg19":
        return vgg.layers(channels, min(height, width), num_classes, spec.batch_norm, spec.dropout)
    if name == "cnn2":
        return small.cnn2_layers(channels, min(height, width), num_classes)
    if name == "tiny":
        return small.tiny_layers(channels, num_classes, spec.batch_norm, spec.dropout)
    return small.tiny_relu_layers(channels, num_classes)


def _resnet_depth(name: str) -> int | None:
    match = re.fullmatch(r"resnet(\d+)", name)
    if match is None:
        return None
    depth = int(match.group(1))
    if depth < 8 or (depth - 2) % 6:
        raise UserError(f"model.name = '{name}': a CIFAR ResNet has depth 6n+2 with n >= 1, for example 14, 20, 98, 164")
    return depth
