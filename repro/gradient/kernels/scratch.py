"""Memory that a kernel needs only while it runs, kept for its next call.

Fresh memory of this size comes from the system page by page, which took up to a third of a call's time.
"""

from __future__ import annotations

import threading

import torch
from torch import Tensor

KEPT_BYTES = 64 << 20  # a larger piece is given back at once
_held = threading.local()


def scratch(purpose: str, size: int) -> Tensor:
    """`size` float32 with whatever they hold; this thread's next call for the same purpose reuses the memory.

    The memory is torch's: it starts on a cache line, NumPy's does not, and a vector across two lines costs
    double.
    """
    if 4 * size > KEPT_BYTES:
        return torch.empty(size, dtype=torch.float32)
    memory: Tensor | None = getattr(_held, purpose, None)
    if memory is None or memory.numel() < size:
        memory = torch.empty(size, dtype=torch.float32)
        setattr(_held, purpose, memory)
    return memory
