"""Approximated filter gradients put into a network, or into one block of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from repro import paths
from repro.gradient import kernels, schedules
from repro.gradient.convolution import convolution
from repro.gradient.estimators import Estimator
from repro.gradient.estimators import build as build_estimator
from repro.gradient.geometry import ConvShape, Geometry, geometry_of
from repro.gradient.numbering import named_convolutions
from repro.gradient.schedules import Schedule
from repro.gradient.timings import Timings
from repro.recipe.schema import GradientSpec
from repro.seeding import derive

_TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@dataclass(frozen=True)
class _Site:
    """A convolution that takes part."""

    name: str
    number: int
    geometry: Geometry | str  # in words why it cannot be approximated


def attach(
    layers: Sequence[tuple[str, nn.Module]],
    settings: GradientSpec,
    *,
    seed: int,
    steps_per_epoch: int,
    epochs: int,
    numbers: Mapping[str, int],
    timings: Path | None = None,
    replace: Callable[[Estimator], Estimator] | None = None,
) -> Approximation:
    """Let the convolutions inside `layers` (all of a network, or a block's part) follow the schedule of `settings`.

    `numbers` = number_convolutions of the whole network: what is drawn and decided never depends on how the network
    is cut. `timings` is the folder of measured times (only the schedule `measured` reads it). `replace` (for
    measurements) gives what runs in place of an estimator that the schedule asks for. UserError for rules
    that do not fit the network, MissingError for a forced kernel whose hardware is missing.
    """
    schedule = schedules.build(settings, numbers, steps_per_epoch, epochs)
    device = next((p.device for _, module in layers for p in module.parameters()), torch.device("cpu"))
    check_kernel(settings, device)
    return Approximation(layers, schedule, settings, seed, timings or paths.costs(), replace)


def check_kernel(settings: GradientSpec, device: torch.device) -> None:
    """Raise MissingError or UserError if the recipe forces a kernel that cannot run on `device`."""
    rules = () if isinstance(settings.schedule, str) else settings.schedule
    if "top1" in {settings.estimator, *(rule.estimator for rule in rules)}:
        kernels.require(settings.kernel, device)


class Approximation:
    """The approximated convolutions of a block. `set_batch` before each forward; the backward follows by itself."""

    def __init__(
        self,
        layers: Sequence[tuple[str, nn.Module]],
        schedule: Schedule,
        settings: GradientSpec,
        seed: int,
        timings: Path,
        replace: Callable[[Estimator], Estimator] | None = None,
    ) -> None:
        self.schedule, self.seed = schedule, seed
        self._settings, self._timings = settings, Timings(timings)
        self._replace = replace
        self._estimators: dict[str, Estimator] = {}
        self._faster: dict[int, bool] = {}
        self._uses: Counter[str] = Counter()
        self._fallbacks: Counter[tuple[str, str]] = Counter()
        self._forwards: list[tuple[nn.Conv2d, MethodType]] = []
        self._asked: dict[int, str] = {}  # of the current batch: number -> estimator
        for name, module in named_convolutions(layers):
            site = _Site(name, schedule.numbers[name], geometry_of(module))
            self._forwards.append((module, MethodType(self._replacement(site), module)))
            self._asked[site.number] = "full"
        self.set_batch(0)
        self.attach()

    def set_batch(self, batch: int, micro: int = 0) -> None:
        """Say which batch (over all epochs, from 0) and micro-batch the next forward belongs to.

        What the schedule asks of each convolution is looked up here for all of them: between two
        convolutions, with cold caches, the same look takes ten times as long.
        """
        self._batch, self._micro = batch, micro
        for number in self._asked:
            self._asked[number] = self.schedule.estimator(number, batch)

    def attach(self) -> None:
        """Replace the convolutions' forward: done when this is made, and needed again after `detach`."""
        for module, forward in self._forwards:
            module.forward = forward  # type: ignore[method-assign]

    def detach(self) -> None:
        """Give the convolutions their own forward back."""
        for module, _ in self._forwards:
            module.__dict__.pop("forward", None)

    def report(self) -> dict[str, Any]:
        """Counts of forwards that kept a graph: `uses` per estimator, `fallbacks` to full per layer and reason,
        `kernels` of top1, and for `measured` which convolutions were faster."""
        used: Counter[str] = Counter()
        for estimator in self._estimators.values():
            used.update(getattr(estimator, "used", {}))
        report: dict[str, Any] = {
            "uses": dict(self._uses),
            "fallbacks": [
                {"layer": layer, "reason": reason, "count": count}
                for (layer, reason), count in sorted(self._fallbacks.items())
            ],
            "kernels": dict(used),
        }
        if self.schedule.measured:
            report["faster"] = {str(number): faster for number, faster in sorted(self._faster.items())}
        return report

    def _replacement(self, site: _Site) -> Callable[[nn.Conv2d, Tensor], Tensor]:
        def forward(module: nn.Conv2d, x: Tensor) -> Tensor:
            return self._convolve(site, module, x)

        return forward

    def _convolve(self, site: _Site, module: nn.Conv2d, x: Tensor) -> Tensor:
        weight = module.weight  # a module looks its parameters up slowly: once
        if torch.is_grad_enabled() and weight.requires_grad:
            estimator = self._decide(site, weight, x)
            if estimator is not None:
                assert isinstance(site.geometry, Geometry)
                place = "gradient", site.number, self._batch, self._micro
                own = derive(self.seed, *place) if estimator.draws else 0
                return convolution(x, weight, module.bias, site.geometry, estimator, own)
        y: Tensor = type(module).forward(module, x)
        return y

    def _decide(self, site: _Site, weight: Tensor, x: Tensor) -> Estimator | None:
        """The estimator of this convolution on this batch; None for the library's own. Counts either."""
        name = self._asked[site.number]
        if name != "full":
            reason = _unsupported(site, weight, x)
            if reason is not None:
                self._fallbacks[site.name, reason] += 1
                name = "full"
        estimator = None if name == "full" else self._estimator(name)
        if estimator is not None and self.schedule.measured and not self._measured(site, weight, x, name):
            estimator, name = None, "full"
        self._uses[name] += 1
        return estimator

    def _estimator(self, name: str) -> Estimator:
        if name not in self._estimators:
            built = self._build(name)
            self._estimators[name] = self._replace(built) if self._replace else built
        return self._estimators[name]

    def _build(self, name: str) -> Estimator:
        s = self._settings
        return build_estimator(name, scale=s.scale, kernel=s.kernel, samples=s.samples)

    def _measured(self, site: _Site, weight: Tensor, x: Tensor, name: str) -> bool:
        if site.number not in self._faster:
            assert isinstance(site.geometry, Geometry)
            shape = ConvShape.of(x, weight, site.geometry)
            fresh = self._build(name)  # the measurement's calls are not counted among the run's
            self._faster[site.number] = self._timings.faster(shape, x.detach(), fresh)
        return self._faster[site.number]


def _unsupported(site: _Site, weight: Tensor, x: Tensor) -> str | None:
    """Why this call must use the library's gradient, or None."""
    if isinstance(site.geometry, str):
        return site.geometry
    if x.dim() != 4:
        return f"input of {x.dim()} dimensions"
    if x.dtype not in _TYPES or weight.dtype != x.dtype:
        return f"input {x.dtype} with weight {weight.dtype}".replace("torch.", "")
    if torch.is_autocast_enabled(x.device.type):
        return "autocast"
    return None
