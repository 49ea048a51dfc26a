"""The convolution whose filter gradient is estimated: what stays exact, what is kept, what each estimator gives."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from repro.gradient import library
from repro.gradient.convolution import convolution
from repro.gradient.estimators import build
from repro.gradient.geometry import Geometry
from repro.gradient.kernels.peaks import peaks
from tests.gradient.cases import CASES, FORMATS, Case, relative

# oneDNN writes past the end of its memory for these if x is laid out by pixels (see gradient/library.py).
NARROW = Case(8, 2, 3, 18, 18, Geometry((1, 1), (1, 3)))
ESTIMATORS = ("zero", "random", "top1", "sampled", "shared-topk")
PLAIN = CASES["plain"]


def gradients(
    case: Case, name: str, layout: str = "contiguous", dtype: torch.dtype = torch.float32, **options: object
) -> tuple[Tensor, ...]:
    """Gradients of x, weight and bias for a random dy."""
    x, dy, weight = case.tensors(dtype, layout)
    bias = torch.linspace(-1, 1, case.outputs).to(dtype)
    leaves = [t.requires_grad_() for t in (x, weight, bias)]
    y = convolution(*leaves, case.geometry, build(name, **options), seed=3)  # type: ignore[arg-type]
    return torch.autograd.grad(y, leaves, dy)


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("name", CASES)
def test_output_input_and_bias_gradient_are_the_librarys(name: str, layout: str) -> None:
    case = CASES[name]
    x, dy, weight = case.tensors(layout=layout)
    bias = torch.linspace(-1, 1, case.outputs)
    leaves = [t.requires_grad_() for t in (x, weight, bias)]
    g = case.geometry
    y = functional.conv2d(*leaves, g.stride, g.padding, g.dilation, g.groups)
    dx, dw, db = torch.autograd.grad(y, leaves, dy)
    for estimator in ("full", *ESTIMATORS):
        found = gradients(case, estimator, layout)
        assert torch.equal(found[0], dx), estimator
        assert relative(found[2], db) < 1e-5
        assert estimator == "full" or found[1].stride() == weight.stride()
    assert torch.equal(gradients(case, "full", layout)[1], dw)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_gradcheck_of_the_exact_parts(name: str) -> None:
    case = Case(2, 4, 6, 5, 4, Geometry((3, 3), (2, 1), (1, 1), (1, 1), 2))
    x, _, weight = case.tensors(torch.float64)
    bias = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    x.requires_grad_()

    def of_exact(x: Tensor, bias: Tensor) -> Tensor:
        return convolution(x, weight, bias, case.geometry, build(name), seed=0)

    assert torch.autograd.gradcheck(of_exact, (x, bias))


def test_gradcheck_where_every_part_is_exact() -> None:
    """With all pixels taken, `sampled` and `shared-topk` are the full gradient."""
    case = Case(2, 4, 5, 4, 4, Geometry((3, 3), (1, 2), (1, 0), (1, 1), 2))
    inputs = [t.requires_grad_() for t in (case.tensors(torch.float64)[0], case.tensors(torch.float64)[2])]
    for name in ("full", "sampled", "shared-topk"):
        estimator = build(name, samples=1000)
        assert torch.autograd.gradcheck(
            lambda x, w, e=estimator: convolution(x, w, None, case.geometry, e, seed=0), inputs
        ), name


@pytest.mark.parametrize("name", ["zero", "random"])
@pytest.mark.parametrize("layout", FORMATS)
def test_x_is_not_kept(name: str, layout: str) -> None:
    x, _, weight = PLAIN.tensors(layout=layout)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):  # type: ignore[func-returns-value]
        convolution(x.requires_grad_(), weight.requires_grad_(), None, PLAIN.geometry, build(name), 0)
        assert all(t.shape != x.shape for t in saved)
        convolution(x, weight, None, PLAIN.geometry, build("top1"), 0)
        assert any(t.shape == x.shape for t in saved)


def test_zero_is_a_tensor_on_which_weight_decay_and_momentum_act() -> None:
    weight = nn.Parameter(PLAIN.tensors()[2])
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, weight_decay=0.01)
    before = weight.detach().clone()
    for _ in range(2):
        optimizer.zero_grad(set_to_none=True)
        convolution(PLAIN.tensors()[0], weight, None, PLAIN.geometry, build("zero"), 0).sum().backward()
        assert weight.grad is not None
        assert torch.equal(weight.grad, torch.zeros_like(weight))
        optimizer.step()
    once = before * (1 - 0.1 * 0.01)
    twice = once - 0.1 * (0.9 * 0.01 * before + 0.01 * once)
    torch.testing.assert_close(weight.detach(), twice)


def test_random_is_normal_over_128_and_follows_its_seed() -> None:
    weight = torch.empty(64, 64, 3, 3)
    dy, g = torch.empty(1, 64, 1, 1), Geometry((3, 3))
    noise = build("random")(None, dy, weight, g, 5)
    count = noise.numel()
    assert abs(float(noise.mean())) < 5 / 128 / math.sqrt(
        count
    )  # five standard errors: false alarm in 2 million
    assert abs(float(noise.std()) * 128 - 1) < 5 / math.sqrt(2 * count)
    assert torch.equal(noise, build("random")(None, dy, weight, g, 5))
    assert not torch.equal(noise, build("random")(None, dy, weight, g, 6))
    by_pixel = weight.to(memory_format=torch.channels_last)
    assert torch.equal(noise, build("random")(None, dy, by_pixel, g, 5))


def test_scale() -> None:
    natural, paper = (gradients(PLAIN, "top1", scale=scale)[1] for scale in ("natural", "paper"))
    torch.testing.assert_close(natural / 128, paper)


@pytest.mark.parametrize("name", ["zero", "random", "top1", "sampled", "shared-topk"])
@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_same_bits_twice(name: str, layout: str, dtype: torch.dtype) -> None:
    first, second = (gradients(CASES["groups"], name, layout, dtype) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_batch_norm_identity() -> None:
    """Behind a BatchNorm in training mode the sums of a channel's dy over all samples vanish."""
    x, _, weight = CASES["many samples"].tensors()
    y = convolution(x, weight.requires_grad_(), None, CASES["many samples"].geometry, build("full"), 0)
    y.retain_grad()
    target = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))
    (functional.batch_norm(y, None, None, training=True) * target).sum().backward()
    assert y.grad is not None
    total = peaks(y.grad)[1]
    assert float(total.abs().max()) > 1e-2
    assert float(total.sum(0).abs().max()) < 1e-4


@pytest.mark.parametrize("name", ["plain", "all at once", "depthwise"])
def test_sampled_is_unbiased(name: str) -> None:
    """The mean of 1500 draws against the full gradient: z-scores of all elements.

    Their sum of squares is about chi-squared with at most as many degrees of freedom as there are elements;
    the bound is its mean plus 6 standard deviations times 3 for the correlation between elements. Seeds are
    fixed, so the test never flickers; over seeds the false-alarm rate is below 1 in 10^4.
    """
    case, draws = CASES[name], 1500
    x, dy, weight = case.tensors(torch.float64)
    full = library.filter_gradient(x, dy, weight, case.geometry)
    estimator = build("sampled", samples=2)
    found = torch.stack([estimator(x, dy, weight, case.geometry, seed) for seed in range(draws)])
    z = (found.mean(0) - full) / (found.std(0) / math.sqrt(draws)).clamp_min(1e-12)
    count = z.numel()
    assert float((z**2).mean()) < 1 + 3 * 6 * math.sqrt(2 / count)
    assert float(z.abs().max()) < 6  # normal tail: 2e-9 for each of at most 500 elements
    top = build("top1", kernel="reference")(x, dy, weight, case.geometry, 0)
    z_top = (top - full) / (found.std(0) / math.sqrt(draws))
    assert float((z_top**2).mean()) > 25  # the test would see a bias


def test_shared_topk_takes_the_strongest_pixels() -> None:
    x, dy, weight = PLAIN.tensors()
    strength = dy.abs().sum(1, keepdim=True).flatten(2)
    cut = strength.topk(3, dim=2).values[..., -1:]
    masked = dy * (strength >= cut).view(dy.shape[0], 1, *dy.shape[2:])
    found = build("shared-topk", samples=3)(x, dy, weight, PLAIN.geometry, 0)
    assert relative(found, library.filter_gradient(x, masked, weight, PLAIN.geometry)) < 1e-6


def test_a_kept_graph_uses_its_own_batch() -> None:
    x, dy, weight = PLAIN.tensors()
    weight.requires_grad_()
    graphs = [convolution(x, weight, None, PLAIN.geometry, build("random"), seed) for seed in (1, 2)]
    late = [torch.autograd.grad(y, weight, dy)[0] for y in graphs]
    assert torch.equal(late[0], build("random")(None, dy, weight, PLAIN.geometry, 1))
    assert torch.equal(late[1], build("random")(None, dy, weight, PLAIN.geometry, 2))


def test_a_narrow_stepping_filter_never_reaches_onednn_by_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would write outside its memory, and the process would end much later, somewhere else."""
    seen = []
    real = torch.ops.aten.convolution_backward.default

    class Spy:
        @staticmethod
        def default(dy: Tensor, x: Tensor, *rest: object) -> object:
            seen.append((x.shape[1], x.is_contiguous()))
            return real(dy, x, *rest)

    monkeypatch.setattr(library, "torch", _torch_with(Spy))
    x, dy, weight = NARROW.tensors(layout="channels_last")
    found = library.filter_gradient(x, dy, weight, NARROW.geometry)
    by_hand = torch.einsum("nohw,nchw->oc", dy, x[:, :, :, ::3])[..., None, None]
    assert relative(found, by_hand) < 1e-5
    wide = Case(2, 8, 6, 6, 4, Geometry((1, 1), (2, 2)))
    x, dy, weight = wide.tensors(layout="channels_last")
    library.filter_gradient(x, dy, weight, wide.geometry)
    assert seen == [(2, True), (8, False)]


def _torch_with(backward: object) -> object:
    """torch, as library.py uses it, with another `convolution_backward`."""
    return SimpleNamespace(ops=SimpleNamespace(aten=SimpleNamespace(convolution_backward=backward)))
