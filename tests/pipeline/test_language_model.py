"""The engine on sequences: equal to the oracle, resumed, verified, and what cannot be done said before it starts."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from repro.errors import UserError
from repro.planning.gradient_plan import check_gradient
from repro.planning.run_plan import make_plan
from repro.verification import compare
from tests.pipeline import in_process

METHODS: dict[str, dict[str, Any]] = {
    "bp": {"name": "bp"},
    "gpipe": {"name": "gpipe", "micro": 3},
    "fr": {"name": "fr", "locking": "free"},
    "ddg": {"name": "ddg", "locking": "free"},
    "dsp": {"name": "dsp", "staleness": "p=1 q=1"},
    "2bw": {"name": "2bw", "micro": 3},
    "pipemare": {"name": "pipemare"},
}
TEXT: dict[str, Any] = {
    "model": {"name": "gpt", "layers": 2, "width": 8, "heads": 2, "dropout": 0.1},
    "data": {"name": "text", "context": 6, "batch_size": 8, "test_batch_size": 16, "train_limit": 60, "test_limit": 30},
}  # fmt: skip


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("name", METHODS)
def test_a_transformer_gives_the_bits_of_the_oracle(name: str, blocks: int, tiny: Callable[..., Any]) -> None:
    """Dropout and an uneven last batch are on; at K = 2 a cut behind an attention, at K = 3 rotary positions."""
    changes: dict[str, Any] = {"method": METHODS[name], "blocks": blocks, **TEXT}
    if blocks == 2:
        changes["cut"] = (2,)
    if blocks == 3:
        changes["model"] = {**TEXT["model"], "positions": "rotary"}
    found = in_process.assert_equal(tiny(**changes))
    assert (len(found.losses), len(found.tests)) == (16, 2)


def test_processes_carry_tokens_and_hidden_states(tiny: Callable[..., Any], tmp_path: Path) -> None:
    found = compare(tiny(method=METHODS["dsp"], blocks=4, **TEXT), 0, "cpu", tmp_path, "processes")
    assert found.holds(0.0), "\n".join(found.lines(0.0))
    assert (len(found.losses), len(found.test_losses)) == (16, 2)


def test_the_oracle_of_an_mlp_agrees_too(tiny: Callable[..., Any]) -> None:
    recipe = tiny(
        method=METHODS["dsp"], blocks=3, max_steps=16, model={"name": "mlp", "layers": 3, "width": 8}
    )
    in_process.assert_equal(recipe)


def test_a_cut_off_run_goes_on_to_the_same_numbers(tiny: Callable[..., Any], tmp_path: Path) -> None:
    """Integer inputs, labels of two dimensions and kept graphs come back from a checkpoint."""
    from repro.progress import Progress
    from repro.runner import run_seed
    from repro.store import RunFolder

    class CutOff(Progress):
        def epoch(self, epoch: int, numbers: dict[str, float]) -> None:
            assert set(numbers) == {"train_loss", "test_loss", "test_bits_per_byte", "train_seconds"}
            if epoch == 2:
                raise KeyboardInterrupt

    recipe = tiny(method=METHODS["ddg"], blocks=3, **{**TEXT, "epochs": 3})
    plan = make_plan(recipe, "cpu", engine="sequential")
    with pytest.raises(KeyboardInterrupt):
        run_seed(plan, 0, tmp_path / "cut", CutOff(), blocking=True, fresh=False)
    folders = []
    for name in ("cut", "whole"):
        outcome = run_seed(plan, 0, tmp_path / name, Progress(), blocking=True, fresh=False)
        assert outcome is not None
        assert outcome.status == "complete", outcome
        folders.append(RunFolder(next((tmp_path / name).glob("*/*/seed-0"))))
    rows = [
        [{k: v for k, v in json.loads(line).items() if k != "train_seconds"} for line in f.metrics.open()]
        for f in folders
    ]
    assert rows[0] == rows[1]
    result = folders[0].read_result()
    assert result is not None
    assert result["resumed"] == 1
    assert "test_accuracy_last" not in result
    assert result["test_bits_per_byte_best"] <= result["test_bits_per_byte_last"]
    for held, formula in zip(result["peak_memory_bytes"], result["memory_formula_bytes"], strict=True):
        assert 0.8 * formula < held < 1.2 * formula


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"memory_format": "channels_last"}, "memory_format = 'channels_last' is of maps"),
        ({"method": {"name": "dni"}, "blocks": 2}, r"method 'dni' needs feature maps \[C, H, W\]"),
        ({"gradient": {"estimator": "top1"}}, "gradient.estimator = 'top1': gpt has no convolution"),
        ({"experiment": "bias"}, "experiment = 'bias': gpt has no convolution"),
        ({"blocks": 7}, "blocks = 7 is more than the 6 layers of gpt"),
        ({"data.context": 10**6}, "data.context = 1000000 is longer than the training part"),
    ],
)  # fmt: skip
def test_what_a_text_cannot_have_is_refused(
    changes: dict[str, Any], words: str, tiny: Callable[..., Any]
) -> None:
    with pytest.raises(UserError, match=words):
        check_gradient(make_plan(tiny(**{**deepcopy(TEXT), **changes}), "cpu"))


def test_a_layout_that_is_chosen_is_the_plain_one(tiny: Callable[..., Any]) -> None:
    """There are no maps, so nothing is measured for it."""
    plan = make_plan(tiny(memory_format="auto", **TEXT), "cpu")
    assert (plan.memory_format, plan.format_seconds) == ("contiguous", {})
    plain = make_plan(tiny(**TEXT), "cpu")
    assert plan.hash == make_plan(tiny(memory_format="contiguous", **TEXT), "cpu").hash == plain.hash


def test_costs_of_layers_on_tokens_are_measured(tiny: Callable[..., Any], tmp_path: Path) -> None:
    plan = make_plan(tiny(blocks=2, **{**TEXT, "cut": "measured"}), "cpu", costs_folder=tmp_path)
    assert plan.costs is not None
    assert len(plan.costs) == 6
    assert all(cost.forward > 0 for cost in plan.costs)
    assert plan.costs[0].inner_bytes + plan.costs[0].output_bytes + plan.costs[0].input_bytes > 0
