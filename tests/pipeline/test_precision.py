"""bfloat16 by autocast: engine and oracle apply it each on its own, and agree; what cannot be is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from repro.errors import UserError
from repro.models import LayerFactory
from repro.planning.block_times import message_sizes
from repro.planning.network_checks import check_number_formats
from repro.planning.partition import graph_bytes
from repro.planning.run_plan import make_plan
from repro.recipe import counted
from repro.verification import compare
from tests.pipeline.in_process import engine, oracle

METHODS: dict[str, dict[str, Any]] = {
    "bp": {"name": "bp"},
    "gpipe": {"name": "gpipe", "micro": 3},
    "fdg": {"name": "fdg"},
    "fr": {"name": "fr"},
    "dsp": {"name": "dsp", "staleness": "p=1 q=1"},
    "dni": {"name": "dni", "hidden": 8},
    "2bw": {"name": "2bw", "micro": 3},
}
SHORT = {"epochs": 2, "max_steps": 10, "optimizer.lr": 0.01}


@pytest.mark.parametrize("name", METHODS)
def test_engine_equals_oracle_under_autocast(name: str, tiny: Callable[..., Any]) -> None:
    """With dropout, BN, an uneven last batch and an evaluation on the way."""
    recipe = tiny(method=METHODS[name], blocks=3, autocast="bfloat16", **SHORT)
    found = engine(recipe)
    assert found == oracle(recipe)
    assert len(found.losses) == 10
    assert all(value.dtype != torch.bfloat16 for value in found.state.values())
    plain = engine(tiny(method=METHODS[name], blocks=3, **SHORT))
    assert found.losses[0] == pytest.approx(plain.losses[0], rel=0.05)
    assert found.losses != plain.losses


def test_processes_send_16_bit_messages_and_equal_the_oracle(
    tiny: Callable[..., Any], tmp_path: Path
) -> None:
    recipe = tiny(
        method=METHODS["dsp"], blocks=2, autocast="bfloat16", memory_format="channels_last", **SHORT
    )
    found = compare(recipe, 0, "cpu", tmp_path)
    assert found.holds(0.0), "\n".join(found.lines(0.0))
    plan = make_plan(recipe, "cpu")
    assert plan.dtype(plan.cut[0]) == torch.bfloat16
    whole = message_sizes(make_plan(tiny(blocks=2, cut=list(plan.cut)), "cpu"))
    assert message_sizes(plan) == tuple(size / 2 for size in whole)


def test_a_text_keeps_its_residual_stream_in_32_bits(tiny: Callable[..., Any]) -> None:
    """Which type a boundary has is found out, not assumed."""
    recipe = tiny(
        model={"name": "gpt", "layers": 2, "width": 16, "heads": 2},
        data={"name": "text", "batch_size": 8, "context": 16, "train_limit": 64, "test_limit": 16},
        method={"name": "fdg"}, blocks=2, autocast="bfloat16", epochs=1, max_steps=4,
    )  # fmt: skip
    plan = make_plan(recipe, "cpu")
    assert plan.dtype(0) == torch.int64
    assert plan.dtype(plan.cut[0]) == torch.float32
    assert engine(recipe) == oracle(recipe)


def test_the_memory_formula_knows(tiny: Callable[..., Any]) -> None:
    """Formula and count of a graph agree as they do in float32; a map of 16 bits takes half the bytes."""
    formulas, counts = {}, {}
    for autocast in ("none", "bfloat16"):
        changes = {
            "model": {"name": "resnet14"},
            "method": METHODS["dsp"],
            "cut": [3],
            "max_steps": 4,
            "epochs": 1,
        }
        recipe = tiny(blocks=2, autocast=autocast, data={"name": "colours", "batch_size": 32}, **changes)
        plan = make_plan(recipe, "cpu", measure=True)
        assert plan.costs is not None
        counts[autocast] = [max(w.block.graph_bytes.values()) for w in engine(recipe).workers]
        formulas[autocast] = [graph_bytes(plan.costs[low:high]) for low, high in plan.layer_spans]
        assert counts[autocast] == pytest.approx(formulas[autocast], rel=0.05)
    for whole, half in zip(formulas["none"], formulas["bfloat16"], strict=True):
        assert 0.45 < half / whole < 0.8
    (shape,) = [plan.shapes[cut] for cut in plan.cut]
    sent = message_sizes(plan)
    assert sent == (2 * 32 * shape[0] * shape[1] * shape[2],)


def test_it_counts_in_the_hash_only_where_it_is_used(tiny: Callable[..., Any]) -> None:
    assert not {"autocast", "tf32"} & set(counted(tiny()))
    assert counted(tiny(autocast="bfloat16"))["autocast"] == "bfloat16"
    assert counted(tiny(tf32=True))["tf32"] is True


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"autocast": "float16"}, "autocast = 'float16'"),
        ({"gradient.estimator": "top1"}, "the kernels that estimate filter gradients read float32 maps"),
        ({"experiment": "bias"}, "experiment = 'bias'"),
        ({"method": {"name": "pipemare"}, "blocks": 2}, "method 'pipemare' reads the weights of now"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], words: str, tiny: Callable[..., Any]) -> None:
    with pytest.raises(UserError) as found:
        tiny(**{"autocast": "bfloat16", **settings})
    assert words in str(found.value)


def test_tf32_is_of_gpus(tiny: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match="tf32 = true rounds products on CUDA devices"):
        make_plan(tiny(tf32=True), "cpu")


def test_weights_of_64_bits_are_refused(tiny: Callable[..., Any]) -> None:
    layers = [LayerFactory("fc", lambda: torch.nn.Linear(2, 2, dtype=torch.float64))]
    with pytest.raises(
        UserError, match=r"autocast = 'bfloat16' is for weights of float32, and fc.weight has float64"
    ):
        check_number_formats(tiny(autocast="bfloat16"), layers, "cpu")
    check_number_formats(tiny(), layers, "cpu")
