"""Schedules against their grids, written out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from repro.errors import UserError
from repro.gradient import number_convolutions, trace
from repro.gradient.drawing import Fraction, describe, draw, fraction
from repro.gradient.rules import Stride, read_stride
from repro.gradient.schedules import Schedule, build
from repro.recipe.schema import ESTIMATORS, GradientRule, GradientSpec

NAMES = {f"c{i}": i for i in range(1, 8)}


def schedule(rules: Any, estimator: str = "top1", epochs: int = 2, steps: int = 8) -> Schedule:
    return build(GradientSpec(estimator=estimator, schedule=rules), NAMES, steps, epochs)  # type: ignore[arg-type]


def rows(drawing: str) -> list[str]:
    return [line.split()[-1] for line in drawing.splitlines() if line.split()[0].isdigit()]


GRIDS = {
    "s1": ["........", "11111111", "........", "........", "........", "11111111", "........"],
    "s2": ["...1...1"] * 7,
    "s3": ["........", ".1.1.1.1", "........", ".1.1.1.1", "........", ".1.1.1.1", "........"],
    "all": ["11111111"] * 7,
    "alternate": ["........", ".1.1.1.1", *["........"] * 5],
    "measured": ["????????"] * 7,
}


@pytest.mark.parametrize("name", GRIDS)
def test_grid(name: str) -> None:
    assert rows(draw(schedule(name), columns=8)) == GRIDS[name]


def test_early_is_s1_then_full() -> None:
    drawing = draw(schedule("early", epochs=4), columns=8)
    assert rows(drawing) == GRIDS["s1"] + ["........"] * 7
    assert "epochs 0 to 1:" in drawing
    assert "epochs 2 to 3:" in drawing


def test_whole_drawing() -> None:
    rules = (
        GradientRule(layers=("c1", 3), batches="2"),
        GradientRule(layers="2::2", estimator="zero", batches=":4"),
        GradientRule(layers="7", batches="4:9:2", estimator="random"),
    )
    assert draw(schedule(rules), columns=12).splitlines() == [
        "batch  0       8",
        "1 c1  ..1.........",
        "2 c2  0000........",
        "3 c3  ..1.........",
        "4 c4  0000........",
        "5 c5  ............",
        "6 c6  0000........",
        "7 c7  ....r.r.r...",
    ]


def test_measured_with_its_timings() -> None:
    faster = {i: i % 2 == 0 for i in range(1, 8)}
    made = schedule("measured")
    assert rows(draw(made, 8, faster)) == [".1"[i % 2] * 8 for i in range(7)]
    assert fraction(made) is None
    assert fraction(made, faster=faster) == Fraction(3 / 7, None)


@pytest.mark.parametrize(
    ("name", "share"),
    [("s1", 2 / 7), ("s2", 0.25), ("s3", 3 / 14), ("early", 1 / 7), ("all", 1), ("alternate", 1 / 14)],
)
def test_fraction(name: str, share: float) -> None:
    found = fraction(schedule(name))
    assert found is not None
    assert found.layers == pytest.approx(share)


def test_fraction_by_flops() -> None:
    net = [
        ("a", nn.Conv2d(3, 4, 3, padding=1)),
        ("b", nn.Sequential(nn.ReLU(), nn.Conv2d(4, 8, 3, 2, padding=1))),
    ]
    numbers, shapes = number_convolutions(net), trace(net, (3, 8, 8))
    made = build(GradientSpec(estimator="top1", schedule="alternate"), numbers, 10, 1)
    flops = 2 * 8 * 8 * 4 * 27, 2 * 4 * 4 * 8 * 36
    assert [s.flops for s in shapes.values()] == list(flops)
    assert fraction(made, shapes) == Fraction(pytest.approx(0.25), pytest.approx(0.5 * flops[1] / sum(flops)))  # type: ignore[arg-type]


def test_description() -> None:
    net = [
        ("a", nn.Conv2d(3, 4, 3, padding=1)),
        ("b", nn.Sequential(nn.ReLU(), nn.Conv2d(4, 8, 3, 2, padding=1))),
    ]
    said = describe(
        net, (3, 8, 8), GradientSpec(estimator="top1", schedule="s1"), steps_per_epoch=3, epochs=2
    )
    assert rows(said["grid"]) == ["......", "111111"]
    assert said["fraction_layers"] == 0.5
    assert said["convolutions"][1] == {"number": 2, "name": "b.1", "shape": "4->8 @8 s2x2", "flops": 9216}


def test_the_first_rule_that_covers_decides() -> None:
    made = schedule((GradientRule(layers="2", estimator="full"), GradientRule(estimator="zero")))
    assert [made.estimator(n, 0) for n in (1, 2, 3)] == ["zero", "full", "zero"]


def test_the_epoch_follows_from_the_batch() -> None:
    made = schedule((GradientRule(epochs="1"),), steps=3)
    assert [made.estimator(1, b) for b in range(8)] == ["full"] * 3 + ["top1"] * 3 + ["full"] * 2
    assert made.estimator(1, 0, epoch=1) == "top1"


SLICE = st.tuples(st.integers(0, 5), st.none() | st.integers(0, 9), st.integers(1, 4)).map(
    lambda t: f"{t[0]}:{'' if t[1] is None else t[1]}:{t[2]}"
)
RULE = st.builds(
    GradientRule,
    layers=st.sampled_from([":", "2::4", "1:5:2", "c3", ("c1", 2), "7"]),
    batches=SLICE,
    epochs=SLICE,
    estimator=st.sampled_from([None, *ESTIMATORS]),
)


@given(st.lists(RULE, min_size=1, max_size=4))
def test_grid_and_estimator_agree(rules: list[GradientRule]) -> None:
    made = schedule(tuple(rules), steps=3)
    grid = made.grid(0, 20)
    for number in NAMES.values():
        assert [ESTIMATORS[e] for e in grid[number - 1]] == [made.estimator(number, b) for b in range(20)]


@given(SLICE)
def test_slices_are_pythons(text: str) -> None:
    start, stop, step = (int(p) if p else None for p in text.split(":"))
    assert [n for n in range(30) if n in read_stride(text, "f")] == list(range(30))[start:stop:step]


def test_slice_forms() -> None:
    assert read_stride(":", "f") == Stride(0, None, 1)
    assert read_stride("4", "f") == Stride(4, 5, 1)
    assert read_stride("1:", "f") == Stride(1, None, 1)


@pytest.mark.parametrize("text", ["a", "1:2:0", "-1:", "1:2:3:4", "", "1.5", "::-1"])
def test_slices_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UserError, match=r"gradient\.schedule\[0\]\.batches"):
        schedule((GradientRule(batches=text),))


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ("cc1", "names 'cc1', which is not a convolution .* Did you mean 'c1'"),
        (9, "names convolution 9, but the network's are numbered 1 to 7"),
        (("c1", 0), "names convolution 0"),
        ("8::2", "covers none"),
        ("\N{SUPERSCRIPT TWO}", "which is not a convolution"),
        ((), "is empty"),
    ],
)
def test_layers_that_are_not_there(layers: Any, said: str) -> None:
    given_layers = layers if isinstance(layers, str | tuple) else (layers,)
    with pytest.raises(UserError, match=said) as raised:
        schedule((GradientRule(), GradientRule(layers=given_layers)))
    assert raised.value.exit_code == 2
    assert "gradient.schedule[1].layers" in str(raised.value)


def test_a_layers_name_covers_all_inside() -> None:
    made = build(
        GradientSpec(estimator="zero", schedule=(GradientRule(layers="stage1"),)),
        {"stage1.block1.conv1": 1, "stage1.block1.conv2": 2, "stage10.conv": 3},
        1,
        1,
    )
    assert [made.estimator(n, 0) for n in (1, 2, 3)] == ["zero", "zero", "full"]


def test_numbers_leave_out_small_kernels_and_follow_the_forward() -> None:
    block = nn.Sequential(
        nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, (3, 3)), nn.Conv2d(4, 4, (1, 3)), nn.Conv2d(4, 4, 5)
    )
    net: list[tuple[str, nn.Module]] = [("stem", nn.Conv2d(3, 4, 3)), ("body", block)]
    assert number_convolutions(net) == {"stem": 1, "body.1": 2, "body.3": 3}
    block.eval()
    assert list(trace(net, (3, 16, 16))) == ["stem", "body.1", "body.3"]
    assert not block.training
    assert net[0][1].training
