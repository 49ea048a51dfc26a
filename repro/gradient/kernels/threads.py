"""Sharing a compiled loop among as many threads as torch uses.

The loops release the interpreter's lock, so plain threads do. Numba's own thread layers are left alone: they hold
a second pool beside torch's, and compile several times as long.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import torch

_WORTH = 1 << 16  # elements: about 20 microseconds of work, as long as a thread takes to start on its share
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}  # (process, threads): a fork must not use its parent's threads


def share(loop: Callable[[int, int], None], count: int, elements: int) -> None:
    """Call loop(first, last) over 0..count, cut into even pieces; the calling thread does the first.

    `elements`: about how many numbers are read or written in all. A small loop is not worth waking anyone.
    """
    threads = min(torch.get_num_threads(), count, 1 + elements // _WORTH)
    if threads <= 1:
        loop(0, count)
        return
    pool = _pools.get((os.getpid(), threads))
    if pool is None:
        pool = _pools[os.getpid(), threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="gradient")
    edges = [count * i // threads for i in range(threads + 1)]
    others = [pool.submit(loop, low, high) for low, high in pairwise(edges[1:])]
    loop(edges[0], edges[1])
    for other in others:
        other.result()
