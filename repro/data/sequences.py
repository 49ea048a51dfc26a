"""Batches of sequences from a text: each token's label is the token behind it."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from repro.data.batches import Batches
from repro.data.dataset import Data
from repro.data.pixels import upload
from repro.data.text import Text
from repro.recipe.schema import DataSpec


class Windows:
    """Inputs of a text's batches: int64 [n, context] on the device, and the labels beside them."""

    def __init__(self, source: Text, batches: Batches, device: torch.device) -> None:
        self.source, self.batches, self.device = source, batches, device
        self.shape = (source.context,)

    def train(self, batch: int) -> torch.Tensor:
        """Tokens of a global training batch."""
        return upload(self._cut(True, self.batches.train_ids(batch), 0), self.device)

    def test(self, step: int) -> torch.Tensor:
        """Tokens of a test batch."""
        return upload(self._cut(False, self.batches.test_ids(step), 0), self.device)

    def host_labels(self, batch: int) -> torch.Tensor:
        """The tokens behind those of a training batch, on the CPU."""
        return self._cut(True, self.batches.train_ids(batch), 1)

    def test_labels(self, step: int) -> torch.Tensor:
        """The tokens behind those of a test batch."""
        return upload(self._cut(False, self.batches.test_ids(step), 1), self.device)

    def _cut(self, train: bool, ids: NDArray[np.int64], shift: int) -> torch.Tensor:
        places = ids[:, None] * self.source.context + np.arange(self.source.context) + shift
        found = self.source.tokens(train)[places].astype(np.int64)
        return torch.from_numpy(found)


class Sequences(Data):
    """`Data` of a text: samples are sequences, labels [n, context], and what is measured are losses per byte."""

    def __init__(self, source: Text, batches: Batches, spec: DataSpec, device: torch.device) -> None:
        self._windows = Windows(source, batches, device)
        super().__init__(source, self._windows, batches, spec, device)
        self._text = source

    def host_labels(self, batch: int) -> torch.Tensor:
        """The tokens behind those of a training batch: int64 [n, context] on the CPU."""
        return self._windows.host_labels(batch)

    def test_labels(self, step: int) -> torch.Tensor:
        """The tokens behind those of a test batch: int64 [n, context] on the device."""
        return self._windows.test_labels(step)

    def scores(self, loss: float, correct: int) -> dict[str, float]:
        """Nats per token, bits per byte of the text, and the perplexity where tokens are subwords."""
        mean = loss / (self.test_size * self._text.context)
        found = {"test_loss": mean, "test_bits_per_byte": loss / math.log(2.0) / self._test_bytes}
        if self._text.subwords:
            found["test_perplexity"] = math.exp(min(mean, 700.0))
        return found

    @cached_property
    def _test_bytes(self) -> int:
        return self._text.test_bytes(self.test_size)
