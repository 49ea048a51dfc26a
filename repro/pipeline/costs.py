"""Measured time and memory of each layer, stored per machine so that a cut stays the same from run to run."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from statistics import median

import torch
from torch import nn

from repro.models import LayerFactory
from repro.pipeline.memory import saved_by_layer
from repro.pipeline.partition import LayerCost
from repro.store import to_json, write_atomically

Shape = tuple[int, ...]
_FORMAT = 2  # of the file; raise when its rows or what they measure change


def measured_costs(
    factories: Sequence[LayerFactory],
    inputs: Sequence[Shape],
    device: torch.device,
    threads: int,
    folder: Path,
    machine: str,
) -> list[LayerCost]:
    """Return each layer's cost for inputs of these shapes, from the file in `folder` where it is known there.

    Layers that are built alike and see inputs of the same shape are measured once (median of five, after a
    warm-up); the file belongs to the model, shapes, device, machine and thread count.
    """
    modules = [factory.build(0) for factory in factories]
    keys = [_signature(module, shape, first=i == 0) for i, (module, shape) in enumerate(zip(modules, inputs, strict=True))]
    text = "\n".join([str(_FORMAT), machine, device.type, str(threads), torch.__version__, *keys])
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    known = _read(path, len(keys))
    if known is not None:
        return known
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        once: dict[str, LayerCost] = {}
        for i, (key, module, shape) in enumerate(zip(keys, modules, inputs, strict=True)):
            if key not in once:
                once[key] = _measure(module.to(device), shape, device, needs_input_gradient=i > 0)
    finally:
        torch.set_num_threads(before)
    costs = [once[key] for key in keys]
    rows = [list(astuple(c)) for c in costs]
    with suppress(OSError):  # without a cache folder the next run measures again
        write_atomically(path, to_json({"machine": machine, "threads": threads, "layers": rows}) + "\n")
    return costs


def _signature(module: nn.Module, shape: Shape, first: bool) -> str:
    return f"{type(module).__name__}|{module!r}|{shape}|{first}"


def _read(path: Path, number: int) -> list[LayerCost] | None:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["layers"]
        costs = [LayerCost(float(f), float(b), *map(int, sizes)) for f, b, *sizes in rows]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return costs if len(costs) == number else None


def _measure(module: nn.Module, shape: Shape, device: torch.device, needs_input_gradient: bool) -> LayerCost:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator).to(device)
    module.train()
    sizes = saved_by_layer(module, x.clone().requires_grad_(needs_input_gradient))
    forwards, backwards = [], []
    for trial in range(6):
        leaf = x.clone().requires_grad_(needs_input_gradient)
        source = leaf.clone() if needs_input_gradient else leaf  # a layer may write to its input
        start = _now(device)
        y = module(source)
        middle = _now(device)
        if y.requires_grad:
            y.backward(torch.ones_like(y))
        end = _now(device)
        module.zero_grad(set_to_none=True)
        if trial:  # the first one warms up
            forwards.append(middle - start)
            backwards.append(end - middle)
    return LayerCost(median(forwards), median(backwards), *sizes)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
