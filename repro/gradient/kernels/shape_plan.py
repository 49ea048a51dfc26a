"""What a shape and layout need: which loops, in which order, with which memory. Worked out once for each."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from repro.gradient.geometry import Geometry
from repro.gradient.kernels import job as slots
from repro.gradient.kernels.scratch import scratch
from repro.gradient.kernels.threads import starter
from repro.gradient.layout import by_pixel

_CHUNK_BYTES = 512 << 10  # of x, next to the accumulators in a core's second-level cache
_LEAST, _MOST = (
    8,
    64,
)  # samples: fewer are not worth a pass over the accumulators, more do not fit a set of bits
_PARTS = 8  # of the samples; fixed, so that the order of the sum is


class Plan:
    """The job of one shape: float32 tensors, each contiguous or channels_last. Runs on the thread that made it."""

    def __init__(self, x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, scale: float) -> None:
        samples, channels, height, width = x.shape
        outputs, depth, kh, kw = weight.shape
        high, wide = dy.shape[2:]
        area, image = kh * kw, channels * height * width
        way = _way(x, outputs, depth, area)
        parts = min(_PARTS, samples) if way == "parts" else 1
        turn = by_pixel(weight) == (
            way == "in place"
        )  # the sums lie in the other order than the weight's memory
        ready = parts == 1 and not turn

        chunk = _chunk(image, 1) if way == "parts" else _chunk(min(image, outputs * area * channels), _LEAST)

        maps = samples * outputs
        peaks = (slots.PEAKS_PIXELS, samples) if by_pixel(dy) else (slots.PEAKS_PLANES, maps)
        add = {
            "in place": [(slots.ADD_IN_PLACE, outputs)],
            "parts": [(slots.ADD_BY_PARTS, parts)],
            "pixels": [(slots.ADD, outputs)],
            "transposed": [(slots.TO_PIXELS, samples), (slots.ADD, outputs)],
        }[way]
        phases = [peaks, *add, *([] if ready else [(slots.FINISH, outputs)])]

        self.job = np.zeros(slots.SLOTS, np.int64)
        self._position, self._total = np.empty(maps, np.int32), np.empty(maps, np.float32)
        self._pixels = {"parts": parts * chunk * image, "transposed": samples * image}.get(way, 0)
        self._sums = 0 if ready else parts * weight.numel()

        self.job.view(np.float64)[slots.SCALE] = scale
        sizes = (
            height,
            width,
            channels,
            wide,
            kh,
            kw,
            *geometry.stride,
            *geometry.padding,
            *geometry.dilation,
        )
        for first, numbers in (
            (slots.POSITION, [a.__array_interface__["data"][0] for a in (self._position, self._total)]),
            (slots.SAMPLES, [samples, channels, outputs, high * wide, chunk, parts]),
            (slots.ROWS, [depth if way == "in place" else area, turn, len(phases)]),
            (slots.SIZES, [*sizes, depth, outputs // geometry.groups]),
            (slots.PHASES, [number for phase in phases for number in phase]),
        ):
            self.job[first : first + len(numbers)] = numbers
        self._start = starter(self.job, dy.numel() + maps * area * depth)

    def run(self, x: Tensor, dy: Tensor, weight: Tensor) -> Tensor:
        """The filter gradient, as weight, of tensors like those that the plan was made for."""
        dw = torch.empty_like(weight)
        pixels = scratch("pixels", self._pixels) if self._pixels else x
        sums = scratch("sums", self._sums) if self._sums else dw
        self._start(x.data_ptr(), dy.data_ptr(), dw.data_ptr(), pixels.data_ptr(), sums.data_ptr())
        return dw


def _way(
    x: Tensor, outputs: int, depth: int, area: int
) -> Literal["in place", "parts", "pixels", "transposed"]:
    """How to add up the patches. A contiguous x is transposed, unless fewer values are needed than it has."""
    if by_pixel(x):
        return "pixels"
    pixels = x.shape[2] * x.shape[3]
    if outputs * area < pixels // 2 or depth == 1:
        return "in place"
    if outputs * depth * area * 4 <= _CHUNK_BYTES:
        return "parts"
    return "transposed"


def _chunk(floats: int, least: int) -> int:
    """Samples that stay in cache together, when each uses so many floats of x."""
    return min(max(_CHUNK_BYTES // (4 * floats), least), _MOST)
