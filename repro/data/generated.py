"""Base of the data sets that need no files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from repro.data.data_source import Labels
from repro.recipe.schema import DataSpec


class Generated:
    """A source that makes its samples, the same on every call."""

    def __init__(self, spec: DataSpec, root: Path, seed: int) -> None:
        self.spec = spec

    def prepare(self) -> None:
        """Nothing to fetch."""

    def digest(self) -> str:
        """Digest of all samples."""
        digest = hashlib.sha256()
        for train in (True, False):
            digest.update(self.labels(train).tobytes())
            digest.update(self.images(train).numpy().tobytes())
        return digest.hexdigest()

    def size(self, train: bool) -> int:
        """Number of samples of a split."""
        raise NotImplementedError

    def labels(self, train: bool) -> Labels:
        """Class of each sample of a split: int64 [N]."""
        raise NotImplementedError

    def images(self, train: bool) -> torch.Tensor:
        """All images of a split: uint8 [N, C, H, W]."""
        raise NotImplementedError
