"""Links between hosts, where words wait behind tensors: the simulator that goes by time, beside the one that does not."""

from __future__ import annotations

from typing import Any

import pytest

from repro.methods import parse_method
from repro.schedule import Action, Deadlock, Kind, Links, Schedule, simulate

WORK = {Kind.FORWARD: 1.0, Kind.RECOMPUTE: 1.0, Kind.BACKWARD: 2.0}
METHODS: tuple[dict[str, Any], ...] = (
    {"name": "bp"}, {"name": "gpipe", "micro": 4}, {"name": "fr"}, {"name": "ddg", "locking": "barrier"},
    {"name": "fdg"}, {"name": "dsp", "staleness": "p=2 q=1"}, {"name": "dni"}, {"name": "2bw", "micro": 4},
)  # fmt: skip


def work(k: int, action: Action) -> float:
    return WORK.get(action.kind, 0.0)


@pytest.mark.parametrize("settings", METHODS, ids=lambda m: m["name"])
@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_free_messages_take_the_same_time_in_both_simulators(settings: dict[str, Any], blocks: int) -> None:
    """Every action of every block, with an evaluation left out: two programs that share no line."""
    schedule = parse_method(settings).schedule(blocks, 24, {})
    free = Links((8.0,) * (blocks - 1), copy_bandwidth=80.0, near=frozenset(range(blocks - 1)))
    by_time = simulate(
        schedule, work, Links(free.sizes, copy_bandwidth=80.0, near=free.near, words_wait=True)
    )
    plain = simulate(schedule, work, free)

    def rows(timeline: Any) -> list[Any]:
        spans = (s for s in timeline.spans if s.action.kind is not Kind.UPDATE)
        return sorted((s.block, str(s.action), round(s.start, 9), round(s.end, 9)) for s in spans)

    assert rows(by_time) == rows(plain)


def test_bp_waits_for_no_word() -> None:
    """One message is under way at a time, so that its word has long been there."""
    schedule = parse_method({"name": "bp"}).schedule(4, 30, {})
    links = Links((100.0,) * 3, latency=0.5, bandwidth=50.0, words_wait=True)
    assert simulate(schedule, work, links).period() == pytest.approx(12 + 6 * 2.5)


def test_both_ways_of_a_busy_link_take_turns_with_one_receive_ahead() -> None:
    """The word for the next message waits behind the other way's tensor: 2 transfers a batch, not one.

    A block's work takes 4 s. Where a tensor takes 6 s more receives posted ahead are of no use: a way is never free.
    """
    schedule = parse_method({"name": "dsp", "staleness": "p=4 q=3"}).schedule(2, 120, {})

    def period(ahead: int, words_wait: bool = True, seconds: float = 6.0) -> float:
        links = Links((10.0 * seconds,), bandwidth=10.0, ahead=ahead, words_wait=words_wait)
        return simulate(schedule, work, links).period()

    assert period(1, words_wait=False) == pytest.approx(6.0, rel=0.02)
    assert period(1) == pytest.approx(12.0, rel=0.02)
    assert period(2) == pytest.approx(12.0, rel=0.02)
    assert period(1, seconds=3.0) == pytest.approx(6.0, rel=0.02)
    assert period(2, seconds=3.0) == pytest.approx(4.0, rel=0.02)


def test_a_link_shared_by_two_messages_is_half_as_fast() -> None:
    assert Links((60.0,), latency=1.0, bandwidth=10.0, shares=(2,)).transfer(0) == pytest.approx(1.0 + 12.0)


def test_a_schedule_that_cannot_go_on_is_told() -> None:
    def stuck(k: int) -> Any:
        yield Action(Kind.BACKWARD if k == 0 else Kind.FORWARD, 0)

    schedule = Schedule(2, 1, (0, 0), (1, 1), (1, 1), (False, False), stuck)
    with pytest.raises(Deadlock, match=r"block 0 waits at B0; block 1 waits at F0"):
        simulate(schedule, work, Links((1.0,), words_wait=True))
