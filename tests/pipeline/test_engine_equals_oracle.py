"""The promise everything rests on: K processes give the bits of one plain program, whatever the method."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.verification import compare
from tests.pipeline import in_process

METHODS: dict[str, dict[str, Any]] = {
    "bp": {"name": "bp"},
    "dsp": {"name": "dsp", "staleness": "p=1 q=1"},
    "dsp-s630": {"name": "dsp", "staleness": "p=2 q=1"},
    "fr-mailbox": {"name": "fr"},
    "fr-barrier": {"name": "fr", "locking": "barrier"},
    "fr-free": {"name": "fr", "locking": "free"},
    "ddg": {"name": "ddg"},
    "ddg-barrier": {"name": "ddg", "locking": "barrier"},
    "fdg": {"name": "fdg"},
    "gpipe": {"name": "gpipe", "micro": 4},
    "gpipe-kept": {"name": "gpipe", "micro": 3, "rematerialise": False},
    "dni": {"name": "dni", "hidden": 8},
    "cdni-lag2": {"name": "dni", "hidden": 8, "conditional": True, "lag": 2},
}


def assert_equal(recipe: Any, folder: Path, engine: str = "processes") -> None:
    found = compare(recipe, 0, "cpu", folder, engine)
    assert found.holds(0.0), "\n".join(found.lines(0.0))
    assert len(found.losses) == recipe.max_steps
    assert found.test_losses


@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
@pytest.mark.parametrize("name", METHODS)
def test_engine_equals_oracle_bit_for_bit(
    name: str, blocks: int, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    """BN, dropout, momentum, weight decay, an uneven last batch and an evaluation on the way are all on."""
    changes: dict[str, Any] = {"method": METHODS[name], "blocks": blocks, "max_steps": 16, "epochs": 3}
    if name in ("dsp", "bp"):
        changes["max_steps"] = 30
        changes["epochs"] = 5
    assert_equal(tiny(**changes), tmp_path)


@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
@pytest.mark.parametrize("name", METHODS)
def test_the_sequential_engine_gives_the_same_bits_in_one_process(
    name: str, blocks: int, tiny: Callable[..., Any]
) -> None:
    """The oracle shares no schedule code with it. At K = 4 the layers begin in place: a tensor written twice would show."""
    changes: dict[str, Any] = {"method": METHODS[name], "blocks": blocks, "max_steps": 16, "epochs": 3}
    changes["optimizer.lr"] = 0.001  # DNI with four blocks of this net diverges at more
    model = {"name": "tiny-relu"} if blocks == 4 else {"name": "tiny", "dropout": 0.1}
    in_process.assert_equal(tiny(**changes, model=model))


@pytest.mark.parametrize("name", ["dsp", "gpipe"])
def test_so_it_does_in_the_process_that_a_run_starts(
    name: str, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    """The test above runs it in pytest's own process."""
    assert_equal(tiny(method=METHODS[name], blocks=3, max_steps=16, epochs=3), tmp_path, "sequential")


@pytest.mark.parametrize(
    "change",
    [
        {"norm_statistics": "both"},
        {"norm_statistics": "forward"},
        {"optimizer": {"lr": 0.05}},
        {"optimizer": {"lr": 0.05, "momentum": 0.9, "milestones": [1], "decay": 0.5}},
        {"model": {"name": "tiny", "batch_norm": False}},
        {"evaluate_every": 2},
        {"data.last_batch": "drop"},
        {"data.batch_size": 17, "data.seed": 5},
        {"gradient.estimator": "zero", "gradient.schedule": "s3"},
        {"gradient.estimator": "top1", "gradient.schedule": "all"},
    ],
    ids=lambda c: ",".join(f"{k}={v}" for k, v in c.items()),
)
def test_switches_are_the_same_in_engine_and_oracle(
    change: dict[str, Any], tiny: Callable[..., Any], tmp_path: Path
) -> None:
    assert_equal(
        tiny(**{"method": METHODS["dsp"], "blocks": 3, "max_steps": 16, "epochs": 3, **change}), tmp_path
    )


def test_shared_queues_change_no_number_and_keep_the_run(tiny: Callable[..., Any], tmp_path: Path) -> None:
    """They decide only when things run; over processes, with an evaluation on the way."""
    shared = {"name": "dsp", "staleness": "2,1,0;6,3,0", "queues": "shared"}
    assert_equal(tiny(method=shared, blocks=3, max_steps=16, epochs=3), tmp_path)


@pytest.mark.parametrize("name", ["dsp", "fr-mailbox", "fdg"])
@pytest.mark.parametrize("batches", [1, 2, 3, 4])
def test_fewer_batches_than_blocks(name: str, batches: int, tiny: Callable[..., Any], tmp_path: Path) -> None:
    """Field report B07: the end of the data with batches in flight; 1, K-1, K and more than K batches."""
    recipe = tiny(method=METHODS[name], blocks=3, max_steps=batches, epochs=1)
    assert_equal(recipe, tmp_path)


def test_a_layer_that_writes_to_its_input_sees_a_copy(tiny: Callable[..., Any], tmp_path: Path) -> None:
    """Field report B24: each layer starts with ReLU(inplace=True), so every cut puts one first."""
    for blocks in (2, 4):
        recipe = tiny(
            model={"name": "tiny-relu"}, method=METHODS["dsp"], blocks=blocks, max_steps=8, epochs=2
        )
        assert_equal(recipe, tmp_path)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("name", ["bp", "dsp", "gpipe", "ddg", "cdni-lag2"])
def test_channels_last_equals_the_oracle_too(
    name: str, blocks: int, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    """Messages carry tensors in plain order; a block must lay them out again as if there were no cut."""
    changes = {"method": METHODS[name], "blocks": blocks, "max_steps": 16, "epochs": 3}
    estimator = {"gradient.estimator": "top1"} if name == "dsp" else {}
    assert_equal(tiny(memory_format="channels_last", **changes, **estimator), tmp_path)
