"""Memory that a kernel needs only while it runs, kept for its next call.

Fresh memory of this size comes from the system page by page, which took up to a third of a call's time.
"""

from __future__ import annotations

import math
import threading

import numpy as np
import torch
from numpy.typing import NDArray

KEPT_BYTES = 64 << 20  # a larger piece is given back at once
_held = threading.local()


def scratch(purpose: str, *shape: int) -> NDArray[np.float32]:
    """An array of this shape with whatever it holds; the next call for the same purpose reuses its memory.

    The memory is torch's: it starts on a cache line, NumPy's does not, and a vector across two lines costs double.
    """
    size = math.prod(shape)
    if 4 * size > KEPT_BYTES:
        return torch.empty(shape).numpy()
    memory: NDArray[np.float32] | None = getattr(_held, purpose, None)
    if memory is None or memory.size < size:
        memory = torch.empty(size).numpy()
        setattr(_held, purpose, memory)
    return memory[:size].reshape(shape)
