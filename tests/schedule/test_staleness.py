"""The algebra of DSP(p; m): any setting that satisfies Eq. 6 runs, any other is refused with the constraint named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.methods import parse_method
from repro.schedule import Staleness, simulate


@pytest.mark.parametrize(
    ("text", "q"), [("1,1,0;4,2,0", (0, 1, 1)), ("2,2,0;6,3,0", (0, 1, 1)), ("5,5,0;14,7,0", (0, 2, 2))]
)
def test_the_papers_settings(text: str, q: tuple[int, ...]) -> None:
    setting = Staleness.parse(text, 3)
    assert setting.q == q
    assert str(setting) == text


def test_slack_of_the_papers_settings() -> None:
    slacks = [Staleness.parse(t, 3).slack for t in ("1,1,0;4,2,0", "2,2,0;6,3,0", "5,5,0;14,7,0")]
    assert slacks == [(2, 2), (3, 3), (7, 7)]


@pytest.mark.parametrize(
    ("text", "blocks", "words"),
    [
        ("1,1,0;3,2,0", 3, ["Eq. 6", "block 1", "q_1"]),
        ("0,0,0;1,1,0", 3, ["Eq. 6", "block 1"]),
        ("1,1,1;4,2,0", 3, ["last block"]),
        ("1,1,0;4,2,1", 3, ["last block"]),
        ("-1,0;2,0", 2, ["negative"]),
        ("1,0;4,2,0", 3, ["2 values of p and 3 of m"]),
        ("1,1,0;4,2,0", 4, ["3 blocks", "blocks = 4", "1,1,1,0;6,4,2,0"]),
        ("one", 3, ["not of the form"]),
        ("p=1 q=0", 3, ["q >= 1"]),
    ],
)
def test_wrong_settings_name_the_constraint(text: str, blocks: int, words: list[str]) -> None:
    with pytest.raises(ValueError, match="staleness") as caught:
        Staleness.parse(text, blocks)
    for word in words:
        assert word in str(caught.value)


@st.composite
def valid_settings(draw: st.DrawFn) -> Staleness:
    blocks = draw(st.integers(1, 5))
    p = [draw(st.integers(0, 3)) for _ in range(blocks - 1)] + [0]
    m = [0] * blocks
    for k in reversed(range(blocks - 1)):
        m[k] = m[k + 1] + p[k] + draw(st.integers(1, 3))
    return Staleness(tuple(p), tuple(m))


@given(valid_settings(), st.integers(1, 12), st.sets(st.integers(1, 12)))
def test_any_valid_setting_runs_to_the_end(setting: Staleness, batches: int, places: set[int]) -> None:
    evaluations = {u: i for i, u in enumerate(sorted(u for u in places if u <= batches))}
    method = parse_method({"name": "dsp", "staleness": str(setting)})
    schedule = method.schedule(setting.blocks, batches, evaluations)
    timeline = simulate(schedule, lambda k, action: 1.0 + 0.1 * k)
    for k in range(setting.blocks):
        words = [str(s.action) for s in timeline.of(k)]
        assert [w for w in words if w[0] == "U"] == [f"U{i}" for i in range(batches)]
        assert sum(w[0] == "E" for w in words) == len(evaluations)


@given(
    st.lists(st.integers(-1, 4), min_size=1, max_size=4), st.lists(st.integers(-1, 8), min_size=1, max_size=4)
)
def test_a_setting_is_valid_exactly_where_eq_6_holds(p: list[int], m: list[int]) -> None:
    holds = (
        len(p) == len(m)
        and min(p + m) >= 0
        and p[-1] == m[-1] == 0
        and all(m[k - 1] - p[k - 1] - m[k] >= 1 for k in range(1, len(m)))
    )
    if holds:
        assert Staleness(tuple(p), tuple(m)).blocks == len(m)
    else:
        with pytest.raises(ValueError, match="staleness"):
            Staleness(tuple(p), tuple(m))
