"""A call of the kernel as a record of 64-bit numbers, and its phases as code that needs no Python.

The record is what the threads share: where the tensors lie, the sizes, and which loops to run one after the
other. Importing this imports Numba.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from repro.gradient.kernels.compiled import compiled
from repro.gradient.kernels.patch_loops import add_patches
from repro.gradient.kernels.peak_loops import peaks_pixels, peaks_planes
from repro.gradient.kernels.plane_loops import add_patches_by_parts, add_patches_in_place, finish, to_pixels
from repro.gradient.kernels.vectors import intrinsic, types

carray: Any = importlib.import_module("numba").carray  # its types do not describe what compiled code may call

# -- the slots: addresses, the factor (a float64), sizes, and the phases as pairs (loop, count)
# ----------------------
X, DY, DW, POSITION, TOTAL, PIXELS, SUMS, ENTRY = range(
    8
)  # ENTRY: of the code that a thread runs, see team.py
SCALE, SAMPLES, CHANNELS, OUTPUTS, MAP, CHUNK, PARTS, ROWS, TURN, COUNT, THREADS = range(8, 19)
SIZES, PHASES, SLOTS = 19, 33, 41  # SIZES: the fourteen that patch_loops names

PEAKS_PLANES, PEAKS_PIXELS, TO_PIXELS, ADD, ADD_IN_PLACE, ADD_BY_PARTS, FINISH = range(7)


@intrinsic  # type: ignore[untyped-decorator]
def pointer(_context: Any, address: Any) -> Any:
    """(address int64) -> what carray makes an array of."""

    def convert(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(address), convert


@compiled
def run_phase(job, phase, first, last):  # type: ignore[no-untyped-def]
    """Do first..last of the count of one phase of `job` (int64 [SLOTS])."""
    loop = job[PHASES + 2 * phase]
    samples, outputs = job[SAMPLES], job[OUTPUTS]
    image, maps = job[SIZES] * job[SIZES + 1] * job[CHANNELS], samples * outputs
    patch = job[SIZES + 4] * job[SIZES + 5] * job[SIZES + 12]
    position = carray(pointer(job[POSITION]), (samples, outputs), np.int32)
    total = carray(pointer(job[TOTAL]), (samples, outputs), np.float32)
    if loop in (PEAKS_PLANES, PEAKS_PIXELS):
        values = carray(pointer(job[DY]), (maps * job[MAP],), np.float32)
        bits = carray(pointer(job[DY]), (maps * job[MAP],), np.int32)
        if loop == PEAKS_PLANES:
            peaks_planes(values, bits, position.reshape(maps), total.reshape(maps), job[MAP], first, last)
        else:
            peaks_pixels(
                values, bits, position.reshape(maps), total.reshape(maps), job[MAP], outputs, first, last
            )
        return
    x = carray(pointer(job[X]), (samples, image), np.float32)
    sums = carray(pointer(job[SUMS]), (job[PARTS], outputs, patch), np.float32)
    scale = np.float32(job.view(np.float64)[SCALE])
    s = job[SIZES : SIZES + 14]
    sizes = (s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12], s[13])
    if loop == TO_PIXELS:
        pixels = carray(pointer(job[PIXELS]), (samples, image), np.float32)
        to_pixels(x, pixels, job[CHANNELS], first, last)
    elif loop == ADD:
        pixels = carray(pointer(job[PIXELS]), (samples, image), np.float32)
        sums[0, first:last] = 0
        add_patches(pixels, 0, position, total, scale, sizes, (0, samples), job[CHUNK], sums[0], first, last)
    elif loop == ADD_IN_PLACE:
        add_patches_in_place(x, position, total, scale, sizes, sums[0], first, last)
    elif loop == ADD_BY_PARTS:
        buffers = carray(pointer(job[PIXELS]), (job[PARTS], job[CHUNK], image), np.float32)
        add_patches_by_parts(x, position, total, scale, sizes, buffers, job[CHUNK], sums, first, last)
    else:
        dw = carray(pointer(job[DW]), (outputs, patch), np.float32)
        finish(sums, dw, job[ROWS], job[TURN] != 0, first, last)
