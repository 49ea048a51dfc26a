"""A text as sequences of tokens: bytes, or those of a tokenizer's file."""

from __future__ import annotations

import hashlib
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from repro.data.text_parts import text_parts
from repro.data.tokenized import Tokenized, tokenized
from repro.errors import UserError
from repro.recipe.schema import CONTEXT, DataSpec

BYTES = 256


class Text:
    """Windows of `context` tokens, each next to the last; the label of a token is the one behind it.

    A part of T tokens has (T - 1) // context windows; what is left at its end is not used.
    """

    def __init__(self, spec: DataSpec) -> None:
        self.spec = spec
        self.context = spec.context or CONTEXT
        self.image_shape = (self.context,)

    @cached_property
    def num_classes(self) -> int:
        """Number of different tokens."""
        return BYTES if self.spec.tokenizer is None else self._kept.vocabulary

    @property
    def subwords(self) -> bool:
        """Whether tokens are a tokenizer's."""
        return self.spec.tokenizer is not None

    def prepare(self) -> None:
        """Read the text, and tokenise it where that has not been done. Raises MissingError, UserError."""
        for train in (True, False):
            self.size(train)

    def digest(self) -> str:
        """Digest of all tokens of both parts."""
        digest = hashlib.sha256(f"{self.num_classes}".encode())
        for train in (True, False):
            digest.update(f" {len(self.tokens(train))} ".encode())
            digest.update(np.ascontiguousarray(self.tokens(train)).tobytes())
        return digest.hexdigest()

    def size(self, train: bool) -> int:
        """Number of sequences of a part. UserError where there is none."""
        count = (len(self.tokens(train)) - 1) // self.context
        if count < 1:
            part, length = "training" if train else "test", len(self.tokens(train))
            way = f"give at most {length - 1}, or a longer text" if length > 1 else "give a longer text"
            raise UserError(
                f"data.context = {self.context} is longer than the {part} part of the text, {length} tokens with the last "
                f"label: {way}"
            )
        return count

    def tokens(self, train: bool) -> NDArray[np.uint8] | NDArray[np.int32]:
        """All tokens of a part in order."""
        if self.spec.tokenizer is None:
            return self._bytes[0 if train else 1]
        return self._kept.train if train else self._kept.test

    def test_bytes(self, sequences: int) -> int:
        """Bytes of the text that the labels of the first test sequences stand for."""
        labels = sequences * self.context
        if self.spec.tokenizer is None:
            return labels
        return int(self._kept.test_ends[labels] - self._kept.test_ends[0])

    @cached_property
    def _bytes(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        train, test = text_parts(self.spec.path)
        return np.frombuffer(train, np.uint8), np.frombuffer(test, np.uint8)

    @cached_property
    def _kept(self) -> Tokenized:
        assert self.spec.tokenizer is not None
        return tokenized(self.spec.path, self.spec.tokenizer)
