"""Simulated times: the closed forms of dsp.md section 4, and deadlocks with their reason."""

from typing import Any

import pytest

from repro.methods import parse_method
from repro.schedule import Action, Deadlock, Kind, Links, simulate
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
def test_asynchronous_pipelines_have_no_bubble_and_delayed_bp_no_gain(blocks: int) -> None:
    assert speedup("pipedream", blocks) == pytest.approx(blocks)
    assert speedup("pipemare", blocks) == pytest.approx(blocks)
    assert speedup({"name": "2bw", "micro": 4}, blocks, micro=4) == pytest.approx(blocks)
    remat = speedup({"name": "2bw", "micro": 4, "rematerialise": True}, blocks, micro=4)
    assert remat == pytest.approx(3 * blocks / 4)
    assert speedup({"name": "delayed", "delay": 3}, blocks) == pytest.approx(1)


@pytest.mark.parametrize("blocks", range(1, 17))
def test_asynchronous_pipelines_do_not_deadlock(blocks: int) -> None:
    """Evaluations after each batch, after some and at the end; more micro-batches than blocks, and as many."""
    for name, more in (
        ("pipedream", {}), ("pipemare", {}), ("delayed", {"delay": 3}), ("2bw", {"micro": blocks}),
        ("2bw", {"micro": blocks + 3}), ("2bw", {"micro": blocks, "rematerialise": True}),
    ):  # fmt: skip
        for places in ({i: i for i in range(1, 8)}, {3: 1, 7: 2}, {7: 1}):
            schedule = parse_method({"name": name, **more}).schedule(blocks, 7, places)
            timeline = simulate(schedule, lambda k, a: 1.0 + (7 * k + a.batch) % 5)
            updates = [s.block for s in timeline.spans if s.action.kind is Kind.UPDATE]
            assert sorted(updates) == sorted(list(range(blocks)) * 7)


def test_2bw_with_too_few_micro_batches_has_no_schedule() -> None:
    with pytest.raises(ValueError, match="5 blocks need micro x delay >= 4, not 3 x 1"):
        parse_method({"name": "2bw", "micro": 3}).schedule(5, 2, {})


def test_2bw_holds_k_minus_k_micro_batches_in_flight() -> None:
    schedule = parse_method({"name": "2bw", "micro": 6}).schedule(4, 5, {})
    assert [schedule.most_in_flight(k) for k in range(4)] == [4, 3, 2, 1]


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


def test_bp_pays_every_message_in_full() -> None:
    """K = 2, 4, 8: 2 (K-1) messages a batch, each latency + bytes / bandwidth + copy; nothing can hide them."""
    for blocks in (2, 4, 8):
        links = Links((100.0,) * (blocks - 1), latency=0.5, bandwidth=50.0, copy_bandwidth=200.0)
        schedule = parse_method("bp").schedule(blocks, 40, {})
        timeline = simulate(schedule, lambda k, a, blocks=blocks: WORK.get(a.kind, 0.0) / blocks, links)
        assert timeline.period() == pytest.approx(3 + 2 * (blocks - 1) * (0.5 + 2.0 + 0.5))


def test_messages_inside_a_host_are_free_and_those_between_hosts_are_not() -> None:
    def seconds(near: frozenset[int]) -> float:
        links = Links((100.0,) * 3, latency=0.5, bandwidth=50.0, near=near)
        schedule = parse_method({"name": "bp"}).schedule(4, 12, {})
        return simulate(schedule, lambda _, a: 0.0 if a.kind is Kind.UPDATE else 1.0, links).period()

    assert seconds(frozenset({0, 1, 2})) == pytest.approx(8.0), (
        "a forward and a backward in each of four blocks"
    )
    assert seconds(frozenset({0, 2})) == pytest.approx(8.0 + 2 * 2.5), "one boundary is crossed twice a batch"
    assert seconds(frozenset()) == pytest.approx(8.0 + 6 * 2.5)


def test_fdg_hides_transfers_that_are_shorter_than_its_work_and_not_its_copies() -> None:
    links = Links((100.0,), latency=0.1, bandwidth=200.0)
    schedule = parse_method("fdg").schedule(2, 80, {})

    def duration(k: int, action: Action) -> float:
        return WORK.get(action.kind, 0.0) / 2

    assert simulate(schedule, duration, links).period() == pytest.approx(1.5)
    copied = Links((100.0,), latency=0.1, bandwidth=200.0, copy_bandwidth=1000.0)
    assert simulate(schedule, duration, copied).period() == pytest.approx(1.6)
    blocking = Links((100.0,), latency=0.1, bandwidth=200.0, overlaps=False)
    assert simulate(schedule, duration, blocking).period() == pytest.approx(1.5 + 0.6)


def test_a_link_carries_one_message_at_a_time() -> None:
    """Where a transfer takes longer than a block's work, the link sets the pace."""
    links = Links((100.0,), bandwidth=25.0)
    schedule = parse_method({"name": "dsp", "staleness": "p=2 q=1"}).schedule(2, 80, {})
    assert simulate(schedule, lambda k, a: WORK.get(a.kind, 0.0) / 2, links).period() == pytest.approx(
        4.0, rel=0.1
    )
