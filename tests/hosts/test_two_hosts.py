"""A pipeline over two hosts (network namespaces on one machine): same bits, failures found in time, runs that go on."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.hosts.namespaces import Hosts, ended, two_hosts, why_not
from tests.programs import RUNS, finish, record, wait_for

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
METHODS = ("dsp", "fdg", "gpipe")
RECIPES = {m: str(ROOT / "tests" / "recipes_for_tests" / f"tiny-{m}.yaml") for m in METHODS}
FOUR = ["--profile", "smoke", "--set", "blocks=4", "--set", "runtime.threads=1"]
PATIENCE = ["--set", "runtime.silence_seconds=5"]
LONG = [RECIPES["dsp"], *FOUR, "--set", "epochs=60", *PATIENCE]


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
