"""The row of numbers of a block added up over its replicas, in the replicas' order whatever their number and the network.

Each replica adds up one part of the row and hands the sum round. R = 3, a row in three parts:

    replica 0   a0 b0 c0        a0+a1+a2           a b c
    replica 1   a1 b1 c1  ->    b0+b1+b2     ->    a b c
    replica 2   a2 b2 c2        c0+c1+c2           a b c

So every number is added up as `added_up` does it in one process, and all replicas have the same bits. Between GPUs that
no two ranks share NCCL adds up, in an order of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from repro.engine.transport.channel import PeerLost


def added_up(rows: Sequence[Tensor]) -> Tensor:
    """The sum of rows [n], the first replica's first."""
    total = rows[0].clone()
    for row in rows[1:]:
        total += row
    return total


class ReplicaSum:
    """The sum over the processes of `group`: the ranks that have one block, in the order of their replicas.

    `direct`: the group is NCCL's and the rows are on its GPUs; otherwise the rows pass through the host.
    """

    def __init__(self, group: Any, replicas: int, block: int, direct: bool) -> None:
        self._group, self._replicas, self._block, self._direct = group, replicas, block, direct
        self._parts = torch.empty(0)  # of all replicas, then the sums

    @property
    def held_bytes(self) -> int:
        """Bytes of the buffers."""
        return self._parts.numel() * self._parts.element_size()

    def __call__(self, row: Tensor) -> Tensor:
        """The sum of all replicas' rows [n] of float32, n a multiple of their number; PeerLost where one has gone."""
        if row.numel() == 0:
            return row
        try:
            if self._direct:
                dist.all_reduce(row, group=self._group)
                return row
            return self._by_parts(row.cpu()).to(row.device)
        except (RuntimeError, ValueError) as error:
            words = (str(error).splitlines() or [""])[0]
            raise PeerLost(
                f"lost the connection to another replica of block {self._block}: {words}"
            ) from error

    def _by_parts(self, row: Tensor) -> Tensor:
        if self._parts.shape != row.shape:
            self._parts = torch.empty_like(row)
        parts = list(self._parts.view(self._replicas, -1))
        dist.all_to_all_single(self._parts, row, group=self._group)
        dist.all_gather(parts, added_up(parts), group=self._group)
        return self._parts
