"""From bytes to what a network takes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import interpolate

_CHUNK = 1024  # images resized at once: bounds the float copies


def upload(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a CPU tensor on `device`; neither side waits for the other."""
    if device.type == "cuda":
        values = values.pin_memory()
    return values.to(device, non_blocking=True)


class Normalise:
    """(image - mean) / std per channel, with `mean` and `std` in units of 0..255 kept on the device."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], device: torch.device) -> None:
        self.mean = torch.tensor(mean, dtype=torch.float32, device=device).reshape(1, -1, 1, 1)
        self.std = torch.tensor(std, dtype=torch.float32, device=device).reshape(1, -1, 1, 1)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """From uint8 [n, C, H, W] to float32, contiguous."""
        return images.contiguous().to(torch.float32).sub_(self.mean).div_(self.std)


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
