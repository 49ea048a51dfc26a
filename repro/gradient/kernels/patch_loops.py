"""Compiled loops that add up the patches under the peaks. Importing this imports Numba.

A sample's pixels lie as [H*W, Cin], so one tap of the filter reads one run of memory, Cin values, and adds it
with one factor to the same run of the output channel's accumulator [Kh, Kw, Cin]. A tap takes the samples one
after the other while its sums stay in registers. Which samples have a tap inside the image is a set of bits,
so nothing is ever padded and no processor has to guess where the edges are.
"""

from __future__ import annotations

import numpy as np

from repro.gradient.kernels.compiled import compiled
from repro.gradient.kernels.run_vectors import add_times, keep, lowest, take, within
from repro.gradient.kernels.vectors import RUN

unsigned = np.uint64
_ONE = np.uint64(1)
_BITS = 64  # samples of a chunk, at most


@compiled
def add_patches(x, base, position, total, scale, sizes, samples, chunk, sums, first, last):  # type: ignore[no-untyped-def]
    """sums[o] += scale * sum over samples of total[n, o] * patch of x[n - base], for o in first..last.

    x [.., H*W*Cin] float32, position and total [N, Cout], sums [Cout, Kh*Kw*Cin/groups]; `samples` = (from,
    to);
    `chunk` samples (at most 64) stay in cache while all output channels pass over them. Samples are added in order.
    """
    height, width, channels, wide, kh, kw, sh, sw, ph, pw, dh, dw, depth, share = sizes
    flat, image, outputs = x.reshape(x.size), x.shape[1], position.shape[1]
    places, totals, out = position.reshape(position.size), total.reshape(total.size), sums.reshape(sums.size)
    corners, factors = np.empty(_BITS, np.int64), np.empty(_BITS, np.float32)
    tops, lefts = np.empty(_BITS, np.int32), np.empty(_BITS, np.int32)
    rows, columns = np.empty(kh, np.uint64), np.empty(kw, np.uint64)
    down, right = dh * width * channels, dw * channels
    for start in range(samples[0], samples[1], chunk):
        count = unsigned(min(chunk, samples[1] - start))
        for o in range(first, last):
            used = unsigned(0)
            for i in range(count):
                at = unsigned((start + i) * outputs + o)
                line = np.int32(
                    np.float64(places[at]) / np.float64(wide)
                )  # exact, and vectorises; an integer's does not
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
