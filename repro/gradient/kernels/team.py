"""The loops as functions that a thread without Python can run: what torch's OpenMP team calls.

After each of its own parallel operations torch's OpenMP threads stay awake on their cores for a while, waiting for
more: any other pool has to fight them for the cores. So the loops run in that same team, through the entry that
compilers use, `GOMP_parallel`. And a callback into Python would cost the second thread about 0.2 ms for the
interpreter's lock, as much as its share of a small layer. So the work is a table of 64-bit numbers: the count that is
shared out, then the loop's arguments in their order, an array as its address and three sizes.

Importing this imports Numba; OSError where torch has no OpenMP library of that kind beside it.
"""

from __future__ import annotations

import ctypes
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from repro.gradient.kernels.compiled import callback, compiled
from repro.gradient.kernels.patch_loops import (
    add_patches,
    add_patches_by_parts,
    add_patches_in_place,
    finish,
    to_pixels,
)
from repro.gradient.kernels.peak_loops import peaks_pixels, peaks_planes

_numba: Any = importlib.import_module("numba")  # its types do not describe what compiled code may call
_types, carray = _numba.types, _numba.carray
_add_symbol = importlib.import_module("llvmlite.binding").add_symbol
_intrinsic: Any = importlib.import_module("numba.extending").intrinsic


def _library() -> Any:
    """The OpenMP library that torch has loaded. Another copy would have a second team, which fights for the cores."""
    for place in sorted((Path(torch.__file__).parent / "lib").glob("lib*omp*")):
        library = ctypes.CDLL(str(place))
        if hasattr(library, "GOMP_parallel") and hasattr(library, "omp_get_thread_num"):
            return library
    raise OSError("torch has no OpenMP library beside it")


_openmp = _library()
_openmp.GOMP_parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
_openmp.GOMP_parallel.restype = None
for _name in ("omp_get_thread_num", "omp_get_num_threads"):
    _add_symbol(f"repro_{_name}", ctypes.cast(getattr(_openmp, _name), ctypes.c_void_p).value)
_number = _types.ExternalFunction("repro_omp_get_thread_num", _types.int32())
_members = _types.ExternalFunction("repro_omp_get_num_threads", _types.int32())


_SLOTS = 48


@_intrinsic  # type: ignore[untyped-decorator]
def _pointer(_context: Any, address: Any) -> Any:
    def convert(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(_types.voidptr))

    return _types.voidptr(_types.int64), convert


@compiled
def _share(count):  # type: ignore[no-untyped-def]
    """This thread's piece of 0..count."""
    number, members = np.int64(_number()), np.int64(_members())
    return count * number // members, count * (number + 1) // members


@compiled
def _floats(t, at):  # type: ignore[no-untyped-def]
    return carray(_pointer(t[at]), (t[at + 1], t[at + 2]), np.float32)


@compiled
def _cube(t, at):  # type: ignore[no-untyped-def]
    return carray(_pointer(t[at]), (t[at + 1], t[at + 2], t[at + 3]), np.float32)


@compiled
def _integers(t, at):  # type: ignore[no-untyped-def]
    return carray(_pointer(t[at]), (t[at + 1], t[at + 2]), np.int32)


@compiled
def _sizes(t, at):  # type: ignore[no-untyped-def]
    first = t[at], t[at + 1], t[at + 2], t[at + 3], t[at + 4], t[at + 5], t[at + 6]
    return (*first, t[at + 7], t[at + 8], t[at + 9], t[at + 10], t[at + 11], t[at + 12], t[at + 13])


@callback
def _peaks_planes(table):  # type: ignore[no-untyped-def]
    t = carray(table, (_SLOTS,), np.int64)
    first, last = _share(t[0])
    peaks_planes(_floats(t, 1), _integers(t, 5), _integers(t, 9), _floats(t, 13), first, last)


@callback
def _peaks_pixels(table):  # type: ignore[no-untyped-def]
    t = carray(table, (_SLOTS,), np.int64)
    first, last = _share(t[0])
    bits = carray(_pointer(t[5]), (t[6], t[7], t[8]), np.int32)
    peaks_pixels(_cube(t, 1), bits, _integers(t, 9), _floats(t, 13), first, last)


@callback
def _to_pixels(table):  # type: ignore[no-untyped-def]
    t = carray(table, (_SLOTS,), np.int64)
    first, last = _share(t[0])
    to_pixels(_floats(t, 1), _floats(t, 5), t[9], first, last)


@callback
def _add_patches(table):  # type: ignore[no-untyped-def]
    t = carray(table, (_SLOTS,), np.int64)
    first, last = _share(t[0])
    samples = t[28], t[29]
    peaks = _integers(t, 6), _floats(t, 10)
    add_patches(
        _floats(t, 1), t[5], peaks[0], peaks[1], _sizes(t, 14), samples, t[30], t[31] != 0, _floats(t, 32), first, last
    )


@callback
def _add_patches_in_place(table):  # type: ignore[no-untyped-def]
    t = carray(table, (_SLOTS,), np.int64)
    first, last = _share(t[0])
    add_patches_in_place(_floats(t, 1), _integers(t, 5), _floats(t, 9), _sizes(t, 13), _floats(t, 27), first, last)


@callback
def _add_patches_by_parts(table):  # type: ignore[no-untyped-def]
    t = carray(table, (_SLOTS,), np.int64)
    first, last = _share(t[0])
    add_patches_by_parts(
        _floats(t, 1), _integers(t, 5), _floats(t, 9), _sizes(t, 13), _cube(t, 27), _cube(t, 31), first, last
    )


@callback
def _finish(table):  # type: ignore[no-untyped-def]
    t = carray(table, (_SLOTS,), np.int64)
    first, last = _share(t[0])
    finish(_cube(t, 1), _floats(t, 5), t[9], t[10] != 0, first, last)


_ENTRIES = {
    peaks_planes: _peaks_planes,
    peaks_pixels: _peaks_pixels,
    to_pixels: _to_pixels,
    add_patches: _add_patches,
    add_patches_in_place: _add_patches_in_place,
    add_patches_by_parts: _add_patches_by_parts,
    finish: _finish,
}


def run(loop: Any, arguments: tuple[Any, ...], count: int, threads: int) -> None:
    """loop(*arguments, first, last) over 0..count on `threads` threads of torch's team."""
    numbers: list[int] = [count]
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            numbers += [argument.__array_interface__["data"][0], *argument.shape, *[0] * (3 - argument.ndim)]
        elif isinstance(argument, tuple):
            numbers += argument
        else:
            numbers.append(argument)
    table = np.array(numbers + [0] * (_SLOTS - len(numbers)), np.int64)
    _openmp.GOMP_parallel(_ENTRIES[loop].address, table.__array_interface__["data"][0], threads, 0)
