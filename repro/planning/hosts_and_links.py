"""On which hosts the ranks of a predicted run are, and what messages and sums over replicas cost there.

A host has one way out and one way in, which all its ranks share. The prediction is cautious: whatever leaves a host in
the course of a batch is counted as leaving it at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from repro.errors import UserError
from repro.schedule import Links


@dataclass(frozen=True)
class Machines:
    """Links of `latency` [s] and `bandwidth` [bytes/s]: between any two ranks, or where there are hosts between those.

    `hosts`: how many, with equally many ranks each; `per_host`: ranks of a host, as many hosts as that takes. Inside a
    host messages are free. Ranks follow each other as the engine places them: a pipeline's blocks are neighbours.
    """

    latency: float = 0.0
    bandwidth: float = math.inf
    hosts: int | None = None
    per_host: int | None = None

    @property
    def apart(self) -> bool:
        """Whether hosts are told apart."""
        return self.hosts is not None or self.per_host is not None

    def placed(self, blocks: int, replicas: int) -> list[int]:
        """The host of each rank; UserError where `hosts` does not divide them."""
        ranks = blocks * replicas
        if self.hosts is not None and ranks % self.hosts:
            raise UserError(
                f"--hosts {self.hosts} does not divide {blocks} blocks x {replicas} replicas = {ranks}: give other numbers "
                "of blocks or replicas, or --per-host"
            )
        each = self.per_host or ranks // (self.hosts or ranks)
        return [rank // each for rank in range(ranks)]

    def links(self, sizes: Sequence[float], replicas: int) -> Links:
        """What messages of `sizes` bytes over each boundary cost, in the replica that is worst off."""
        if not self.apart:
            return Links(tuple(sizes), self.latency, self.bandwidth)
        blocks = len(sizes) + 1
        home = self.placed(blocks, replicas)
        crossing = [
            rank for rank in range(len(home) - 1) if (rank + 1) % blocks and home[rank] != home[rank + 1]
        ]
        leaving = [home[rank] for rank in crossing] + [home[rank + 1] for rank in crossing]
        shares = [1] * len(sizes)
        for rank in crossing:  # outputs leave one host, gradients the other
            k = rank % blocks
            shares[k] = max(shares[k], leaving.count(home[rank]), leaving.count(home[rank + 1]))
        near = frozenset(range(len(sizes))) - {rank % blocks for rank in crossing}
        return Links(tuple(sizes), self.latency, self.bandwidth, near=near, shares=tuple(shares), ahead=2)

    def sum_seconds(self, weights: Sequence[float], replicas: int) -> list[float]:
        """Seconds in which each block's replicas add up their gradients; `weights`: bytes of each block's.

        As the engine does it: each replica hands a part of 1/R to every other, adds up its own part, and hands the sum
        round. Of each part 1/R need not go at all, and what stays inside a host is free.
        """
        if replicas == 1:
            return [0.0] * len(weights)
        home = self.placed(len(weights), replicas)
        if not self.apart:
            home = list(range(len(home)))
        # Of each rank: the bytes that leave its host in one of the two rounds.
        out = [
            size / replicas * sum(home[other * len(weights) + k] != home[r * len(weights) + k] for other in range(replicas))
            for r in range(replicas)
            for k, size in enumerate(weights)
        ]  # fmt: skip
        found = []
        for k in range(len(weights)):
            ways = {home[rank] for rank in range(k, len(home), len(weights)) if out[rank] > 0}
            bytes_out = max(
                (sum(b for h, b in zip(home, out, strict=True) if h == way) for way in ways), default=0.0
            )
            found.append(2 * (self.latency + bytes_out / self.bandwidth) if ways else 0.0)
        return found
