"""Random numbers by counter: a value depends on (key, counter) alone, never on what was drawn before."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEP = np.uint64(
    0x9E3779B97F4A7C15
)  # SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def bits(key: int, counters: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return 64 random bits for each of `counters` (int64, >= 0), as SplitMix64 started at `key` (63 bits) gives."""
    with np.errstate(over="ignore"):
        state = np.uint64(key) + (counters.astype(np.uint64) + np.uint64(1)) * _STEP
        state = (state ^ (state >> np.uint64(30))) * _FIRST
        state = (state ^ (state >> np.uint64(27))) * _SECOND
    return state ^ (state >> np.uint64(31))


def integers(key: int, counters: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return an integer of 0..limit-1 for each of `counters` (1 <= limit <= 2^32; bias below limit / 2^32)."""
    high = bits(key, counters) >> np.uint64(32)
    return ((high * np.uint64(limit)) >> np.uint64(32)).astype(np.int64)


def permutation(key: int, length: int) -> NDArray[np.int64]:
    """Return 0..length-1 in a random order that is a fixed function of `key`."""
    return np.argsort(bits(key, np.arange(length)), kind="stable").astype(np.int64)
