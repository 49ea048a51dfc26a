"""Running a job's phases on as many threads as torch uses."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import pairwise
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray

from repro.gradient.kernels import job as slots

Start = Callable[
    [int, int, int, int, int], object
]  # addresses of x, dy, dw, and of memory for pixels and sums
WORTH = 1 << 16  # elements: about 20 microseconds of work, as long as a thread takes to start on its share
_pools: dict[
    tuple[int, int], ThreadPoolExecutor
] = {}  # (process, threads): a fork must not use its parent's threads


def starter(job: NDArray[np.int64], elements: int) -> Start:
    """What runs all phases of a job (see job.py) on the tensors whose addresses it is given.

    `elements`: about how many numbers are read or written in all; a small job is not worth waking anyone. The threads
    are those of torch's own team (see team.py), or plain ones where it cannot be reached. No result depends
    on how many there are. The job must live as long as its starter is used.
    """
    job[slots.THREADS] = 1 + elements // WORTH
    team = torchs_team()
    if team is None:
        return partial(_in_pool, job)
    job[slots.ENTRY] = team.entry
    return partial(team.start, job.__array_interface__["data"][0])


@lru_cache(maxsize=1)
def torchs_team() -> ModuleType | None:
    """The module that reaches torch's own threads, or None where they cannot be reached."""
    try:
        from repro.gradient.kernels import team
    except OSError:
        return None
    return team


def _in_pool(job: NDArray[np.int64], x: int, dy: int, dw: int, pixels: int, sums: int) -> None:
    for slot, address in (
        (slots.X, x),
        (slots.DY, dy),
        (slots.DW, dw),
        (slots.PIXELS, pixels),
        (slots.SUMS, sums),
    ):
        job[slot] = address
    threads = min(torch.get_num_threads(), int(job[slots.THREADS]))
    pool = _pools.get((os.getpid(), threads))
    if pool is None and threads > 1:
        pool = _pools[os.getpid(), threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="gradient")
    for phase in range(int(job[slots.COUNT])):
        count = int(job[slots.PHASES + 2 * phase + 1])
        edges = [count * i // threads for i in range(threads + 1)]
        others = (
            [pool.submit(slots.run_phase, job, phase, *piece) for piece in pairwise(edges[1:])]
            if pool
            else []
        )
        slots.run_phase(job, phase, 0, edges[1])
        for other in others:
            other.result()
