"""Random bytes with random labels: for throughput, where what is learned plays no part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from repro.data.data_source import Labels
from repro.data.generated import Generated
from repro.recipe.schema import DataSpec
from repro.seeding import derive

_VERSION = 1  # raise when the samples of a seed change


class Synthetic(Generated):
    """Uniform uint8 images and uniform labels, a function of the data seed.

    `channels` x `image_size` x `image_size` (3x32x32 by default), `classes` classes, `train_limit` training samples
    (1024 by default) and `test_limit` test samples (256).
    """

    def __init__(self, spec: DataSpec, root: Path, seed: int) -> None:
        super().__init__(spec, root, seed)
        side = spec.image_size or 32
        self.seed = seed
        self.num_classes = spec.classes
        self.image_shape = (spec.channels, side, side)
        self.mean = (127.5,) * spec.channels
        self.std = (73.9,) * spec.channels  # of integers uniform over 0..255

    def digest(self) -> str:
        """The version of the generator: samples differ from seed to seed."""
        return f"v{_VERSION}"

    def size(self, train: bool) -> int:
        """Number of samples of a split: the limits themselves."""
        return (self.spec.train_limit or 1024) if train else (self.spec.test_limit or 256)

    def labels(self, train: bool) -> Labels:
        """Class of each sample: int64 [N]."""
        return self._random("labels", train).integers(0, self.num_classes, self.size(train), dtype=np.int64)

    def images(self, train: bool) -> torch.Tensor:
        """All images of a split: uint8 [N, C, H, W]."""
        shape = (self.size(train), *self.image_shape)
        return torch.from_numpy(self._random("images", train).integers(0, 256, shape, dtype=np.uint8))

    def _random(self, what: str, train: bool) -> np.random.Generator:
        return np.random.default_rng(derive(self.seed, "synthetic", what, int(train)))
