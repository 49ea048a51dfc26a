"""How tensors cross between a GPU's compute stream, the streams beside it, and pinned memory of the host.

What a message takes on a GPU is put on a stream of its own; no step waits for it on the host:

    compute   ... F3 | R1 ...                          compute ... B1 | ......... B2
                     v event                                              ^ event
    beside           copy to pinned memory (or NCCL)   beside   copy from pinned memory (or NCCL)
                     v event                                        ^ message
    courier          waits for the copy, sends         host     waits for the message, as on the CPU

Memory is lent across streams: it is used again only when the stream that borrowed it is done (`record_stream`), and a
pinned buffer only when the event behind its last copy is.
"""

from __future__ import annotations

import os
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from repro.errors import RunFailed

T = TypeVar("T")


class Mark(Protocol):
    """An event: a point that a stream has to reach (torch.cuda.Event)."""

    def query(self) -> bool:
        """Whether it has been reached."""

    def synchronize(self) -> None:
        """Wait on the host until it is."""


class SideStream:
    """A stream beside the compute stream of `device`."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def follow_compute(self, tensor: Tensor) -> None:
        """What comes here now runs behind what compute has been given so far, and reads `tensor` of compute's memory."""
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        tensor.record_stream(self._stream)

    def running(self) -> AbstractContextManager[object]:
        """Within, this stream is the current one: work goes to it, and new tensors are of its memory."""
        return torch.cuda.stream(self._stream)

    def mark(self) -> Mark:
        """The point behind all that has been given to this stream."""
        event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(self._stream)
        return event  # type: ignore[no-any-return]

    def lead_compute(self, tensor: Tensor, mark: Any) -> None:
        """What compute is given from now on runs behind `mark`, and uses `tensor` of this stream's memory."""
        compute = torch.cuda.current_stream(self.device)
        compute.wait_event(mark)
        tensor.record_stream(compute)


def _pinned(size: int) -> Tensor:
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)


@dataclass
class PinnedBuffers:
    """Message buffers [bytes], used again: pinning memory stops the device. `allocate` makes one."""

    allocate: Callable[[int], Tensor] = _pinned
    _free: dict[int, deque[tuple[Tensor, Mark | None]]] = field(default_factory=dict)

    def take(self, size: int) -> Tensor:
        """A buffer that no copy is using any more."""
        free = self._free.get(size)
        if free and (free[0][1] is None or free[0][1].query()):
            return free.popleft()[0]
        return self.allocate(size)

    def give_back(self, buffer: Tensor, after: Mark | None = None) -> None:
        """`buffer` may be used again when the device has come to `after`."""
        self._free.setdefault(buffer.numel(), deque()).append((buffer, after))


class Courier:
    """A thread that sends messages in their order, each when the device has written it to the host."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="courier")

    def send(self, after: Mark, send: Callable[[], T]) -> Future[T]:
        """Call `send` behind `after`; returns at once. The result is what it returned, or the RunFailed that it raised.

        Anything else ends the process, with its traceback in the log: the block might wait for an answer for ever.
        """
        return self._thread.submit(_deliver, after, send)


def _deliver(after: Mark, send: Callable[[], T]) -> T:
    try:
        after.synchronize()
        return send()
    except RunFailed:
        raise
    except BaseException:
        traceback.print_exc()
        os._exit(1)


@dataclass
class Crossing:
    """What a queue's end on a GPU needs: a stream of its own, and the block's buffers and courier."""

    stream: SideStream
    buffers: PinnedBuffers
    courier: Courier
