"""The hash covers what changes a number and nothing else (field report B05)."""

from collections.abc import Callable
from typing import Any

import pytest

from repro.recipe import catalogue, counted, identity, load, run_hash


def hash_of(recipe: Any, device: str = "cpu", data: str = "d", cut: tuple[int, ...] = ()) -> str:
    return run_hash(recipe, device=device, data_identity=data, cut=cut)


@pytest.mark.parametrize(
    "change",
    [
        {"optimizer.lr": 0.06},
        {"blocks": 2},
        {"data.batch_size": 16},
        {"data.seed": 3},
        {"method.name": "fdg"},
        {"model.dropout": 0.2},
        {"norm_statistics": "both"},
        {"gradient.estimator": "zero"},
        {"max_steps": 3},
    ],
)
def test_what_changes_a_number_changes_the_hash(tiny: Callable[..., Any], change: dict[str, Any]) -> None:
    assert hash_of(tiny(**change)) != hash_of(tiny())


@pytest.mark.parametrize(
    "change",
    [
        {"name": "renamed"},
        {"reproduces": "other words"},
        {"runtime.threads": 1},
        {"runtime.port": 1234},
        {"runtime.checkpoint_every": 0},
        {"data.path": "/elsewhere"},
        {"profile": "quick"},
    ],
)
def test_what_changes_no_number_keeps_the_hash(tiny: Callable[..., Any], change: dict[str, Any]) -> None:
    assert hash_of(tiny(**change)) == hash_of(tiny())


def test_dsp_keeps_its_hash_where_its_queues_are_the_papers(tiny: Callable[..., Any]) -> None:
    """method.queues came later: it counts only where it is not at its default."""
    assert "queues" not in counted(tiny(**{"method.name": "dsp", "blocks": 2}))["method"]
    shared = tiny(method={"name": "dsp", "queues": "shared"}, blocks=2)
    assert counted(shared)["method"]["queues"] == "shared"


def test_device_index_does_not_count_but_device_type_data_and_cut_do(tiny: Callable[..., Any]) -> None:
    recipe = tiny()
    assert hash_of(recipe, "cuda") == hash_of(recipe, "cuda:0")
    assert (
        len({hash_of(recipe), hash_of(recipe, "cuda"), hash_of(recipe, data="e"), hash_of(recipe, cut=(3,))})
        == 4
    )


def test_a_changed_default_or_version_of_the_numerics_changes_the_hash(
    tiny: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = hash_of(tiny())
    monkeypatch.setattr(identity, "NUMERICS", identity.NUMERICS + 1)
    assert hash_of(tiny()) != before
    monkeypatch.undo()
    recipe = tiny()
    other_default = recipe.model_copy(
        update={"optimizer": type(recipe.optimizer)(**{**recipe.optimizer.model_dump(), "decay": 0.2})}
    )
    assert hash_of(other_default) != before


@pytest.mark.parametrize(
    "change",
    [
        {"gradient.kernel": "reference"},
        {"gradient.samples": 9},
        {"gradient.scale": "paper"},
    ],
)
def test_how_to_approximate_does_not_count_where_nothing_is_approximated(
    tiny: Callable[..., Any], change: dict[str, Any]
) -> None:
    assert hash_of(tiny(**change)) == hash_of(tiny())
    top1 = {"gradient.estimator": "top1"}
    assert hash_of(tiny(**top1, **change)) != hash_of(tiny(**top1))
    bias = {"experiment": "bias"}
    assert hash_of(tiny(**bias, **change)) != hash_of(tiny(**bias))


def pop(values: dict[str, Any], key: str, absent: Any) -> Any:
    """Take a dotted key out of nested settings; `absent` where it is a setting of another method."""
    *parents, last = key.split(".")
    for parent in parents:
        values = values[parent]
    return values.pop(last, absent) if key.startswith("method.") else values.pop(last)


def test_no_recipe_of_the_suite_has_a_setting_without_effect() -> None:
    """What is put at its default before hashing is there already, so that hashes stay what they were."""
    for name in catalogue():
        recipe = load(name, "smoke")
        plain = recipe.model_dump(mode="json", exclude=identity._LEFT_OUT)
        later = identity._ONLY_WHERE_USED  # newer than the hashes, and in none of them
        if recipe.group == "asynchronous":  # as new as some of these settings
            assert counted(recipe)["model"].items() >= {"layers": 4, "tied": False}.items()
            continue
        found = {key: pop(plain, key, default) for key, default in later.items()}
        assert found == later, name
        assert counted(recipe) == plain, name


def test_a_setting_that_came_later_counts_only_where_it_is_used(tiny: Callable[..., Any]) -> None:
    """The names of runs that are older than norm_recalibration stay."""
    recipe = tiny()
    assert hash_of(tiny(norm_recalibration=0)) == hash_of(recipe)
    assert hash_of(tiny(norm_recalibration=4)) != hash_of(recipe)
    assert hash_of(tiny(norm_recalibration=4)) != hash_of(tiny(norm_recalibration=5))
