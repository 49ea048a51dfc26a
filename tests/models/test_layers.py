"""What every layer promises: weights by (seed, name), replays that draw alike, inputs left as they were."""

import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from repro import models
from repro.errors import UserError
from repro.models import LayerFactory
from repro.recipe import ModelSpec

SMALL = ("resnet8", "vgg19", "cnn2", "tiny", "tiny-relu")


def factories(name: str, side: int = 16, **options: object) -> list[LayerFactory]:
    return models.layers(ModelSpec.model_validate({"name": name, **options}), (3, side, side), 3)


def digest(module: nn.Module) -> list[float]:
    return [float(v.double().sum()) for v in module.state_dict().values()]


@pytest.mark.parametrize("name", ["resnet8", "tiny"])
def test_weights_depend_on_seed_and_name_alone(name: str) -> None:
    """Whatever was drawn or built before, and in whichever order (B09)."""
    forward = {f.name: digest(f.build(3)) for f in factories(name)}
    torch.rand(17)
    backward = {f.name: digest(f.build(3)) for f in reversed(factories(name))}
    assert forward == backward
    assert forward != {f.name: digest(f.build(4)) for f in factories(name)}


def test_equal_shapes_in_different_places_differ() -> None:
    layers = [LayerFactory(f"conv{i}", lambda: nn.Conv2d(4, 4, 3)) for i in range(8)]
    assert len({tuple(digest(layer.build(0))) for layer in layers}) == 8


def test_looking_at_layers_draws_nothing() -> None:
    before = torch.get_rng_state()
    layers = factories("tiny", dropout=0.5)
    shapes = models.shapes(layers, (3, 16, 16))
    for factory, shape in zip(layers, shapes[:-1], strict=True):
        module = factory.build(0)
        models.mutates_input(module, torch.zeros(2, *shape))
        models.estimated_cost(module, shape)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_replay_drops_the_same_units() -> None:
    layer = LayerFactory("drop", lambda: nn.Sequential(nn.Dropout(0.5))).build(0)
    x = torch.ones(64, 64)
    first = models.run_layer(layer, "drop", x, 1, 5, 2)
    torch.rand(9)
    assert torch.equal(models.run_layer(layer, "drop", x, 1, 5, 2), first)
    others = [
        models.run_layer(layer, *other)
        for other in (("drop", x, 1, 5, 3), ("drop", x, 1, 6, 2), ("drop", x, 2, 5, 2))
    ]
    others.append(models.run_layer(layer, "other", x, 1, 5, 2))
    assert not any(torch.equal(y, first) for y in others)
    assert torch.equal(models.run_layer(layer.eval(), "drop", x, 1, 5, 2), x)


def test_only_active_dropout_touches_the_generator() -> None:
    x = torch.ones(4, 3, 16, 16)
    before = torch.get_rng_state()
    for name, options in (("tiny", {}), ("resnet8", {}), ("vgg19", {"dropout": 0.0})):
        y = x
        for factory in factories(name, **options):
            y = models.run_layer(factory.build(0), factory.name, y.clone(), 0, 0)
    models.run_layer(nn.Dropout(0.5).eval(), "d", x, 0, 0)
    assert torch.equal(torch.get_rng_state(), before)
    models.run_layer(nn.Dropout(0.5).train(), "d", x, 0, 0)
    assert not torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", SMALL)
def test_who_writes_to_its_input(name: str) -> None:
    """No layer does, but all of tiny-relu (B24); told without changing the layer."""
    layers = factories(name)
    for factory, shape in zip(layers, models.shapes(layers, (3, 16, 16))[:-1], strict=True):
        module = factory.build(0)
        state = {key: value.clone() for key, value in module.state_dict().items()}
        x = torch.randn(2, *shape)
        kept = x.clone()
        assert models.mutates_input(module, x) == (name == "tiny-relu"), factory.name
        assert torch.equal(x, kept)
        assert module.training
        assert all(torch.equal(value, state[key]) for key, value in module.state_dict().items())


def test_writing_in_training_mode_alone_is_seen_and_modes_stay() -> None:
    frozen = nn.Sequential(nn.Dropout(0.5, inplace=True), nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)).eval()
    frozen[1].train()
    assert models.mutates_input(frozen, torch.ones(2, 3, 4, 4))
    assert [part.training for part in frozen] == [False, True, False]
    models.estimated_cost(frozen, (3, 4, 4))
    assert [part.training for part in frozen] == [False, True, False]


@pytest.mark.parametrize("name", SMALL)
def test_estimated_cost_is_what_torch_counts(name: str) -> None:
    layers = factories(name)
    for factory, shape in zip(layers, models.shapes(layers, (3, 16, 16))[:-1], strict=True):
        module = factory.build(0).eval()
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            y = module(torch.zeros(1, *shape))
        assert models.estimated_cost(module, shape) == counter.get_total_flops() // 2 + y.numel()


def test_tied_weights_are_refused_with_both_names() -> None:
    """The same module, the same Parameter, or two Parameters on the same memory (B43)."""
    one, other, third = (nn.Linear(4, 4, bias=False) for _ in range(3))
    models.shared_parameters([("a", one), ("b", other), ("c", nn.Sequential(third, third))])
    third.weight = nn.Parameter(one.weight.detach())
    for tied in (one, third):
        with pytest.raises(UserError, match=r"stage1\.block1\.0\.weight and stage1\.block10\.0\.weight"):
            models.shared_parameters(
                [("stage1.block1", nn.Sequential(one)), ("b", other), ("stage1.block10", nn.Sequential(tied))]
            )


def test_listing_a_network_imports_no_torchvision() -> None:
    """Nor torch's compiler and its sympy: each of them takes seconds at the start of every command."""
    code = (
        "import sys; from repro import models; from repro.recipe import ModelSpec; "
        "fs = models.layers(ModelSpec(name='resnet164'), (3, 32, 32), 10); "
        "ss = models.shapes(fs, (3, 32, 32)); models.estimated_cost(fs[0].build(0), ss[0]); "
        "print([m for m in ('torchvision', 'torch._dynamo', 'sympy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
