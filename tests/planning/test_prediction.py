"""Predictions for a user's own layer times and links, and what is said where the input is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repro.commands.plan import Asked, durations
from repro.commands.predict import show_prediction
from repro.errors import UserError
from repro.methods.gpipe import GPipe
from repro.planning import prediction, units
from repro.planning.hosts_and_links import Machines
from repro.planning.layer_times import read_layer_times
from repro.planning.partition import LayerCost
from repro.planning.prediction import Network, predict
from repro.schedule import simulate
from tests.conftest import ROOT

TINY = str(ROOT / "tests" / "recipes_for_tests" / "tiny-dsp.yaml")
EVEN = Network("even", 8, (LayerCost(1.0, 2.0),) * 16, ((4, 4, 4),) * 17)


def speedups(*blocks: int, **links: Any) -> dict[tuple[int, str], float]:
    rows = predict(EVEN, blocks, machines=Machines(**links))
    return {(r["blocks"], r["method"]): r["speedup"] for r in rows}


def test_free_messages_reach_the_closed_forms() -> None:
    found = speedups(1, 2, 4, 8, 16)
    for blocks in (2, 4, 8, 16):
        assert found[blocks, "BP"] == pytest.approx(1)
        assert found[blocks, "FDG"] == pytest.approx(blocks)
        assert found[blocks, "GPipe(M=4, kept)"] == pytest.approx(4 * blocks / (4 + blocks - 1))


def test_messages_cost_bp_their_whole_time_and_a_slow_link_sets_everyones_pace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = ({"name": "bp"}, {"name": "fdg"}, {"name": "dsp", "staleness": "p=5 q=2"})
    monkeypatch.setattr(prediction, "METHODS", asked)
    message = 4 * 8 * 64  # bytes
    found = speedups(4, 16, latency=0.5, bandwidth=message / 2.0)
    assert found[4, "BP"] == pytest.approx(48 / (48 + 2 * 3 * 2.5))
    quick = speedups(16, latency=0.25, bandwidth=message / 0.5)
    assert quick[16, "FDG"] == pytest.approx(16), (
        "two rounds of 3 s hide two messages of 0.75 s and a round above"
    )
    # There and back, with a round above between, 1 + 2.5 + 3 + 2.5 s must pass before the backward two rounds later.
    assert found[16, "FDG"] == pytest.approx(48 / 4, rel=0.01)
    assert found[16, "DSP(p=5 q=2)"] == pytest.approx(speedups(16)[16, "DSP(p=5 q=2)"]), (
        "longer queues hide them"
    )
    slow = speedups(16, bandwidth=message / 6.0)
    assert slow[16, "DSP(p=5 q=2)"] == pytest.approx(48 / 6, rel=0.02)


HEAVY = replace(EVEN, weights=(1000,) * 16)


def one(blocks: int, replicas: int, method: str, **links: Any) -> dict[str, Any]:
    rows = predict(HEAVY, (blocks,), (replicas,), Machines(**links))
    return next(row for row in rows if row["method"] == method)


def test_replicas_divide_the_work_and_pay_for_the_sum_of_their_gradients() -> None:
    """48 s of work; two rounds of half of 16000 bytes at 1000 bytes/s, and a latency each."""
    free = one(1, 2, "BP")
    assert (free["speedup"], free["efficiency"]) == (pytest.approx(2), pytest.approx(1))
    slow = one(1, 2, "BP", latency=0.5, bandwidth=1000.0)
    assert slow["sum_seconds"] == pytest.approx(2 * (0.5 + 8.0))
    assert slow["seconds_per_batch"] == pytest.approx(24 + 17)
    four = one(
        4, 4, "FDG", bandwidth=1000.0
    )  # a block: 4000 bytes, of which 3/4 go out in each of two rounds
    assert four["seconds_per_batch"] == pytest.approx(48 / 16 + 6)


def test_on_hosts_only_what_crosses_them_costs_and_shares_the_way_out() -> None:
    """2 x 2 ranks on two hosts: each pipeline is on one, the sums of both its blocks leave it at once."""
    machines = Machines(bandwidth=1000.0, hosts=2)
    assert machines.placed(2, 2) == [0, 0, 1, 1]
    links = machines.links((64.0,), 2)
    assert (links.transfer(0), links.notice(0)) == (0.0, 0.0)
    assert machines.sum_seconds((8000, 8000), 2) == [pytest.approx(2 * 8.0)] * 2
    across = Machines(latency=0.5, bandwidth=1000.0, hosts=4)  # one rank each
    assert across.links((64.0,), 2).transfer(0) == pytest.approx(0.5 + 0.064)
    middle = Machines(bandwidth=1000.0, per_host=2)  # blocks 1 and 2 of six send up and down
    assert middle.placed(6, 1) == [0, 0, 1, 1, 2, 2]
    assert middle.links((500.0,) * 5, 1).transfer(1) == pytest.approx(2 * 0.5)
    assert middle.links((500.0,) * 5, 1).transfer(2) == 0.0
    assert middle.sum_seconds((8000,) * 6, 1) == [0.0] * 6
    with pytest.raises(UserError, match=r"--hosts 3 does not divide 2 blocks x 2 replicas = 4"):
        Machines(hosts=3).placed(2, 2)
    with pytest.raises(UserError, match=r"--replicas 3 does not divide batches of 8 samples"):
        predict(HEAVY, (1,), (3,))


def test_more_blocks_than_layers_are_refused() -> None:
    with pytest.raises(
        UserError, match=r"--blocks 17 is not possible with the 16 layers of even: give 1\.\.16"
    ):
        predict(EVEN, (17,))


@pytest.mark.parametrize(
    ("text", "value"), [("10GB/s", 1e10), ("800 MB/s", 8e8), ("25Gbit/s", 25e9 / 8), ("1GiB/s", 1024.0**3)]
)
def test_bandwidths_with_units(text: str, value: float) -> None:
    assert units.bandwidth(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("10", "'10' has no unit"),
        ("10GB", "unknown unit 'GB'"),
        ("10gb/s", "Did you mean GB/s?"),
        ("fast", "is not a number with a unit"),
        ("0GB/s", "must be larger than 0"),
    ],
)
def test_a_bandwidth_without_a_unit_is_refused_with_the_units(text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        units.bandwidth(text)
    assert words in str(caught.value)
    assert units.seconds("20us") == pytest.approx(2e-5)


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (
            [{"name": "a", "forward_seconds": 1, "backward_seconds": 2}],
            "it has 1 layers, the recipe's model has 2",
        ),
        (
            [{"name": n, "forward_seconds": 1, "backward_seconds": 2} for n in "ac"],
            "layer 1 is 'c', the recipe's model has 'b' there",
        ),
        (
            [{"name": n, "forward_seconds": -1, "backward_seconds": 2} for n in "ab"],
            "forward_seconds of layer a is -1: give seconds, a number >= 0",
        ),
        ("nothing", "expected"),
    ],
)
def test_a_file_of_other_layers_is_refused_with_the_reason(layers: Any, words: str, tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    file.write_text(json.dumps({"layers": layers}))
    with pytest.raises(UserError) as caught:
        read_layer_times(file, ["a", "b"])
    assert words in str(caught.value)


def test_what_plan_writes_plan_reads_and_draws(repro: Callable[..., Any], tmp_path: Path) -> None:
    times, picture = tmp_path / "times.json", tmp_path / "k.svg"
    own = repro("plan", TINY, "--profile", "smoke", "--json")
    assert own.returncode == 0, own.stderr
    document = json.loads(own.stdout)
    for i, layer in enumerate(document["layers"]):  # as if measured elsewhere
        layer.update(forward_seconds=0.01 * (i + 1), backward_seconds=0.02 * (i + 1))
    times.write_text(json.dumps(document))
    links = ["--bandwidth", "1GB/s", "--latency", "20us"]
    words = ["plan", TINY, "--profile", "smoke", "--blocks", "2,3", "--layer-times", str(times), *links]
    found = repro(*words, "--figure", str(picture), "--json")
    assert found.returncode == 0, found.stderr
    answer = json.loads(found.stdout)
    total = sum(0.03 * (i + 1) for i in range(len(document["layers"])))
    assert answer["summary"]["seconds_per_batch_on_one_device"] == pytest.approx(total)
    assert {row["blocks"] for row in answer["rows"]} == {2, 3}
    assert picture.read_text().lstrip().startswith("<?xml")
    several = repro(*words, "--replicas", "1,2", "--per-host", "2")
    assert several.returncode == 0, several.stderr
    assert "x 2 replicas" in several.stdout
    assert "between hosts of 2 devices" in several.stdout
    wrong = repro("plan", TINY, "--profile", "smoke", "--blocks", "2,3", "--bandwidth", "10")
    assert wrong.returncode == 2
    assert "--bandwidth '10' has no unit" in wrong.stderr
    deep = repro("plan", TINY, "--profile", "smoke", "--blocks", "2,99", "--layer-times", str(times))
    assert deep.returncode == 2
    assert "--blocks 99 is not possible" in deep.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"hosts": 2, "per_host": 2}, "--hosts 2 and --per-host 2 exclude each other: give one of them"),
        ({"blocks": "2,3", "hosts": 2}, "--hosts 2 does not divide 3 blocks x 1 replicas = 3: give other"),
        ({"replicas": "1,3"}, "--replicas 3 does not divide batches of 32 samples: give a divisor"),
        ({"replicas": "two"}, "--replicas 'two': give whole numbers >= 1 separated by commas, for example"),
        ({"replicas": "0"}, "--replicas '0': give whole numbers >= 1 separated by commas, for example 2,4,8"),
        ({"bandwidth": "25"}, "--bandwidth '25' has no unit"),
        ({"latency": "20"}, "--latency '20' has no unit"),
        ({"figure": Path("k.gif")}, "--figure k.gif: give a file that ends with one of .svg, .png, .pdf"),
    ],
)
def test_wrong_numbers_are_refused_before_a_layer_is_measured(words: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        show_prediction(TINY, Asked(**words), "smoke", [], "cpu", False)
    assert said in str(caught.value)


def test_a_wrong_number_of_hosts_ends_with_exit_code_2(repro: Callable[..., Any]) -> None:
    refused = repro("plan", TINY, "--profile", "smoke", "--blocks", "2,3", "--hosts", "2")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1, refused.stderr
    assert "--hosts 2 does not divide 3 blocks" in refused.stderr


def test_a_micro_batch_is_drawn_as_its_share_of_a_batch() -> None:
    """GPipe's four micro-batches together take the batch's forward and backward, and wait for each other."""
    rows = [{"forward_seconds": 4.0, "backward_seconds": 8.0}] * 2
    schedule = GPipe(micro=4, rematerialise=False).schedule(2, 3, {})
    timeline = simulate(schedule, durations(rows, 4))
    assert timeline.period() == pytest.approx(5 * (1.0 + 2.0))  # (M + K - 1) (forward + backward) / M
