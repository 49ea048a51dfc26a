"""Compiled loops that add up the patches under the peaks. Importing this imports Numba.

A sample's pixels lie as [H*W, Cin], so the part of a patch on one row of the image is one run of memory: (up to Kw
pixels) x Cin values, added to the same run of the output channel's accumulator [Kh, Kw, Cin] with one factor. What
lies in the padding is skipped, so that nothing is ever padded.
"""

from __future__ import annotations

from repro.gradient.kernels.compiled import compiled

_BLOCK = 16  # pixels transposed together: one cache line of a plane


@compiled
def add_patches(x, base, position, total, sizes, samples, chunk, accumulator, first, last):  # type: ignore[no-untyped-def]
    """accumulator[o] += sum over samples of total[o, n] * patch of x[n - base], for o in first..last.

    x [.., H*W*Cin] float32, position and total [Cout, N], accumulator [Cout, Kh*Kw*Cin/groups]; `samples` = (from,
    to); `chunk` samples stay in cache while all output channels pass over them. Samples are added in order.
    """
    height, width, channels, wide, kh, kw, sh, sw, ph, pw, dh, dw, depth, share = sizes
    whole_rows = dw == 1 and depth == channels
    for start in range(samples[0], samples[1], chunk):
        for o in range(first, last):
            offset = o // share * depth
            for n in range(start, min(samples[1], start + chunk)):
                factor = total[o, n]
                if factor == 0:
                    continue
                p = position[o, n]
                top, left = p // wide * sh - ph, p % wide * sw - pw
                for ky in range(kh):
                    y = top + ky * dh
                    if y < 0 or y >= height:
                        continue
                    if whole_rows:
                        low, high = max(0, -left), min(kw, width - left)
                        if low < high:
                            source = x[n - base, (y * width + left + low) * channels : (y * width + left + high) * channels]
                            target = accumulator[o, (ky * kw + low) * channels : (ky * kw + high) * channels]
                            for j in range(source.shape[0]):
                                target[j] += factor * source[j]
                        continue
                    for kx in range(kw):
                        column = left + kx * dw
                        if column < 0 or column >= width:
                            continue
                        at = (y * width + column) * channels + offset
                        source = x[n - base, at : at + depth]
                        target = accumulator[o, (ky * kw + kx) * depth : (ky * kw + kx + 1) * depth]
                        for j in range(depth):
                            target[j] += factor * source[j]


@compiled
def to_pixels(planes, pixels, channels, first, last):  # type: ignore[no-untyped-def]
    """Transpose samples first..last from planes [.., Cin, H*W] to pixels [.., H*W, Cin], both as [.., Cin*H*W]."""
    area = planes.shape[1] // channels
    for n in range(first, last):
        source, target = planes[n], pixels[n]
        for start in range(0, area - area % _BLOCK, _BLOCK):
            for c in range(channels):
                for j in range(_BLOCK):
                    target[(start + j) * channels + c] = source[c * area + start + j]
        for p in range(area - area % _BLOCK, area):
            for c in range(channels):
                target[p * channels + c] = source[c * area + p]


@compiled
def add_patches_by_parts(planes, position, total, sizes, buffers, accumulators, first, last):  # type: ignore[no-untyped-def]
    """Contiguous x: parts first..last of the samples, each transposed into a buffer that stays in cache.

    planes [N, Cin*H*W]; buffers [parts, 1, H*W*Cin]; accumulators [parts, Cout, Kh*Kw*Cin/groups].
    """
    samples, parts = planes.shape[0], buffers.shape[0]
    for part in range(first, last):
        for n in range(samples * part // parts, samples * (part + 1) // parts):
            to_pixels(planes[n : n + 1], buffers[part], sizes[2], 0, 1)
            one = (n, n + 1)
            add_patches(buffers[part], n, position, total, sizes, one, 1, accumulators[part], 0, position.shape[0])


@compiled
def add_patches_in_place(planes, position, total, sizes, accumulator, first, last):  # type: ignore[no-untyped-def]
    """Contiguous x [N, Cin*H*W] with few output channels: patches are gathered where they lie.

    accumulator [Cout, Cin/groups*Kh*Kw], in the order of a contiguous weight.
    """
    height, width, _, wide, kh, kw, sh, sw, ph, pw, dh, dw, depth, share = sizes
    for n in range(planes.shape[0]):
        for o in range(first, last):
            factor = total[o, n]
            if factor == 0:
                continue
            p = position[o, n]
            top, left = p // wide * sh - ph, p % wide * sw - pw
            inside = top >= 0 and left >= 0 and top + (kh - 1) * dh < height and left + (kw - 1) * dw < width
            for c in range(depth):
                at = (o // share * depth + c) * height * width + top * width + left
                source, target = planes[n], accumulator[o, c * kh * kw : (c + 1) * kh * kw]
                if inside and kh == 3 and kw == 3:
                    for ky in range(3):
                        target[3 * ky] += factor * source[at]
                        target[3 * ky + 1] += factor * source[at + dw]
                        target[3 * ky + 2] += factor * source[at + 2 * dw]
                        at += dh * width
                    continue
                for ky in range(kh):
                    for kx in range(kw):
                        if 0 <= top + ky * dh < height and 0 <= left + kx * dw < width:
                            target[ky * kw + kx] += factor * source[at + ky * dh * width + kx * dw]


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
