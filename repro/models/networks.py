"""From the name of a model to its list of layers."""

from __future__ import annotations

import re
from dataclasses import replace

from repro.errors import UserError, nearest
from repro.models import bottleneck, resnet, small, transformer, vgg
from repro.models.layer import LayerFactory
from repro.recipe.schema import ModelSpec

NAMES = (
    "resnet14",
    "resnet20",
    "resnet56",
    "resnet98",
    "resnet110",
    "resnet164",
    "preact-resnet164",
    "vgg19",
    "resnext29",
    "imagenet-resnet18",
    "imagenet-resnet50",
    "cnn2",
    "mlp",
    "gpt",
    "tiny",
    "tiny-relu",
)
_LARGEST_N = 200  # the deepest ResNet of arXiv 1512.03385 has 1202 layers
_DROPOUT = ("vgg19", "gpt", "tiny")
_WITHOUT_NORM = ("vgg19", "tiny", "tiny-relu", "cnn2")


def names() -> tuple[str, ...]:
    """Models by name; besides, any "resnet<6n+2>"."""
    return NAMES


def layers(
    spec: ModelSpec, sample_shape: tuple[int, ...], num_classes: int, memory_format: str = "contiguous"
) -> list[LayerFactory]:
    """Return the layers of a model for images of [C, H, W] or texts of [context], in forward order.

    `memory_format` as in a recipe. Raises UserError for an unknown name, an option that the model does not take,
    images that are too small, or data of the wrong kind.
    """
    found = _plain(spec, sample_shape, num_classes)
    return [replace(f, channels_last=True) for f in found] if memory_format == "channels_last" else found


def _plain(spec: ModelSpec, sample_shape: tuple[int, ...], num_classes: int) -> list[LayerFactory]:
    name = spec.name
    depth = _resnet_depth(name)
    if depth is None and name not in NAMES:
        raise UserError(
            f"model.name = '{name}' is unknown.{nearest(name, NAMES)} Allowed: {', '.join(NAMES)}, or resnet<6n+2>"
        )
    if spec.dropout and name not in _DROPOUT:
        raise UserError(
            f"model.dropout = {spec.dropout}: {name} has no dropout, only {', '.join(_DROPOUT)} have: give 0"
        )
    if not spec.batch_norm and depth is None and name not in _WITHOUT_NORM:
        why = "has no BatchNorm to leave out" if name in ("gpt", "mlp") else "has no form without BatchNorm"
        raise UserError(f"model.batch_norm = false: {name} {why}: give true")
    if (name == "gpt") != (len(sample_shape) == 1):
        reads, holds = ("texts", "images") if name == "gpt" else ("images", "a text")
        other = "data.name=text" if name == "gpt" else "model.name=gpt"
        raise UserError(f"model.name = '{name}' reads {reads}, and the data set holds {holds}: give {other}")
    if name == "gpt":
        return _gpt(spec, sample_shape[0], num_classes)
    channels, height, width = sample_shape
    least = 16 if name.startswith("imagenet") else 4
    if min(height, width) < least:
        raise UserError(
            f"data.image_size: {name} needs images of at least {least}x{least}, got {height}x{width}"
        )
    if depth is not None:
        return resnet.layers(depth, channels, num_classes, spec.batch_norm)
    if name.startswith("imagenet"):
        from repro.models import imagenet  # torchvision takes a second or two to import

        return imagenet.layers(int(name.removeprefix("imagenet-resnet")), channels, num_classes)
    if name == "preact-resnet164":
        return bottleneck.preactivation_layers(channels, num_classes)
    if name == "resnext29":
        return bottleneck.resnext_layers(channels, num_classes)
    if name == "vgg19":
        return vgg.layers(channels, min(height, width), num_classes, spec.batch_norm, spec.dropout)
    if name == "mlp":
        assert spec.layers is not None
        assert spec.width is not None
        return small.mlp_layers(channels * height * width, num_classes, spec.layers, spec.width)
    if name == "cnn2":
        return small.cnn2_layers(channels, height, width, num_classes)
    if name == "tiny":
        return small.tiny_layers(channels, num_classes, spec.batch_norm, spec.dropout)
    return small.tiny_relu_layers(channels, num_classes)


def _gpt(spec: ModelSpec, context: int, vocabulary: int) -> list[LayerFactory]:
    assert spec.layers is not None
    assert spec.width is not None
    assert spec.heads is not None
    return transformer.gpt_layers(
        vocabulary, context, blocks=spec.layers, width=spec.width, heads=spec.heads,
        rotary=spec.positions == "rotary", dropout=spec.dropout,
    )  # fmt: skip


def _resnet_depth(name: str) -> int | None:
    match = re.fullmatch(r"resnet([1-9]\d*)", name)  # no leading zeros: one net, one name
    if match is None:
        return None
    depth = int(match.group(1))
    closest = min(max(round((depth - 2) / 6), 1), _LARGEST_N) * 6 + 2
    if depth != closest:
        other = f" or 'imagenet-{name}'" if f"imagenet-{name}" in NAMES else ""
        raise UserError(
            f"model.name = '{name}': a CIFAR ResNet has depth 6n+2 with n = 1..{_LARGEST_N}. "
            f"Did you mean 'resnet{closest}'{other}?"
        )
    return depth
