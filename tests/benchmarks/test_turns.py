"""Benchmarks say how long they take, keep to it, and give what there is when interrupted."""

from __future__ import annotations

import time

import pytest

from repro.benchmarks.compare import slower
from repro.benchmarks.rounds import ratios
from repro.benchmarks.turns import Turn, Turns


def test_rounds_fill_the_time_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    turns = Turns("test", minutes=0.4 / 60)
    begin = time.monotonic()
    found = turns.measure({name: Turn(lambda: time.sleep(0.05), 0.01) for name in "ab"})
    assert time.monotonic() - begin < 0.55
    assert len(found["a"]) == len(found["b"]) in (2, 3, 4)
    said = capsys.readouterr().err
    assert said.startswith("test: 2 measurements a round, 5 rounds, about 0 s (more with --set rounds=N")
    assert "round 1/5, 2/2 b, about" in said


def test_given_rounds_are_made_even_where_they_take_longer() -> None:
    found = Turns("test", rounds=3, minutes=0.0).measure({"a": Turn(lambda: 1, 100.0)})
    assert found == {"a": [1, 1, 1]}


def test_what_does_not_fit_into_the_time_is_left_out_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    systems = {"a": Turn(lambda: 1, 100.0), "b": Turn(lambda: 2, 100.0), "c": Turn(lambda: 3, 0.0)}
    found = Turns("test", minutes=0.5).measure(systems)
    assert set(found) == {"a", "c"}
    assert "no time for b" in capsys.readouterr().err
    assert set(Turns("test", rounds=1, minutes=0.5).measure(systems)) == {"a", "b", "c"}


def test_only_the_kept_ones_go_on() -> None:
    systems = {name: Turn(lambda name=name: name, 0.0) for name in "abc"}  # type: ignore[misc]
    found = Turns("test", rounds=2).measure(systems, keep=lambda first: [n for n in first if n != "b"])
    assert {name: len(values) for name, values in found.items()} == {"a": 2, "b": 1, "c": 2}


def test_an_interruption_keeps_what_was_measured() -> None:
    calls = []

    def run() -> int:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return len(calls)

    turns = Turns("test", rounds=9)
    found = turns.measure({name: Turn(run, 0.0) for name in "ab"})
    assert turns.interrupted
    assert found == {"a": [1, 3], "b": [2]}
    assert ratios(found["a"], found["b"]) == [0.5]


def row(seconds: float, low: float, high: float, **more: object) -> dict[str, object]:
    return {"method": "BP", "blocks": 2, "seconds_per_batch": seconds, "seconds_per_batch_low": low,
            "seconds_per_batch_high": high, **more}  # fmt: skip


def test_slower_is_what_lies_beyond_both_ranges() -> None:
    old = [row(1.0, 0.9, 1.1, speedup=2.0)]
    assert slower(old, [row(1.3, 1.05, 1.4, speedup=2.0)], same_machine=True) == ([], 2)
    worse, compared = slower(old, [row(1.3, 1.2, 1.4, speedup=1.5)], same_machine=True)
    assert compared == 2
    assert worse == [
        "BP, 2: seconds_per_batch 1 [0.9 .. 1.1] -> 1.3 [1.2 .. 1.4]",
        "BP, 2: speedup 2 [2 .. 2] -> 1.5 [1.5 .. 1.5]",
    ]
    assert slower(old, [row(0.5, 0.5, 0.5, speedup=3.0)], same_machine=True) == ([], 2), "faster is no news"
    elsewhere, compared = slower(old, [row(9.0, 9.0, 9.0, speedup=2.0)], same_machine=False)
    assert (elsewhere, compared) == ([], 1), "on another machine only ratios are compared"
