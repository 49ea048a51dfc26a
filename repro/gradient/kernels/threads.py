"""Running a job's phases on as many threads as torch uses."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

_WORTH = 1 << 16  # elements: about 20 microseconds of work, as long as a thread takes to start on its share
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}  # (process, threads): a fork must not use its parent's threads


def run(job: NDArray[np.int64], address: int, elements: int) -> None:
    """Run all phases of a job (see job.py) that lies at `address`.

    `elements`: about how many numbers are read or written in all. A small job is not worth waking anyone. The
    threads are those of torch's own team (see team.py), or plain ones where it cannot be reached. No result depends
    on how many there are.
    """
    threads = min(torch.get_num_threads(), 1 + elements // _WORTH)
    team = _team()
    if team is not None:
        team.run(address, threads)
    else:
        _in_pool(job, threads)


def _in_pool(job: NDArray[np.int64], threads: int) -> None:
    from repro.gradient.kernels.job import COUNT, PHASES, run_phase

    pool = _pools.get((os.getpid(), threads))
    if pool is None and threads > 1:
        pool = _pools[os.getpid(), threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="gradient")
    for phase in range(job[COUNT]):
        count = int(job[PHASES + 2 * phase + 1])
        edges = [count * i // threads for i in range(threads + 1)]
        others = [pool.submit(run_phase, job, phase, low, high) for low, high in pairwise(edges[1:])] if pool else []
        run_phase(job, phase, 0, edges[1])
        for other in others:
            other.result()


@lru_cache(maxsize=1)
def _team() -> Any:
    try:
        from repro.gradient.kernels import team
    except OSError:
        return None
    return team
