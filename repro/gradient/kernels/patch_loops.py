"""Compiled loops that add up the patches under the peaks. Importing this imports Numba.

A sample's pixels lie as [H*W, Cin], so the part of a patch on one row of the image is one run of memory: (up to Kw
pixels) x Cin values, added to the same run of the output channel's accumulator [Kh, Kw, Cin] with one factor. What
lies in the padding is skipped, so that nothing is ever padded.
"""

from __future__ import annotations

import numpy as np

from repro.gradient.kernels.compiled import compiled

unsigned = np.uint64


@compiled
def add_patches(x, base, position, total, scale, sizes, samples, chunk, fresh, accumulator, first, last):  # type: ignore[no-untyped-def]
    """accumulator[o] += sum over samples of total[n, o] * patch of x[n - base], for o in first..last.

    x [.., H*W*Cin] float32, position and total [N, Cout], accumulator [Cout, Kh*Kw*Cin/groups]; `samples` = (from,
    to); `chunk` samples stay in cache while all output channels pass over them. Samples are added in order, to what
    is there or, if `fresh`, to zero.
    Indices of the inner loops are unsigned: a signed one could count from the end, and would not vectorise.
    """
    height, width, channels, wide, kh, kw, sh, sw, ph, pw, dh, dw, depth, share = sizes
    whole_rows = dw == 1 and depth == channels
    if fresh:
        accumulator[first:last] = 0
    for start in range(samples[0], samples[1], chunk):
        for o in range(first, last):
            target = accumulator[o]
            for n in range(start, min(samples[1], start + chunk)):
                factor = scale * total[n, o]
                if factor == 0:
                    continue
                source, line = x[n - base], position[n, o] // wide
                top, left = line * sh - ph, (position[n, o] - line * wide) * sw - pw
                low, high = max(0, -left), min(kw, width - left)
                for ky in range(kh):
                    y = top + ky * dh
                    if y < 0 or y >= height:
                        continue
                    if whole_rows:
                        if low < high:
                            here = unsigned((y * width + left + low) * channels)
                            there = unsigned((ky * kw + low) * channels)
                            for j in range(unsigned((high - low) * channels)):
                                target[there + unsigned(j)] += factor * source[here + unsigned(j)]
                        continue
                    for kx in range(kw):
                        column = left + kx * dw
                        if column >= 0 and column < width:
                            here = unsigned((y * width + column) * channels + o // share * depth)
                            there = unsigned((ky * kw + kx) * depth)
                            for j in range(unsigned(depth)):
                                target[there + unsigned(j)] += factor * source[here + unsigned(j)]


@compiled
def to_pixels(planes, pixels, channels, first, last):  # type: ignore[no-untyped-def]
    """Transpose samples first..last from planes [.., Cin, H*W] to pixels [.., H*W, Cin], both as [.., Cin*H*W]."""
    depth, area = unsigned(channels), unsigned(planes.shape[1] // channels)
    whole = area - area % unsigned(4)
    for n in range(first, last):
        source, target = planes[n], pixels[n]
        for quarter in range(whole // unsigned(4)):  # four pixels of all channels at a time: four runs are written
            p = unsigned(quarter) * unsigned(4)
            for c in range(depth):
                here, there = unsigned(c) * area + p, p * depth + unsigned(c)
                a, b = source[here], source[here + unsigned(1)]
                d, e = source[here + unsigned(2)], source[here + unsigned(3)]
                target[there], target[there + depth] = a, b
                target[there + unsigned(2) * depth], target[there + unsigned(3) * depth] = d, e
        for rest in range(whole, area):
            for c in range(depth):
                target[unsigned(rest) * depth + unsigned(c)] = source[unsigned(c) * area + unsigned(rest)]


@compiled
def add_patches_by_parts(planes, position, total, scale, sizes, buffers, accumulators, first, last):  # type: ignore[no-untyped-def]
    """Contiguous x: parts first..last of the samples, each transposed into a buffer that stays in cache.

    planes [N, Cin*H*W]; buffers [parts, 1, H*W*Cin]; accumulators [parts, Cout, Kh*Kw*Cin/groups].
    """
    samples, parts = planes.shape[0], buffers.shape[0]
    for part in range(first, last):
        accumulators[part] = 0
        for n in range(samples * part // parts, samples * (part + 1) // parts):
            to_pixels(planes[n : n + 1], buffers[part], sizes[2], 0, 1)
            one = (n, n + 1)
            add_patches(buffers[part], n, position, total, scale, sizes, one, 1, False, accumulators[part], 0, position.shape[1])


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
def finish(accumulators, out, rows, turn, first, last):  # type: ignore[no-untyped-def]
    """out[o] = sum of the parts, for o in first..last; where `turn`, each out[o] is transposed from [rows, ..]."""
    parts, size = accumulators.shape[0], accumulators.shape[2]
    for o in range(first, last):
        target = accumulators[0, o]
        for part in range(1, parts):
            source = accumulators[part, o]
            for j in range(size):
                target[j] += source[j]
        if turn:
            columns = size // rows
            for column in range(columns):
                for row in range(rows):
                    out[o, column * rows + row] = target[row * columns + column]
        else:
            out[o, :] = target
