"""Schedules as literal grids, and as text that parses back."""

import pytest

from repro.methods import BUILT_IN, parse_method
from repro.schedule import Action, Kind, parse_actions


def grid(method: object, blocks: int, batches: int, evaluations: dict[int, int] | None = None) -> list[str]:
    return parse_method(method).schedule(blocks, batches, evaluations or {}).grid().splitlines()


def test_dsp_1_1_0_4_2_0() -> None:
    assert grid({"name": "dsp", "staleness": "1,1,0;4,2,0"}, 3, 7) == [
        "F0 F1 F2 F3 F4 R0 B0 U0 F5 R1 B1 U1 F6 R2 B2 U2 R3 B3 U3 R4 B4 U4 R5 B5 U5 R6 B6 U6",
        "F0 F1 F2 R0 B0 U0 F3 R1 B1 U1 F4 R2 B2 U2 F5 R3 B3 U3 F6 R4 B4 U4 R5 B5 U5 R6 B6 U6",
        "F0 B0 U0 F1 B1 U1 F2 B2 U2 F3 B3 U3 F4 B4 U4 F5 B5 U5 F6 B6 U6",
    ]


def test_the_output_queue_grows_to_p_plus_q_before_an_evaluation() -> None:
    assert grid({"name": "dsp", "staleness": "1,1,0;4,2,0"}, 3, 7, {3: 1}) == [
        "F0 F1 F2 F3 F4 R0 B0 U0 F5^2 R1 B1 U1 F6^2 R2 B2 U2 E1 R3 B3 U3 R4 B4 U4 R5 B5 U5 R6 B6 U6",
        "F0 F1 F2 R0 B0 U0 F3^2 R1 B1 U1 F4^2 R2 B2 U2 E1 F5 R3 B3 U3 F6 R4 B4 U4 R5 B5 U5 R6 B6 U6",
        "F0 B0 U0 F1 B1 U1 F2 B2 U2 E1 F3 B3 U3 F4 B4 U4 F5 B5 U5 F6 B6 U6",
    ]


def test_bp_has_one_batch_in_flight() -> None:
    assert grid("bp", 2, 3, {3: 1}) == ["F0 B0 U0 F1 B1 U1 F2 B2 U2 E1"] * 2


def test_fr_under_its_three_locking_rules() -> None:
    assert grid({"name": "fr", "locking": "free"}, 2, 3)[0] == "F0 F1 R0 B0 U0 F2 R1 B1 U1 R2 B2 U2"
    assert grid({"name": "fr", "locking": "mailbox"}, 2, 3)[0] == "F0 G0 F1 R0 B0 U0 G1 F2 R1 B1 U1 R2 B2 U2"
    assert (
        grid({"name": "fr", "locking": "barrier"}, 2, 3)[0] == "F0 A0 F1 A1 R0 B0 U0 F2 A2 R1 B1 U1 R2 B2 U2"
    )


def test_ddg_and_fdg_keep_their_graphs() -> None:
    assert grid({"name": "ddg", "locking": "free"}, 2, 3)[0] == "F0 F1 B0 U0 F2 B1 U1 B2 U2"
    assert grid("fdg", 2, 4)[0] == "F0 F1 F2 B0 U0 F3 B1 U1 B2 U2 B3 U3"


def test_gpipe_runs_micro_batches() -> None:
    kept = {"name": "gpipe", "micro": 2, "rematerialise": False}
    assert grid(kept, 2, 1) == ["F0 F0.1 B0 B0.1 U0"] * 2
    assert grid({"name": "gpipe", "micro": 2}, 2, 1) == ["F0 F0.1 R0 B0 R0.1 B0.1 U0"] * 2


def test_pipedream_is_ddg_without_locking() -> None:
    assert grid("pipedream", 3, 9, {4: 1}) == grid({"name": "ddg", "locking": "free"}, 3, 9, {4: 1})


def test_2bw_runs_one_forward_one_backward_without_a_flush() -> None:
    assert grid({"name": "2bw", "micro": 3}, 3, 2, {1: 1}) == [
        "F0 F0.1 F0.2 B0 F1 B0.1 F1.1 B0.2 U0 E1 F1.2 B1 B1.1 B1.2 U1",
        "F0 F0.1 B0 F0.2 B0.1 F1 B0.2 U0 E1 F1.1 B1 F1.2 B1.1 B1.2 U1",
        "F0 B0 F0.1 B0.1 F0.2 B0.2 U0 E1 F1 B1 F1.1 B1.1 F1.2 B1.2 U1",
    ]
    assert grid({"name": "2bw", "micro": 2, "rematerialise": True}, 2, 1) == [
        "F0 F0.1 R0 B0 R0.1 B0.1 U0",
        "F0 R0 B0 F0.1 R0.1 B0.1 U0",
    ]


def test_pipemare_has_the_order_of_ddg_and_delayed_that_of_bp() -> None:
    assert grid("pipemare", 3, 9, {4: 1}) == grid("pipedream", 3, 9, {4: 1})
    assert grid({"name": "delayed", "delay": 5}, 3, 9, {4: 1}) == grid("bp", 3, 9, {4: 1})


def test_dni_learns_one_batch_later_and_catches_up_at_the_end() -> None:
    assert grid("dni", 2, 3) == ["F0 B0 U0 F1 B1 U1 M0 F2 B2 U2 M1 M2", "F0 B0 U0 F1 B1 U1 F2 B2 U2"]


@pytest.mark.parametrize("name", BUILT_IN)
def test_actions_print_and_parse_back(name: str) -> None:
    schedule = parse_method(name).schedule(3, 9, {4: 1, 9: 2})
    for k in range(3):
        actions = list(schedule.actions(k))
        assert parse_actions(" ".join(map(str, actions))) == actions


def test_text_that_is_no_action_is_refused() -> None:
    assert Action.parse("F12.3^2") == Action(Kind.FORWARD, 12, 3, 2)
    with pytest.raises(ValueError, match="'X1' is not an action"):
        Action.parse("X1")


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
def test_forward_weights_are_m_updates_old(name: str, blocks: int) -> None:
    """The contract of dsp.md: forward of batch i meets W^(max(0, i-m)), its backward precedes update i at once.

    With kept versions the weights of then must have been made, and be among the m older ones.
    """
    schedule = parse_method(name).schedule(blocks, 15, {})
    for k in range(blocks):
        updates = 0
        for action in schedule.actions(k):
            if action.kind is Kind.FORWARD:
                wanted = max(0, action.batch - schedule.staleness[k])
                newest = wanted + schedule.staleness[k] if schedule.kept_versions else wanted
                assert wanted <= updates <= newest
            if action.kind in (Kind.RECOMPUTE, Kind.BACKWARD, Kind.UPDATE):
                assert updates == action.batch
            updates += action.kind is Kind.UPDATE
        assert updates == 15
