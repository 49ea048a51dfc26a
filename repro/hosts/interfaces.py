"""The network interfaces of this host, and which of them the blocks of a run use."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from repro.errors import MissingError, UserError, nearest

_SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of an interface


@dataclass(frozen=True)
class Interface:
    """An interface and its IPv4 address; `name` is None where the system does not tell it."""

    name: str | None
    address: str


def interfaces() -> dict[str, str]:
    """IPv4 address of each interface that has one."""
    found: dict[str, str] = {}
    with suppress(ImportError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        import fcntl

        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with suppress(OSError):
                answer = fcntl.ioctl(any_socket.fileno(), _SIOCGIFADDR, request)
                found[name] = socket.inet_ntoa(answer[20:24])
    return found


def choose_interface(
    asked: str | None, towards: str, environment: Mapping[str, str] = os.environ
) -> Interface:
    """The interface `asked` for (runtime.interface), else GLOO_SOCKET_IFNAME's, else that of the way to `towards`.

    Raises UserError, naming the interfaces that exist, for a name that is none of them; MissingError where no way
    leads to the address or host name `towards`.
    """
    known = interfaces()
    source = "runtime.interface"
    if asked is None and environment.get("GLOO_SOCKET_IFNAME"):
        asked, source = environment["GLOO_SOCKET_IFNAME"], "GLOO_SOCKET_IFNAME"
    if asked is not None:
        if asked not in known:
            allowed = ", ".join(f"{name} ({address})" for name, address in known.items())
            raise UserError(
                f"{source} = '{asked}' is no interface with an IPv4 address on {socket.gethostname()}."
                f"{nearest(asked, known)} Allowed: {allowed or 'none is up'}"
            )
        return Interface(asked, known[asked])
    address = own_address(towards)
    return Interface(next((name for name, a in known.items() if a == address), None), address)


def own_address(towards: str) -> str:
    """The address of this host from which packets to `towards` leave; nothing is sent. MissingError without a way."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((towards, 9))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise MissingError(
            f"no way leads from {socket.gethostname()} to {towards} ({error.strerror or error}): check the name and the "
            "network, or give runtime.interface"
        ) from None


def is_own(host: str) -> bool:
    """Whether `host`, a name or address, is this machine's."""
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(host, None, family=socket.AF_INET)}
    except OSError:
        return False
    return any(a.startswith("127.") or a in interfaces().values() for a in addresses)
