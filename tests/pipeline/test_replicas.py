"""Several replicas of a pipeline: each has its share of every batch, all have the weights of one plain program."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from repro.engine.block.share import ShareRow, put_back
from repro.engine.processes.launch import Diverged, Launch
from repro.engine.transport.replica_sum import added_up
from repro.errors import UserError
from repro.planning.replication import shard_sizes
from repro.planning.run_plan import make_plan
from repro.recipe.identity import counted
from repro.verification import compare
from tests.pipeline import in_process

METHODS: dict[str, dict[str, Any]] = {
    "bp": {"name": "bp"},
    "gpipe": {"name": "gpipe", "micro": 3},
    "gpipe-kept": {"name": "gpipe", "micro": 2, "rematerialise": False},
    "fr": {"name": "fr"},
    "ddg": {"name": "ddg", "locking": "barrier"},
    "fdg": {"name": "fdg"},
    "dsp": {"name": "dsp", "staleness": "p=2 q=1"},
    "pipedream": {"name": "pipedream"},
    "2bw": {"name": "2bw", "micro": 3},
    "pipemare": {"name": "pipemare"},
    "delayed": {"name": "delayed", "delay": 2},
}


@pytest.mark.parametrize(
    ("name", "blocks", "replicas"),
    [*((name, 3, 2) for name in METHODS), ("bp", 1, 3), ("gpipe", 2, 4), ("dsp", 2, 3)],
)
def test_replicas_have_the_bits_of_the_oracle(
    name: str, blocks: int, replicas: int, tiny: Callable[..., Any]
) -> None:
    """BN, dropout and an uneven last batch of an epoch are on."""
    recipe = tiny(
        **{"method": METHODS[name], "blocks": blocks, "replicas": replicas, "max_steps": 10, "epochs": 2},
        **{"data.batch_size": 36},
    )
    found = in_process.assert_equal(recipe)
    whole = [worker.block.optimizer.weights for worker in found.workers[:blocks]]
    for rank, worker in enumerate(found.workers):
        pairs = zip(worker.block.optimizer.weights, whole[rank % blocks], strict=True)
        assert all(torch.equal(mine, first) for mine, first in pairs), f"rank {rank}"


@pytest.mark.parametrize(
    "change",
    [
        {"norm_statistics": "both"},
        {"norm_recalibration": 2},
        {"optimizer.clip_norm": 0.5},
        {"gradient.estimator": "random", "gradient.schedule": "all"},
        {"gradient.estimator": "top1", "gradient.schedule": "s1"},
        {"corrections": ["compensation"]},
        {"method": {"name": "2bw", "micro": 3}, "corrections": ["prediction"]},
        {"optimizer": {"name": "adamw", "lr": 0.001}},
    ],
    ids=lambda c: ",".join(f"{k}={v}" for k, v in c.items()),
)
def test_settings_mean_the_same_for_replicas(change: dict[str, Any], tiny: Callable[..., Any]) -> None:
    given: dict[str, Any] = {
        "method": METHODS["fdg"],
        "blocks": 3,
        "replicas": 2,
        "max_steps": 10,
        "epochs": 2,
    }
    in_process.assert_equal(tiny(**{**given, **change}))


def test_replicas_of_a_transformer(tiny: Callable[..., Any]) -> None:
    text = {
        "name": "text",
        "context": 6,
        "batch_size": 8,
        "test_batch_size": 16,
        "train_limit": 60,
        "test_limit": 30,
    }
    model = {"name": "gpt", "layers": 2, "width": 8, "heads": 2, "dropout": 0.1}
    in_process.assert_equal(tiny(method=METHODS["dsp"], blocks=3, replicas=2, model=model, data=text))


@pytest.mark.parametrize(("name", "blocks", "replicas"), [("dsp", 2, 2), ("gpipe", 1, 3)])
def test_processes_of_replicas_have_the_bits_of_the_oracle(
    name: str, blocks: int, replicas: int, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    """With three replicas the order in which their gradients are added up shows."""
    recipe = tiny(method=METHODS[name], blocks=blocks, replicas=replicas, max_steps=12, epochs=2,
                  **{"data.batch_size": 36})  # fmt: skip
    found = compare(recipe, 0, "cpu", tmp_path)
    assert found.holds(0.0), "\n".join(found.lines(0.0))
    assert len(found.losses) == 12
    assert sum("(replica " in name for name in found.tensors) == (replicas - 1) * sum(
        "running" not in name and "num_batches" not in name and "(replica " not in name
        for name in found.tensors
    ), "every weight of every replica is compared"


def test_what_is_not_finite_in_one_replica_ends_all(tiny: Callable[..., Any]) -> None:
    """Every replica has the sum, so that whoever looks first says so."""
    plan = make_plan(tiny(method=METHODS["dsp"], blocks=2, replicas=2, **{"optimizer.lr": 1e30}), "cpu")
    with pytest.raises(Diverged, match=r" is (nan|-?inf) at batch \d+ in block [01]( of replica [01])?"):
        Launch(plan, 0).run()
    assert not [p for p in multiprocessing.active_children() if p.name.startswith("repro block")]


def test_two_replicas_without_pipeline_are_gpipe_with_two_micro_batches(tiny: Callable[..., Any]) -> None:
    """The same sums in one process and one pipeline: an oracle that knows nothing of replicas."""
    given: dict[str, Any] = {"max_steps": 14, "epochs": 3}  # the last batch of an epoch is uneven
    replicated = in_process.engine(tiny(replicas=2, **given))
    micro = in_process.engine(tiny(method={"name": "gpipe", "micro": 2, "rematerialise": False}, **given))
    assert replicated.losses == micro.losses
    weights = [n for n in micro.state if "running" not in n and "num_batches" not in n]
    assert weights
    assert all(torch.equal(replicated.state[n], micro.state[n]) for n in weights)


@pytest.mark.parametrize("name", ["dsp", "ddg", "2bw"])
def test_a_cut_off_run_of_replicas_goes_on_to_the_same_bits(
    name: str, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    recipe = tiny(method=METHODS[name], blocks=2, replicas=2, epochs=2)
    assert in_process.resumed(recipe, tmp_path) == in_process.engine(recipe)
    assert len(list((tmp_path / "epoch-1").glob("block-*.pt"))) == 4, "a file for each rank"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"replicas": 3}, r"replicas = 3 does not divide data.batch_size = 32: .* a batch of 30 or 33 samples"),
        ({"replicas": 64}, r"replicas = 64 does not divide .* a batch of 64 samples"),
        ({"replicas": 0}, r"replicas"),
        ({"replicas": 2, "method": {"name": "dni", "hidden": 8}}, r"replicas = 2: method 'dni' trains predictors"),
        ({"replicas": 2, "experiment": "straggler"}, r"replicas = 2: experiment = 'straggler' is about one pipeline"),
        ({"replicas": 2, "experiment": "gradient-gap"}, r"experiment = 'gradient-gap' is about one pipeline"),
        ({"replicas": 2, "straggler": {"probability": 0.1, "delay": 1.0}}, r"straggler: random delays"),
        (
            {"replicas": 2, "gradient": {"estimator": "top1", "schedule": "measured"}},
            r"gradient.schedule = 'measured' may decide otherwise",
        ),
        ({"replicas": 16, "method": {"name": "gpipe", "micro": 4}}, r"method.micro = 4 micro-batches are more than"),
    ],
)  # fmt: skip
def test_what_replicas_cannot_train_is_refused_with_the_reason(
    change: dict[str, Any], words: str, tiny: Callable[..., Any]
) -> None:
    with pytest.raises(UserError, match=words):
        tiny(blocks=2, **change)


def test_a_last_batch_with_fewer_samples_than_replicas_is_refused(tiny: Callable[..., Any]) -> None:
    change = {"data.batch_size": 8, "data.train_limit": 83, "replicas": 4}
    with pytest.raises(
        UserError, match=r"replicas = 4: the last batch of an epoch has 3 samples.*last_batch=drop"
    ):
        make_plan(tiny(**change), "cpu")
    assert make_plan(tiny(**change, **{"data.last_batch": "drop"}), "cpu").ranks == 4


def test_a_replica_of_one_sample_and_a_1x1_map_is_refused(tiny: Callable[..., Any]) -> None:
    data = {"name": "synthetic", "batch_size": 4, "train_limit": 8, "test_limit": 8, "image_size": 4}
    recipe = tiny(model={"name": "resnet8"}, replicas=4, epochs=1, data=data)
    words = r"data.batch_size = 4 for replicas = 4: BatchNorm .* give data.batch_size >= 8"
    with pytest.raises(UserError, match=words):
        make_plan(recipe, "cpu")


def test_replicas_enter_the_hash_only_where_there_are_several(tiny: Callable[..., Any]) -> None:
    one, two = (make_plan(tiny(replicas=r), "cpu") for r in (1, 2))
    assert "replicas" not in counted(one.recipe)
    assert counted(two.recipe)["replicas"] == 2
    assert one.hash != two.hash
    assert (two.ranks, two.devices, two.rank_words(1)) == (2, ("cpu", "cpu"), "block 0 of replica 1")
    assert one.rank_words(0) == "block 0"


def test_shards_differ_by_at_most_one_sample() -> None:
    assert shard_sizes(10, 4) == [3, 3, 2, 2]
    assert shard_sizes(8, 2) == [4, 4]


def test_a_row_holds_gradients_and_each_replicas_losses() -> None:
    """A weight without gradient has no place; a gradient that lies channels last comes back as it lay."""
    places, rows, filters = [2, 1], [], torch.arange(16.0).reshape(2, 2, 2, 2)
    for replica, losses in enumerate(([1.5, 2.5], [4.0])):
        weights = [torch.zeros(2, 2, 2, 2, requires_grad=True), torch.zeros(3, requires_grad=True)]
        weights[0].grad = (filters * (replica + 1)).to(memory_format=torch.channels_last)
        row = ShareRow(replica, 2).filled(weights, [torch.tensor(x) for x in losses], places)
        rows.append(row)
    assert rows[1].tolist()[16:] == [0.0, 0.0, 4.0, 0.0], "19 numbers, filled up to two equal parts"
    found = put_back(added_up(rows), weights, places)
    assert [float(x) for x in found] == [1.5, 2.5, 4.0]
    assert weights[0].grad is not None
    assert torch.equal(weights[0].grad, 3 * filters)
    assert weights[0].grad.is_contiguous(memory_format=torch.channels_last)
    assert weights[1].grad is None
