"""What a data set has to offer, before any choice of samples, image size or order."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from repro.recipe.schema import DataSpec

Labels = NDArray[np.int64]
Shape = tuple[int, int, int]  # C, H, W


class Source(Protocol):
    """A data set of two splits: training (`train=True`) and test.

    Cheap to make: files are read by the methods, so a process that asks for labels alone holds no images.
    """

    num_classes: int
    image_shape: Shape
    mean: tuple[float, ...]  # per channel, in units of 0..255
    std: tuple[float, ...]

    def __init__(self, spec: DataSpec, root: Path, seed: int) -> None:
        """`seed` matters to generated data alone."""

    def prepare(self) -> None:
        """Fetch and verify what `labels` and `images` read. Raises MissingError."""

    def digest(self) -> str:
        """Hexadecimal digest of the content; reads no more than seconds' worth."""

    def size(self, train: bool) -> int:
        """Number of samples of a split."""

    def labels(self, train: bool) -> Labels:
        """Class of each sample of a split: int64 [N]."""

    def images(self, train: bool) -> torch.Tensor:
        """All images of a split: uint8 [N, C, H, W] in 0..255, on the CPU."""
