"""Loading and overriding recipes: what is wrong is named, with its value and what is allowed."""

from pathlib import Path
from typing import Any

import pytest

from repro.errors import UserError
from repro.recipe import load, parse_overrides
from repro.recipe.validation import build
from tests.conftest import TINY


def changed(*pairs: str) -> Any:
    return load("dsp-resnet164", "smoke", parse_overrides(pairs))


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("optimizer.lrr=1", ["optimizer.lrr", "Did you mean 'lr'", "momentum"]),
        ("optimiser.lr=1", ["optimiser", "Did you mean 'optimizer'"]),
        ("lr=abc", ["optimizer.lr", "'abc'", "number"]),
        ("lr=.nan", ["optimizer.lr", "nan", "finite"]),
        ("blocks=0", ["blocks", "0", "greater than or equal to 1"]),
        ("blocks=-1", ["blocks", "-1"]),
        ("blocks=1.5", ["blocks", "1.5", "integer"]),
        ("blocks=x", ["blocks", "'x'", "integer"]),
        ("staleness=1,1,0;3,2,0", ["Eq. 6", "block 1"]),
        ("method=dps", ["unknown method 'dps'", "Did you mean 'dsp'"]),
        ("method.stalenes=3", ["method.stalenes", "Did you mean 'staleness'"]),
        ("method.name=fr", ["method.staleness", "unknown setting"]),
        ("data.name=cifar", ["data.name", "'cifar'", "'cifar10'"]),
        ("gradient.estimator=top2", ["gradient.estimator", "'top2'", "Did you mean 'top1'"]),
        ("gradient.schedule=s9", ["gradient.schedule", "'s9'", "'s1'"]),
        ("gradient.schedule=[{layer: 2}]", ["gradient.schedule.0.layer", "Did you mean 'layers'", "batches"]),
        ("gradient.schedule=[{estimator: cheap}]", ["gradient.schedule.0.estimator", "'cheap'", "'top1'"]),
        ("gradient.schedule=[{batches: [1]}]", ["gradient.schedule.0.batches", "[1]"]),
        ("gradient.schedule=[]", ["gradient.schedule", "at least 1"]),
        ("gradient.schedule=3", ["gradient.schedule = 3"]),
        ("cut=[1]", ["cut", "blocks = 3", "2 cuts"]),
        ("cut=[5,2]", ["cut must increase"]),
        ("optimizer.momentum=1.0", ["optimizer.momentum", "1.0", "less than 1"]),
        ("optimizer=3", ["optimizer"]),
        ("novalue", ["key=value"]),
        ("gradient.schedule=", ["gradient.schedule has no value", "s1, s2, s3", "or a list"]),
        ("locking=", ["method.locking"]),
        ("lr=", ["optimizer.lr has no value", "number"]),
        ("epochs=", ["epochs has no value", "integer"]),
        ("cut=", ["cut has no value", "measured, estimated, or a list"]),
        ("model=", ["model has no value", "resnet98"]),
        ("data=", ["data has no value", "digits"]),
        ("method=", ["method has no value", "dsp"]),
        ("optimizer=", ["optimizer has no value", "optimizer.lr"]),
        ("deterministic=", ["deterministic has no value", "true, false"]),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(pair: str, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        changed(pair)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_of_ones_own_extends_a_recipe_of_the_suite(tmp_path: Path) -> None:
    own = tmp_path / "bp-resnet98.yaml"  # even one of the same name
    own.write_text("extends: bp-resnet98\nreproduces: mine\nepochs: 7\n")
    recipe = load(str(own), "paper")
    assert (recipe.epochs, recipe.model.name, recipe.reproduces) == (7, "resnet98", "mine")
    own.write_text("extends: nothing\n")
    with pytest.raises(UserError, match="'nothing' is neither beside it"):
        load(str(own))


def test_a_file_of_ones_own_extends_settings_and_names_of_the_matrix(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("extends: dsp-resnet98-k5-s630\noptimizer: {lr: 0.02}\n")
    recipe = load(str(own), "quick")
    assert (recipe.name, recipe.blocks, recipe.data.name) == ("own", 5, "digits")
    assert recipe.method.model_dump()["staleness"] == "2,2,2,2,0;12,9,6,3,0"
    own.write_text("extends: [cifar-resnet, fr-resnet98-k2-free]\n")
    assert load(str(own)).method.model_dump()["locking"] == "free"
    own.write_text("extends: cifar-resnets\n")
    with pytest.raises(UserError, match="Did you mean 'cifar-resnet'"):
        load(str(own))
    own.write_text("extends: dsp-resnet98-k0\n")
    with pytest.raises(UserError, match=r"own.yaml: extends: .* K is a whole number"):
        load(str(own))


def test_a_recipe_needs_model_data_and_method_only(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("model: resnet20\ndata: digits\nmethod: fr\n")
    recipe = load(str(own), "quick")
    assert (recipe.model.name, recipe.data.name, recipe.method.name) == ("resnet20", "digits", "fr")
    assert (recipe.group, recipe.blocks, recipe.epochs) == ("dsp", 1, 1)
    assert "one's own" in recipe.reproduces
    short = load(str(own), "quick", parse_overrides(["data.batch_size=7", "data=fashion-mnist", "blocks=2"]))
    assert (short.data.name, short.data.batch_size, short.blocks) == ("fashion-mnist", 7, 2)
    own.write_text("model: resnet20\n")
    with pytest.raises(UserError) as caught:
        load(str(own))
    for word in ("own", "needs model, data and method", "data: digits", "method: bp"):
        assert word in str(caught.value)
    assert "resnet98" not in str(caught.value)
    own.write_text("model: resnet20\ndata: {batch_size: 3}\nmethod: bp\n")
    with pytest.raises(UserError, match=r"'data.name' is missing.*cifar10"):
        load(str(own))
    own.write_text("")
    with pytest.raises(UserError, match="an empty file"):
        load(str(own))


def test_null_is_none_where_none_is_allowed() -> None:
    assert changed("data.train_limit=null").data.train_limit is None
    assert changed("data.train_limit=").data.train_limit is None
    with pytest.raises(UserError, match="epochs has no value"):
        changed("epochs=null")


def test_a_bare_number_is_a_slice() -> None:
    rule = changed(
        "gradient.schedule=[{layers: 2, batches: 3, epochs: 0, estimator: zero}]"
    ).gradient.schedule[0]
    assert (rule.layers, rule.batches, rule.epochs) == ("2", "3", "0")


def test_micro_batches_must_fit_the_batch() -> None:
    with pytest.raises(UserError, match=r"method.micro = 64 .* data.batch_size = 32"):
        build({**TINY, "method": {"name": "gpipe", "micro": 64}})


def test_an_unknown_recipe_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match="Did you mean 'dsp-resnet164'"):
        load("dsp-resnet146")


def test_a_missing_file_and_bad_yaml_are_user_errors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no recipe file"):
        load("./nothing.yaml")
    (tmp_path / "bad.yaml").write_text("a: [1")
    with pytest.raises(UserError, match="not valid YAML"):
        load(str(tmp_path / "bad.yaml"))
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(UserError, match="mapping"):
        load(str(tmp_path / "list.yaml"))


def test_overrides_win_over_the_profile_and_the_profile_over_the_recipe() -> None:
    paper, smoke = load("dsp-resnet164"), load("dsp-resnet164", "smoke")
    assert paper.data.name == "cifar10"
    assert smoke.data.name == "digits"
    changed_recipe = load("dsp-resnet164", "smoke", parse_overrides(["lr=1e-3", "blocks=4"]))
    assert changed_recipe.optimizer.lr == 1e-3
    assert changed_recipe.method.model_dump()["staleness"] == "1,1,1,0;6,4,2,0"


def test_both_forms_of_staleness_name_the_same_run() -> None:
    assert changed("staleness=p=1 q=1") == changed("staleness=1,1,0;4,2,0")


def test_a_users_own_method_is_loaded_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from typing import Literal\n"
        "from repro.methods import Method\n"
        "from repro.methods.fr import FR\n"
        "class Mine(FR):\n"
        f"    name: Literal['{file}:Mine'] = '{file}:Mine'\n"
        "    extra: int = 3\n"
    )
    recipe = build({**TINY, "method": {"name": f"{file}:Mine", "extra": 5}, "blocks": 2})
    assert recipe.method.model_dump()["extra"] == 5
    assert build(recipe.model_dump(mode="json")) == recipe
    with pytest.raises(UserError, match="no file"):
        build({**TINY, "method": {"name": "/nowhere/mine.py:Mine"}})
    with pytest.raises(UserError, match="not a subclass"):
        build({**TINY, "method": {"name": f"{file}:Literal"}})


def test_settings_of_one_command_do_not_stay_for_the_next() -> None:
    before = load("dsp-resnet98", "smoke")
    changed = load(
        "dsp-resnet98",
        "smoke",
        {"model.name": "resnet56", "data.batch_size": 3, "method.staleness": "2,2,0;6,3,0"},
    )
    assert (changed.model.name, changed.data.batch_size) == ("resnet56", 3)
    assert load("dsp-resnet98", "smoke") == before
    assert load("bp-resnet98", "smoke").model == before.model
