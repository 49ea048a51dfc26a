"""A cable of a given length: passes Ethernet frames between two interfaces, each as many seconds late as is asked.

    python -m tests.hosts.delay_line LEFT RIGHT SECONDS

What `tc qdisc add ... netem delay` does, for kernels that have no netem. Frames keep their virtio header, so that
unfinished checksums and large segments pass as they are.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections import deque

_EVERY_PROTOCOL = 0x0003
_SEND_BUFFER, _RECEIVE_BUFFER = 32, 33  # SO_SNDBUFFORCE, SO_RCVBUFFORCE: root may exceed the system's limit
_SOL_PACKET, _PACKET_VNET_HDR, _OUTGOING = 263, 15, 4


def main(left: str, right: str, delay: float) -> None:
    """Pass frames until killed."""
    ends = []
    for name in (left, right):
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL))
        end.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
        for whose in (_RECEIVE_BUFFER, _SEND_BUFFER):
            end.setsockopt(socket.SOL_SOCKET, whose, 1 << 24)
        end.bind((name, _EVERY_PROTOCOL))
        ends.append(end)
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    late: deque[tuple[float, socket.socket, bytes]] = deque()  # one delay for all: in the order of arrival
    print("passing", flush=True)
    while True:
        wait = max(0.0, late[0][0] - time.monotonic()) if late else None
        for end in select.select(ends, [], [], wait)[0]:
            frame, address = end.recvfrom(1 << 17)
            if address[2] != _OUTGOING:
                late.append((time.monotonic() + delay, other[end], frame))
        while late and late[0][0] <= time.monotonic():
            _, out, frame = late.popleft()
            try:
                out.send(frame)
            except OSError:
                continue  # a full queue drops, as a cable's end does


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
