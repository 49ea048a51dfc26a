"""The one address that the blocks of a run use: 127.0.0.1, and nothing that listens anywhere else."""

from __future__ import annotations

import socket

from repro.errors import MissingError, UserError

ADDRESS = "127.0.0.1"
ANSWER_SECONDS = 3.0  # a packet filter swallows a connection; the address itself answers at once


def listen(port: int = 0) -> socket.socket:
    """A socket that listens on 127.0.0.1 alone and has been seen to answer there; port 0 takes any free one.

    Raises UserError where `port` is in use or not allowed, MissingError where the address cannot be used.
    """
    server = socket.socket()
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((ADDRESS, port))
            server.listen(128)
        except OSError as error:
            if port == 0:
                raise _unusable(error) from None
            raise UserError(
                f"runtime.port = {port} cannot be used ({error.strerror}): give a free port in 1..65535, or 0 for any"
            ) from None
        _see_it_answer(server)
    except BaseException:
        server.close()
        raise
    return server


def _see_it_answer(server: socket.socket) -> None:
    try:
        with socket.create_connection(server.getsockname(), timeout=ANSWER_SECONDS):
            server.settimeout(ANSWER_SECONDS)
            answered, _ = server.accept()
            answered.close()
            server.settimeout(None)
    except OSError as error:
        raise _unusable(error) from None


def _unusable(error: OSError) -> MissingError:
    return MissingError(
        f"the blocks of a run meet at {ADDRESS}, which cannot be used here ({error.strerror or error}): bring the "
        "loopback interface up (`ip link set lo up`), let packet filters pass it, or run with blocks = 1"
    )
