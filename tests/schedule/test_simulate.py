"""Simulated times: the closed forms of dsp.md section 4, and deadlocks with their reason."""

from typing import Any

import pytest

from repro.methods import parse_method
from repro.schedule import Action, Deadlock, Kind, simulate
from repro.schedule.decoupled import decoupled

WORK = {Kind.FORWARD: 1.0, Kind.RECOMPUTE: 1.0, Kind.BACKWARD: 2.0}


def speedup(method: Any, blocks: int, micro: int = 1) -> float:
    """Over BP, for blocks of equal forward cost and free communication (whole net: forward 1, backward 2)."""
    schedule = parse_method(method).schedule(blocks, 80, {})
    timeline = simulate(schedule, lambda k, action: WORK.get(action.kind, 0.0) / blocks / micro)
    return 3.0 / timeline.period()


CLOSED_FORMS = [
    ("bp", lambda K: 3),
    ({"name": "fr", "locking": "barrier"}, lambda K: 1 + 3 / K),
    ({"name": "fr", "locking": "mailbox"}, lambda K: 4 / 2 if K == 2 else 5 / K),
    ({"name": "fr", "locking": "free"}, lambda K: 4 / K),
    ({"name": "ddg", "locking": "barrier"}, lambda K: 1 + 2 / K),
    ({"name": "ddg", "locking": "mailbox"}, lambda K: 4 / K),
    ({"name": "ddg", "locking": "free"}, lambda K: 3 / K),
    ("fdg", lambda K: 3 / K),
    ({"name": "dsp", "staleness": "p=1 q=1"}, lambda K: 4 / K),
    ({"name": "dsp", "staleness": "p=5 q=2"}, lambda K: 4 / K),
]


@pytest.mark.parametrize(
    ("method", "time"), CLOSED_FORMS, ids=lambda given: "T" if callable(given) else str(given)
)
@pytest.mark.parametrize("blocks", [2, 3, 4])
def test_closed_forms_for_balanced_blocks(method: Any, time: Any, blocks: int) -> None:
    assert speedup(method, blocks) == pytest.approx(3 / time(blocks), rel=1e-9)


@pytest.mark.parametrize("blocks", [2, 3, 4])
def test_gpipe_without_rematerialisation(blocks: int) -> None:
    method = {"name": "gpipe", "micro": 4, "rematerialise": False}
    assert speedup(method, blocks, micro=4) == pytest.approx(4 * blocks / (4 + blocks - 1), rel=1e-9)


@pytest.mark.parametrize("blocks", [2, 3, 4])
def test_gpipe_rematerialises_while_it_waits_so_it_beats_the_closed_form_a_little(blocks: int) -> None:
    found = speedup({"name": "gpipe", "micro": 4}, blocks, micro=4)
    closed = 3 * 4 * blocks / (4 * (4 + blocks - 1))
    assert closed < found < closed * 4 / 3


@pytest.mark.parametrize("blocks", [2, 3, 4])
def test_blocks_cut_by_cost_reach_12_over_3k_plus_1(blocks: int) -> None:
    """The last block never recomputes, so it may hold more layers: every block works the same time."""
    work = 12 / (3 * blocks + 1)

    def duration(k: int, action: Action) -> float:
        share = work / (3 if k == blocks - 1 else 4)
        return WORK.get(action.kind, 0.0) * share

    timeline = simulate(parse_method("dsp").schedule(blocks, 80, {}), duration)
    assert 3 / timeline.period() == pytest.approx((3 * blocks + 1) / 4, rel=1e-9)


@pytest.mark.parametrize("blocks", [2, 3, 4])
def test_free_running_fr_is_as_fast_as_dsp_without_jitter(blocks: int) -> None:
    assert speedup({"name": "fr", "locking": "free"}, blocks) == pytest.approx(speedup("dsp", blocks))


def test_an_evaluation_deadlocks_unless_the_output_queue_grows() -> None:
    setting = {"num_batches": 12, "m": (4, 2, 0), "p": (1, 1, 0), "q": (0, 1, 1), "recompute": True}
    held = decoupled(**setting, evaluations={5: 1}, grow_at_evaluation=False)
    with pytest.raises(Deadlock) as caught:
        simulate(held, lambda k, a: 1.0)
    assert "block 0 waits for room in its queue to block 1 (1 may wait)" in str(caught.value)
    assert "block 2 waits for the evaluation of epoch 1 in block 1" in str(caught.value)
    grown = decoupled(**setting, evaluations={5: 1})
    assert simulate(grown, lambda k, a: 1.0).end > 0


def test_waits_are_the_gaps_between_spans() -> None:
    timeline = simulate(parse_method("bp").schedule(2, 2, {}), lambda k, a: WORK.get(a.kind, 0.0))
    first = [(str(s.action), s.start, s.end) for s in timeline.of(0) if s.action.kind is not Kind.UPDATE]
    assert first == [("F0", 0, 1), ("B0", 4, 6), ("F1", 6, 7), ("B1", 10, 12)]


def test_longer_queues_absorb_more_jitter() -> None:
    """Claim D7 in simulation: seeded random delays cost a setting with more slack less time."""
    from repro.seeding import derive

    def jittered(k: int, action: Action) -> float:
        late = action.kind is Kind.FORWARD and derive(1, k, action.batch) % 5 == 0
        return WORK.get(action.kind, 0.0) + (4.0 if late else 0.0)

    ends = [
        simulate(parse_method({"name": "dsp", "staleness": s}).schedule(3, 200, {}), jittered).end
        for s in ("p=0 q=1", "p=1 q=1", "p=2 q=1", "p=5 q=2")
    ]
    assert ends[0] == max(ends)
    assert ends[-1] == min(ends)
    assert ends[0] > 1.02 * ends[-1]
