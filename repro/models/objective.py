"""The loss that networks are trained with, for one label a sample or one a position of a sequence."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional


def cross_entropy(scores: Tensor, labels: Tensor, reduction: Literal["mean", "sum"] = "mean") -> Tensor:
    """Cross-entropy in nats of scores [n, .., classes] against labels [n, ..], over all samples and positions.

    Scores of 16 bits (under autocast) are read as float32.
    """
    scores = scores.float() if scores.dtype is torch.bfloat16 else scores
    return functional.cross_entropy(scores.flatten(0, -2), labels.flatten(), reduction=reduction)
