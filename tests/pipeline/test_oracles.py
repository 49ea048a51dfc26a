"""Oracles of field-reports.md against programs that are not ours: a bare loop, torch's own GPipe schedule, BP."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from repro import data, models
from repro.engine.processes.launch import Launch, Listener
from repro.planning.run_plan import make_plan
from tests.pipeline import in_process


def engine(
    recipe: Any, folder: Path, seed: int = 0
) -> tuple[list[float], dict[int, dict[str, float]], dict[str, Any]]:
    """Losses, evaluations and final state of an engine run; one block, which has no neighbour, in this process."""
    if recipe.blocks == 1:
        alone = in_process.engine(recipe, seed)
        return [alone.losses[i] for i in range(len(alone.losses))], alone.epochs, alone.state
    plan = make_plan(recipe, "cpu")
    losses: list[float] = []
    epochs: dict[int, dict[str, float]] = {}
    folder.mkdir(parents=True, exist_ok=True)
    Launch(plan, seed, final_weights=folder).run(
        Listener(
            step=lambda i, loss, n: losses.append(loss),
            epoch=lambda e, numbers: epochs.__setitem__(e, numbers),
        )
    )
    state: dict[str, Any] = {}
    for k in range(plan.blocks):
        state.update(torch.load(folder / f"block-{k}.pt"))
    return losses, epochs, state


@pytest.mark.parametrize("blocks", [1, 3])
def test_bp_equals_a_bare_pytorch_loop_bit_for_bit(
    blocks: int, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    recipe = tiny(blocks=blocks, **{"model.dropout": 0.0})
    losses, epochs, state = engine(recipe, tmp_path)
    torch.set_num_threads(1)
    batches = data.load(recipe.data, Path("data"), 0)
    named = [
        (f.name, f.build(0)) for f in models.layers(recipe.model, batches.image_shape, batches.num_classes)
    ]
    net = torch.nn.Sequential(*(layer for _, layer in named))
    sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.0005)
    bare = []
    for i in range(len(losses)):
        loss = torch.nn.functional.cross_entropy(net(batches.train_images(i)), batches.train_labels(i))
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        bare.append(loss.item())
    assert losses == bare
    for name, layer in named:
        for key, value in layer.state_dict().items():
            assert torch.equal(state[f"{name}.{key}"], value), f"{name}.{key}"
    net.eval()
    with torch.no_grad():
        right = sum(
            int((net(batches.test_images(j)).argmax(1) == batches.test_labels(j)).sum())
            for j in range(batches.test_steps)
        )
    assert epochs[2]["test_accuracy"] == 100.0 * right / batches.test_size


@pytest.mark.parametrize(
    "method",
    [{"name": "fr"}, {"name": "dsp", "staleness": "p=1 q=1"}, {"name": "fdg"}, {"name": "gpipe", "micro": 1}],
    ids=lambda m: m["name"],
)
def test_with_one_block_every_method_is_bp(method: Any, tiny: Callable[..., Any], tmp_path: Path) -> None:
    """Train and evaluation losses: BN statistics are updated once a batch (field report B11)."""
    base, base_epochs, base_state = engine(tiny(), tmp_path / "bp")
    losses, epochs, state = engine(tiny(method=method), tmp_path / "other")
    assert losses == base
    for e, numbers in base_epochs.items():
        assert epochs[e]["test_loss"] == numbers["test_loss"]
    tracked = [k for k in state if k.endswith("num_batches_tracked")]
    assert tracked
    assert all(int(state[k]) == len(losses) for k in tracked)
    assert all(torch.equal(state[k], base_state[k]) for k in base_state)


@pytest.mark.parametrize("blocks", [1, 3, 4])
@pytest.mark.parametrize("micro", [1, 3, 5])
def test_gpipe_without_bn_and_dropout_is_bp(
    blocks: int, micro: int, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    plain = {"model": {"name": "tiny", "batch_norm": False}, "max_steps": 14}
    base, base_epochs, _ = engine(tiny(**plain), tmp_path / "bp")
    losses, epochs, _ = engine(
        tiny(**plain, blocks=blocks, method={"name": "gpipe", "micro": micro}), tmp_path / "gpipe"
    )
    assert losses == pytest.approx(base, rel=1e-5)
    assert epochs[2]["test_accuracy"] == base_epochs[2]["test_accuracy"]


def test_gpipe_rematerialised_equals_kept(tiny: Callable[..., Any], tmp_path: Path) -> None:
    """Recompute on equals off, with BN and dropout."""
    found = [
        engine(tiny(blocks=2, method={"name": "gpipe", "micro": 4, "rematerialise": r}), tmp_path / str(r))
        for r in (True, False)
    ]
    assert found[0][0] == found[1][0]
    assert found[0][1][2]["test_loss"] == found[1][1][2]["test_loss"]


@pytest.mark.parametrize("method", ["bp", "dsp", "fr", "gpipe"])
@pytest.mark.parametrize("blocks", [1, 4])
def test_every_test_sample_is_scored_once(
    method: str, blocks: int, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    """Field report B13: accuracy times 203 is an integer (an uneven last batch, no padding)."""
    _, epochs, _ = engine(tiny(blocks=blocks, **{"method.name": method}), tmp_path)
    for numbers in epochs.values():
        right = numbers["test_accuracy"] * 203 / 100
        assert right == pytest.approx(round(right), abs=1e-6)


@pytest.mark.parametrize("method", ["dsp", "fr", "gpipe", "ddg"])
def test_stale_methods_learn_where_bp_does(method: str, tiny: Callable[..., Any], tmp_path: Path) -> None:
    """Field report B36: the labels belong to the images."""
    recipe = tiny(
        blocks=4,
        epochs=6,
        **{"method.name": method, "data.batch_size": 15, "optimizer.lr": 0.02, "model.dropout": 0.0},
    )
    _, epochs, _ = engine(recipe, tmp_path)
    assert max(numbers["test_accuracy"] for numbers in epochs.values()) > 95


def test_weights_at_the_start_do_not_depend_on_k(tiny: Callable[..., Any], tmp_path: Path) -> None:
    """Field report B09: with lr = 0 the evaluation loss is the same for every K, and differs between seeds."""
    zero = {"optimizer": {"lr": 0.0}, "max_steps": 1, "epochs": 1}
    found = [
        engine(tiny(blocks=k, method={"name": "dsp"}, **zero), tmp_path / f"{k}-{seed}", seed)[0][0]
        for k, seed in ((1, 0), (2, 0), (4, 0), (8, 0), (1, 1))
    ]
    assert len(set(found[:4])) == 1
    assert found[4] != found[0]


def test_evaluating_often_changes_nothing(tiny: Callable[..., Any], tmp_path: Path) -> None:
    often, seldom = (
        engine(tiny(blocks=3, epochs=4, evaluate_every=n, method={"name": "dsp"}), tmp_path / str(n))
        for n in (1, 4)
    )
    assert often[0] == seldom[0]
    assert often[1][4]["test_loss"] == seldom[1][4]["test_loss"]
