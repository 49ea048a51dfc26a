"""`repro bench kernels`: kernels by shape, then whole networks: what each schedule saves of a training step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from repro import models
from repro.benchmarks.turns import Turns, clock
from repro.errors import UserError, nearest
from repro.gradient import kernel_benchmark as by_shape
from repro.gradient import network_benchmark as by_network
from repro.recipe import ModelSpec

_SHAPE, _CLASSES = (3, 32, 32), 10
FEWEST = 3  # rounds of a network; with less time left it is not begun


@dataclass
class KernelsBench:
    """Settings of the benchmark, each to be given as `--set name=value`."""

    repeats: int = 11  # of a kernel at a shape
    networks: str | None = "resnet20,vgg19"
    rounds: int | None = None  # of a network; None = 31 for ResNets, 9 for others, or as many as fit
    layouts: str = ",".join(by_shape.LAYOUTS)
    minutes: float = 4.0
    turns: Turns = field(default_factory=lambda: Turns("kernels"))

    def rows(self) -> list[dict[str, Any]]:
        """Measure; what has been measured so far after Ctrl-C or when the time is up."""
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        networks, layouts = _words(self.networks), _words(self.layouts)
        for layout in layouts:
            if layout not in by_shape.LAYOUTS:
                known = by_shape.LAYOUTS
                raise UserError(f"layouts = '{layout}'.{nearest(layout, known)} Allowed: {', '.join(known)}")
        for name in networks:  # an unknown one is refused before anything is measured
            models.layers(ModelSpec(name=name), _SHAPE, _CLASSES)
        self._end = time.monotonic() + 60 * self.minutes
        self.turns.say(
            f"kernels: {len(by_shape.SHAPES)} shapes, then {len(networks) * len(layouts)} networks, at most "
            f"{clock(60 * self.minutes)} (more with --set minutes=N; Ctrl-C prints what there is)"
        )
        found: list[dict[str, Any]] = []
        try:
            for shape in by_shape.SHAPES:
                self.turns.say(f"kernels: {shape.label}, {clock(self._left())} left at most")
                found += by_shape.rows(self._device, shapes=[shape], repeats=self.repeats)
            for kernel in by_shape.kernels_here(self._device):
                mean = by_shape.geometric_mean(found, kernel)
                found.append(
                    {"shape": "geometric mean", "layout": "fastest", "kernel": kernel, "ratio": mean}
                )
            for name in networks:
                for layout in layouts:
                    found += self._network(name, layout, 31 if name.startswith("resnet") else 9)
        except KeyboardInterrupt:
            self.turns.interrupted = True
            self.turns.say("kernels: interrupted; what follows was measured before")
        return found

    def _network(self, name: str, layout: str, usual: int) -> list[dict[str, Any]]:
        factories = models.layers(ModelSpec(name=name), _SHAPE, _CLASSES, layout)
        layers = [(f.name, f.build(0).to(self._device)) for f in factories]
        a_round = len(by_network.VARIANTS) * 1.5 * self._step_seconds([layer for _, layer in layers])
        fits = int(self._left() / a_round) - 2  # the first rounds warm up
        rounds = self.rounds or min(usual, fits)
        if rounds < FEWEST and self.rounds is None:
            self.turns.say(
                f"kernels: no time for network {name}, {layout}: --set minutes=N or networks={name}"
            )
            return []
        self.turns.say(
            f"kernels: network {name}, {layout}, {rounds} rounds, about {clock((rounds + 2) * a_round)}"
        )
        return by_network.rows(layers, _SHAPE, _CLASSES, model=name, layout=layout, repeats=rounds)

    def _step_seconds(self, layers: Sequence[nn.Module]) -> float:
        """A forward and a backward, to tell how long the network will take."""
        x = torch.randn((by_shape.BATCH, *_SHAPE), device=self._device)
        for _ in range(2):
            begin = time.perf_counter()
            torch.autograd.backward(nn.Sequential(*layers).train()(x).sum())
            if self._device.type == "cuda":
                torch.cuda.synchronize()
            seconds = time.perf_counter() - begin
        for layer in layers:
            layer.zero_grad(set_to_none=True)
        return seconds

    def _left(self) -> float:
        return self._end - time.monotonic()


def _words(value: Any) -> list[str]:
    return [word for word in str(value).split(",") if word not in ("", "none", "None")]
