"""Which samples a batch holds: from sizes and seeds alone, so that every process can know it without data."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from repro.data.counters import permutation
from repro.errors import UserError
from repro.recipe.schema import DataSpec
from repro.seeding import derive


@dataclass
class Batches:
    """The batches of training (a fresh order per epoch) and of test (each sample once, in order).

    `train_size`, `test_size`: samples after limits; a sample's id is its position among them. `batch` counts over
    epochs from 0, `step` from 0 within one pass over the test set. `shard` of `shards`: of a training batch only
    this part of it, in its order; the parts differ by at most one sample, the first ones are the larger.
    """

    train_size: int
    test_size: int
    batch_size: int
    test_batch_size: int
    drop_last: bool
    seed: int
    shard: int = 0
    shards: int = 1
    _order: tuple[int, NDArray[np.int64]] | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, spec: DataSpec, train_size: int, test_size: int, seed: int, shard: tuple[int, int] = (0, 1)
    ) -> Batches:
        """The batches that `spec` asks for. Raises UserError where no training batch is left."""
        drop_last = spec.last_batch == "drop"
        if train_size == 0 or (drop_last and train_size < spec.batch_size):
            raise UserError(
                f"data.last_batch = 'drop' leaves no batch: {train_size} training samples of {spec.name} are fewer "
                f"than data.batch_size = {spec.batch_size}; lower the batch size or say last_batch = 'keep'."
            )
        return cls(train_size, test_size, spec.batch_size, spec.test_batch_size, drop_last, seed, *shard)

    @property
    def steps_per_epoch(self) -> int:
        """Training batches of one epoch."""
        full, rest = divmod(self.train_size, self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    @property
    def test_steps(self) -> int:
        """Batches of one pass over the test set."""
        return -(-self.test_size // self.test_batch_size)

    def epoch(self, batch: int) -> int:
        """Epoch, from 0, that a global training batch belongs to."""
        return batch // self.steps_per_epoch

    def train_ids(self, batch: int) -> NDArray[np.int64]:
        """Sample ids of a global training batch: int64 [n]."""
        epoch, step = divmod(batch, self.steps_per_epoch)
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, permutation(derive(self.seed, "order", epoch), self.train_size))
        first = step * self.batch_size
        low, high = self._part(self.whole_batch_size_at(batch))
        return self._order[1][first + low : first + high]

    def test_ids(self, step: int) -> NDArray[np.int64]:
        """Sample ids of a test batch: int64 [n]."""
        first = step * self.test_batch_size
        return np.arange(first, first + self.test_batch_size_at(step))

    def train_batch_size_at(self, batch: int) -> int:
        """True number of samples of a training batch (of the shard)."""
        first, behind = self._part(self.whole_batch_size_at(batch))
        return behind - first

    def whole_batch_size_at(self, batch: int) -> int:
        """True number of samples of a training batch in all shards together."""
        return min(self.batch_size, self.train_size - batch % self.steps_per_epoch * self.batch_size)

    def test_batch_size_at(self, step: int) -> int:
        """True number of samples of a test batch."""
        return max(0, min(self.test_batch_size, self.test_size - step * self.test_batch_size))

    def _part(self, size: int) -> tuple[int, int]:
        """The shard's place in a batch of `size` samples: its first one, and the one behind its last."""
        sizes = shard_sizes(size, self.shards)
        start = sum(sizes[: self.shard])
        return start, start + sizes[self.shard]


def shard_sizes(size: int, shards: int) -> list[int]:
    """Samples of a batch of `size` in each of its shards; they differ by at most one, the first are the larger."""
    each, more = divmod(size, shards)
    return [each + (i < more) for i in range(shards)]
