"""Each network: its size, its layers, and images of every size that a profile may give it."""

import pytest
import torch
import torchvision

from repro import models
from repro.errors import UserError
from repro.models.imagenet import from_torchvision, to_torchvision
from repro.recipe import ModelSpec


def build(
    name: str, shape: tuple[int, int, int], classes: int = 10, **options: object
) -> list[torch.nn.Module]:
    return [
        f.build(0) for f in models.layers(ModelSpec.model_validate({"name": name, **options}), shape, classes)
    ]


@pytest.mark.parametrize(
    ("name", "shape", "classes", "weights", "layers"),
    [
        ("resnet14", (3, 32, 32), 10, 172_506, 8),
        ("resnet20", (3, 32, 32), 10, 269_722, 11),
        ("resnet56", (3, 32, 32), 10, 853_018, 29),
        ("resnet98", (3, 32, 32), 10, 1_533_530, 50),
        ("resnet110", (3, 32, 32), 10, 1_727_962, 56),
        ("resnet164", (3, 32, 32), 10, 2_602_906, 83),
        ("preact-resnet164", (3, 32, 32), 10, 1_703_258, 56),
        ("vgg19", (3, 32, 32), 10, 20_035_018, 17),
        ("resnext29", (3, 32, 32), 10, 34_426_698, 11),
        ("imagenet-resnet18", (3, 224, 224), 1000, 11_689_512, 10),
        ("imagenet-resnet50", (3, 224, 224), 1000, 25_557_032, 18),
        ("cnn2", (3, 24, 24), 10, 1_068_298, 5),
        ("tiny", (3, 16, 16), 3, 11_403, 8),
        ("tiny-relu", (3, 16, 16), 3, 3_755, 8),
    ],
)
def test_number_of_weights_and_layers(
    name: str, shape: tuple[int, int, int], classes: int, weights: int, layers: int
) -> None:
    factories = models.layers(ModelSpec(name=name), shape, classes)
    with torch.device("meta"):
        modules = [factory.make() for factory in factories]
    assert sum(p.numel() for module in modules for p in module.parameters()) == weights
    assert len(factories) == layers
    assert len({factory.name for factory in factories}) == layers
    assert name in models.names()


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *((name, shape) for name in ("resnet8", "resnet20") for shape in ((1, 8, 8), (3, 32, 32), (3, 7, 9))),
        *(("vgg19", shape) for shape in ((1, 8, 8), (3, 16, 16), (3, 32, 32), (3, 12, 20))),
        *(("cnn2", shape) for shape in ((3, 24, 24), (1, 8, 8), (3, 24, 32), (1, 5, 5))),
        *((name, (1, 8, 8)) for name in ("preact-resnet164", "resnext29", "tiny", "tiny-relu")),
        *((name, (1, 32, 32)) for name in ("imagenet-resnet18", "imagenet-resnet50")),
    ],
)
def test_trains_on_images_of_this_size(name: str, shape: tuple[int, int, int]) -> None:
    factories = models.layers(ModelSpec(name=name), shape, 7)
    expected = models.shapes(factories, shape)
    assert expected[0] == shape
    assert expected[-1] == (7,)
    x, seen = torch.randn(2, *shape), [shape]
    weights = []
    for factory in factories:
        layer = factory.build(0)
        weights += list(layer.parameters())
        x = layer(x)
        seen.append(tuple(x.shape[1:]))
    assert seen == expected
    x.sum().backward()
    assert all(w.grad is not None and torch.isfinite(w.grad).all() for w in weights)


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_imagenet_nets_are_torchvisions(name: str) -> None:
    """Weights carried both ways, and equal outputs with them."""
    factories = models.layers(ModelSpec(name=f"imagenet-{name}"), (3, 64, 64), 1000)
    layers = [(factory.name, factory.build(0)) for factory in factories]
    ours = {f"{layer}.{key}": value for layer, module in layers for key, value in module.state_dict().items()}
    theirs = getattr(torchvision.models, name)(weights=None)
    assert {to_torchvision(key) for key in ours} == set(theirs.state_dict())
    assert all(from_torchvision(to_torchvision(key)) == key for key in ours)
    theirs.load_state_dict({to_torchvision(key): value for key, value in ours.items()})
    x = torch.randn(2, 3, 64, 64)
    y = x
    theirs.eval()
    with torch.no_grad():
        for _, module in layers:
            y = module.eval()(y)
        assert torch.equal(y, theirs(x))


def test_the_shortcut_of_a_cifar_resnet_has_no_weights() -> None:
    """Option A: every second pixel, new channels zero; seen by switching the other branch off."""
    block = build("resnet8", (3, 8, 8))[2]
    with torch.no_grad():
        for name, weight in block.named_parameters():
            if name.startswith("norm2"):
                weight.zero_()
        x = torch.rand(2, 16, 8, 8)
        y = block(x)
    assert torch.equal(y[:, :16], x[:, :, ::2, ::2])
    assert not y[:, 16:].any()


@pytest.mark.parametrize(("name", "steps"), [("cnn2", 20), ("resnet8", 20), ("tiny", 60)])
def test_learns_under_plain_sgd(name: str, steps: int) -> None:
    """The class is the brightest channel. A net whose first weights are too small still stands at ln 3."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (64,), generator=generator)
    images = torch.randn(64, 3, 12, 12, generator=generator)
    images[torch.arange(64), labels] += 1.0
    net = torch.nn.Sequential(*build(name, (3, 12, 12), 3)).train()
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    assert loss.item() < 0.3


@pytest.mark.parametrize(
    ("model", "shape", "words"),
    [
        ({"name": "resnt20"}, (3, 32, 32), ["resnt20", "'resnet20'"]),
        ({"name": "resnet21"}, (3, 32, 32), ["resnet21", "6n+2", "'resnet20'"]),
        ({"name": "resnet18"}, (3, 32, 32), ["6n+2", "imagenet-resnet18"]),
        ({"name": "resnet020"}, (3, 32, 32), ["resnet020", "'resnet20'"]),
        ({"name": "resnet6000002"}, (3, 32, 32), ["1..200", "'resnet1202'"]),
        ({"name": "resnet20", "dropout": 0.1}, (3, 32, 32), ["dropout = 0.1", "resnet20"]),
        ({"name": "resnext29", "batch_norm": False}, (3, 32, 32), ["batch_norm", "resnext29"]),
        ({"name": "resnet20"}, (3, 3, 32), ["4x4", "3x32"]),
        ({"name": "imagenet-resnet18"}, (3, 8, 8), ["16x16", "8x8"]),
    ],
)
def test_what_does_not_fit_is_refused(
    model: dict[str, object], shape: tuple[int, int, int], words: list[str]
) -> None:
    with pytest.raises(UserError) as error:
        models.layers(ModelSpec.model_validate(model), shape, 10)
    assert all(word in str(error.value) for word in words), error.value
