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
from torch import Tensor, nn

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
    kinds = [
        f"{factory.kind}|{shape}|{i == 0}"
        for i, (factory, shape) in enumerate(zip(factories, inputs, strict=True))
    ]
    # The address that a function prints is another in every process.
    names = [re.sub(r" at 0x[0-9a-f]+", "", kind) for kind in kinds]
    text = "\n".join([str(_FORMAT), machine, device.type, str(threads), torch.__version__, *names])
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    known = _read(path, len(kinds))
    if known is not None or not measure:
        return known
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        layers = [factory.build(0).to(device).train() for factory in factories]
        forwards, backwards = _passes(layers, factories[0].example(inputs[0]).to(device), device)
        sizes: dict[str, tuple[int, int, int]] = {}
        for i, (kind, layer, shape) in enumerate(zip(kinds, layers, inputs, strict=True)):
            if kind not in sizes:
                x = factories[i].example(shape).to(device).requires_grad_(i > 0)
                sizes[kind] = saved_by_layer(layer, x)
    finally:
        torch.set_num_threads(before)
    alike = {kind: [i for i, other in enumerate(kinds) if other == kind] for kind in sizes}
    costs = [
        LayerCost(
            mean(forwards[i] for i in alike[kind]), mean(backwards[i] for i in alike[kind]), *sizes[kind]
        )
        for kind in kinds
    ]
    rows = [list(astuple(c)) for c in costs]
    with suppress(OSError):  # without a cache folder the next run measures again
        write_atomically(path, to_json({"machine": machine, "threads": threads, "layers": rows}) + "\n")
    return costs


def _passes(layers: Sequence[nn.Module], x: Tensor, device: torch.device) -> tuple[list[float], list[float]]:
    """Median seconds of each layer's forward and backward in whole passes through the network."""
    forwards: list[list[float]] = [[] for _ in layers]
    backwards: list[list[float]] = [[] for _ in layers]
    for trial in range(PASSES + 1):
        leaves, outputs = [], []
        h = x
        for i, layer in enumerate(layers):
            leaf = h.detach().requires_grad_(i > 0)
            source = leaf.clone() if i else leaf  # a layer may write to its input
            start = _now(device)
            y = layer(source)
            forwards[i].append(_now(device) - start)
            leaves.append(leaf)
            outputs.append(y)
            h = y
        gradient = torch.ones_like(outputs[-1])
        for i in reversed(range(len(layers))):
            start = _now(device)
            if outputs[i].requires_grad:
                torch.autograd.backward(outputs[i], gradient)
            backwards[i].append(_now(device) - start)
            below = leaves[i].grad
            gradient = torch.zeros_like(leaves[i]) if below is None else below
            outputs[i] = outputs[i].detach()
        for layer in layers:
            layer.zero_grad(set_to_none=True)
        if trial == 0:  # the first one warms up
            forwards, backwards = [[] for _ in layers], [[] for _ in layers]
    return [median(times) for times in forwards], [median(times) for times in backwards]


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
