"""Crops and flips of a whole batch at once; a sample's are a function of (seed, epoch, sample id) alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from repro.data.counters import bits, integers
from repro.data.pixels import upload
from repro.seeding import derive


@dataclass(frozen=True)
class Windows:
    """Where each image of a batch is cut: corner (pixels from the padded image's top left) and mirroring; all [n]."""

    top: NDArray[np.int64]
    left: NDArray[np.int64]
    mirrored: NDArray[np.bool_]


def random_windows(
    ids: NDArray[np.int64], seed: int, epoch: int, room: tuple[int, int], flip: bool
) -> Windows:
    """Draw the windows of samples `ids`; `room` = (rows, columns) that a window can move by."""

    def key(purpose: str) -> int:
        return derive(seed, "augment", epoch, purpose)

    return Windows(
        top=integers(key("top"), ids, room[0] + 1),
        left=integers(key("left"), ids, room[1] + 1),
        mirrored=(bits(key("flip"), ids) >> np.uint64(63) == 1)
        if flip
        else np.zeros(len(ids), dtype=np.bool_),
    )


def centre_windows(count: int, room: tuple[int, int]) -> Windows:
    """The windows in the middle, not mirrored."""
    return Windows(
        np.full(count, room[0] // 2), np.full(count, room[1] // 2), np.zeros(count, dtype=np.bool_)
    )


def cut(images: torch.Tensor, windows: Windows, size: tuple[int, int]) -> torch.Tensor:
    """Cut a window of `size` = (h, w) out of each of `images` [n, C, H, W]; returns [n, C, h, w] of the same type."""
    n, channels, _, width = images.shape
    device = images.device
    drawn = torch.from_numpy(np.stack([windows.top, windows.left, windows.mirrored]).astype(np.int64))
    top, left, mirrored = upload(drawn, device)[:, :, None]
    across = torch.arange(size[1], device=device)
    rows = top + torch.arange(size[0], device=device)
    columns = left + torch.where(mirrored == 1, size[1] - 1 - across, across)
    places = rows[:, :, None] * width + columns[:, None, :]
    flat = images.reshape(n, channels, -1)
    return flat.gather(2, places.reshape(n, 1, -1).expand(n, channels, -1)).reshape(n, channels, *size)
