"""A message between blocks: a header that says what it is, checked on receipt, and a tensor behind it.

| 16 x int64 header                                            | payload, 128-byte aligned |
| magic, kind, batch, micro, order digest, dtype, dims, sizes.. | elements, row-major        |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from repro.errors import RunFailed

HEADER_BYTES = 128
_MAGIC = 0x5250524F
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64)


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a message must be: its stream ("output", "gradient", "evaluation"), batch, shape and dtype.

    `order` is a digest of the batch's sample ids: the labels are checked against it at the loss.
    """

    stream: str
    batch: int
    micro: int
    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    order: int = 0

    def as_plain(self) -> tuple[Any, ...]:
        """Text and numbers, for a checkpoint."""
        return self.stream, self.batch, self.micro, self.shape, _DTYPES.index(self.dtype), self.order

    @classmethod
    def from_plain(cls, fields: Sequence[Any]) -> Envelope:
        """Inverse of `as_plain`."""
        stream, batch, micro, shape, dtype, order = fields
        return cls(stream, batch, micro, tuple(shape), _DTYPES[dtype], order)

    @property
    def payload_bytes(self) -> int:
        """Size of the tensor."""
        size = torch.empty((), dtype=self.dtype).element_size()
        for length in self.shape:
            size *= length
        return size

    @property
    def message_bytes(self) -> int:
        """Size of header and tensor."""
        return HEADER_BYTES + self.payload_bytes

    def buffer(self) -> Tensor:
        """An empty message buffer (uint8) of the right size."""
        return torch.empty(self.message_bytes, dtype=torch.uint8)

    def write(self, buffer: Tensor) -> None:
        """Write the header into a message buffer."""
        sizes = [*self.shape, *([0] * (8 - len(self.shape)))]
        fields = [_MAGIC, _STREAMS.index(self.stream), self.batch, self.micro, self.order]
        fields += [_DTYPES.index(self.dtype), len(self.shape), *sizes]
        header = buffer[:HEADER_BYTES].view(torch.int64)
        header[: len(fields)] = torch.tensor(fields, dtype=torch.int64)

    def payload(self, buffer: Tensor) -> Tensor:
        """The tensor inside a message buffer, as a view."""
        return buffer[HEADER_BYTES:].view(self.dtype).view(self.shape)

    def check(self, buffer: Tensor, sender: int) -> int:
        """Compare a received header with what is expected; returns the order digest that came with it.

        Raises RunFailed naming the first field that differs.
        """
        values = buffer[:HEADER_BYTES].view(torch.int64).tolist()
        magic, stream, batch, micro, order, dtype, dims = values[:7]
        found = {
            "stream": _STREAMS[stream] if 0 <= stream < len(_STREAMS) else stream,
            "batch": batch,
            "micro-batch": micro,
            "dtype": _DTYPES[dtype] if 0 <= dtype < len(_DTYPES) else dtype,
            "shape": tuple(values[7 : 7 + min(8, max(0, dims))]),
        }
        expected = {
            "stream": self.stream,
            "batch": self.batch,
            "micro-batch": self.micro,
            "dtype": self.dtype,
            "shape": self.shape,
        }
        if magic != _MAGIC:
            raise RunFailed(
                f"a message from block {sender} has no valid header (expected {self.stream} {self.batch})"
            )
        for name, value in expected.items():
            if found[name] != value:
                raise RunFailed(
                    f"a message from block {sender} has {name} {found[name]}, expected {value} "
                    f"({self.stream} of batch {self.batch})"
                )
        return int(order)


_STREAMS = ("output", "gradient", "evaluation")
