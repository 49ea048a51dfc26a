"""What is settled between hosts before a run: who they are, whether they fit, who has which block."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.errors import UserError
from repro.hosts.agreement import Hello, disagreement, placement, settings, told_apart
from repro.hosts.elastic import Rendezvous, check_nodes
from repro.hosts.interfaces import choose_interface, interfaces, is_own
from repro.hosts.leader import check_recipes
from repro.hosts.world import World, check_size, found_world

HELLO = Hello(0, 0, 0, "a", "10.0.0.1", "2.9.0", "c0de", "cpu", 2, 0, "a processor", [])
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "x",
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RESTART_COUNT": "1",
}


def hellos(nodes: list[int]) -> list[Hello]:
    """Ranks 0.. on these hosts."""
    return [replace(HELLO, rank=rank, node=node, host=f"h{node}") for rank, node in enumerate(nodes)]


def test_what_torchrun_says_is_read_and_its_absence_too() -> None:
    world = found_world(TORCHRUN)
    assert world == World(3, 4, 1, 2, 1, 2, 29500, 1, "10.0.0.1")
    assert not world.speaks
    assert found_world({"RANK": "0"}) is None
    with pytest.raises(UserError, match="WORLD_SIZE"):
        found_world({k: v for k, v in TORCHRUN.items() if k != "WORLD_SIZE"})


def test_a_wrong_number_of_processes_is_refused(tiny: Callable[..., Any]) -> None:
    world = World(0, 4, 0, 2, 0, 2, 1, 0, "x")
    check_size(world, [tiny(**{"method.name": "dsp", "blocks": 4})])
    with pytest.raises(
        UserError, match=r"blocks = 2, but torchrun has started 4 processes on 2 hosts.*node 1"
    ):
        check_size(world, [tiny(**{"method.name": "dsp", "blocks": 2})])
    with pytest.raises(UserError, match=r"blocks = 3, .*add up to it, or --set blocks=4"):
        check_size(world, [tiny(**{"method.name": "dsp", "blocks": 3})])


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("torch", "torch is 2.9.0 on a and 2.8.0 on b"),
        ("code", "the code of repro is c0de on a and 2.8.0 on b"),
    ],
)
def test_other_versions_are_refused_with_both_named(field: str, words: str) -> None:
    assert disagreement([HELLO, replace(HELLO, host="b")]) is None
    assert words in str(disagreement([HELLO, replace(HELLO, host="b", **{field: "2.8.0"})]))  # type: ignore[arg-type]


def test_other_recipes_are_refused_with_the_setting_named(tiny: Callable[..., Any]) -> None:
    mine = settings(tiny(**{"optimizer.lr": 0.05, "runtime.threads": 1}))
    same = settings(tiny(**{"optimizer.lr": 0.05, "runtime.threads": 2, "data.path": "elsewhere"}))
    other = settings(tiny(**{"optimizer.lr": 0.1}))
    first = replace(HELLO, recipes=[mine])
    assert disagreement([first, replace(HELLO, host="b", recipes=[same])]) is None
    said = str(disagreement([first, replace(HELLO, host="b", recipes=[other])]))
    assert "tiny has optimizer.lr = 0.05 on a (settings" in said
    assert "0.1 on b (settings" in said
    said = str(disagreement([first, replace(HELLO, host="b", recipes=[{**mine, "name": "big"}])]))
    assert "tiny on a and big on b" in said


def test_hellos_survive_the_way_through_the_store() -> None:
    hello = replace(HELLO, recipes=[{"name": "x", "lr": 0.1}])
    assert Hello.from_text(hello.to_text()) == hello


def test_hosts_of_one_name_are_told_apart_by_address() -> None:
    found = told_apart([HELLO, replace(HELLO, node=1, rank=1, address="10.0.0.2")])
    assert [h.host for h in found] == ["a (10.0.0.1)", "a (10.0.0.2)"]
    assert told_apart([HELLO, replace(HELLO, rank=1)])[0].host == "a"


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_neighbours_share_a_host_where_possible(nodes: list[int]) -> None:
    ranks = placement(hellos(nodes))
    assert sorted(ranks) == list(range(len(nodes)))
    assert ranks[0] == 0, "rank 0 has block 0 and writes the results"
    hosts = [nodes[rank] for rank in ranks]
    assert sum(a != b for a, b in pairwise(hosts)) == len(set(nodes)) - 1


def test_an_interface_that_is_not_there_is_named_with_those_that_are() -> None:
    known = interfaces()
    assert known, "at least the loopback interface"
    with pytest.raises(UserError, match=r"runtime\.interface = 'eth9x' is no interface") as caught:
        choose_interface("eth9x", "127.0.0.1", {})
    assert all(f"{name} ({address})" in str(caught.value) for name, address in known.items())
    with pytest.raises(UserError, match="GLOO_SOCKET_IFNAME = 'eth9x'"):
        choose_interface(None, "127.0.0.1", {"GLOO_SOCKET_IFNAME": "eth9x"})


def test_without_a_wish_the_interface_is_that_of_the_way_there() -> None:
    found = choose_interface(None, "127.0.0.1", {})
    assert found.address == "127.0.0.1"
    assert found.name in (None, "lo", "lo0")
    assert is_own("127.0.0.1")
    assert is_own(socket.gethostname()) in (True, False)  # a name may stand for no address
    assert not is_own("192.0.2.1")


@pytest.mark.parametrize("text", [None, "", "host", "host:", ":29500", "host:0", "host:65536", "host:x"])
def test_a_rendezvous_is_a_host_and_a_port(text: str | None) -> None:
    with pytest.raises(UserError, match="give HOST:PORT"):
        Rendezvous.parse(text)
    assert Rendezvous.parse("10.0.0.1:29500") == Rendezvous("10.0.0.1", 29500)


def test_what_cannot_be_spread_over_hosts_is_refused(tiny: Callable[..., Any]) -> None:
    four = tiny(**{"method.name": "dsp", "blocks": 4})
    assert check_nodes(2, [four]) == 2
    for nodes, words in ((None, "not given"), (1, "--nnodes is 1"), (3, "--nnodes 3 does not divide")):
        with pytest.raises(UserError, match=words):
            check_nodes(nodes, [four])
    with pytest.raises(UserError, match="tiny has 4 blocks and tiny has 2"):
        check_nodes(2, [four, tiny(**{"method.name": "dsp", "blocks": 2})])
    with pytest.raises(UserError, match=r"--engine sequential .* cannot be spread over hosts"):
        check_recipes([four], "sequential")
    with pytest.raises(UserError, match="one program in one process"):
        check_recipes([four.model_copy(update={"experiment": "bias"})], "auto")
    check_recipes([four], "auto")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--launcher", "torchrun", "--nnodes", "2"], "--rdzv (not given): give HOST:PORT"),
        (["--launcher", "torchrun", "--rdzv", "h:1"], "--nnodes is not given"),
        (
            ["--launcher", "torchrun", "--nnodes", "2", "--rdzv", "h:1", "--engine", "sequential"],
            "sequential",
        ),
        (["--launcher", "torchrun", "--nnodes", "2", "--rdzv", "h:1", "--jobs", "2"], "--jobs 2"),
        (["--nnodes", "2"], "--nnodes 2 belongs to --launcher torchrun"),
    ],
)
def test_wrong_options_end_with_2(more: list[str], words: str) -> None:
    from cli import app

    with pytest.raises(UserError) as caught:
        app(["run", "dsp-resnet98", "--profile", "smoke", *more], standalone_mode=False)
    assert words in str(caught.value)


def test_a_worker_that_torchrun_has_not_started_says_how() -> None:
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "repro.worker", "x"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "is started by torchrun" in done.stderr
