"""Names that are not listed: any K, in any order of the words; and what is said of a name that no recipe has."""

from __future__ import annotations

from pathlib import Path

import pytest

from repro import paths
from repro.errors import UserError
from repro.recipe import catalogue, is_recipe, load
from repro.recipe.matrix import Matrix


@pytest.mark.parametrize(
    ("name", "blocks", "settings"),
    [
        ("dsp-resnet98-k5", 5, {"staleness": "1,1,1,1,0;8,6,4,2,0"}),
        ("dsp-resnet98-k4-s630", 4, {"staleness": "2,2,2,0;9,6,3,0"}),
        ("dsp-preact-resnet164-k2", 2, {"staleness": "1,0;2,0"}),
        ("fr-resnet98-k2-free", 2, {"locking": "free"}),
        ("cdni-vgg19-k7", 7, {"conditional": True}),
        ("gpipe-imagenet-resnet50-k1", 1, {"micro": 4}),
        ("straggler-dsp-resnet98-k3-s630", 3, {"staleness": "2,2,0;6,3,0"}),
        ("gradient-gap-dsp-resnet98-k2-s1470-sgd", 2, {"staleness": "5,0;7,0"}),
        ("top1-resnet20-k2-s1-paper", 2, {"name": "bp"}),
        ("full-cnn2-k2", 2, {"name": "bp"}),
        ("fr-gpt-k3", 3, {"locking": "free"}),
        ("pipedream-vgg19-k6", 6, {"name": "pipedream"}),
        ("2bw-resnet98-k7-m8", 7, {"micro": 8}),
        ("delayed-resnet98-k3-d4", 3, {"delay": 4}),  # of itself K = 1
    ],
)
@pytest.mark.parametrize("profile", ["paper", "quick", "smoke"])
def test_any_k_works_in_a_name(name: str, blocks: int, settings: dict[str, object], profile: str) -> None:
    recipe = load(name, profile)
    assert (recipe.name, recipe.blocks) == (name, blocks)
    assert settings.items() <= recipe.method.model_dump().items()
    assert name not in catalogue()
    usual = load(name.replace(f"-k{blocks}", ""), profile)
    changed = {"name", "blocks", "method", "reproduces"}
    assert recipe.model_dump(exclude=changed) == usual.model_dump(exclude=changed)


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("dsp-resnet98-k3", "dsp-resnet98"),
        ("fr-resnet98-k3-free", "fr-resnet98-free"),
        ("fr-resnet98-free-k2", "fr-resnet98-k2-free"),
        ("top1-resnet20-paper-s1", "top1-resnet20-s1-paper"),
        ("top1-resnet20-k1-s1", "top1-resnet20-s1"),
        ("delayed-resnet98-k1-d4", "delayed-resnet98-d4"),
    ],
)
def test_a_recipe_has_one_name(typed: str, name: str) -> None:
    """However it is typed, its runs lie in one folder."""
    assert load(typed) == load(name)
    assert load(typed).name == name


def test_a_k_that_is_named_holds_in_every_profile() -> None:
    """The straggler experiment's reference runs have two blocks, but not where the name asks for three."""
    assert load("straggler-dsp-resnet98", "reference").blocks == 2
    assert load("straggler-dsp-resnet98-k3", "reference").blocks == 3
    assert load("straggler-dsp-resnet98-k3", "reference").name == "straggler-dsp-resnet98-k3"


def test_a_k_of_ours_says_so() -> None:
    assert load("dsp-resnet98-k5").reproduces.endswith("; K = 5 is ours")
    assert "ours" not in load("dsp-resnet98-k4").reproduces
    assert "Fig. 4" in load("dsp-resnet98").reproduces
    assert "Fig. 4" not in load("dsp-resnet98-k4").reproduces


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dsp-resnet98-k0", ["K is a whole number", "Did you mean 'dsp-resnet98'", "s630, s1470", "any K"]),
        ("dsp-resnet98-kx", ["K is a whole number", "'dsp-resnet98'"]),
        ("dsp-resnet98-k02", ["K is a whole number"]),
        ("dsp-resnet98-k99999999", ["K is a whole number from 1 to 9999"]),
        ("dsp-resnet98-k2-k4", ["names K more than once"]),
        ("dsp-resnet98-s999", ["dsp-resnet98 has no variant 's999'", "s630, s1470"]),
        ("dsp-resnet98-k5-s63", ["Did you mean 'dsp-resnet98-k5-s630'"]),
        ("dsp-resnet98-s630-s1470", ["no such combination", "s630, s1470"]),
        ("bp-resnet98-free", ["bp-resnet98 has no variants; any K works: bp-resnet98-k5"]),
        ("straggler-fr-resnet98-barrier", ["no variant 'barrier'", "has the variants free"]),
        (
            "top1-resnet20-s9",
            ["top1-resnet20 has no variant 's9'", "Did you mean 'top1-resnet20-s", "early, measured"],
        ),
        ("top1-resnet20", ["needs a variant", "top1-resnet20 needs one of the variants all, s1"]),
        ("dsp-resnet99", ["Did you mean 'dsp-resnet98'", "s630, s1470"]),
        ("dps-resnet98-k7", ["Did you mean 'dsp-resnet98-k7'"]),
        ("dni-imagenet-resnet18", ["imagenet-resnet18 is not there with dni, only with bp, gpipe"]),
        ("resnet98", ["names a part only", "`repro list resnet98`"]),
        ("nothing", ["`repro list` shows all 369 recipes"]),
    ],
)
def test_an_unknown_name_is_answered_with_what_there_is(name: str, words: list[str]) -> None:
    assert not is_recipe(name)
    with pytest.raises(UserError) as caught:
        load(name)
    assert str(caught.value).startswith(f"unknown recipe '{name}'")
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_of_the_suite_is_no_recipe() -> None:
    with pytest.raises(UserError, match=r"lists the recipes of a network.*`repro list resnet98`"):
        load(str(paths.recipes() / "dsp" / "resnet98.yaml"))


NETWORK = """
extends: [dsp-methods, cifar-resnet]
model: {name: resnet56}
text: {network: ResNet56}
recipes:
"""


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("  dps: [plain]", ["'dps' is no METHOD"]),
        ("  fr: [fre]", ["fr", "'fre' is no variant"]),
        ("  fr: free", ["give lists of variants"]),
        ("  fr: []", ["give lists of variants"]),
    ],
)
def test_a_wrong_word_in_a_networks_file_is_named(rows: str, words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "resnet56.yaml"
    file.write_text(NETWORK + rows)
    with pytest.raises(UserError) as caught:
        Matrix(file).find("fr-resnet56")
    for word in [str(file), *words]:
        assert word in str(caught.value)


def test_a_new_network_is_one_file(tmp_path: Path) -> None:
    file = tmp_path / "resnet56.yaml"
    file.write_text(NETWORK + "  fr: [plain, k2, free]")
    matrix = Matrix(file)
    names = [matrix.name(choice) for choice in matrix.listed["fr"]]
    assert names == ["fr-resnet56", "fr-resnet56-k2", "fr-resnet56-free"]
    choice = matrix.find("fr-resnet56-k6-free")
    assert choice is not None
    settings = matrix.recipe(choice)
    assert (settings["model"], settings["blocks"], settings["method"]["locking"]) == (
        {"name": "resnet56"},
        6,
        "free",
    )
    assert settings["reproduces"].startswith("ResNet56, K = 6; Features Replay without locking")
