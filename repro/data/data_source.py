"""What a data set has to offer, before any choice of samples, image size or order."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

Labels = NDArray[np.int64]
Shape = tuple[int, int, int]  # C, H, W


class Sized(Protocol):
    """A data set of two splits, training (`train=True`) and test, of images or of sequences.

    Cheap to make: files are read by the methods, so a process that asks for labels alone holds no images.
    """

    @property
    def num_classes(self) -> int:
        """Number of classes; of a text, of different tokens."""

    def prepare(self) -> None:
        """Fetch and verify what the other methods read. Raises MissingError."""

    def digest(self) -> str:
        """Hexadecimal digest of the content; after `prepare`, and in seconds."""

    def size(self, train: bool) -> int:
        """Number of samples of a split."""


class Source(Sized, Protocol):
    """A data set of images, each with a class."""

    @property
    def image_shape(self) -> Shape:
        """C, H, W of an image as the set has it."""

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean that normalisation takes off, per channel, in units of 0..255."""

    @property
    def std(self) -> tuple[float, ...]:
        """Standard deviation that normalisation divides by, per channel, in units of 0..255."""

    def labels(self, train: bool) -> Labels:
        """Class of each sample of a split: int64 [N]."""


class MemorySource(Source, Protocol):
    """A data set whose images fit in memory."""

    def images(self, train: bool) -> torch.Tensor:
        """All images of a split: uint8 [N, C, H, W] in 0..255, on the CPU."""
