"""Waits of a given length in place of compute, without drift."""

from __future__ import annotations

import ctypes
import sys
import time

_PR_SET_TIMERSLACK = 29
STALL_SECONDS = 0.005  # a later end of a wait is no drift


class Pace:
    """Sleeps to absolute points in time, so that what one wait is late is taken off the next.

    Spinning would take the cores that other blocks need (K > cores), and a sleep of a given length adds its own
    lateness every time. A block's clock is therefore ideal: a wait begins where the last one should have ended,
    plus what the block did and waited for in between. Lateness that a wait for a message has swallowed is not
    taken off again: on an ideal machine the block would have stood there as well. Nor is a stall of the machine
    (start-up, another program): batch after batch hurried to catch up with it would be no steady state.
    """

    def __init__(self) -> None:
        self.late = 0.0  # seconds that the last wait ended after its point
        self._waited = 0.0
        if sys.platform == "linux":  # else the kernel ends each sleep up to 50 microseconds late
            ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)

    def pass_time(self, seconds: float, waited: float) -> None:
        """Let `seconds` pass; `waited`: total seconds that the block has ever waited for messages."""
        debt = max(0.0, self.late - (waited - self._waited))
        self._waited = waited
        deadline = time.monotonic() - debt + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(left)
        late = time.monotonic() - deadline
        self.late = late if late < STALL_SECONDS else 0.0
