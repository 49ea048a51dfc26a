"""The phases of a job in torch's own OpenMP team.

After each of its own parallel operations torch's OpenMP threads stay awake on their cores for a while,
waiting for more: any other pool has to fight them for the cores. So the loops run in that same team, through
the entry that compilers use, `GOMP_parallel`. A callback into Python would cost the second thread about 0.2
ms for the interpreter's lock, as much as its share of a small layer: what the team calls is native code.

Importing this imports Numba; OSError where torch has no OpenMP library of that kind beside it.
"""

from __future__ import annotations

import ctypes
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from repro.gradient.kernels.compiled import callback
from repro.gradient.kernels.job import (
    COUNT,
    DW,
    DY,
    ENTRY,
    PHASES,
    PIXELS,
    SLOTS,
    SUMS,
    THREADS,
    X,
    carray,
    pointer,
    run_phase,
)
from repro.gradient.kernels.vectors import types

_add_symbol = importlib.import_module("llvmlite.binding").add_symbol
_NAMES = "GOMP_parallel", "GOMP_barrier", "omp_get_max_threads", "omp_get_num_threads", "omp_get_thread_num"


def _library() -> Any:
    """The OpenMP library that torch has loaded. Another copy would have a second team, which fights for the cores."""
    for place in sorted((Path(torch.__file__).parent / "lib").glob("lib*omp*")):
        library = ctypes.CDLL(str(place))
        if all(hasattr(library, name) for name in _NAMES):
            return library
    raise OSError("torch has no OpenMP library beside it")


_openmp = _library()
for _name in _NAMES:
    _add_symbol(f"repro_{_name}", ctypes.cast(getattr(_openmp, _name), ctypes.c_void_p).value)
_parallel = types.ExternalFunction(
    "repro_GOMP_parallel", types.void(types.voidptr, types.voidptr, types.uint32, types.uint32)
)
_barrier = types.ExternalFunction("repro_GOMP_barrier", types.void())
_most = types.ExternalFunction("repro_omp_get_max_threads", types.int32())
_members = types.ExternalFunction("repro_omp_get_num_threads", types.int32())
_number = types.ExternalFunction("repro_omp_get_thread_num", types.int32())


@callback("void(CPointer(int64))")
def _every_phase(address):  # type: ignore[no-untyped-def]
    """What each thread of the team does: its even piece of every phase, all together from one to the next."""
    job = carray(address, (SLOTS,), np.int64)
    number, members = np.int64(_number()), np.int64(_members())
    for phase in range(job[COUNT]):
        if phase:
            _barrier()
        count = job[PHASES + 2 * phase + 1]
        run_phase(job, phase, count * number // members, count * (number + 1) // members)


@callback("void(int64, int64, int64, int64, int64, int64)")
def _start(address, x, dy, dw, pixels, sums):  # type: ignore[no-untyped-def]
    """Fill in where the tensors lie, and let the team work. All in native code: see plan.py."""
    job = carray(pointer(address), (SLOTS,), np.int64)
    job[X], job[DY], job[DW], job[PIXELS], job[SUMS] = x, dy, dw, pixels, sums
    threads = min(np.int64(_most()), job[THREADS])
    _parallel(pointer(job[ENTRY]), pointer(address), np.uint32(threads), np.uint32(0))


start = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6)(_start.address)
entry: int = _every_phase.address
