"""Compiled loops that add up the patches under the peaks. Importing this imports Numba.

A sample's pixels lie as [H*W, Cin], so one tap of the filter reads one run of memory, Cin values, and adds it with one
factor to the same run of the output channel's accumulator [Kh, Kw, Cin]. A tap takes the samples one after the other
while its sums stay in registers. Which samples have a tap inside the image is a set of bits, so nothing is ever padded
and no processor has to guess where the edges are.
"""

from __future__ import annotations

import numpy as np

from repro.gradient.kernels.compiled import compiled
from repro.gradient.kernels.vectors import LANES, RUN, add_times, keep, lowest, prefetch, take, turn, within

unsigned = np.uint64
_ONE = np.uint64(1)
_AHEAD = 64  # floats of a plane, 4 cache lines
_BITS = 64  # samples of a chunk, at most


@compiled
def add_patches(x, base, position, total, scale, sizes, samples, chunk, fresh, sums, first, last):  # type: ignore[no-untyped-def]
    """sums[o] += scale * sum over samples of total[n, o] * patch of x[n - base], for o in first..last.

    x [.., H*W*Cin] float32, position and total [N, Cout], sums [Cout, Kh*Kw*Cin/groups]; `samples` = (from, to);
    `chunk` samples (at most 64) stay in cache while all output channels pass over them. Samples are added in order,
    to what is there or, if `fresh`, to zero.
    """
    height, width, channels, wide, kh, kw, sh, sw, ph, pw, dh, dw, depth, share = sizes
    flat, image, outputs = x.reshape(x.size), x.shape[1], position.shape[1]
    places, totals, out = position.reshape(position.size), total.reshape(total.size), sums.reshape(sums.size)
    corners, factors = np.empty(_BITS, np.int64), np.empty(_BITS, np.float32)
    tops, lefts = np.empty(_BITS, np.int32), np.empty(_BITS, np.int32)
    rows, columns = np.empty(kh, np.uint64), np.empty(kw, np.uint64)
    down, right = dh * width * channels, dw * channels
    if fresh:
        sums[first:last] = 0
    for start in range(samples[0], samples[1], chunk):
        count = unsigned(min(chunk, samples[1] - start))
        for o in range(first, last):
            used = unsigned(0)
            for i in range(count):
                at = unsigned((start + i) * outputs + o)
                line = np.int32(np.float64(places[at]) / np.float64(wide))
                top, left = line * sh - ph, (places[at] - line * wide) * sw - pw
                tops[i], lefts[i] = top, left
                factors[i] = scale * totals[at]
                corners[i] = (start - base + i) * image + (top * width + left) * channels
                used |= unsigned(factors[i] != 0) << i
            _inside(tops, count, dh, height, used, rows)
            _inside(lefts, count, dw, width, used, columns)
            moves = o // share * depth, down, right
            _add_taps(flat, moves, corners, factors, rows, columns, out, o * kh * kw * depth, depth)


@compiled
def _inside(edges, count, dilation, size, used, found):  # type: ignore[no-untyped-def]
    """found[k] = as bits, which samples of `used` have their filter's k-th row (or column) inside the image."""
    for k in range(found.size):
        bits = unsigned(0)
        for i in range(0, count, RUN):
            bits |= within(edges, unsigned(i), np.int32(k * dilation), np.int32(size)) << unsigned(i)
        found[k] = bits & used


@compiled
def _add_taps(x, moves, corners, factors, rows, columns, sums, to, depth):  # type: ignore[no-untyped-def]
    """sums[to + tap * depth ..] += sum over the samples i with the tap inside of factors[i] * x[corners[i] + shift ..].

    `depth` values for each tap, whose shift is moves[0] + its row * moves[1] + its column * moves[2].
    """
    kh, kw = rows.size, columns.size
    channel, down, right = moves
    for tap in range(kh * kw):
        ky, kx = unsigned(tap // kw), unsigned(tap % kw)
        inside = rows[ky] & columns[kx]
        shift, there, done = channel + np.int64(ky) * down + np.int64(kx) * right, to + tap * depth, 0
        while depth - done >= 4 * RUN:
            t, left = unsigned(there + done), inside
            u, v, w = t + unsigned(RUN), t + unsigned(2 * RUN), t + unsigned(3 * RUN)
            a, b, c, d = take(sums, t), take(sums, u), take(sums, v), take(sums, w)
            while left:
                i = lowest(left)
                left &= left - _ONE
                at, factor = unsigned(corners[i] + shift + done), factors[i]
                a, b = add_times(a, factor, x, at), add_times(b, factor, x, at + unsigned(RUN))
                c = add_times(c, factor, x, at + unsigned(2 * RUN))
                d = add_times(d, factor, x, at + unsigned(3 * RUN))
            keep(sums, t, a)
            keep(sums, u, b)
            keep(sums, v, c)
            keep(sums, w, d)
            done += 4 * RUN
        if depth - done >= 2 * RUN:
            t, left = unsigned(there + done), inside
            a, b = take(sums, t), take(sums, t + unsigned(RUN))
            while left:
                i = lowest(left)
                left &= left - _ONE
                at, factor = unsigned(corners[i] + shift + done), factors[i]
                a, b = add_times(a, factor, x, at), add_times(b, factor, x, at + unsigned(RUN))
            keep(sums, t, a)
            keep(sums, t + unsigned(RUN), b)
            done += 2 * RUN
        if depth - done >= RUN:
            t, left = unsigned(there + done), inside
            a = take(sums, t)
            while left:
                i = lowest(left)
                left &= left - _ONE
                a = add_times(a, factors[i], x, unsigned(corners[i] + shift + done))
            keep(sums, t, a)
            done += RUN
        left = inside if done < depth else unsigned(0)
        while left:
            i = lowest(left)
            left &= left - _ONE
            at, t = unsigned(corners[i] + shift + done), unsigned(there + done)
            for j in range(unsigned(depth - done)):
                sums[t + unsigned(j)] += factors[i] * x[at + unsigned(j)]


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
                    turn(target, there + down, unsigned(channels), source, here + unsigned(LANES), unsigned(area))
        for c in range(channels):
            for p in range(even if c < squares else 0, area):
                target[unsigned(start + p * channels + c)] = source[unsigned(start + c * area + p)]


@compiled
def add_patches_by_parts(planes, position, total, scale, sizes, buffers, chunk, accumulators, first, last):  # type: ignore[no-untyped-def]
    """Contiguous x: parts first..last of the samples, `chunk` at a time transposed into a buffer that stays in cache.

    planes [N, Cin*H*W]; buffers [parts, chunk, H*W*Cin]; accumulators [parts, Cout, Kh*Kw*Cin/groups]. One call needs
    one buffer, the same for all of its parts: it is still in cache.
    """
    samples, parts = planes.shape[0], buffers.shape[0]
    for part in range(first, last):
        accumulators[part] = 0
        end = samples * (part + 1) // parts
        for n in range(samples * part // parts, end, chunk):
            some = (n, min(end, n + chunk))
            to_pixels(planes[n : some[1]], buffers[first], sizes[2], 0, some[1] - n)
            add_patches(
                buffers[first], n, position, total, scale, sizes, some, chunk, False, accumulators[part],
                0, position.shape[1],
            )  # fmt: skip


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
