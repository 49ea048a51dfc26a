"""What a message between neighbouring blocks costs: latency, bandwidth, and what of it the sender cannot hide.

    block k      compute F3 | copy | compute ...         the sender copies the tensor into the message and goes on
    link                           | latency | transfer |  begins once the message is finished and its receive posted
    block k+1                                           | compute F3

The engine posts receives ahead (one; between hosts two): that of message n is posted when message n - `ahead` is taken,
and the sender hears of it one latency later. So a transfer runs beside the compute of both blocks. One link direction
carries one message at a time; each has a connection of its own, so that words do not wait behind tensors. With
`overlaps` false the sender computes nothing until the transfer has ended (a blocking send).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Links:
    """Cost of messages. `sizes[k]`: bytes of one message between block k and k+1, outputs and gradients alike.

    A micro-batch is a message of its own. `latency` in seconds, `bandwidth` and `copy_bandwidth` (of the
    sender's copy into the message) in bytes per second. An acknowledgement costs one latency. `near`: boundaries
    inside a host, where a message costs its copy and `near_latency`. `shares[k]`: messages that pass there at once.
    """

    sizes: tuple[float, ...]
    latency: float = 0.0
    bandwidth: float = float("inf")
    copy_bandwidth: float = float("inf")
    overlaps: bool = True
    near: frozenset[int] = frozenset()
    shares: tuple[int, ...] = ()
    ahead: int = 1
    near_latency: float = 0.0

    def copy(self, boundary: int) -> float:
        """Seconds for which the sender is held up by a message over `boundary` (between that block and the next)."""
        return self.sizes[boundary] / self.copy_bandwidth + (
            0.0 if self.overlaps else self.transfer(boundary)
        )

    def transfer(self, boundary: int) -> float:
        """Seconds from "finished and expected" to "here"."""
        return self.notice(boundary) + self.occupied(boundary)

    def occupied(self, boundary: int) -> float:
        """Seconds for which a message occupies its direction."""
        if boundary in self.near:
            return 0.0
        share = self.shares[boundary] if self.shares else 1
        return share * self.sizes[boundary] / self.bandwidth

    def notice(self, boundary: int) -> float:
        """Seconds until the sender knows that its message has been taken, or that a receive is posted."""
        return self.near_latency if boundary in self.near else self.latency


def free(blocks: int) -> Links:
    """Messages that cost nothing."""
    return Links((0.0,) * max(0, blocks - 1))
