"""How biased the estimators are, at untrained layers over many random (input, dy) pairs (claim G8).

The weights stay as they were made; each pair comes from the network on a fresh batch. Squared norms of means
are estimated without their noise, from products of *different* pairs only:

    |E v|^2  ~  (|sum v_i|^2 - sum |v_i|^2) / (n (n - 1))
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from repro.errors import UserError, nearest
from repro.gradient import library
from repro.gradient.estimators import build
from repro.gradient.geometry import Geometry, geometry_of
from repro.gradient.numbering import named_convolutions
from repro.recipe.schema import GradientSpec
from repro.seeding import derive

ESTIMATORS = ("full", "top1", "random", "sampled")
_NAMES = ("relative_bias", "cosine", "mean_cosine", "norm_ratio")
Vectors = NDArray[np.float64]  # [pairs, elements]


def measure(
    layers: Sequence[tuple[str, nn.Module]],
    image_shape: tuple[int, ...],
    num_classes: int,
    settings: GradientSpec,
    *,
    seed: int,
    batches: Iterable[tuple[Tensor, Tensor]] | None = None,
    batch_size: int = 128,
    pairs: int = 100,
    convolutions: Sequence[str] | None = None,
    estimators: Sequence[str] = ESTIMATORS,
) -> list[dict[str, Any]]:
    """One row for each (convolution, estimator) of an untrained network.

    `batches` of (images [N, C, H, W], labels [N]), at least `pairs` of them; by default random images in which each
    class has a pattern of its own below the noise (without any, the mean gradient would be nothing but
    noise).
    `convolutions` by name; by default the 2nd, the middle and the last. Rows: `layer`, `estimator`, `scale`, `pairs`;
    `relative_bias` = |E estimate - E full| / |E full|; `cosine` between one estimate and the mean full gradient of the
    other pairs; `mean_cosine` between E estimate and E full (None where the mean estimate cannot be told from
    zero);
    `norm_ratio` = |E estimate| / |E full|. Each with `_low` and `_high`: 95 %, jackknife over the pairs.
    UserError for an unknown convolution or fewer than 3 pairs.
    """
    if pairs < 3:
        raise UserError(f"pairs = {pairs}: an interval needs at least 3.")
    known = dict(named_convolutions(layers))
    names = list(convolutions or _three(list(known)))
    for name in names:
        if name not in known:
            raise UserError(
                f"convolutions names '{name}', which the network does not have.{nearest(name, known)}"
            )
    found: dict[tuple[str, str], list[Tensor]] = {(c, e): [] for c in names for e in ("full", *estimators)}
    built = {
        e: build(e, scale=settings.scale, kernel=settings.kernel, samples=settings.samples)
        for e in estimators
    }
    source = batches or random_batches(image_shape, num_classes, batch_size, seed)
    for index, captured in enumerate(_pairs(layers, names, islice(source, pairs))):
        for name, (x, dy) in captured.items():
            weight, geometry = known[name].weight.detach(), geometry_of(known[name])
            if not isinstance(geometry, Geometry):
                raise UserError(f"convolution '{name}' cannot be approximated: {geometry}.")
            found[name, "full"].append(library.filter_gradient(x, dy, weight, geometry))
            for e, estimator in built.items():
                if e != "full":
                    own = derive(seed, "bias", name, e, index)
                    found[name, e].append(estimator(x, dy, weight, geometry, own))
    rows = []
    for name in names:
        full = _vectors(found[name, "full"])
        for e in estimators:
            scale = settings.scale if e == "top1" else None
            row = {"layer": name, "estimator": e, "scale": scale, "pairs": pairs, "batch_size": batch_size}
            rows.append({**row, **compare(_vectors(found[name, e]), full)})
    return rows


def compare(estimates: Vectors, full: Vectors) -> dict[str, float | None]:
    """Relative bias, cosines and norm ratio of paired vectors [pairs, elements], with 95 % intervals."""
    number = len(full)
    joint = np.concatenate([estimates, full])
    gram = joint @ joint.T
    ee, ef, ff = gram[:number, :number], gram[:number, number:], gram[number:, number:]
    everything = _statistics(ee, ef, ff)
    left_out = []
    for i in range(number):
        keep = np.delete(np.arange(number), i)
        part = np.ix_(keep, keep)
        left_out.append(_statistics(ee[part], ef[part], ff[part]))
    found: dict[str, float | None] = {}
    for name in _NAMES:
        found.update(_jackknife(name, everything[name], [s[name] for s in left_out]))
    return found


def _statistics(ee: Vectors, ef: Vectors, ff: Vectors) -> dict[str, float]:
    """Signed squares for the norms, so that an unbiased estimate of zero may come out below it."""
    number = len(ff)

    def apart(gram: Vectors) -> float:
        """Mean of the products of different pairs."""
        return float(gram.sum() - np.trace(gram)) / (number * (number - 1))

    full = apart(ff)
    if full <= 0:
        return dict.fromkeys(_NAMES, math.nan)
    own, cross = apart(ee), apart(ef)
    with_others = (ef.sum(axis=1) - np.diag(ef)) / (number - 1)
    norms = np.sqrt(np.diag(ee))
    single = np.divide(with_others, norms * math.sqrt(full), out=np.zeros_like(norms), where=norms > 0)
    difference = ee - ef - ef.T + ff  # products of (estimate - full)
    return {
        "relative_bias": apart(difference) / full,
        "cosine": float(single.mean()),
        "mean_cosine": cross / math.sqrt(own * full) if own > 0 else math.nan,
        "norm_ratio": own / full,
    }


def _jackknife(name: str, value: float, left_out: Sequence[float]) -> dict[str, float | None]:
    from scipy import stats

    number, values = len(left_out), np.array(left_out)
    deviation = math.sqrt((number - 1) / number * float(((values - values.mean()) ** 2).sum()))
    half = float(stats.t.ppf(0.975, number - 1)) * deviation
    low, high = value - half, value + half
    if not math.isfinite(half):  # too few pairs: the mean full gradient cannot be told from zero
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    squared = {}
    if name in (
        "relative_bias",
        "norm_ratio",
    ):  # from squares to norms; over seeds the squares can be averaged, not these
        squared = {f"{name}_squared": value}
        value, low, high = (math.sqrt(max(0.0, v)) for v in (value, low, high))
    elif half > 1:  # a direction that the noise leaves open
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: value, f"{name}_low": low, f"{name}_high": high, **squared}


def _pairs(
    layers: Sequence[tuple[str, nn.Module]], names: Sequence[str], batches: Iterable[tuple[Tensor, Tensor]]
) -> Iterator[dict[str, tuple[Tensor, Tensor]]]:
    """(input, dy) of the named convolutions for each batch, in training mode; the weights are left as they are."""
    modules = {name: module for name, module in named_convolutions(layers) if name in names}
    device = next(iter(modules.values())).weight.device
    captured: dict[str, list[Tensor]] = {}

    def hook(name: str) -> Any:
        def note(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            captured[name] = [inputs[0].detach()]
            output.register_hook(lambda dy: captured[name].append(dy.detach()))  # type: ignore[no-untyped-call]

        return note

    hooks = [module.register_forward_hook(hook(name)) for name, module in modules.items()]
    try:
        for _, layer in layers:
            layer.train()
        for images, labels in batches:
            x = images.to(device)
            for _, layer in layers:
                x = layer(x)
            loss = functional.cross_entropy(x, labels.to(device))
            torch.autograd.grad(loss, [module.weight for module in modules.values()])  # .grad stays untouched
            yield {name: (pair[0], pair[1]) for name, pair in captured.items()}
    finally:
        for each in hooks:
            each.remove()


def random_batches(
    image_shape: tuple[int, ...], num_classes: int, batch_size: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless batches: normal noise plus the label's own smooth pattern, both of deviation about 1."""
    generator = torch.Generator().manual_seed(derive(seed, "bias", "patterns"))
    coarse = torch.randn((num_classes, image_shape[0], 4, 4), generator=generator)
    patterns = functional.interpolate(coarse, size=image_shape[1:], mode="bilinear")
    for index in count():
        generator = torch.Generator().manual_seed(derive(seed, "bias", "batch", index))
        labels = torch.randint(num_classes, (batch_size,), generator=generator)
        yield torch.randn((batch_size, *image_shape), generator=generator) + patterns[labels], labels


def _three(names: list[str]) -> list[str]:
    picked = [names[min(1, len(names) - 1)], names[len(names) // 2], names[-1]]
    return list(dict.fromkeys(picked))


def _vectors(gradients: list[Tensor]) -> Vectors:
    return torch.stack([g.flatten().double().cpu() for g in gradients]).numpy()
