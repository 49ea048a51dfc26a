"""Sharing a compiled loop among the threads that torch itself uses.

After each of its own parallel operations torch's OpenMP threads stay awake on their cores for a while, waiting for
more. Any other pool has to share the cores with them: measured, two threads of our own were no faster than one. So
the loops run in that same team, through the entry that compilers use, `GOMP_parallel` of the OpenMP library that
torch has loaded. Where there is none (a torch without OpenMP), plain threads do: the loops release the interpreter's
lock.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

_WORTH = 1 << 16  # elements: about 20 microseconds of work, as long as a thread takes to start on its share
_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}  # (process, threads): a fork must not use its parent's threads

Loop = Callable[[int, int], object]


def share(loop: Loop, count: int, elements: int) -> None:
    """Call loop(first, last) over 0..count, cut into even pieces, on as many threads as torch uses.

    `elements`: about how many numbers are read or written in all. A small loop is not worth waking anyone.
    """
    threads = min(torch.get_num_threads(), count, 1 + elements // _WORTH)
    if threads <= 1:
        loop(0, count)
        return
    library = _openmp()
    if library is None:
        _in_pool(loop, count, threads)
    else:
        _in_team(library, loop, count, threads)


def _in_team(library: Any, loop: Loop, count: int, threads: int) -> None:
    failed: list[BaseException] = []

    def body(_: int | None) -> None:
        try:
            # The team may be smaller than asked for.
            number, members = library.omp_get_thread_num(), library.omp_get_num_threads()
            loop(count * number // members, count * (number + 1) // members)
        except BaseException as error:
            failed.append(error)

    library.GOMP_parallel(_BODY(body), None, threads, 0)
    if failed:
        raise failed[0]


def _in_pool(loop: Loop, count: int, threads: int) -> None:
    pool = _pools.get((os.getpid(), threads))
    if pool is None:
        pool = _pools[os.getpid(), threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="gradient")
    edges = [count * i // threads for i in range(threads + 1)]
    others = [pool.submit(loop, low, high) for low, high in pairwise(edges[1:])]
    loop(edges[0], edges[1])
    for other in others:
        other.result()


@lru_cache(maxsize=1)
def _openmp() -> Any:
    """The OpenMP library that torch has loaded, or None."""
    beside = sorted((Path(torch.__file__).parent / "lib").glob("lib*omp*"))
    for place in (*map(str, beside), None):  # None: what the process has loaded for all
        try:
            library = ctypes.CDLL(place)
            library.GOMP_parallel.argtypes = [_BODY, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
            library.GOMP_parallel.restype = None
            assert library.omp_get_thread_num() == 0
            assert library.omp_get_num_threads() == 1
        except (OSError, AttributeError, AssertionError):
            continue
        return library
    return None
