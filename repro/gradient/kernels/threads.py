"""Sharing a compiled loop among as many threads as torch uses."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch

_WORTH = 1 << 16  # elements: about 20 microseconds of work, as long as a thread takes to start on its share
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}  # (process, threads): a fork must not use its parent's threads


def share(loop: Callable[..., object], arguments: tuple[Any, ...], count: int, elements: int) -> None:
    """Call loop(*arguments, first, last) over 0..count, cut into even pieces, one for each thread.

    `elements`: about how many numbers are read or written in all. A small loop is not worth waking anyone. The
    threads are those of torch's own team (see team.py), or plain ones where it cannot be reached.
    """
    threads = min(torch.get_num_threads(), count, 1 + elements // _WORTH)
    if threads <= 1:
        loop(*arguments, 0, count)
        return
    team = _team()
    if team is not None:
        team.run(loop, arguments, count, threads)
        return
    edges = [count * i // threads for i in range(threads + 1)]
    pool = _pools.get((os.getpid(), threads))
    if pool is None:
        pool = _pools[os.getpid(), threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="gradient")
    others = [pool.submit(loop, *arguments, low, high) for low, high in pairwise(edges[1:])]
    loop(*arguments, edges[0], edges[1])
    for other in others:
        other.result()


@lru_cache(maxsize=1)
def _team() -> Any:
    try:
        from repro.gradient.kernels import team
    except OSError:
        return None
    return team
