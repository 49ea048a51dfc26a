"""The two layouts of a tensor [N, C, H, W]: contiguous (a plane's pixels side by side) and channels_last."""

from __future__ import annotations

import torch
from torch import Tensor


def in_order(tensor: Tensor) -> bool:
    """Whether it lies in one of the two, without gaps."""
    return tensor.is_contiguous() or tensor.is_contiguous(memory_format=torch.channels_last)


def by_pixel(tensor: Tensor) -> bool:
    """True where the channels of a pixel lie side by side and a plane's pixels do not."""
    return not tensor.is_contiguous() and tensor.is_contiguous(memory_format=torch.channels_last)
