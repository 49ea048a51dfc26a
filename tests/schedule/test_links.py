"""Links between hosts in the simulator: words that travel, receives posted ahead, ways that several messages share."""

from __future__ import annotations

import pytest

from repro.methods import parse_method
from repro.schedule import Action, Kind, Links, simulate
from repro.schedule.simulate import _Queue

WORK = {Kind.FORWARD: 1.0, Kind.RECOMPUTE: 1.0, Kind.BACKWARD: 2.0}
LONG_QUEUES = parse_method({"name": "dsp", "staleness": "p=9 q=9"})


def period(links: Links, blocks: int = 2) -> float:
    def work(k: int, action: Action) -> float:
        return WORK.get(action.kind, 0.0)

    return simulate(LONG_QUEUES.schedule(blocks, 200, {}), work, links).period()


@pytest.mark.parametrize(("ahead", "expected"), [(1, [6, 17, 28, 39]), (2, [6, 7, 17, 18])])
def test_a_message_waits_for_the_word_that_its_receive_is_posted(ahead: int, expected: list[float]) -> None:
    """Four messages of 1 s over a way of 5 s, all ready at once, each taken when it is there."""
    queue = _Queue(1.0, 0.0, 5.0, False, ahead, put=[0.0] * 4)
    for _ in range(4):
        arrival = queue.arrival()
        assert arrival is not None
        queue.taken.append(arrival)
    assert queue.taken == expected


@pytest.mark.parametrize("ahead", [1, 2, 9])
def test_however_many_receives_are_posted_a_direction_carries_one_message_at_a_time(ahead: int) -> None:
    assert period(Links((600.0,), bandwidth=100.0, ahead=ahead)) == pytest.approx(6.0, rel=0.02)


def test_a_way_that_two_messages_share_is_half_as_fast_and_as_long() -> None:
    links = Links((60.0,), latency=1.0, bandwidth=10.0, shares=(2,))
    assert (links.occupied(0), links.transfer(0), links.notice(0)) == (12.0, 13.0, 1.0)
    assert period(Links((60.0,), bandwidth=10.0, shares=(2,))) == pytest.approx(12.0, rel=0.02)


def test_inside_a_host_a_message_costs_what_is_said_of_it_and_no_bandwidth() -> None:
    links = Links((60.0, 60.0), latency=1.0, bandwidth=10.0, near=frozenset({0}), near_latency=0.25)
    assert [links.transfer(k) for k in (0, 1)] == [0.25, 7.0]
    bp = parse_method("bp").schedule(3, 20, {})
    timed = simulate(bp, lambda _, action: WORK.get(action.kind, 0.0), links)
    assert timed.period() == pytest.approx(3 * 3 + 2 * (0.25 + 7.0))
