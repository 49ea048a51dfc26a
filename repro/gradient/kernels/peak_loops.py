"""Compiled loops that find the peak of every output map in one pass over dy. Importing this imports Numba.

A core reads a fresh dy only as fast as it asks for its lines, and one run of memory after the other is half
as fast as it can be: so each step works on four vectors, where possible from different parts of a map, and
asks for lines ahead. Positions (y * Wo + x) and sums come out as [N, Cout], both flat.
"""

from __future__ import annotations

import numpy as np

from repro.gradient.kernels.compiled import compiled
from repro.gradient.kernels.peak_vectors import both, look, no_peak, put, side_by_side
from repro.gradient.kernels.vectors import LANES, prefetch

unsigned = np.uint64
_NO_SIGN = np.int32(0x7FFFFFFF)
_AHEAD = 1024  # floats, 4 KB
_LINE = 16  # floats
_FOUR = 4 * LANES


@compiled
def peaks_planes(values, bits, position, total, pixels, first, last):  # type: ignore[no-untyped-def]
    """Contiguous dy: values [N*Cout*Ho*Wo] float32, `bits` the same memory as int32; maps first..last of Ho*Wo pixels."""
    in_fours, in_vectors = pixels - pixels % _FOUR, pixels - pixels % LANES
    for row in range(first, last):
        start = row * pixels
        magnitude, where, sum_of_map = np.int32(-1), np.int32(0), np.float32(0)
        if in_vectors:
            a, b, c, d = no_peak(), no_peak(), no_peak(), no_peak()
            for p in range(0, in_fours, _FOUR):
                at = start + p
                prefetch(values, at + _AHEAD)
                prefetch(values, at + _AHEAD + _LINE)
                a = look(values, unsigned(at), np.int32(p), a)
                b = look(values, unsigned(at + LANES), np.int32(p + LANES), b)
                c = look(values, unsigned(at + 2 * LANES), np.int32(p + 2 * LANES), c)
                d = look(values, unsigned(at + 3 * LANES), np.int32(p + 3 * LANES), d)
            for p in range(in_fours, in_vectors, LANES):
                a = look(values, unsigned(start + p), np.int32(p), a)
            magnitude, where, sum_of_map = side_by_side(both(both(a, b), both(c, d)))
        where, sum_of_map = _one_by_one(
            values, bits, start, 1, in_vectors, pixels, magnitude, where, sum_of_map
        )
        position[row], total[row] = where, sum_of_map


@compiled
def peaks_pixels(values, bits, position, total, pixels, outputs, first, last):  # type: ignore[no-untyped-def]
    """channels_last dy: values [N*Ho*Wo*Cout]; samples first..last.

    A vector is eight channels of a pixel. From 32 channels on the four are neighbours; with fewer, they come
    from two or four parts of the map. Where the channels do not come out even, the last group goes over some
    of them again.
    """
    parts = 1 if outputs >= _FOUR else 2 if outputs >= 2 * LANES else 4
    width = _FOUR // parts
    part = pixels // parts
    second, third = (
        (LANES if parts < 4 else part * outputs),
        (2 * LANES if parts == 1 else part * outputs * parts // 2),
    )
    pixel_b, pixel_c = (0 if parts < 4 else part), (0 if parts == 1 else part * parts // 2)
    for sample in range(first, last):
        channel = 0
        while channel < outputs < LANES:  # too few for a vector
            start, to = sample * pixels * outputs + channel, sample * outputs + channel
            nothing = np.int32(-1), np.int32(0), np.float32(0)
            position[to], total[to] = _one_by_one(values, bits, start, outputs, 0, pixels, *nothing)
            channel += 1
        while channel < outputs:
            channel = min(channel, outputs - width)
            start, to = sample * pixels * outputs + channel, unsigned(sample * outputs + channel)
            a, b, c, d = no_peak(), no_peak(), no_peak(), no_peak()
            for p in range(part):
                at = start + p * outputs
                prefetch(values, at + _AHEAD)
                prefetch(values, at + third + _AHEAD)
                a = look(values, unsigned(at), np.int32(p), a)
                b = look(values, unsigned(at + second), np.int32(p + pixel_b), b)
                c = look(values, unsigned(at + third), np.int32(p + pixel_c), c)
                d = look(values, unsigned(at + third + second), np.int32(p + pixel_c + pixel_b), d)
            for p in range(part * parts, pixels):  # what the parts leave; none where there is one
                at = start + p * outputs
                a = look(values, unsigned(at), np.int32(p), a)
                if parts == 2:
                    b = look(values, unsigned(at + LANES), np.int32(p), b)
            if parts == 4:
                put(position, total, to, both(both(a, b), both(c, d)))
            elif parts == 2:
                put(position, total, to, both(a, c))
                put(position, total, to + unsigned(LANES), both(b, d))
            else:
                put(position, total, to, a)
                put(position, total, to + unsigned(LANES), b)
                put(position, total, to + unsigned(2 * LANES), c)
                put(position, total, to + unsigned(3 * LANES), d)
            channel += width


@compiled
def _one_by_one(values, bits, start, apart, first, last, magnitude, where, sum_of_map):  # type: ignore[no-untyped-def]
    """(pixel, sum) of a map whose pixels lie `apart`, after pixels first..last; the others gave what is passed in."""
    for p in range(first, last):
        at = unsigned(start + p * apart)
        own = np.int32(bits[at] & _NO_SIGN)
        if own > magnitude:
            magnitude, where = own, np.int32(p)
        sum_of_map += values[at]
    return where, sum_of_map
