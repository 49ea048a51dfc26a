"""Memory that a kernel needs only while it runs, kept for its next call.

Fresh memory of this size comes from the system page by page, which took up to a third of a call's time.
"""

from __future__ import annotations

import math
import threading

import torch
from torch import Tensor

KEPT_BYTES = 64 << 20  # a larger piece is given back at once
_held = threading.local()


def scratch(purpose: str, *shape: int) -> Tensor:
    """A float32 tensor of this shape with whatever it holds; the next call for the same purpose reuses its memory."""
    size = math.prod(shape)
    if 4 * size > KEPT_BYTES:
        return torch.empty(shape)
    memory: Tensor | None = getattr(_held, purpose, None)
    if memory is None or memory.numel() < size:
        memory = torch.empty(size)
        setattr(_held, purpose, memory)
    return memory[:size].view(shape)
