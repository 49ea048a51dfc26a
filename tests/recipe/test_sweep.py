"""--sweep: where commas split, which combinations there are, what is refused."""

import pytest

from repro.errors import UserError
from repro.recipe import Given, combinations, load, parse_overrides


def swept(*sweeps: str, settings: tuple[str, ...] = ()) -> list[dict[str, object]]:
    return [parse_overrides(words) for words in combinations(settings, sweeps)[0]]


def test_values_are_separated_by_commas_and_keys_make_the_product() -> None:
    assert swept("lr=0.01,0.02", "optimizer.momentum=0, 0.9", settings=("epochs=2",)) == [
        {"epochs": 2, "optimizer.lr": lr, "optimizer.momentum": momentum}
        for lr in (0.01, 0.02)
        for momentum in (0, 0.9)
    ]
    assert combinations([], [])[0] == [[]], "without a sweep there is one run"


@pytest.mark.parametrize(
    ("sweeps", "key", "values"),
    [
        (["staleness=1,1,0;4,2,0"], "method.staleness", ["1,1,0;4,2,0"]),
        (["staleness=1,1,0;4,2,0", "staleness=p=2 q=1"], "method.staleness", ["1,1,0;4,2,0", "p=2 q=1"]),
        (["cut=[3,6]", "cut=[4,8]"], "cut", [[3, 6], [4, 8]]),
        (["cut=[3,6],[4,8]"], "cut", [[3, 6], [4, 8]]),
        (["optimizer.milestones=[3,6],[]"], "optimizer.milestones", [[3, 6], []]),
        (["gradient.schedule=s1,s2"], "gradient.schedule", ["s1", "s2"]),
        (
            ["gradient.schedule=[{layers: '2,3', batches: 1}],[{layers: 4}]"],
            "gradient.schedule",
            [[{"layers": "2,3", "batches": 1}], [{"layers": 4}]],
        ),
        (["lr=1e-2", "optimizer.lr=2e-2"], "optimizer.lr", [0.01, 0.02]),
    ],
)
def test_a_value_that_holds_commas_is_whole(sweeps: list[str], key: str, values: list[object]) -> None:
    assert [found[key] for found in swept(*sweeps)] == values


@pytest.mark.parametrize(
    ("settings", "sweeps", "words"),
    [
        ([], ["lr="], ["--sweep 'lr='", "names no value", "--sweep lr=VALUE,VALUE"]),
        ([], ["lr"], ["--sweep 'lr'", "names no value"]),
        ([], ["=1,2"], ["names no value", "--sweep lr=0.01,0.02"]),
        ([], ["lr=0.1,,0.2"], ["--sweep optimizer.lr=0.1,,0.2", "nothing between two commas"]),
        ([], ["lr=0.1,"], ["nothing between two commas, or at an end"]),
        (["lr=0.1"], ["optimizer.lr=0.1,0.2"], ["optimizer.lr is in --set and in --sweep"]),
    ],
)
def test_a_wrong_sweep_is_named(settings: list[str], sweeps: list[str], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        combinations(settings, sweeps)
    for word in words:
        assert word in str(caught.value)


def test_set_comes_first() -> None:
    (words,) = combinations(["method=dsp", "blocks=2"], ["staleness=1,0;2,0"])[0]
    assert load("bp-resnet98", "smoke", parse_overrides(words)).method.label(2) == "DSP(1,0;2,0)"


def test_a_title_names_the_swept_values_only() -> None:
    asked = Given("bp-resnet98", {"epochs": 2, "optimizer.lr": 0.02}, ("optimizer.lr",))
    assert asked.title("bp-resnet98") == "bp-resnet98, lr 0.02"
