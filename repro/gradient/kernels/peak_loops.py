"""Compiled loops that find the peak of every output map in one pass over dy. Importing this imports Numba.

A float's absolute value orders as the integer of its bits without the sign, so the search for the largest runs on
integers: it vectorises without any promise about NaN, and a NaN counts as the largest, as in torch.argmax.
"""

from __future__ import annotations

import numpy as np

from repro.gradient.kernels.compiled import compiled

_NO_SIGN = np.int32(0x7FFFFFFF)
_LOWEST = np.int32(-1)
_SHORT = 8  # pixels: too few for vectors


@compiled
def peaks_planes(values, bits, position, total, first, last):  # type: ignore[no-untyped-def]
    """Contiguous dy: values [N*Cout, Ho*Wo] float32, `bits` the same memory as int32; rows first..last.

    Fills position [Cout, N] int32 and total [Cout, N] float32.
    """
    outputs, pixels = position.shape[0], values.shape[1]
    for row in range(first, last):
        value, bit = values[row], bits[row]
        largest, found = _LOWEST, np.int32(pixels)
        sum_of_map = np.float32(0)
        if pixels <= _SHORT:
            for p in range(pixels):
                sum_of_map += value[p]
                magnitude = np.int32(bit[p] & _NO_SIGN)
                if magnitude > largest:
                    largest, found = magnitude, np.int32(p)
        else:  # the map comes from memory once; the search for the first hit finds it in cache
            for p in range(pixels):
                sum_of_map += value[p]
                magnitude = np.int32(bit[p] & _NO_SIGN)
                largest = magnitude if magnitude > largest else largest
            for p in range(pixels):
                hit = np.int32(p) if np.int32(bit[p] & _NO_SIGN) == largest else np.int32(pixels)
                found = hit if hit < found else found
        sample = row // outputs
        position[row - sample * outputs, sample] = found
        total[row - sample * outputs, sample] = sum_of_map


@compiled
def peaks_pixels(values, bits, position, total, first, last):  # type: ignore[no-untyped-def]
    """channels_last dy: values [N, Ho*Wo, Cout]; samples first..last. All channels advance side by side."""
    outputs, pixels = values.shape[2], values.shape[1]
    largest = np.empty(outputs, np.int32)
    found = np.empty(outputs, np.int32)
    sums = np.empty(outputs, np.float32)
    for sample in range(first, last):
        largest[:] = _LOWEST
        found[:] = 0
        sums[:] = 0
        for p in range(pixels):
            for o in range(outputs):
                magnitude = np.int32(bits[sample, p, o] & _NO_SIGN)
                larger = magnitude > largest[o]
                largest[o] = magnitude if larger else largest[o]
                found[o] = np.int32(p) if larger else found[o]
                sums[o] += values[sample, p, o]
        for o in range(outputs):
            position[o, sample] = found[o]
            total[o, sample] = sums[o]
