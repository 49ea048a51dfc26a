"""A data set cut into batches: the one object that the engine asks for samples."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray

from repro.data.batches import Batches
from repro.data.data_source import Labels, Sized, Source
from repro.data.pixels import upload
from repro.data.subset import balanced
from repro.recipe.schema import DataSpec


class Images(Protocol):
    """Where batches of images (or of sequences) come from: memory, or loader processes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a sample: C, H, W of an image, (context,) of a text."""

    def train(self, batch: int) -> torch.Tensor:
        """Images of a global training batch."""

    def test(self, step: int) -> torch.Tensor:
        """Images of a test batch."""


class Data:
    """Batches of one data set for one seed.

    Sizes, steps and ids come from numbers alone. Labels and images are read at their first use, each on its
    own: a block in the middle reads neither, the last block labels only.
    """

    def __init__(
        self, source: Sized, images: Images, batches: Batches, spec: DataSpec, device: torch.device
    ) -> None:
        self._source, self._images, self._batches, self._spec, self._device = (
            source,
            images,
            batches,
            spec,
            device,
        )
        self.num_classes = source.num_classes
        self.image_shape = images.shape  # C, H, W; of a text (context,)
        self.train_size = batches.train_size
        self.test_size = batches.test_size
        self.steps_per_epoch = batches.steps_per_epoch
        self.test_steps = batches.test_steps
        self.skipped: tuple[str, ...] = getattr(source, "skipped", ())  # corrupt files left out, by name

    def train_ids(self, batch: int) -> NDArray[np.int64]:
        """Sample ids of a global training batch (counted over epochs from 0): int64 [n]."""
        return self._batches.train_ids(batch)

    def train_batch_size(self, batch: int) -> int:
        """True number of samples of a training batch (of the shard); reads nothing."""
        return self._batches.train_batch_size_at(batch)

    def whole_batch_size(self, batch: int) -> int:
        """True number of samples of a training batch in all shards together; reads nothing."""
        return self._batches.whole_batch_size_at(batch)

    def test_batch_size(self, step: int) -> int:
        """True number of samples of a test batch; reads nothing."""
        return self._batches.test_batch_size_at(step)

    def train_images(self, batch: int) -> torch.Tensor:
        """Augmented, normalised images of a training batch: float32 [n, C, H, W], contiguous, on the device."""
        return self._images.train(batch)

    def test_images(self, step: int) -> torch.Tensor:
        """Normalised images of a test batch: float32 [n, C, H, W], contiguous, on the device."""
        return self._images.test(step)

    def train_labels(self, batch: int) -> torch.Tensor:
        """Classes of a training batch: int64 [n] on the device."""
        return upload(self.host_labels(batch), self._device)

    def host_labels(self, batch: int) -> torch.Tensor:
        """Classes of a training batch on the CPU, where they can be looked at without waiting for the device."""
        return torch.from_numpy(self._train_labels[self._batches.train_ids(batch)])

    def test_labels(self, step: int) -> torch.Tensor:
        """Classes of a test batch: int64 [n] on the device."""
        return upload(torch.from_numpy(self._test_labels[self._batches.test_ids(step)]), self._device)

    def scores(self, loss: float, correct: int) -> dict[str, float]:
        """What an evaluation says, from the loss summed over the test set and the number of right answers."""
        return {"test_loss": loss / self.test_size, "test_accuracy": 100.0 * correct / self.test_size}

    @cached_property
    def _train_labels(self) -> Labels:
        return self._labels(True, self._spec.train_limit)

    @cached_property
    def _test_labels(self) -> Labels:
        return self._labels(False, self._spec.test_limit)

    def _labels(self, train: bool, limit: int | None) -> Labels:
        labels = cast(Source, self._source).labels(train)  # `Sequences` has labels of its own
        return labels[balanced(labels, limit)]
