"""Every recipe loads, is named as interface.md says, and its schedule runs without deadlock."""

from __future__ import annotations

import re
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
import yaml

from repro import paths
from repro.errors import UserError
from repro.recipe import Recipe, catalogue, load, run_hash
from repro.recipe.load import PROFILES
from repro.recipe.suite import matrices
from repro.schedule import Action, Kind, simulate

CATALOGUE = catalogue()
NAMES = sorted(CATALOGUE)
SETTINGS = sorted(path.stem for path in (paths.recipes() / "settings").glob("*.yaml"))
FOR_TESTS = sorted((Path(__file__).parents[1] / "recipes_for_tests").glob("*.yaml"))

CIFAR_NETS = ("resnet98", "resnet164", "vgg19", "resnext29")
OWN_NETS = ("preact-resnet164", "resnet20")
IMAGENET_NETS = ("imagenet-resnet18", "imagenet-resnet50")
METHODS = ("bp", "gpipe", "fr", "ddg", "fdg", "dni", "cdni", "dsp")
ASYNCHRONOUS = ("pipedream", "2bw", "pipemare")  # and delayed, which has one block

_METHOD = f"(?P<method>{'|'.join((*METHODS, *ASYNCHRONOUS))}|delayed)"
_NET = f"(?P<net>{'|'.join((*OWN_NETS, *CIFAR_NETS, *IMAGENET_NETS))})"
DSP_NAME = re.compile(
    f"(?P<experiment>straggler-|gradient-gap-)?{_METHOD}-{_NET}"
    "(?:-k(?P<blocks>[24]))?(?:-(?P<variant>s630|s1470|free|barrier|m8|remat|d2|d4))?(?P<sgd>-sgd)?"
)
APPROXIMATION_NAME = re.compile(
    "(?P<estimator>full|zero|random|top1|sampled|shared-topk)-(?P<net>resnet20|resnet14|vgg19|cnn2)"
    "(?:-(?P<schedule>s1|s2|s3|early|all|measured))?(?P<paper>-paper)?"
)
ASYNCHRONOUS_NAME = re.compile(
    f"(?P<method>bp|gpipe|fr|dsp|{'|'.join(ASYNCHRONOUS)})-(?P<net>gpt)(?:-k(?P<blocks>[24]))?"
)
SWEPT_NAME = re.compile(  # claims A1 to A5 and the sweep of the delay
    "(?P<method>bp|pipedream|2bw|delayed)-gpt(?:-d(?P<delay>[248]))?"
    "(?:-(?P<optimizer>sgd|nadam|muon))?(?:-(?P<correction>predicted|rescheduled|compensated))?"
)
CORRECTION = {"predicted": "prediction", "rescheduled": "rescheduling", "compensated": "compensation"}
STALENESS = {
    (2, None): "1,0;2,0",
    (3, None): "1,1,0;4,2,0",
    (4, None): "1,1,1,0;6,4,2,0",
    (3, "s630"): "2,2,0;6,3,0",
    (3, "s1470"): "5,5,0;14,7,0",
}


def paper(name: str) -> Recipe:
    recipe: Recipe = load(name)
    return recipe


def names_matching(pattern: re.Pattern[str]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, match.groupdict()) for name in NAMES if (match := pattern.fullmatch(name))]


@pytest.mark.parametrize("profile", [p for p in PROFILES if p != "reference"])
@pytest.mark.parametrize("name", NAMES)
def test_loads_in_every_profile(name: str, profile: str) -> None:
    recipe = load(name, profile)
    assert recipe.name == name
    assert recipe.group == CATALOGUE[name].group
    assert recipe.blocks == CATALOGUE[name].blocks
    if recipe.group == "asynchronous":
        assert recipe.data.name == "text"
        assert (recipe.data.path is not None) == (recipe.data.tokenizer is not None) == (profile == "paper")
        return
    assert (recipe.data.name in ("cifar10", "imagenet")) == (
        profile == "paper"
    )  # quick and smoke work offline
    assert all(epoch < recipe.epochs for epoch in recipe.optimizer.milestones), (
        "a decay after the end of training"
    )


@pytest.mark.parametrize("name", NAMES)
def test_profile_reference_is_there_or_refused(name: str) -> None:
    if "vgg19" in name or "resnext29" in name or "imagenet" in name:
        with pytest.raises(UserError, match="no reference runs"):
            load(name, "reference")
        return
    recipe = load(name, "reference")
    if recipe.group == "asynchronous":
        named = re.search("-k([0-9]+)", name)
        assert (recipe.data.name, recipe.data.path) == ("text", None)
        assert recipe.blocks == (int(named[1]) if named else 4)
        assert recipe.optimizer.cosine_steps is None, "the cosine ends with the run"
        return
    assert recipe.data.name == "fashion-mnist"
    assert recipe.blocks == (2 if recipe.experiment == "straggler" else CATALOGUE[name].blocks)


@pytest.mark.parametrize("path", FOR_TESTS, ids=lambda path: path.stem)
def test_recipes_of_the_suite_load_by_path(path: Path) -> None:
    assert load(str(path)).model.name == "tiny"


def test_names_follow_the_grammar() -> None:
    grammars = (DSP_NAME, APPROXIMATION_NAME, ASYNCHRONOUS_NAME, SWEPT_NAME)
    strange = [n for n in NAMES if not any(grammar.fullmatch(n) for grammar in grammars)]
    assert strange == ["bias-resnet20"]


def test_no_two_recipes_share_a_name() -> None:
    listed = [
        matrix.name(choice) for matrix in matrices() for row in matrix.listed.values() for choice in row
    ]
    assert sorted(listed) == NAMES


@pytest.mark.parametrize(("name", "parts"), names_matching(DSP_NAME))
def test_a_dsp_name_says_what_the_recipe_holds(name: str, parts: dict[str, str | None]) -> None:
    recipe = paper(name)
    method = recipe.method.model_dump()
    assert recipe.group == "dsp"
    assert recipe.model.name == parts["net"]
    assert recipe.blocks == int(parts["blocks"] or (1 if parts["method"] == "delayed" else 3))
    assert recipe.experiment == (parts["experiment"] or "train-").removesuffix("-")
    assert (recipe.straggler.probability > 0) == (recipe.experiment == "straggler")
    assert (recipe.optimizer.momentum == 0) == (parts["sgd"] is not None)
    assert method["name"] == ("dni" if parts["method"] == "cdni" else parts["method"])
    assert method.get("conditional", False) == (parts["method"] == "cdni")
    if parts["method"] == "dsp":
        assert method["staleness"] == STALENESS[recipe.blocks, parts["variant"]]
    if parts["method"] in ("fr", "ddg"):
        assert method["locking"] == (parts["variant"] or "mailbox")
    if parts["method"] == "2bw":
        assert method["micro"] == (8 if parts["variant"] == "m8" else 4)
        assert method["rematerialise"] == (parts["variant"] == "remat")
    if parts["method"] == "delayed":
        assert method["delay"] == int((parts["variant"] or "d1")[1:])


@pytest.mark.parametrize(("name", "parts"), names_matching(ASYNCHRONOUS_NAME))
def test_an_asynchronous_name_says_what_the_recipe_holds(name: str, parts: dict[str, str | None]) -> None:
    recipe = paper(name)
    assert (recipe.group, recipe.model.name) == ("asynchronous", parts["net"])
    assert (recipe.method.name, recipe.blocks) == (parts["method"], int(parts["blocks"] or 8))


@pytest.mark.parametrize(("name", "parts"), names_matching(SWEPT_NAME))
def test_a_name_of_the_sweep_says_what_the_recipe_holds(name: str, parts: dict[str, str | None]) -> None:
    """In every profile: a profile must not put the optimiser back."""
    for profile in PROFILES:
        recipe = load(name, profile)
        method = recipe.method.model_dump()
        assert method["name"] == parts["method"]
        assert method.get("delay", 1) == int(parts["delay"] or 1)
        assert recipe.optimizer.name == (parts["optimizer"] or "adamw")
        found = [correction.name for correction in recipe.corrections]
        assert found == ([CORRECTION[parts["correction"]]] if parts["correction"] else [])


def test_the_published_setting_of_a_transformer() -> None:
    """AsyncPP: a layer a block, and only what is published of the text."""
    recipe = paper("gpipe-gpt")
    assert (recipe.model.layers, recipe.model.width, recipe.model.heads) == (8, 768, 12)
    assert (recipe.data.context, recipe.data.batch_size, recipe.blocks, recipe.max_steps) == (
        512,
        8,
        8,
        50000,
    )
    assert recipe.method.model_dump()["micro"] == 4
    assert (recipe.optimizer.name, recipe.optimizer.lr, recipe.optimizer.warmup_steps) == (
        "adamw",
        0.0003,
        3000,
    )


@pytest.mark.parametrize(("name", "parts"), names_matching(APPROXIMATION_NAME))
def test_an_approximation_name_says_what_the_recipe_holds(name: str, parts: dict[str, str | None]) -> None:
    recipe = paper(name)
    gradient = recipe.gradient
    assert recipe.group == "gradient-approximation"
    assert (recipe.model.name, recipe.method.name, recipe.blocks) == (parts["net"], "bp", 1)
    assert gradient.estimator == parts["estimator"]
    assert gradient.scale == ("paper" if parts["paper"] else "natural")
    if parts["estimator"] != "full":
        assert gradient.schedule == (parts["schedule"] or "alternate")
        assert (gradient.schedule == "alternate") == (parts["net"] == "cnn2")


def promised() -> list[str]:
    """The names that interface.md and the issues promise."""
    names = [f"{m}-{net}{k}" for m in METHODS for net in CIFAR_NETS for k in ("", "-k2", "-k4")]
    names += [
        f"{m}-{net}{k}"
        for m in METHODS
        if "dni" not in m
        for net in IMAGENET_NETS
        for k in ("", "-k2", "-k4")
    ]
    names += [f"{m}-{net}{k}" for m in ASYNCHRONOUS for net in CIFAR_NETS for k in ("", "-k2", "-k4")]
    names += [f"delayed-{net}" for net in CIFAR_NETS]
    names += ["2bw-resnet98-m8", "2bw-resnet98-remat", "delayed-resnet98-d2", "delayed-resnet98-d4"]
    names += [f"dsp-{net}-{s}" for net in (*CIFAR_NETS, *IMAGENET_NETS) for s in ("s630", "s1470")]
    names += [
        f"{m}-{net}-{rule}" for m in ("fr", "ddg") for net in CIFAR_NETS[:2] for rule in ("free", "barrier")
    ]
    names += ["bp-preact-resnet164", "dsp-preact-resnet164", "bias-resnet20", "full-resnet14"]
    names += [f"straggler-{m}-resnet98" for m in ("bp", "fr", "gpipe", "ddg", "dsp")]
    names += ["straggler-dsp-resnet98-s630", "straggler-dsp-resnet98-s1470"]
    names += [f"gradient-gap-dsp-resnet98{s}{o}" for s in ("", "-s630", "-s1470") for o in ("", "-sgd")]
    names += [f"full-{net}" for net in ("resnet20", "vgg19", "cnn2")]
    names += [f"{e}-{net}-s1" for e in ("zero", "random", "top1") for net in ("resnet20", "vgg19")]
    names += [
        f"top1-{net}-{s}" for net in ("resnet20", "vgg19") for s in ("s2", "s3", "early", "all", "measured")
    ]
    names += [f"{e}-cnn2" for e in ("zero", "random", "top1", "sampled", "shared-topk")]
    names += ["top1-resnet20-s1-paper", "top1-cnn2-paper"]
    names += [f"{m}-gpt{k}" for m in ("bp", "gpipe", "fr", "dsp", *ASYNCHRONOUS) for k in ("", "-k2", "-k4")]
    return names


def test_every_promised_recipe_is_there() -> None:
    assert sorted(set(promised()) - set(NAMES)) == []


@pytest.mark.parametrize("name", NAMES)
def test_says_in_one_sentence_what_it_reproduces(name: str) -> None:
    text = CATALOGUE[name].reproduces
    assert 20 < len(text) < 200
    assert "\n" not in text


def test_methods_of_a_net_differ_in_their_method_alone() -> None:
    """A comparison of methods is fair only where everything else is the same, in every profile."""
    for profile in PROFILES:
        held: dict[tuple[str, str, int, float], set[str]] = {}
        for name, parts in [*names_matching(DSP_NAME), *names_matching(ASYNCHRONOUS_NAME)]:
            try:
                recipe = load(name, profile)
            except UserError:
                continue  # no reference runs of this net
            key = (
                recipe.experiment,
                str(parts["net"]),
                recipe.blocks,
                getattr(recipe.optimizer, "momentum", 0.0),
            )
            rest = recipe.model_dump_json(exclude={"name", "reproduces", "method", "profile"})
            held.setdefault(key, set()).add(rest)
        assert {key: len(kinds) for key, kinds in held.items() if len(kinds) > 1} == {}


@pytest.mark.parametrize("name", [n for n in NAMES if CATALOGUE[n].blocks > 1])
def test_schedule_runs_without_deadlock(name: str) -> None:
    """12 batches with an evaluation in the middle: every block makes every update."""
    recipe = paper(name)
    schedule = recipe.method.schedule(recipe.blocks, 12, {6: 1, 12: 2})

    def duration(block: int, action: Action) -> float:
        return 1.0 + 0.1 * block

    timeline = simulate(schedule, duration)
    for block in range(recipe.blocks):
        done = [span.action for span in timeline.of(block)]
        assert [a.batch for a in done if a.kind is Kind.UPDATE] == list(range(12))
        assert [a.batch for a in done if a.kind is Kind.EVALUATE] == [1, 2]


def test_settings_are_no_recipes() -> None:
    assert not set(SETTINGS) & set(NAMES)
    with pytest.raises(UserError, match="unknown recipe 'cifar-resnet'"):
        load("cifar-resnet")


def test_every_settings_file_is_used() -> None:
    extended: set[str] = set()
    for path in paths.recipes().glob("*/*.yaml"):
        bases = yaml.safe_load(path.read_text(encoding="utf-8")).get("extends", [])
        extended |= set(bases if isinstance(bases, list) else [bases])
    assert extended == set(SETTINGS)


def test_every_word_is_used() -> None:
    """What the shared files explain stands in some name."""
    spoken = {
        (matrix.group, word) for matrix in matrices() for key in matrix.listed for word in matrix.words(key)
    }
    for matrix in matrices():
        known = [*matrix.raw["methods"], *matrix.raw.get("experiments", {})]
        assert [word for word in known if (matrix.group, word) not in spoken] == []


def test_a_network_is_one_small_file() -> None:
    """It holds only what differs from its settings, and lists its recipes."""
    files = {entry.path for entry in CATALOGUE.values()}
    assert {(path.parent.name, path.stem) for path in files} == {
        (e.group, e.model) for e in CATALOGUE.values()
    }
    assert [path.name for path in files if len(path.read_text(encoding="utf-8").splitlines()) > 50] == []


def test_settings_and_hashes_are_what_they_were() -> None:
    """Stored runs are found by the hash of their settings: it must not change by itself."""
    lines = (Path(__file__).parent / "identities.txt").read_text(encoding="utf-8").splitlines()
    changed = []
    for name, *hashes in (line.split() for line in lines if not line.startswith("#")):
        for profile, expected in zip(PROFILES, hashes, strict=True):
            if expected == "-":
                continue
            recipe = load(name, profile)
            cut = tuple(range(1, recipe.blocks))
            if run_hash(recipe, device="cpu", data_identity="fake", cut=cut) != expected:
                changed.append((name, profile))
    assert changed == []


def test_listing_reads_little() -> None:
    """`repro list` has half a second in all; the catalogue takes some 40 ms of it. The margin is for busy machines."""
    start = perf_counter()
    catalogue()
    assert perf_counter() - start < 0.5
