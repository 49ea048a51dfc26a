"""Who runs a seed: a lock that one process holds, and its heartbeat, which other hosts can see."""

from repro.holding.heartbeat import TakenOver
from repro.holding.seed_lock import Hold, InUse, holding

__all__ = ["Hold", "InUse", "TakenOver", "holding"]
