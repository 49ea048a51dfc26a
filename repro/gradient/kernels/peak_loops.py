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
_LANES = 64  # channels x pixels that advance together


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
    """channels_last dy: values [N, Ho*Wo, Cout]; samples first..last.

    All channels advance side by side; with few of them, so do several pixels: lane = pixel of the group x channel.
    Four groups pass in one step, so that the running maxima are read and written once for the four.
    """
    outputs, pixels = values.shape[2], values.shape[1]
    group = max(1, min(pixels // 4, _LANES // outputs))
    lanes, step = group * outputs, 4 * group
    largest = np.empty(lanes, np.int32)
    found = np.empty(lanes, np.int32)
    sums = np.empty(lanes, np.float32)
    for sample in range(first, last):
        value, bit = values[sample].reshape(pixels * outputs), bits[sample].reshape(pixels * outputs)
        largest[:] = _LOWEST
        found[:] = 0
        sums[:] = 0
        for start in range(0, pixels - step + 1, step):
            a = start * outputs
            b, c, d, e = a + lanes, a + 2 * lanes, a + 3 * lanes, a + 4 * lanes
            value_a, value_b, value_c, value_d = value[a:b], value[b:c], value[c:d], value[d:e]
            bit_a, bit_b, bit_c, bit_d = bit[a:b], bit[b:c], bit[c:d], bit[d:e]
            for j in range(lanes):
                best, where = largest[j], found[j]
                magnitude = np.int32(bit_a[j] & _NO_SIGN)
                where = np.int32(start) if magnitude > best else where
                best = magnitude if magnitude > best else best
                magnitude = np.int32(bit_b[j] & _NO_SIGN)
                where = np.int32(start + group) if magnitude > best else where
                best = magnitude if magnitude > best else best
                magnitude = np.int32(bit_c[j] & _NO_SIGN)
                where = np.int32(start + 2 * group) if magnitude > best else where
                best = magnitude if magnitude > best else best
                magnitude = np.int32(bit_d[j] & _NO_SIGN)
                where = np.int32(start + 3 * group) if magnitude > best else where
                best = magnitude if magnitude > best else best
                largest[j], found[j] = best, where
                sums[j] += (value_a[j] + value_b[j]) + (value_c[j] + value_d[j])
        for o in range(outputs):
            best, where, sum_of_map = largest[o], found[o], sums[o]
            for j in range(1, group):
                lane = j * outputs + o
                place = np.int32(found[lane] + j)
                if largest[lane] > best or (largest[lane] == best and place < where):
                    best, where = largest[lane], place
                sum_of_map += sums[lane]
            for p in range(pixels - pixels % step, pixels):
                magnitude = np.int32(bit[p * outputs + o] & _NO_SIGN)
                if magnitude > best:
                    best, where = magnitude, np.int32(p)
                sum_of_map += value[p * outputs + o]
            position[o, sample] = where
            total[o, sample] = sum_of_map
