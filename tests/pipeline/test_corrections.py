"""Corrections of staleness: the engine's and the oracle's bits, no effect without staleness, resume, what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from repro.corrections import BUILT_IN, Facts, Place, parse_corrections
from repro.corrections.compensation import Compensation
from repro.corrections.discrepancy import Discrepancy
from repro.corrections.rescheduling import Rescheduling
from repro.errors import UserError
from repro.recipe import run_hash, validate
from tests.conftest import ROOT
from tests.pipeline.in_process import Outcome, engine, oracle, resumed

SGD = {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.0005}
NADAM = {"name": "nadam", "lr": 0.003, "weight_decay": 0.01}
LISTS: dict[str, list[Any]] = {
    "prediction": ["prediction"],
    "rescheduling": [{"name": "rescheduling", "epochs": 2}],
    "compensation": [{"name": "compensation", "strength": 2.0}],
    "adaptive": [{"name": "compensation", "strength": 1.0, "adaptive": True}],
    "all": ["prediction", {"name": "rescheduling", "epochs": 1}, {"name": "compensation", "adaptive": True}],
}
STASHING = {"ddg": {"name": "ddg"}, "fdg": {"name": "fdg"}}
REPLAYING = {"fr": {"name": "fr"}, "dsp": {"name": "dsp", "staleness": "p=2 q=1"}}
# Two weight versions in every block (a batch is predicted when its version is made), and none.
KEEPING = {
    "2bw": {"name": "2bw", "micro": 4},
    "2bw-again": {"name": "2bw", "micro": 3, "rematerialise": True},
    "delayed": {"name": "delayed", "delay": 2},
}
LATE = {"pipemare": {"name": "pipemare"}}
METHODS = {**STASHING, **REPLAYING, **KEEPING, **LATE}
CASES = [
    *((m, c) for m in ("ddg",) for c in LISTS),
    *((m, c) for m in ("fdg", *KEEPING) for c in ("prediction", "adaptive", "all")),
    *((m, c) for m in (*REPLAYING, *LATE) for c in ("prediction", "rescheduling")),
    ("pipemare", "t1t2"), ("pipemare", "prediction-t2"),
]  # fmt: skip
PIPEMARE: dict[str, list[Any]] = {
    "t1t2": [{"name": "rescheduling", "epochs": 1}, "discrepancy"],
    "prediction-t2": ["prediction", {"name": "discrepancy", "decay": 0.5}],
}
ALL_LISTS = {**LISTS, **PIPEMARE}


def recipe_of(tiny: Callable[..., Any], method: Any, corrections: Any, **more: Any) -> Any:
    setting = METHODS.get(method, {"name": method}) if isinstance(method, str) else method
    return tiny(
        **{
            "method": setting,
            "corrections": corrections,
            "optimizer": SGD,
            "blocks": 3,
            "max_steps": 12,
            **more,
        }
    )


@pytest.fixture(scope="module")
def plain() -> dict[str, Outcome]:
    """What each method gives without corrections."""
    return {}


@pytest.mark.parametrize(("method", "name"), CASES)
def test_engine_and_oracle_agree_and_the_numbers_are_others(
    method: str, name: str, tiny: Callable[..., Any], plain: dict[str, Outcome]
) -> None:
    """Over an evaluation, the fill and the drain; the correction must have done something."""
    recipe = recipe_of(tiny, method, ALL_LISTS[name])
    found = engine(recipe)
    assert len(found.losses) == 12
    assert found == oracle(recipe)
    if method not in plain:
        plain[method] = engine(recipe_of(tiny, method, []))
    assert found != plain[method]


@pytest.mark.parametrize("optimizer", [{"name": "adamw", "lr": 0.003}, NADAM], ids=lambda o: o["name"])
def test_so_do_they_with_adams_step(optimizer: dict[str, Any], tiny: Callable[..., Any]) -> None:
    recipe = recipe_of(tiny, "ddg", LISTS["all"], optimizer={**optimizer, "clip_norm": 1.0})
    assert engine(recipe) == oracle(recipe)


def test_so_does_the_engine_with_a_process_a_block(tiny: Callable[..., Any], tmp_path: Path) -> None:
    from repro.verification import compare

    found = compare(recipe_of(tiny, "ddg", LISTS["all"], optimizer=NADAM), 0, "cpu", tmp_path)
    assert found.holds(0.0), "\n".join(found.lines(0.0))


@pytest.mark.parametrize("name", LISTS)
def test_without_staleness_nothing_changes(name: str, tiny: Callable[..., Any]) -> None:
    """K = 1 has m = 0."""
    for optimizer in (SGD, NADAM) if name == "all" else (SGD,):
        corrected, plain = (
            recipe_of(tiny, "ddg", c, blocks=1, max_steps=4, optimizer=optimizer) for c in (LISTS[name], [])
        )
        assert engine(corrected) == engine(plain)
        assert oracle(corrected) == oracle(plain)


@pytest.mark.parametrize(
    ("method", "blocks", "name"),
    [({"name": "delayed", "delay": 0}, 2, "all"), ("pipemare", 1, "t1t2"), ("pipemare", 1, "prediction-t2")],
)
def test_nor_does_it_for_the_other_methods(
    method: Any, blocks: int, name: str, tiny: Callable[..., Any]
) -> None:
    """Delay 0, and PipeMare at K = 1."""
    corrected, bare = (
        engine(recipe_of(tiny, method, given, blocks=blocks, max_steps=4)) for given in (ALL_LISTS[name], [])
    )
    assert corrected == bare


@pytest.mark.parametrize(("method", "name"), [
        ("ddg", "all"), ("fr", "prediction"), ("fdg", "adaptive"), ("2bw", "all"), ("2bw-again", "prediction"),
        ("pipemare", "t1t2"), ("pipemare", "prediction-t2"),
    ],
)  # fmt: skip
def test_a_resumed_run_has_the_bits_of_an_untouched_one(
    method: str, name: str, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    """With predicted weights in flight, and what a correction remembers."""
    recipe = recipe_of(tiny, method, ALL_LISTS[name], max_steps=None, epochs=2)
    assert resumed(recipe, tmp_path) == engine(recipe)


def test_what_is_remembered_is_counted_as_memory(tiny: Callable[..., Any]) -> None:
    plain, adaptive = (
        engine(recipe_of(tiny, "ddg", LISTS[name], max_steps=3)).workers[0].block
        for name in ("compensation", "adaptive")
    )
    weights = sum(w.numel() * 4 for w in plain.optimizer.weights)
    assert adaptive.static_bytes() == plain.static_bytes() + weights


# -- the formulas by hand ---------------------------------------------------------------------------------


def test_prediction_looks_as_far_as_the_batchs_own_update(tiny: Callable[..., Any]) -> None:
    """In block 0 of DDG with K = 3, m = 2: s = 0, 1, 2 for the first batches, whose weights are the first ones, then 2."""
    asked: list[tuple[int, int]] = []
    found = engine(recipe_of(tiny, "ddg", ["prediction"], max_steps=6))
    corrector = found.workers[0].block.corrector
    assert corrector.predicted(8, 6) is not None
    assert corrector.predicted(6, 6) is None
    asked = [(s.batch, len(s.actions)) for s in _forwards(found)]
    assert asked == [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2), (5, 3)]
    weight, direction = torch.tensor([1.0]), torch.tensor([0.5])
    assert BUILT_IN["prediction"](name="prediction").ahead(weight, direction, 0.1, 2).item() == pytest.approx(
        0.9
    )


class _Forward:
    def __init__(self, batch: int, actions: list[Any]) -> None:
        self.batch, self.actions = batch, actions


def _forwards(found: Any) -> list[_Forward]:
    """Each forward of block 0 with the updates before it."""
    rows, updates = [], []
    for action in found.workers[0].schedule.actions(0):
        if action.kind == "U":
            updates.append(action)
        if action.kind == "F":
            rows.append(_Forward(action.batch, list(updates)))
    return rows


def test_rescheduling_divides_by_tau_to_a_falling_power() -> None:
    """T = 2 epochs of 4: tau at first, its root half-way, nothing from T on; and nothing where tau < 1."""
    correction = Rescheduling(epochs=2)
    rates = [correction.rate(1.0, t, Place(0, 3, 4, 4)) for t in (0, 4, 8, 20)]
    assert rates == pytest.approx([0.25, 0.5, 1.0, 1.0])
    assert correction.rate(0.3, 0, Place(2, 3, 0, 4)) == 0.3


def test_compensation_by_hand() -> None:
    g, now, then = (torch.tensor([v]) for v in (2.0, 1.5, 1.0))
    assert Compensation(strength=0.5).compensate(g, now, then, {}).item() == pytest.approx(2 + 0.5 * 4 * 0.5)
    memory: dict[str, torch.Tensor] = {}
    adaptive = Compensation(strength=0.5, adaptive=True, running=0.75)
    assert adaptive.compensate(g, now, then, memory).item() == pytest.approx(2 + 0.5 * 4 / 1.0 * 0.5)
    assert memory["mean_square"].item() == pytest.approx(1.0)
    adaptive.compensate(g, now, then, memory)
    assert memory["mean_square"].item() == pytest.approx(0.75 + 0.25 * 4)


def test_discrepancy_by_hand() -> None:
    """Delta follows the steps with gamma = D^(1/tau); the backward is tau deltas behind."""
    correction, memory, place = Discrepancy(decay=0.25), {}, Place(0, 3, 2, 4)  # type: ignore[var-annotated]
    w = torch.tensor([1.0])
    assert correction.backward(w, memory, place) is w
    correction.moved(w, torch.tensor([2.0]), memory, place)
    assert memory["delta"].item() == pytest.approx(0.5)
    correction.moved(torch.tensor([2.0]), torch.tensor([2.0]), memory, place)
    assert memory["delta"].item() == pytest.approx(0.25)
    assert correction.backward(torch.tensor([2.0]), memory, place).item() == pytest.approx(1.5)


# -- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "corrections", "words"),
    [
        (
            "ddg",
            [{"name": "predicton"}],
            ["unknown correction 'predicton'", "Did you mean 'prediction'?", "rescheduling"],
        ),
        (
            "ddg",
            [{"name": "rescheduling", "epochs": 0}],
            ["corrections.0.epochs = 0", "greater than or equal to 1"],
        ),
        ("ddg", [{"name": "rescheduling", "epoch": 3}], ["corrections.0.epoch", "Did you mean 'epochs'?"]),
        (
            "ddg",
            [{"name": "compensation", "strength": -1}],
            ["corrections.0.strength = -1", "greater than 0"],
        ),
        ("ddg", ["prediction", "prediction"], ["'prediction' more than once"]),
        ("ddg", [{"epochs": 3}], ["a correction needs a name"]),
        ("ddg", 3, ["neither a name nor settings"]),
        ("ddg", ["/nowhere/own.py:Mine"], ["there is no file /nowhere/own.py"]),
        ("bp", ["prediction"], ["'prediction' with method 'bp'", "nothing to correct"]),
        ("gpipe", [{"name": "rescheduling"}], ["'rescheduling' with method 'gpipe'"]),
        ("dni", ["compensation"], ["'compensation' with method 'dni'"]),
        ("fr", ["compensation"], ["'compensation' with method 'fr'", "W_now - W_then is zero"]),
        (
            "dsp",
            ["discrepancy"],
            ["'discrepancy' with method 'dsp'", "made again at the weights of now", "pipemare"],
        ),
        (
            "ddg",
            ["discrepancy"],
            ["'discrepancy' with method 'ddg'", "its backward uses the weights that its forward used"],
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(
    method: str, corrections: Any, words: list[str], tiny: Callable[..., Any]
) -> None:
    with pytest.raises(UserError) as caught:
        recipe_of(tiny, method, corrections)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optimizer": {"lr": 0.1}}, ["optimizer.momentum = 0.0 has none"]),
        ({"optimizer": {"name": "muon"}}, ["Newton-Schulz"]),
        ({"experiment": "gradient-gap"}, ["experiment = 'gradient-gap'"]),
        (
            {"method": {"name": "dsp", "staleness": "p=3 q=3"}, "corrections": [],
             "optimizer": {"name": "nadam", "beta1_per_block": True}},
            ["beta1_per_block = true gives beta1 = 1.26 in block 0 with its staleness of 12"],
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_rest_of_the_recipe_is_named(
    changes: dict[str, Any], words: list[str], tiny: Callable[..., Any]
) -> None:
    with pytest.raises(UserError) as caught:
        recipe_of(tiny, **{"method": "ddg", "corrections": ["prediction"], **changes})
    for word in words:
        assert word in str(caught.value)


def test_compensation_needs_one_set_of_weights_and_discrepancy_two() -> None:
    pipemare = Facts("pipemare", False, (2, 1, 0), (False,) * 3, True, "sgd", True)
    with pytest.raises(ValueError, match="of no one set of weights"):
        Compensation().check(pipemare)
    Discrepancy().check(pipemare)


# -- identity, and a correction of one's own ----------------------------------------------------------------


def test_corrections_count_in_the_hash_where_there_are_any(tiny: Callable[..., Any]) -> None:
    def number(corrections: Any) -> str:
        return run_hash(recipe_of(tiny, "ddg", corrections), device="cpu", data_identity="d", cut=())

    assert number([]) == run_hash(
        tiny(method={"name": "ddg"}, optimizer=SGD, blocks=3, max_steps=12),
        device="cpu",
        data_identity="d",
        cut=(),
    )
    assert number(["prediction"]) == number([{"name": "prediction"}]) == number("prediction")
    lists: list[Any] = [[], *LISTS.values(), [{"name": "rescheduling", "epochs": 3}]]
    assert len({number(found) for found in lists}) == len(lists)


def test_a_recipe_with_corrections_survives_being_stored(tiny: Callable[..., Any]) -> None:
    recipe = recipe_of(tiny, "ddg", LISTS["all"], optimizer=NADAM)
    assert validate(recipe.model_dump(mode="json")) == recipe


def test_the_documented_correction_equals_the_oracle(tiny: Callable[..., Any], tmp_path: Path) -> None:
    text = (ROOT / "docs" / "own-method.md").read_text()
    code = text[text.index("# damping.py") :].split("```")[0]
    file = tmp_path / "damping.py"
    file.write_text(code.replace("./damping.py", str(file)))
    recipe = recipe_of(tiny, "ddg", ["prediction", {"name": f"{file}:Damping", "floor": 0.5}])
    found = engine(recipe)
    assert found == oracle(recipe)
    assert found != engine(recipe_of(tiny, "ddg", ["prediction"]))
    assert parse_corrections([f"{file}:Damping"])[0].label() == "Damping"


def test_a_results_folder_cannot_have_a_correction_run(tmp_path: Path) -> None:
    from repro.methods import files_refused

    trap = tmp_path / "TRAP"
    file = tmp_path / "evil.py"
    file.write_text(f"open({str(trap)!r}, 'w').close()\n")
    with (
        files_refused(),
        pytest.raises(ValueError, match=r"correction .* is a Python file, which a results folder"),
    ):
        parse_corrections([f"{file}:Evil"])
    assert not trap.exists()
