"""Noise with a tint, 3x16x16: the label is the dominant colour. A set for tests, learnable in a few dozen batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from repro.data.counters import integers
from repro.data.data_source import Labels, Shape
from repro.data.generated import Generated
from repro.errors import UserError
from repro.recipe.schema import DataSpec
from repro.seeding import derive

_SIZE = 203  # no multiple of a usual batch size: the last batch is a small one
_SIDE = 16
_TINT = 24  # grey levels that the dominant channel lies above the others, on average


class Colours(Generated):
    """203 training and 203 test images of 3 classes (red, green, blue), the same for every seed.

    `bad_label` = i gives training sample i the label 3, which no class has: the loss of its batch raises.
    """

    num_classes = 3
    image_shape: Shape = (3, _SIDE, _SIDE)
    mean: tuple[float, ...] = (122.5,) * 3
    std: tuple[float, ...] = (66.5,) * 3

    def __init__(self, spec: DataSpec, root: Path, seed: int) -> None:
        super().__init__(spec, root, seed)
        if spec.bad_label is not None and spec.bad_label >= _SIZE:
            raise UserError(
                f"data.bad_label = {spec.bad_label} is no training sample of colours: give 0..{_SIZE - 1}."
            )

    def size(self, train: bool) -> int:
        """203."""
        return _SIZE

    def labels(self, train: bool) -> Labels:
        """Dominant channel of each image (0 red, 1 green, 2 blue), less the broken one: int64 [203]."""
        labels = self._colours(train)
        if train and self.spec.bad_label is not None:
            labels[self.spec.bad_label] = self.num_classes
        return labels

    def images(self, train: bool) -> torch.Tensor:
        """All images: uint8 [203, 3, 16, 16]; noise uniform over 0..229, plus the tint on one channel."""
        shape = (_SIZE, 3, _SIDE, _SIDE)
        key = derive(0, "colours", "noise", int(train))
        noise = integers(key, np.arange(np.prod(shape)), 230).reshape(shape)
        noise[np.arange(_SIZE), self._colours(train)] += _TINT
        return torch.from_numpy(noise.astype(np.uint8))

    @staticmethod
    def _colours(train: bool) -> Labels:
        return integers(derive(0, "colours", "label", int(train)), np.arange(_SIZE), 3)
