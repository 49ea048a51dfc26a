"""Rank 0 and another rank in one process: a block runs behind a wire, its checkpoints come over it, its end is told."""

from __future__ import annotations

import json
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch.distributed import TCPStore

from repro.engine.processes import checkpoint
from repro.engine.processes.child import BlockFailed
from repro.engine.processes.launch import Launch, Listener, on_one_clock, rendezvous
from repro.hosts.agreement import Hello, settings
from repro.hosts.interfaces import Interface
from repro.hosts.joining import Refused
from repro.hosts.leader import HostsTeam
from repro.hosts.member import Member
from repro.hosts.wire import Wire, WireCut, accepted, connected
from repro.hosts.world import World
from repro.planning.run_plan import Plan, make_plan

LO = Interface("lo", "127.0.0.1")


def pair(key: bytes = b"secret", other: bytes = b"secret") -> tuple[Wire | None, Wire | None]:
    """Both ends of a wire on the loopback address."""
    found: list[Wire | None] = [None]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()

        def connect() -> None:
            try:
                found[0] = connected(*address, other, 5, 20)
            except Exception:
                found[0] = None

        thread = threading.Thread(target=connect)
        thread.start()
        mine = accepted(listening, key, 20)
        thread.join()
    return mine, found[0]


@pytest.fixture(scope="module")
def plan(tiny: Callable[..., Any]) -> Plan:
    return make_plan(tiny(**{"method.name": "dsp", "blocks": 2, "epochs": 3}), "cpu")


@pytest.fixture
def store() -> TCPStore:
    return rendezvous(0)


@pytest.fixture
def team(plan: Plan, store: TCPStore) -> Iterator[tuple[HostsTeam, list[Any]]]:
    """Rank 0's side, with rank 1 in a thread; the list gets how rank 1 ended."""
    mine, theirs = pair()
    assert mine is not None
    assert theirs is not None
    hello = Hello(0, 0, 0, "a", LO.address, "", "", "cpu", 2, 0, "", [settings(plan.recipe)])
    hellos = [hello, replace(hello, rank=1, node=1, host="b")]
    world = World(0, 2, 0, 1, 0, 2, store.port, 0, "127.0.0.1")
    made = HostsTeam(world, hellos, LO, {1: mine}, 20)
    ended: list[Any] = []
    member = Member(theirs, "a", LO, [plan.recipe])

    def serve() -> None:
        try:
            ended.append(member.serve())
        except WireCut as cut:
            ended.append(cut)

    thread = threading.Thread(target=serve)
    thread.start()
    yield made, ended
    made.close(0, "")
    thread.join(20)
    theirs.close()
    assert not thread.is_alive()


def run(launch: Launch) -> tuple[list[float], list[dict[str, Any]]]:
    losses: list[float] = []
    summaries = launch.run(Listener(step=lambda batch, loss, samples: losses.append(loss)))
    return losses, summaries


def test_a_block_behind_a_wire_has_the_same_bits_and_goes_on_from_a_checkpoint(
    team: tuple[HostsTeam, list[Any]], plan: Plan, tmp_path: Path
) -> None:
    leader, ended = team
    placed = leader.placed(plan)
    assert placed.hosts == ("a", "b")
    leader.agree([placed])
    alone, here = run(Launch(plan, 0))
    losses, there = run(Launch(placed, 0, checkpoints=tmp_path, team=leader))
    assert losses == alone
    assert [s["weight_change"] for s in there] == [s["weight_change"] for s in here]
    found = checkpoint.newest(tmp_path, 2, pytest.fail)
    assert found is not None, "both blocks' files are on rank 0's disk, whole"
    place, manifest = found
    again, summaries = run(Launch(placed, 0, checkpoints=tmp_path, resume=place, team=leader))
    assert again == alone[int(manifest["updates"]) :]
    assert [s["weight_change"] for s in summaries] != [], "measured from the checkpoint on"
    leader.close(1, "that was all")
    end = time.monotonic() + 10
    while not ended and time.monotonic() < end:
        time.sleep(0.01)
    assert ended == [(1, "that was all")]


def test_a_block_that_fails_behind_a_wire_is_named_with_its_host_and_the_next_run_goes_on(
    team: tuple[HostsTeam, list[Any]], plan: Plan, tmp_path: Path
) -> None:
    leader, _ = team
    placed = leader.placed(plan)
    place = tmp_path / "epoch-1"
    place.mkdir()
    good, _ = run(Launch(placed, 0, team=leader))
    checkpoint.save_block(tmp_path, 1, 0, {})
    (place / "block-1.pt").write_bytes(b"no checkpoint")
    with pytest.raises(BlockFailed) as caught:
        run(Launch(placed, 0, resume=place, folder=tmp_path, team=leader))
    assert caught.value.rank in (0, 1)
    if caught.value.rank == 1:
        assert f"(on {socket.gethostname()})" in str(caught.value)
    assert not leader.lost
    assert run(Launch(placed, 0, team=leader))[0] == good, "nothing of the failed run is left on the wire"


def test_a_rank_that_finds_another_identity_refuses(team: tuple[HostsTeam, list[Any]], plan: Plan) -> None:
    leader, _ = team
    with pytest.raises(Refused, match=r"b: tiny is run 0123 on a .* and [0-9a-f]{12} here"):
        leader.agree([replace(leader.placed(plan), hash="0123")])
    with pytest.raises(Refused, match="no recipe here has the settings"):
        leader.agree([replace(plan, recipe=plan.recipe.model_copy(update={"epochs": 9}))])


def test_a_host_that_goes_is_lost_with_its_blocks_named(plan: Plan, store: TCPStore) -> None:
    mine, theirs = pair()
    assert mine is not None
    assert theirs is not None
    hello = Hello(0, 0, 0, "a", LO.address, "", "", "cpu", 2, 0, "", [])
    leader = HostsTeam(
        World(0, 2, 0, 1, 0, 2, store.port, 0, "127.0.0.1"),
        [hello, replace(hello, rank=1, node=1, host="b")],
        LO,
        {1: mine},
        20,
    )
    theirs.close()
    with pytest.raises(BlockFailed, match=r"b \(block 1\) is lost, its process there has ended"):
        run(Launch(leader.placed(plan), 0, team=leader))
    assert leader.lost


def test_who_does_not_know_the_secret_gets_no_wire() -> None:
    mine, theirs = pair(other=b"guessed")
    assert mine is None
    assert theirs is None


def test_messages_are_data_and_never_code() -> None:
    mine, theirs = pair()
    assert mine is not None
    assert theirs is not None
    values = {"loss": 0.1, "nan": float("inf"), 3: (1, None, b"bytes"), "text": "x"}
    theirs.send("told", values)
    assert mine.receive() == ("told", values)
    theirs.send("told", Path("x"))
    with pytest.raises(pickle.UnpicklingError, match="a message holds"):
        mine.receive()
    theirs.close()
    with pytest.raises(WireCut, match="its process there has ended"):
        mine.receive()
    mine.close()


def test_times_of_another_host_come_to_the_clock_of_the_first() -> None:
    blocks = [{"start": 10.0, "end": 15.0}, {"start": 10.1, "end": 15.5}, {"start": 900.0, "end": 904.0}]
    assert on_one_clock(blocks, ()) == blocks
    assert on_one_clock(blocks, ("a", "a", "b")) == [*blocks[:2], {"start": 10.0, "end": 14.0}]
    assert json.dumps(blocks[2]) == '{"start": 900.0, "end": 904.0}', "the summaries themselves stay"
