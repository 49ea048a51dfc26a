"""From bytes to what a network takes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import interpolate

_CHUNK = 1024  # images resized at once: bounds the float copies


def normalise(images: torch.Tensor, mean: Sequence[float], std: Sequence[float]) -> torch.Tensor:
    """Return (images - mean) / std per channel: uint8 [n, C, H, W] -> float32, contiguous; mean, std in 0..255."""
    shape = (1, len(mean), 1, 1)
    shift = torch.tensor(mean, dtype=torch.float32, device=images.device).reshape(shape)
    scale = torch.tensor(std, dtype=torch.float32, device=images.device).reshape(shape)
    return images.contiguous().to(torch.float32).sub_(shift).div_(scale)


def resize(images: torch.Tensor, size: int) -> torch.Tensor:
    """Return uint8 [N, C, size, size] by antialiased bilinear interpolation of uint8 [N, C, H, W], rounded."""
    if images.shape[2:] == (size, size):
        return images
    parts = [
        interpolate(part.to(torch.float32), size=(size, size), mode="bilinear", antialias=True)
        .round_()
        .clamp_(0, 255)
        .to(torch.uint8)
        for part in torch.split(images, _CHUNK)
    ]
    return torch.cat(parts)
