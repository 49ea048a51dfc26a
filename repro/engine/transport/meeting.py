"""Where the blocks of a run meet: a store's address, and the network interface over which they talk."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import timedelta

from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

from repro.engine.transport.loopback import ADDRESS

LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


@dataclass(frozen=True)
class Meeting:
    """On one machine the loopback address alone; on several hosts torchrun's store, under a prefix for each run.

    `interface`: of this host; None leaves the choice to gloo. `hosts`: of each block, () where all are on this machine.
    """

    port: int
    address: str = ADDRESS
    interface: str | None = LOOPBACK
    prefix: str = ""
    hosts: tuple[str, ...] = ()

    def use_interface(self) -> None:
        """Make gloo and NCCL keep to the interface: by itself gloo takes the address that the host's name stands for."""
        if self.interface is not None:
            os.environ["GLOO_SOCKET_IFNAME"] = self.interface
            if self.hosts:
                os.environ["NCCL_SOCKET_IFNAME"] = f"={self.interface}"

    def store(self, patience: timedelta) -> Store:
        """The store, as a client. RuntimeError where it cannot be reached."""
        store = TCPStore(self.address, self.port, is_master=False, timeout=patience, wait_for_workers=False)
        return PrefixStore(self.prefix, store) if self.prefix else store

    def own_devices(self, devices: tuple[str, ...]) -> bool:
        """Whether no two blocks share a device."""
        hosts = self.hosts or ("",) * len(devices)
        return len(set(zip(hosts, devices, strict=True))) == len(devices)
