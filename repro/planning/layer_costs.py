"""Measured time and memory of each layer, stored per machine so that a cut stays the same from run to run."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from statistics import mean, median

import torch

from repro.models import LayerFactory
from repro.planning.counted_memory import saved_by_layer
from repro.planning.partition import LayerCost
from repro.store import to_json, write_atomically

Shape = tuple[int, ...]
PASSES = 4
_FORMAT = 3  # of the file; raise when its rows or what they measure change


def measured_costs(
    factories: Sequence[LayerFactory],
    inputs: Sequence[Shape],
    device: torch.device,
    threads: int,
    folder: Path,
    machine: str,
    *,
    measure: bool = True,
) -> list[LayerCost] | None:
    """Return each layer's cost for inputs of these shapes, from the file in `folder` where it is known there.

    Else it is measured and stored, or None without `measure`.

    The layers run as they do in training: forward one after the other, then backward, so that each meets the
    caches as its neighbours leave them (alone, small layers look up to a third cheaper than they are).
    Medians over passes, then means over layers that are made alike. The file belongs to model, shapes,
    device, machine and thread count.
    """
    costs, path = known_costs(factories, inputs, device, threads, folder, machine)
    if costs is not None or not measure:
        return costs
    return keep(path, measure_in_turn([factories], inputs, device, threads)[0], machine, threads)


def known_costs(
    factories: Sequence[LayerFactory],
    inputs: Sequence[Shape],
    device: torch.device,
    threads: int,
    folder: Path,
    machine: str,
) -> tuple[list[LayerCost] | None, Path]:
    """What has been measured before, None where nothing has, and the file that it is in or belongs into."""
    kinds = _kinds(factories, inputs)
    # The address that a function prints is another in every process.
    names = [re.sub(r" at 0x[0-9a-f]+", "", kind) for kind in kinds]
    text = "\n".join([str(_FORMAT), machine, device.type, str(threads), torch.__version__, *names])
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    return _read(path, len(kinds)), path


def keep(path: Path, costs: list[LayerCost], machine: str, threads: int) -> list[LayerCost]:
    """Write the costs to their file; returns them."""
    rows = [list(astuple(c)) for c in costs]
    with suppress(OSError):  # without a cache folder the next run measures again
        write_atomically(path, to_json({"machine": machine, "threads": threads, "layers": rows}) + "\n")
    return costs


def measure_in_turn(
    networks: Sequence[Sequence[LayerFactory]], inputs: Sequence[Shape], device: torch.device, threads: int
) -> list[list[LayerCost]]:
    """Costs of the layers of several networks with the same shapes, a pass of each in turn.

    A machine that becomes slower meanwhile does so for all of them, so that it does not decide between them.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        timed = [_Passes(network, device) for network in networks]
        timed[0].precision.use()
        x = networks[0][0].example(inputs[0]).to(device)
        for trial in range(PASSES + 1):
            for passes in timed:
                passes.run(x, counts=trial > 0)  # the first one warms up
        return [_costs(factories, passes, inputs) for factories, passes in zip(networks, timed, strict=True)]
    finally:
        torch.set_num_threads(before)


def _kinds(factories: Sequence[LayerFactory], inputs: Sequence[Shape]) -> list[str]:
    """The same for layers that are made alike, for the same shape."""
    return [f"{f.kind}|{shape}|{i == 0}" for i, (f, shape) in enumerate(zip(factories, inputs, strict=True))]


def _costs(factories: Sequence[LayerFactory], passes: _Passes, inputs: Sequence[Shape]) -> list[LayerCost]:
    """Medians over the passes, means over layers that are made alike, and what their graphs keep."""
    kinds = _kinds(factories, inputs)
    sizes: dict[str, tuple[int, int, int]] = {}
    for i, (kind, layer, shape) in enumerate(zip(kinds, passes.layers, inputs, strict=True)):
        if kind not in sizes:
            x = factories[i].example(shape).to(passes.device).requires_grad_(i > 0)
            with passes.precision.region(passes.device.type):
                sizes[kind] = saved_by_layer(layer, x)
    forwards, backwards = ([median(times) for times in t] for t in (passes.forwards, passes.backwards))
    alike = {kind: [i for i, other in enumerate(kinds) if other == kind] for kind in sizes}
    return [
        LayerCost(
            mean(forwards[i] for i in alike[kind]), mean(backwards[i] for i in alike[kind]), *sizes[kind]
        )
        for kind in kinds
    ]


class _Passes:
    """Whole passes through a network, with the seconds of each layer's forward and backward."""

    def __init__(self, factories: Sequence[LayerFactory], device: torch.device) -> None:
        self.layers, self.device = [factory.build(0).to(device).train() for factory in factories], device
        self.precision = factories[0].precision
        self.forwards: list[list[float]] = [[] for _ in factories]
        self.backwards: list[list[float]] = [[] for _ in factories]

    def run(self, x: torch.Tensor, counts: bool) -> None:
        """Forward one layer after the other, then backward."""
        leaves, outputs = [], []
        h = x
        for i, layer in enumerate(self.layers):
            leaf = h.detach().requires_grad_(i > 0)
            source = leaf.clone() if i else leaf  # a layer may write to its input
            start = _now(self.device)
            with self.precision.region(self.device.type):
                y = layer(source)
            if counts:
                self.forwards[i].append(_now(self.device) - start)
            leaves.append(leaf)
            outputs.append(y)
            h = y
        gradient = torch.ones_like(outputs[-1])
        for i in reversed(range(len(self.layers))):
            start = _now(self.device)
            if outputs[i].requires_grad:
                torch.autograd.backward(outputs[i], gradient)
            if counts:
                self.backwards[i].append(_now(self.device) - start)
            below = leaves[i].grad
            gradient = torch.zeros_like(leaves[i]) if below is None else below
            outputs[i] = outputs[i].detach()
        for layer in self.layers:
            layer.zero_grad(set_to_none=True)


def _read(path: Path, number: int) -> list[LayerCost] | None:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["layers"]
        costs = [LayerCost(float(f), float(b), *map(int, sizes)) for f, b, *sizes in rows]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return costs if len(costs) == number else None


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
