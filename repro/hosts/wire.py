"""Plain messages between two processes of a run over TCP: text, numbers, bytes and lists of these, never code.

A silent other end is found by the kernel: it probes an idle connection, and gives up one whose bytes are not confirmed.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
import struct
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

from repro.errors import ReproError

HANDSHAKE_SECONDS = 5
_PROBES = 4  # unanswered ones until the other end counts as lost
_TIMED = struct.Struct("ll")


class WireCut(ReproError):
    """The other end has gone: in silence (`silent`), or its process has ended and its system has closed the connection."""

    def __init__(self, words: str, silent: bool) -> None:
        super().__init__(words)
        self.silent = silent


class _Plain(pickle.Unpickler):
    """Refuses everything that has a class."""

    def find_class(self, module: str, name: str) -> Any:
        """Never a class: what comes over the network is data."""
        raise pickle.UnpicklingError(f"a message holds {module}.{name}")


class Wire:
    """One end of a connection; it can be given to multiprocessing.connection.wait."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._connection.fileno()

    def send(self, kind: str, *values: Any) -> None:
        """Send a message. Raises WireCut."""
        try:
            self._connection.send_bytes(pickle.dumps((kind, *values)))
        except OSError as error:
            raise _cut(error) from None

    def receive(self) -> tuple[Any, ...]:
        """The next message, waiting for it. Raises WireCut."""
        try:
            data = self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise _cut(error) from None
        message: tuple[Any, ...] = _Plain(io.BytesIO(data)).load()
        return message

    def poll(self, seconds: float) -> bool:
        """Whether a message (or the end) is here within `seconds`."""
        try:
            return self._connection.poll(seconds)
        except (EOFError, OSError):
            return True

    def close(self) -> None:
        """Close this end."""
        self._connection.close()


def accepted(listening: socket.socket, key: bytes, silence: float) -> Wire | None:
    """Take the next connection to `listening` (its own timeout counts); None for one that does not know `key`."""
    connected, _ = listening.accept()
    connection = _prepared(connected, silence)
    try:
        deliver_challenge(connection, key)
        answer_challenge(connection, key)
    except Exception:  # whatever a stranger sends
        connection.close()
        return None
    _wait_forever(connection)
    return Wire(connection)


def connected(address: str, port: int, key: bytes, patience: float, silence: float) -> Wire:
    """Connect to a process that listens. OSError where it cannot be reached within `patience` seconds."""
    connection = _prepared(socket.create_connection((address, port), timeout=patience), silence)
    answer_challenge(connection, key)
    deliver_challenge(connection, key)
    _wait_forever(connection)
    return Wire(connection)


def _prepared(one: socket.socket, silence: float) -> Connection:
    """The socket as a Connection: found dead after about `silence` seconds; for the handshake with a limit of its own."""
    one.setblocking(True)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    every = max(1, round(silence / (_PROBES + 1)))
    for name, value in (
        ("TCP_KEEPIDLE", every),
        ("TCP_KEEPINTVL", every),
        ("TCP_KEEPCNT", _PROBES),
        ("TCP_USER_TIMEOUT", max(1, round(1000 * silence))),
    ):
        if hasattr(socket, name):
            one.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMED.pack(HANDSHAKE_SECONDS, 0))
    return Connection(one.detach())


def _wait_forever(connection: Connection) -> None:
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMED.pack(0, 0))


def _cut(error: BaseException) -> WireCut:
    if isinstance(error, (EOFError, ConnectionResetError, BrokenPipeError)):
        return WireCut("its process there has ended", silent=False)
    words = getattr(error, "strerror", None) or str(error)
    return WireCut(f"it does not answer any more ({words.lower()})", silent=True)
