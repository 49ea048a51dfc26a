"""Batches of images that are held in memory, whole, as bytes."""

from __future__ import annotations

from functools import cached_property

import torch
from torch.nn.functional import pad

from repro.data.augment import centre_windows, cut, random_windows
from repro.data.batches import Batches
from repro.data.data_source import MemorySource, Shape
from repro.data.pixels import Normalise, resize, upload
from repro.data.subset import balanced
from repro.recipe.schema import DataSpec


class MemoryImages:
    """Augmented, normalised batches; the set is read at the first batch and stays on the CPU as uint8.

    Bytes go to the device a batch at a time and are augmented there, so the set takes no accelerator memory
    that a
    memory table would count. `image_size` resizes the set once, with one exception: augment = "crop" with an
    `image_size` below the set's own cuts windows of that size out of the image as it is, at random places in
    training and from the centre in test (the 24x24 crops of CIFAR); padding plays no part then.
    """

    def __init__(self, source: MemorySource, spec: DataSpec, batches: Batches, device: torch.device) -> None:
        self.source, self.spec, self.batches, self.device = source, spec, batches, device
        channels, height, width = source.image_shape
        size = spec.image_size
        self.windowed = spec.augment == "crop" and size is not None and size < min(height, width)
        self.shape: Shape = (channels, size or height, size or width)
        self.padding = 0 if self.windowed or spec.augment == "none" else spec.crop_padding

    def train(self, batch: int) -> torch.Tensor:
        """Images of a global training batch: float32 [n, C, H, W] on the device."""
        ids = self.batches.train_ids(batch)
        images = upload(self._train[torch.from_numpy(ids)], self.device)
        if self.spec.augment != "none":
            images = pad(images, (self.padding,) * 4)  # black, in the pixel domain
            windows = random_windows(
                ids,
                self.batches.seed,
                self.batches.epoch(batch),
                self._room(images),
                self.spec.augment == "crop-flip",
            )
            images = cut(images, windows, self.shape[1:])
        return self._normalise(images)

    def test(self, step: int) -> torch.Tensor:
        """Images of a test batch: float32 [n, C, H, W] on the device."""
        ids = self.batches.test_ids(step)
        images = upload(self._test[torch.from_numpy(ids)], self.device)
        if self.windowed:
            images = cut(images, centre_windows(len(ids), self._room(images)), self.shape[1:])
        return self._normalise(images)

    @cached_property
    def _normalise(self) -> Normalise:
        return Normalise(self.source.mean, self.source.std, self.device)

    @cached_property
    def _train(self) -> torch.Tensor:
        return self._read(True, self.spec.train_limit)

    @cached_property
    def _test(self) -> torch.Tensor:
        return self._read(False, self.spec.test_limit)

    def _read(self, train: bool, limit: int | None) -> torch.Tensor:
        images = self.source.images(train)
        if limit is not None and limit < len(images):
            images = images[torch.from_numpy(balanced(self.source.labels(train), limit))]
        if self.spec.image_size is not None and not self.windowed:
            images = resize(images, self.spec.image_size)
        return images.contiguous()

    def _room(self, images: torch.Tensor) -> tuple[int, int]:
        return images.shape[2] - self.shape[1], images.shape[3] - self.shape[2]
