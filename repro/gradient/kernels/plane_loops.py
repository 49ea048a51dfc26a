"""Compiled loops for a contiguous x, whose pixels' channels lie apart, and what brings sums into a weight's order.

Importing this imports Numba.
"""

from __future__ import annotations

import numpy as np

from repro.gradient.kernels.compiled import compiled
from repro.gradient.kernels.patch_loops import add_patches
from repro.gradient.kernels.run_vectors import turn
from repro.gradient.kernels.vectors import LANES, prefetch

unsigned = np.uint64
_AHEAD = 64  # floats of a plane, 4 cache lines


@compiled
def to_pixels(planes, pixels, channels, first, last):  # type: ignore[no-untyped-def]
    """Transpose samples first..last from planes [.., Cin, H*W] to pixels [.., H*W, Cin], both as [.., Cin*H*W]."""
    image = planes.shape[1]
    area = image // channels
    source, target = planes.reshape(planes.size), pixels.reshape(pixels.size)
    squares, even = channels - channels % LANES, area - area % LANES
    for n in range(first, last):
        start = n * image
        for p in range(0, even, 2 * LANES):  # two squares side by side are a cache line of each plane
            for c in range(0, squares, LANES):
                here, there = unsigned(start + c * area + p), unsigned(start + p * channels + c)
                for k in range(LANES):
                    prefetch(source, start + (c + k) * area + p + _AHEAD)
                turn(target, there, unsigned(channels), source, here, unsigned(area))
                if p + LANES < even:
                    down = unsigned(LANES * channels)
                    turn(
                        target,
                        there + down,
                        unsigned(channels),
                        source,
                        here + unsigned(LANES),
                        unsigned(area),
                    )
        for c in range(channels):
            for p in range(even if c < squares else 0, area):
                target[unsigned(start + p * channels + c)] = source[unsigned(start + c * area + p)]


@compiled
def add_patches_by_parts(planes, position, total, scale, sizes, buffers, chunk, accumulators, first, last):  # type: ignore[no-untyped-def]
    """Contiguous x: parts first..last of the samples, `chunk` at a time transposed into a buffer that stays in cache.

    planes [N, Cin*H*W]; buffers [parts, chunk, H*W*Cin]; accumulators [parts, Cout, Kh*Kw*Cin/groups]. One
    call needs one buffer, the same for all of its parts: it is still in cache.
    """
    samples, parts = planes.shape[0], buffers.shape[0]
    for part in range(first, last):
        accumulators[part] = 0
        end = samples * (part + 1) // parts
        for n in range(samples * part // parts, end, chunk):
            some = (n, min(end, n + chunk))
            to_pixels(planes[n : some[1]], buffers[first], sizes[2], 0, some[1] - n)
            outputs = position.shape[1]
            add_patches(
                buffers[first], n, position, total, scale, sizes, some, chunk, accumulators[part], 0, outputs
            )


@compiled
def add_patches_in_place(planes, position, total, scale, sizes, accumulator, first, last):  # type: ignore[no-untyped-def]
    """Contiguous x [N, Cin*H*W] with few output channels: patches are gathered where they lie.

    accumulator [Cout, Cin/groups*Kh*Kw], in the order of a contiguous weight.
    """
    height, width, _, wide, kh, kw, sh, sw, ph, pw, dh, dw, depth, share = sizes
    accumulator[first:last] = 0
    plane, right, down = unsigned(height * width), unsigned(dw), unsigned(dh * width)
    for n in range(planes.shape[0]):
        source = planes[n]
        for o in range(first, last):
            factor = scale * total[n, o]
            if factor == 0:
                continue
            line, target = position[n, o] // wide, accumulator[o]
            top, left = line * sh - ph, (position[n, o] - line * wide) * sw - pw
            corner = o // share * depth * height * width + top * width + left
            inside = top >= 0 and left >= 0 and top + (kh - 1) * dh < height and left + (kw - 1) * dw < width
            if inside and kh == 3 and kw == 3:
                here, there = unsigned(corner), unsigned(0)
                for _ in range(depth):
                    at = here
                    for _ in range(3):
                        target[there] += factor * source[at]
                        target[there + unsigned(1)] += factor * source[at + right]
                        target[there + unsigned(2)] += factor * source[at + unsigned(2) * right]
                        at, there = at + down, there + unsigned(3)
                    here += plane
                continue
            for c in range(depth):
                for ky in range(kh):
                    for kx in range(kw):
                        y, column = top + ky * dh, left + kx * dw
                        if y >= 0 and y < height and column >= 0 and column < width:
                            at = corner + c * height * width + ky * dh * width + kx * dw
                            target[(c * kh + ky) * kw + kx] += factor * source[at]


@compiled
def finish(accumulators, out, rows, turned, first, last):  # type: ignore[no-untyped-def]
    """out[o] = sum of the parts, for o in first..last; where `turned`, each out[o] is transposed from [rows, ..]."""
    parts, size = accumulators.shape[0], accumulators.shape[2]
    for o in range(first, last):
        target = accumulators[0, o]
        for part in range(1, parts):
            source = accumulators[part, o]
            for j in range(size):
                target[j] += source[j]
        if turned:
            columns = size // rows
            for column in range(columns):
                for row in range(rows):
                    out[o, column * rows + row] = target[row * columns + column]
        else:
            out[o, :] = target
