"""Numbers that a device computes and the host reads later, so that no step waits for the device."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Read(Protocol):
    """Values on their way to the host."""

    @property
    def here(self) -> bool:
        """Whether `values` would not wait."""

    def values(self) -> list[float]:
        """The values, waited for."""


class LateRead:
    """One copy of a small tensor [n], started now; of a CPU tensor it is there at once.

    The copy goes to pinned memory on the stream that computes, behind what it has been given so far, with an event
    behind it. The memory belongs to this copy alone.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        self._host = tensor
        if tensor.device.type == "cuda":
            self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._host.copy_(tensor, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record(torch.cuda.current_stream(tensor.device))

    @property
    def here(self) -> bool:
        """Whether `values` would not wait."""
        return self._event is None or bool(self._event.query())  # type: ignore[no-untyped-call]

    def values(self) -> list[float]:
        """The values, waited for."""
        if self._event is not None:
            self._event.synchronize()
        found: list[float] = self._host.tolist()
        return found
