"""Handwritten digits, 8x8 grey, 10 classes: bundled with scikit-learn, so always at hand."""

from __future__ import annotations

import gzip
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from repro.data.data_source import Labels, Shape
from repro.data.generated import Generated


class Digits(Generated):
    """scikit-learn's copy of the UCI set of optically recognised digits: 1797 samples.

    Every fifth sample of a class, in file order, is a test sample: 1442 for training, 355 for test, the same
    for everyone. The 17 grey levels are spread over 0..255.
    """

    num_classes = 10
    image_shape: Shape = (1, 8, 8)
    mean: tuple[float, ...] = (77.6,)  # of the training split
    std: tuple[float, ...] = (95.9,)

    def size(self, train: bool) -> int:
        """Number of samples of a split; reads nothing."""
        return 1442 if train else 355

    def labels(self, train: bool) -> Labels:
        """Digit of each sample: int64 [N]."""
        labels = _table()[:, -1]
        return labels[self._split(labels, train)]

    def images(self, train: bool) -> torch.Tensor:
        """All images of a split: uint8 [N, 1, 8, 8]."""
        table = _table()
        grey = (table[:, :-1] * 255 // 16).astype(np.uint8).reshape(-1, 8, 8)
        return torch.from_numpy(grey[self._split(table[:, -1], train)][:, None])

    @staticmethod
    def _split(labels: Labels, train: bool) -> NDArray[np.bool_]:
        rank = np.zeros(len(labels), dtype=np.int64)  # position of a sample within its class
        for label in range(10):
            of_class = np.flatnonzero(labels == label)
            rank[of_class] = np.arange(len(of_class))
        test: NDArray[np.bool_] = rank % 5 == 4
        return ~test if train else test


@lru_cache(maxsize=1)
def _table() -> Labels:
    """64 grey levels 0..16 and the digit of each sample, int64 [1797, 65].

    From scikit-learn's file, not through its `load_digits`: importing scikit-learn takes seconds, in every process.
    """
    found = find_spec("sklearn")
    folders = found.submodule_search_locations if found is not None else None
    file = Path(folders[0]) / "datasets" / "data" / "digits.csv.gz" if folders else None
    if file is None or not file.is_file():  # another release keeps it elsewhere
        from sklearn.datasets import load_digits

        data, target = load_digits(return_X_y=True)
        return np.column_stack([data, target]).astype(np.int64)
    with gzip.open(file, "rt") as lines:
        return np.array([line.split(",") for line in lines]).astype(np.float64).astype(np.int64)
