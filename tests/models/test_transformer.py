"""The transformer: what it computes, its first weights, its work, and the settings that it takes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from repro import models
from repro.errors import UserError
from repro.models.transformer import AttentionLayer, rotated
from repro.recipe import ModelSpec, validate

SMALL = {"name": "gpt", "layers": 2, "width": 16, "heads": 2}


def network(**changes: Any) -> tuple[list[models.LayerFactory], nn.Sequential]:
    factories = models.layers(ModelSpec(**{**SMALL, **changes}), (12,), 256)
    return factories, nn.Sequential(*(f.build(0) for f in factories)).eval()


def recipe(model: dict[str, Any], **data: Any) -> Any:
    return validate({"name": "a", "group": "dsp", "reproduces": "a test", "model": model, "method": "bp",
                     "data": {"name": "text", **data}})  # fmt: skip


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@torch.no_grad()
def test_a_later_token_changes_no_earlier_score(positions: str) -> None:
    _, net = network(positions=positions)
    tokens = torch.randint(256, (3, 12), generator=torch.Generator().manual_seed(1))
    before = net(tokens)
    for place in (5, 11):
        changed = tokens.clone()
        changed[:, place] = (changed[:, place] + 1) % 256
        after = net(changed)
        assert torch.equal(before[:, :place], after[:, :place])
        assert not torch.equal(before[:, place:], after[:, place:])


@torch.no_grad()
def test_the_loss_begins_near_that_of_a_guess() -> None:
    """ln 256: the first scores are all near zero."""
    factories = models.layers(ModelSpec(**{**SMALL, "width": 64}), (32,), 256)
    net = nn.Sequential(*(f.build(0) for f in factories))
    tokens = torch.randint(256, (8, 33), generator=torch.Generator().manual_seed(1))
    loss = float(models.cross_entropy(net(tokens[:, :-1]), tokens[:, 1:]))
    assert abs(loss - math.log(256)) < 0.1


@torch.no_grad()
def test_the_loss_is_the_mean_over_all_tokens() -> None:
    scores = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([[0, 4, 2], [1, 1, 3]])
    each = [-functional.log_softmax(scores[i, t], 0)[labels[i, t]] for i in range(2) for t in range(3)]
    assert torch.allclose(models.cross_entropy(scores, labels), torch.stack(each).mean())
    assert torch.allclose(models.cross_entropy(scores, labels, "sum"), torch.stack(each).sum())
    flat = scores[:, 0], labels[:, 0]  # one label a sample: torch's own
    assert torch.equal(models.cross_entropy(*flat), functional.cross_entropy(*flat))


@torch.no_grad()
def test_attention_is_the_formula() -> None:
    """softmax(q k^T / sqrt(d)) v over the past, written out for one head after another."""
    torch.manual_seed(0)
    layer = AttentionLayer(8, 2, False, 0.0, 1).eval()
    x = torch.randn(2, 5, 8)
    q, k, v = layer.qkv(layer.norm(x)).chunk(3, -1)
    heads: list[Tensor] = []
    for i in (0, 1):
        qi, ki, vi = (t[..., 4 * i : 4 * i + 4] for t in (q, k, v))
        scores = (qi @ ki.transpose(1, 2)) / 2.0
        scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
        heads.append(scores.softmax(-1) @ vi)
    expected = x + layer.projection(torch.cat(heads, -1))
    assert torch.allclose(layer(x), expected, atol=1e-6)


def test_rotary_products_depend_on_the_distance_alone() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 6)
    turned = [rotated(v.expand(10, 6)) for v in (q, k)]
    products = turned[0] @ turned[1].T  # of q at position i with k at position j
    for distance in (0, 3):
        values = products.diagonal(-distance)
        assert torch.allclose(values, values[0].expand_as(values), atol=1e-5)
    assert abs(products[3, 0] - products[0, 0]) > 1e-3
    assert torch.equal(turned[0][0], q)  # position 0 is not turned


def test_weights_begin_as_gpt2s() -> None:
    factories = models.layers(ModelSpec(name="gpt", layers=8, width=128, heads=4), (32,), 256)
    layers = {f.name: f.build(0) for f in factories}
    wide = layers["block3.attention"]
    assert isinstance(wide, AttentionLayer)
    for weight, std in (
        (layers["embedding"].token.weight, 0.02),  # type: ignore[union-attr]
        (wide.qkv.weight, 0.02),
        (wide.projection.weight, 0.02 / 4),  # sqrt(2 x 8)
        (layers["block8.mlp"].projection.weight, 0.02 / 4),  # type: ignore[union-attr]
        (layers["head"].linear.weight, 0.02),  # type: ignore[union-attr]
    ):
        assert float(weight.detach().std()) == pytest.approx(std, rel=0.05)
    assert float(wide.qkv.bias.detach().abs().max()) == 0.0
    again = models.layers(ModelSpec(name="gpt", layers=8, width=128, heads=4), (32,), 256)[5]
    assert torch.equal(again.build(0).qkv.weight, wide.qkv.weight)  # type: ignore[union-attr, arg-type]
    assert not torch.equal(layers["block4.attention"].qkv.weight, wide.qkv.weight)  # type: ignore[union-attr, arg-type]


def test_layers_can_be_cut_at_half_a_block() -> None:
    factories, _ = network()
    names = ["embedding", "block1.attention", "block1.mlp", "block2.attention", "block2.mlp", "head"]
    assert [f.name for f in factories] == names
    assert models.shapes(factories, (12,)) == [(12,), *[(12, 16)] * 5, (12, 256)]
    assert factories[0].example((2, 12)).dtype == torch.int64
    assert not any(
        models.mutates_input(f.build(0), f.example((2, *shape)))
        for f, shape in zip(factories, models.shapes(factories, (12,)), strict=False)
    )


def test_counted_work_is_what_torch_counts() -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    factories, _ = network()
    for factory, shape in zip(factories, models.shapes(factories, (12,)), strict=False):
        module, x = factory.build(0).eval(), factory.zeros((1, *shape))
        products = sdpa_kernel(SDPBackend.MATH)  # the fused kernel is no product that the counter knows
        with products, FlopCounterMode(display=False) as counter, torch.no_grad():
            y = module(x)
        counted = models.estimated_cost(module, shape, x.dtype)
        assert counted == counter.get_total_flops() // 2 + y.numel(), factory.name


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"width": 10, "heads": 4}, "width = 10 does not divide among heads = 4: give heads in 1, 2, 5, 10"),
        ({"width": 6, "heads": 2, "positions": "rotary"}, "a width that is a multiple of 4, or positions = learned"),
        ({"tied": True}, "model: tied = true: .* copies of one weight would drift apart"),
        ({"positions": "sinus"}, "model.positions = 'sinus': input should be 'learned' or 'rotary'"),
        ({"heads": 0}, "model.heads = 0"),
        ({"context": 5}, "context = 5 is no setting of a network: give data.context"),
        ({"hidden": 5}, "unknown setting 'model.hidden'"),
        ({"name": "resnet98", "width": None, "heads": None}, "layers = 2 is for gpt and mlp only, not for resnet98"),
        ({"name": "mlp", "width": 8, "layers": 2, "heads": 2}, "heads = 2 is for gpt only, not for mlp"),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit_are_refused_by_name(model: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        recipe({**SMALL, **model})


@pytest.mark.parametrize(
    ("spec", "shape", "words"),
    [
        ({**SMALL, "batch_norm": False}, (12,), "gpt has no BatchNorm to leave out"),
        (SMALL, (3, 8, 8), "'gpt' reads texts, and the data set holds images: give data.name=text"),
        ({"name": "resnet20"}, (12,), "'resnet20' reads images, and the data set holds a text: give model.name=gpt"),
        ({"name": "mlp"}, (12,), "'mlp' reads images"),
        ({"name": "resnet20", "dropout": 0.1}, (3, 8, 8), "resnet20 has no dropout, only vgg19, gpt, tiny have"),
    ],
)  # fmt: skip
def test_a_network_and_data_of_another_kind_are_refused(
    spec: dict[str, Any], shape: tuple[int, ...], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        models.layers(ModelSpec(**spec), shape, 10)


def test_an_mlp_takes_images_as_vectors() -> None:
    factories = models.layers(ModelSpec(name="mlp", layers=2, width=7), (3, 4, 4), 10)
    assert [f.name for f in factories] == ["hidden1", "hidden2", "head"]
    assert models.shapes(factories, (3, 4, 4)) == [(3, 4, 4), (7,), (7,), (10,)]
    weights = sum(p.numel() for f in factories for p in f.build(0).parameters())
    assert weights == 48 * 7 + 7 + 7 * 7 + 7 + 7 * 10 + 10
