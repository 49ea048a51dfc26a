"""A pipeline over two hosts (network namespaces on one machine): same bits, failures found in time, runs that go on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.hosts.namespaces import PORT, A, Hosts, ended, two_hosts, why_not
from tests.programs import RUNS, finish, record, settings, wait_for

WHY_NOT = why_not()
pytestmark = [pytest.mark.faults, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]
METHODS = ("dsp", "fdg", "gpipe")
RECIPES = {m: str(ROOT / "tests" / "recipes_for_tests" / f"tiny-{m}.yaml") for m in METHODS}
FOUR = ["--profile", "smoke", *settings(blocks=4, runtime__threads=1)]


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with two_hosts() as made:
        yield made


def the_seed(folder: Path, recipe: str = "*") -> Path:
    return next(folder.glob(f"{recipe}/*/seed-0"))


def test_three_methods_have_the_bits_of_one_host(hosts: Hosts, tmp_path: Path) -> None:
    (code, said), (other_code, other_said) = hosts.both(*RECIPES.values(), *FOUR, folder=tmp_path)
    assert (code, other_code) == (0, 0), said + other_said
    assert "blocks 0, 1 on host-a; blocks 2, 3 on host-b; results in" in said
    assert other_said == "", "the results are told where they are written"
    assert not list((tmp_path / "b").glob("*")), "rank 0 writes, no shared disk is needed"
    finish(["run", *RECIPES.values(), *FOUR, "--engine", "processes"], tmp_path / "one")
    for method in METHODS:
        ours, alone = (the_seed(tmp_path / f, f"tiny-{method}") for f in ("a", "one"))
        assert ours.parent.name == alone.parent.name, "the same recipe has the same hash"
        assert record(ours) == record(alone), method
        result = json.loads((ours / "result.json").read_text())
        assert result["hosts"] == ["host-a", "host-a", "host-b", "host-b"]
    assert not hosts.processes()


@pytest.mark.timeout(600)
def test_a_host_that_dies_then_a_cable_that_breaks_and_the_run_goes_on(hosts: Hosts, tmp_path: Path) -> None:
    long = [RECIPES["dsp"], *FOUR, *settings(epochs=16, runtime__silence_seconds=5)]
    for fault, epoch, words in (
        (lambda: hosts.kill("b"), 2, "its process there has ended"),
        (hosts.cut, 5, "it does not answer any more"),
    ):
        pair = [hosts.repro(h, *long, RUNS, str(tmp_path / h)) for h in "ab"]
        before = wait_for(pair[0], f"epoch {epoch},")
        assert ("going on after batch" in before) == (epoch > 2)
        begin = time.monotonic()
        fault()
        (code, said), (other_code, other_said) = (ended(process, 60) for process in pair)
        assert time.monotonic() - begin < 30
        assert code == 1
        lost = [line for line in said.splitlines() if "is lost" in line]
        assert len(lost) == 1, said
        assert f"host-b (blocks 2, 3) is lost, {words}" in lost[0]
        assert "Traceback" not in said + other_said
        if epoch > 2:
            assert other_code == 1
            assert other_said.count("host-a (block 0, which writes the results) is lost") == 1, other_said
            assert len(other_said.splitlines()) == 1
        hosts.mend()
        assert not hosts.processes()
    (code, said), (other_code, other_said) = hosts.both(*long, folder=tmp_path)
    assert (code, other_code) == (0, 0), said + other_said
    assert "going on after batch" in said
    finish(["run", *long, "--engine", "processes"], tmp_path / "one")
    assert record(the_seed(tmp_path / "a")) == record(the_seed(tmp_path / "one"))


def test_hosts_with_different_recipes_are_refused_with_both_named(hosts: Hosts, tmp_path: Path) -> None:
    words = [RECIPES["dsp"], *FOUR]
    a = hosts.repro("a", *words, RUNS, str(tmp_path / "a"))
    b = hosts.repro("b", *words, *settings(epochs=3), RUNS, str(tmp_path / "b"))
    (code, said), (other_code, other_said) = ended(a, 90), ended(b, 90)
    assert (code, other_code) == (2, 2)
    assert said == other_said
    assert len(said.splitlines()) == 1
    assert "tiny-dsp has epochs = 2 on host-a (settings " in said
    assert "and 3 on host-b (settings " in said
    assert not list(tmp_path.rglob("seed-*"))


def test_a_rendezvous_that_nobody_opens_ends_in_time(hosts: Hosts, tmp_path: Path) -> None:
    """Host b finds nothing at host a's address; then host a waits for a host b that never comes."""
    soon = [RECIPES["dsp"], *FOUR, *settings(runtime__join_seconds=2), RUNS, str(tmp_path)]
    code, said = ended(hosts.repro("b", *soon), 60)
    assert code == 3
    assert f"--rdzv {A}:{PORT}: nothing answers there to host-b within 2 s" in said
    code, said = ended(hosts.repro("a", *soon), 60)
    assert code == 3
    assert f"not all of the 2 hosts came to {A}:{PORT} within 2 s" in said
    assert len(said.splitlines()) == 1, said
