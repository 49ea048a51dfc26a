"""Fewer samples, evenly over classes, and the same ones for every run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from repro.data.counters import permutation
from repro.seeding import derive


def balanced(labels: NDArray[np.int64], limit: int | None) -> NDArray[np.int64]:
    """Return the sorted positions of the first `limit` samples of a class-balanced order (all where None).

    The order takes a sample of each class in turn, within a class at random; it depends on the labels alone,
    not on a run's seed, and a smaller limit takes a part of what a larger one takes.
    """
    if limit is None or limit >= len(labels):
        return np.arange(len(labels))
    shuffled = permutation(derive(0, "subset"), len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    first = np.searchsorted(labels[by_class], labels[by_class])  # where the sample's class begins
    turn = np.arange(len(labels)) - first
    return np.sort(by_class[np.argsort(turn, kind="stable")][:limit])
