"""PipeDream, PipeDream-2BW, PipeMare and delayed BP: the weights that each pass meets, and the same bits everywhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from repro import data, models
from repro.engine.block.late_weights import LateWeights
from repro.engine.block.optimizer import BlockOptimizer
from repro.engine.block.weight_ring import WeightRing
from repro.errors import UserError
from repro.oracle import Oracle
from repro.oracle.late_leaves import differentiate_late
from repro.oracle.net import Net
from repro.planning.run_plan import make_plan
from repro.recipe.optimizers import SGD
from tests.faults.test_resume import Run, stop_after
from tests.pipeline import in_process
from tests.pipeline.test_engine_equals_oracle import assert_equal

NO_NORM = {"name": "tiny", "batch_norm": False}
EQUAL: list[tuple[dict[str, Any], int, dict[str, Any]]] = [
    ({"name": "pipedream"}, 3, {}),
    ({"name": "2bw", "micro": 1}, 1, {}),
    ({"name": "2bw", "micro": 2}, 2, {"model": NO_NORM}),
    ({"name": "2bw", "micro": 5}, 3, {}),
    ({"name": "2bw"}, 4, {"model": {"name": "tiny-relu"}, "optimizer.lr": 0.001}),
    ({"name": "2bw", "rematerialise": True}, 3, {}),
    ({"name": "2bw", "rematerialise": True}, 2, {"norm_statistics": "both", "norm_recalibration": 2}),
    ({"name": "2bw", "micro": 7}, 2, {"data.batch_size": 40}),  # the last batch has 3 samples: M = 3
    ({"name": "pipemare"}, 1, {}),
    ({"name": "pipemare"}, 3, {}),
    ({"name": "pipemare"}, 2, {"model": NO_NORM, "memory_format": "channels_last"}),
    ({"name": "pipemare"}, 4, {"model": {"name": "tiny-relu"}, "optimizer.lr": 0.001}),
    ({"name": "pipemare"}, 3, {"gradient.estimator": "zero", "gradient.schedule": "s1"}),
    ({"name": "delayed", "delay": 3}, 1, {}),
    ({"name": "delayed", "delay": 2}, 4, {}),
]


@pytest.mark.parametrize(
    ("method", "blocks", "change"), EQUAL, ids=lambda x: "-".join(map(str, x.values())) if isinstance(x, dict) else None
)  # fmt: skip
def test_the_sequential_engine_equals_the_oracle(
    method: dict[str, Any], blocks: int, change: dict[str, Any], tiny: Callable[..., Any]
) -> None:
    """BN, dropout, momentum, weight decay, an uneven last batch and evaluations on the way."""
    recipe = tiny(method=method, blocks=blocks, **{"max_steps": 16, "epochs": 3, **change})
    in_process.assert_equal(recipe)


@pytest.mark.parametrize("method", [{"name": "2bw"}, {"name": "pipemare"}], ids=lambda m: m["name"])
def test_processes_equal_the_oracle(method: dict[str, Any], tiny: Callable[..., Any], tmp_path: Path) -> None:
    assert_equal(tiny(method=method, blocks=3, max_steps=16, epochs=3), tmp_path)


# -- algebra ----------------------------------------------------------------------------------------------


def run_oracle(recipe: Any) -> tuple[list[float], dict[str, Tensor], dict[int, float]]:
    """Losses, final state and test losses; the tests above hold the engine to them."""
    torch.set_num_threads(1)
    found = Oracle(make_plan(recipe, "cpu"), 0).run()
    return found.losses, found.state, found.test_losses


def same(a: Any, b: Any) -> bool:
    return bool(a[0] == b[0] and a[2] == b[2] and all(torch.equal(a[1][k], b[1][k]) for k in b[1]))


def by_hand(recipe: Any, delay: int, micro: int) -> tuple[list[float], dict[str, Tensor]]:
    """W^(t+1) = W^(t) - lr v_t, v_t = 0.9 v + g_t(W^(t-delay)), with every version of the weights kept in a list."""
    torch.set_num_threads(1)
    batches = data.load(recipe.data, Path("data"), 0)
    named = [
        (f.name, f.build(0)) for f in models.layers(recipe.model, batches.image_shape, batches.num_classes)
    ]
    net = nn.Sequential(*(layer for _, layer in named))
    versions = [{n: p.detach().clone() for n, p in net.named_parameters()}]
    momentum: dict[str, Tensor] = {}
    losses = []
    for t in range(recipe.max_steps):
        used = {n: w.clone().requires_grad_() for n, w in versions[max(0, t - delay)].items()}
        images, labels = batches.train_images(t), batches.train_labels(t)
        loss = 0.0
        for x, y in zip(images.tensor_split(micro), labels.tensor_split(micro), strict=True):
            part = functional.cross_entropy(torch.func.functional_call(net, used, (x.contiguous(),)), y)
            part = part * (len(y) / len(labels)) if micro > 1 else part
            part.backward()
            loss += part.item()
        losses.append(loss)
        after = {}
        for n, w in versions[-1].items():
            gradient = used[n].grad
            assert gradient is not None
            momentum[n] = gradient.clone() if t == 0 else momentum[n] * 0.9 + gradient
            after[n] = w.add(momentum[n], alpha=-0.05)
        versions.append(after)
    return losses, {
        f"{named[int(n.split('.')[0])][0]}.{n.split('.', 1)[1]}": w for n, w in versions[-1].items()
    }


@pytest.mark.parametrize(
    ("method", "blocks", "delay", "micro"),
    [
        ({"name": "2bw", "micro": 4}, 3, 1, 4),
        ({"name": "delayed", "delay": 3}, 2, 3, 1),
        ({"name": "delayed", "delay": 0}, 2, 0, 1),
    ],
    ids=str,
)
def test_a_loop_that_keeps_every_version_gives_the_same_bits(
    method: dict[str, Any], blocks: int, delay: int, micro: int, tiny: Callable[..., Any]
) -> None:
    recipe = tiny(
        method=method,
        blocks=blocks,
        max_steps=9,
        model=NO_NORM,
        optimizer={"lr": 0.05, "momentum": 0.9},
    )
    losses, state, _ = run_oracle(recipe)
    hand, weights = by_hand(recipe, delay, micro)
    assert losses == hand
    assert all(torch.equal(state[n], w) for n, w in weights.items())


def test_names_that_mean_the_same_give_the_same_bits(tiny: Callable[..., Any]) -> None:
    """And what is another rule gives others: PipeMare is neither DDG nor FR."""
    found = {
        (str(method), blocks): run_oracle(tiny(method=method, blocks=blocks))
        for method, blocks in [
            ({"name": "bp"}, 1),
            ({"name": "delayed", "delay": 0}, 2),
            ({"name": "delayed", "delay": 1}, 1),
            ({"name": "delayed", "delay": 1}, 3),
            ({"name": "2bw", "micro": 1}, 1),
            ({"name": "pipemare"}, 1),
            ({"name": "pipemare"}, 3),
            ({"name": "pipedream"}, 3),
            ({"name": "ddg", "locking": "free"}, 3),
            ({"name": "fr"}, 3),
        ]
    }

    def of(name: str, blocks: int, **more: Any) -> Any:
        return found[str({"name": name, **more}), blocks]

    assert same(of("delayed", 2, delay=0), of("bp", 1))
    assert same(of("pipemare", 1), of("bp", 1))
    assert same(of("delayed", 3, delay=1), of("delayed", 1, delay=1))  # K changes no number
    assert same(of("2bw", 1, micro=1), of("delayed", 1, delay=1))
    assert same(of("pipedream", 3), of("ddg", 3, locking="free"))
    different = [of("bp", 1), of("pipemare", 3), of("pipedream", 3), of("fr", 3), of("delayed", 1, delay=1)]
    for a, b in itertools.combinations(different, 2):
        assert a[0] != b[0]


def linear_pair() -> nn.Sequential:
    first, second = nn.Linear(3, 4, bias=False), nn.Linear(4, 2, bias=False)
    return nn.Sequential(first, second)


def test_pipemare_takes_activations_of_then_and_weights_of_now_by_hand() -> None:
    """y = V W x: dV = g (W_then x)', dW = V_now' g x', dx = W_now' V_now' g."""
    net = linear_pair()
    x, g = torch.randn(5, 3, requires_grad=True), torch.randn(5, 2)
    hidden_then = (x @ net[0].weight.T).detach()
    late = LateWeights(net)
    with late.graph() as kept:
        y = net(x)
    assert len(kept) == 2  # both inputs, no weight
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(-0.5).add_(0.1)
    y.backward(g)
    first, second = net[0].weight, net[1].weight
    assert torch.allclose(second.grad, g.T @ hidden_then)
    assert torch.allclose(first.grad, (g @ second).T @ x.detach())
    assert torch.allclose(x.grad, g @ second @ first)


def test_the_oracles_way_to_the_same_gradient_is_another() -> None:
    """No hooks on saved tensors: module by module, again from the stored input; equal to the formulas too."""
    pair = linear_pair()
    net = Net([("a", pair[0]), ("b", pair[1])], seed=0, copies_input=False)
    then = {n: p.detach().clone().requires_grad_() for n, p in net.named_parameters()}
    now = {n: (w.detach() * -0.5 + 0.1).requires_grad_() for n, w in then.items()}
    differentiate_late(net, lambda: now)
    x, g = torch.randn(5, 3, requires_grad=True), torch.randn(5, 2)
    y = torch.func.functional_call(net, then, (x, 0, 0))
    names = list(then)
    found = torch.autograd.grad(y, [*then.values(), x], g)
    w, v = (now[n].detach() for n in names)
    assert torch.allclose(found[1], g.T @ (x @ then[names[0]].T))
    assert torch.allclose(found[0], (g @ v).T @ x)
    assert torch.allclose(found[2], g @ v @ w)


def test_an_activation_that_is_written_to_is_still_refused() -> None:
    """Hooks switch autograd's version check off; for activations it is made here."""
    net = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid())
    with LateWeights(net).graph():
        y = net(torch.randn(2, 3))
    y.detach().add_(1.0)  # Sigmoid keeps its output
    with pytest.raises(RuntimeError, match=r"an activation of shape \(2, 3\) has been written to"):
        y.sum().backward()


def test_a_module_with_weights_and_parts_has_no_late_product_in_the_oracle() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.part = nn.Parameter(torch.ones(3)), nn.Linear(3, 3)

    with pytest.raises(ValueError, match=r"module layers\.0 owns weights beside those of its parts"):
        differentiate_late(Net([("a", Scaled())], 0, False), dict)


# -- versions of the weights ------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [1, 3])
def test_a_ring_has_delay_plus_one_versions_and_writes_over_the_oldest(delay: int) -> None:
    layer = nn.Linear(2, 1, bias=False)
    optimizer = BlockOptimizer([("a", layer)], SGD(lr=1.0, momentum=0.0), steps_per_epoch=100)
    ring = WeightRing(optimizer, delay)
    start = layer.weight.detach().clone()
    seen: set[int] = set()
    history = [start]
    for t in range(9):
        with ring.at(t, t):
            assert torch.equal(layer.weight, history[max(0, t - delay)])
            (layer.weight * float(t + 1)).sum().backward()
        assert torch.equal(layer.weight, history[t])
        assert torch.equal(ring.gather(t)[0], history[max(0, t - delay)])
        ring.advance(t)
        optimizer.step(t)
        history.append(history[-1] - (t + 1))
        assert torch.equal(layer.weight, history[t + 1])
        assert len(ring.older) == min(t + 1, delay)
        seen |= {w.data_ptr() for w in (layer.weight, *ring.tensors())}
    assert len(seen) == delay + 1


# -- resume -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "blocks", "change"),
    [
        ({"name": "pipedream"}, 3, {}),
        ({"name": "2bw"}, 3, {}),
        ({"name": "2bw", "micro": 3, "rematerialise": True}, 2, {"norm_statistics": "both"}),
        ({"name": "pipemare"}, 3, {}),
        ({"name": "delayed", "delay": 3}, 2, {}),
    ],
    ids=str,
)
def test_a_run_cut_off_goes_on_with_the_same_bits(
    method: dict[str, Any], blocks: int, change: dict[str, Any], tiny: Callable[..., Any], tmp_path: Path
) -> None:
    """One process: the second epoch's checkpoint holds batches in flight, older weights, moments and activations."""
    recipe = tiny(method=method, blocks=blocks, epochs=3, **change)
    calm = Run(recipe, tmp_path / "calm", "sequential")
    expected = calm.numbers(calm.go())
    hurt = Run(recipe, tmp_path / "hurt", "sequential")
    with pytest.raises(KeyboardInterrupt):
        hurt.go(stop_after(17))
    assert hurt.numbers(hurt.go()) == expected
    assert any("going on after batch 14" in line for line in hurt.heard.lines)


# -- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "blocks", "words"),
    [
        ({"name": "2bw", "micro": 3}, 4, r"method\.micro = 3 micro-batches are fewer than blocks = 4.*give 4\.\.32"),
        ({"name": "2bw", "micro": 33}, 2, r"method\.micro = 33 .* more than data\.batch_size = 32 .*give 2\.\.32"),
        ({"name": "2bw", "micro": 0}, 1, r"method.*micro.*0"),
        ({"name": "2bw", "delay": 2}, 2, r"method\.delay"),
        ({"name": "delayed", "delay": -1}, 1, r"method.*delay.*-1"),
        ({"name": "delayed", "delay": 1.5}, 1, r"method.*delay.*1\.5"),
        ({"name": "pipemare", "locking": "free"}, 2, r"locking"),
        ({"name": "pipedreams"}, 2, r"Did you mean .*pipedream"),
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_do_not_fit_are_named(
    method: dict[str, Any], blocks: int, words: str, tiny: Callable[..., Any]
) -> None:
    with pytest.raises(UserError, match=words) as caught:
        tiny(method=method, blocks=blocks)
    assert "\n" not in str(caught.value)
