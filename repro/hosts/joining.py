"""All processes of a run meet at torchrun's store, see that they fit together, and connect to rank 0."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Sequence
from datetime import timedelta
from typing import NoReturn

import torch
from torch.distributed import Store  # type: ignore[attr-defined]

from repro.cores import cores
from repro.engine.transport.meeting import Meeting
from repro.errors import MissingError, ReproError, UserError
from repro.hosts.agreement import Hello, code_digest, disagreement, settings, told_apart
from repro.hosts.interfaces import Interface, choose_interface
from repro.hosts.wire import Wire, WireCut, accepted, connected
from repro.hosts.world import World
from repro.planning.machine import machine_name
from repro.recipe import Recipe, RuntimeSpec


class Refused(ReproError):
    """A process, here or elsewhere, cannot take part; every process ends with the same sentence and code."""

    def __init__(self, words: str, exit_code: int) -> None:
        super().__init__(words)
        self.exit_code = exit_code


def meet(world: World, recipes: Sequence[Recipe], device: str) -> tuple[list[Hello], Interface, Store]:
    """Say hello to all; returns all hellos by rank, this host's interface and the store.

    Raises Refused where one cannot take part or two do not fit together, MissingError where one does not come within
    runtime.join_seconds.
    """
    runtime = recipes[0].runtime
    store = _store(world, runtime)
    try:
        interface = choose_interface(runtime.interface, world.address)
    except ReproError as error:
        refuse(world, error, runtime, store)
    hello = Hello(
        rank=world.rank,
        node=world.node,
        local_rank=world.local_rank,
        host=socket.gethostname(),
        address=interface.address,
        torch=torch.__version__,
        code=code_digest(),
        device=device,
        cores=cores(),
        gpus=torch.cuda.device_count() if device == "cuda" else 0,
        processor=machine_name(torch.device("cpu")).rpartition(",")[0],
        recipes=[settings(recipe) for recipe in recipes],
    )
    store.set(f"hello/{world.rank}", hello.to_text())
    hellos = told_apart(_all_hellos(store, world, runtime))
    if words := disagreement(hellos):
        raise Refused(words, UserError.exit_code)
    return hellos, interface, store


def refuse(world: World, error: ReproError, runtime: RuntimeSpec, store: Store | None = None) -> NoReturn:
    """Tell all others that this process cannot take part, so that none of them waits for it; raises `error` again."""
    try:
        store = store or _store(world, runtime)
        words = f"{socket.gethostname()}: {error}"
        store.set(f"hello/{world.rank}", json.dumps({"refused": words, "code": error.exit_code}))
    except (ReproError, RuntimeError):
        pass  # the others end by their own patience
    raise error


def _store(world: World, runtime: RuntimeSpec) -> Store:
    patience = timedelta(seconds=runtime.join_seconds)
    try:
        return Meeting(world.port, world.address, prefix=world.prefix).store(patience)
    except RuntimeError as error:
        words = (str(error).splitlines() or ["?"])[0]
        raise MissingError(
            f"rank {world.rank} on {socket.gethostname()} cannot reach torchrun's store at {world.address}:{world.port} "
            f"within {runtime.join_seconds:g} s (runtime.join_seconds): {words}"
        ) from None


def _all_hellos(store: Store, world: World, runtime: RuntimeSpec) -> list[Hello]:
    found: list[Hello] = []
    deadline = timedelta(seconds=runtime.join_seconds)
    try:
        store.wait([f"hello/{rank}" for rank in range(world.size)], deadline)
    except RuntimeError:
        missing = [str(rank) for rank in range(world.size) if not store.check([f"hello/{rank}"])]
        raise MissingError(
            f"rank{'' if len(missing) == 1 else 's'} {', '.join(missing)} did not come within {runtime.join_seconds:g} s "
            "(runtime.join_seconds): its host's own words say why, or give more time"
        ) from None
    for rank in range(world.size):
        text = store.get(f"hello/{rank}").decode()
        values = json.loads(text)
        if "refused" in values:
            raise Refused(str(values["refused"]), int(values["code"]))
        found.append(Hello.from_text(text))
    return found


def wires(store: Store, world: World, interface: Interface, runtime: RuntimeSpec) -> dict[int, Wire]:
    """Rank 0: wait for all other ranks to connect; nothing listens any more afterwards.

    It listens on the interface's address alone, at runtime.port (0: any free one), for processes that know a secret
    which is handed out through torchrun's store.
    """
    key = secrets.token_bytes(32)
    found: dict[int, Wire] = {}
    try:
        listening = socket.create_server((interface.address, runtime.port), backlog=world.size)
    except OSError as error:
        raise UserError(
            f"runtime.port = {runtime.port} cannot be used at {interface.address} ({error.strerror}): give a free port in "
            "1..65535, or 0 for any"
        ) from None
    with listening:
        listening.settimeout(runtime.join_seconds)
        port = listening.getsockname()[1]
        store.set("wire", json.dumps({"address": interface.address, "port": port, "key": key.hex()}))
        while len(found) < world.size - 1:
            try:
                wire = accepted(listening, key, runtime.silence_seconds)
                if wire is not None:
                    _, rank = wire.receive()
                    found[int(rank)] = wire
            except (TimeoutError, WireCut):
                missing = [str(rank) for rank in range(1, world.size) if rank not in found]
                raise MissingError(
                    f"rank {', '.join(missing)} did not connect to {interface.address}:{port} within "
                    f"{runtime.join_seconds:g} s (runtime.join_seconds): let packet filters pass it, or choose another "
                    "runtime.interface"
                ) from None
    return found


def wire_to_first(store: Store, world: World, host: str, runtime: RuntimeSpec) -> Wire:
    """Another rank: connect to rank 0 on `host`."""
    place = {"address": world.address, "port": 0, "key": ""}
    try:
        store.wait(["wire"], timedelta(seconds=runtime.join_seconds))
        place = json.loads(store.get("wire"))
        wire = connected(
            str(place["address"]),
            int(place["port"]),
            bytes.fromhex(str(place["key"])),
            runtime.join_seconds,
            runtime.silence_seconds,
        )
        wire.send("rank", world.rank)
    except (OSError, RuntimeError, WireCut) as error:
        words = (str(error).splitlines() or ["?"])[0]
        raise MissingError(
            f"rank {world.rank} on {socket.gethostname()} could not reach rank 0 on {host} at "
            f"{place['address']}:{place['port']} ({words}): let packet filters pass it, or choose another runtime.interface"
        ) from None
    return wire
