"""`repro bench NAME`: measure, print, and keep the rows in results/bench/ for the tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from repro.errors import UserError, nearest
from repro.recipe import parse_overrides

NAMES = ("engine", "kernels", "peers", "sequential", "startup")


def run_bench(name: str, as_json: bool, settings: Sequence[str]) -> int:
    """Run the benchmark `name`; `settings` change its size."""
    if name not in NAMES:
        raise UserError(f"unknown benchmark '{name}'.{nearest(name, NAMES)} Allowed: {', '.join(NAMES)}")
    options = parse_overrides(settings, aliases=False)

    from repro import paths
    from repro.planning.machine import environment
    from repro.store import to_json, write_atomically

    rows = _BENCHMARKS[name](options)
    document = {"rows": rows, "environment": environment(), "settings": options}
    write_atomically(paths.bench(Path("results")) / f"{name}.json", to_json(document, indent=1) + "\n")
    if as_json:
        print(to_json(document, indent=1))
        return 0
    for row in rows:
        print(
            "  ".join(f"{k} {_short(v)}" for k, v in row.items() if not k.endswith(("_low", "_high", "_n")))
        )
    return 0


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return json.dumps([round(v, 3) for v in value]) if isinstance(value, list) else str(value)


def _engine(options: dict[str, Any]) -> list[dict[str, Any]]:
    from repro.benchmarks.engine import EngineBench

    if isinstance(options.get("methods"), str):
        options = {**options, "methods": tuple(str(options["methods"]).split(","))}
    known = [f.name for f in fields(EngineBench) if not f.name.startswith("_")]
    _only(options, known)
    return EngineBench(**options).rows()


def _startup(options: dict[str, Any]) -> list[dict[str, Any]]:
    from repro.benchmarks import startup

    _only(options, ["rounds"])
    return startup.rows(**options)


def _kernels(options: dict[str, Any]) -> list[dict[str, Any]]:
    """Kernels by shape, then whole networks: what each schedule saves of a training step."""
    import torch

    from repro import models
    from repro.gradient import kernel_benchmark as benchmark
    from repro.gradient import network_benchmark
    from repro.recipe import ModelSpec

    _only(options, ["repeats", "networks", "rounds", "layouts"])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shape, classes = (3, 32, 32), 10
    networks = _words(options.get("networks", "resnet20,vgg19"))
    layouts = _words(options.get("layouts", ",".join(benchmark.LAYOUTS)))
    for layout in layouts:
        if layout not in benchmark.LAYOUTS:
            raise UserError(
                f"layouts = '{layout}'.{nearest(layout, benchmark.LAYOUTS)} Allowed: {', '.join(benchmark.LAYOUTS)}"
            )
    for name in networks:
        models.layers(
            ModelSpec(name=name), shape, classes
        )  # an unknown one is refused before anything is measured
    rows = benchmark.rows(device, repeats=int(options.get("repeats", 11)), progress=_say)
    for kernel in benchmark.kernels_here(device):
        mean = benchmark.geometric_mean(rows, kernel)
        rows.append({"shape": "geometric mean", "layout": "fastest", "kernel": kernel, "ratio": mean})
    for name in networks:
        rounds = int(options.get("rounds", 31 if name.startswith("resnet") else 9))
        for layout in layouts:
            _say(f"network {name}, {layout}")
            factories = models.layers(ModelSpec(name=name), shape, classes, layout)
            layers = [(f.name, f.build(0).to(device)) for f in factories]
            rows += network_benchmark.rows(layers, shape, classes, model=name, layout=layout, repeats=rounds)
    return rows


def _words(value: Any) -> list[str]:
    return [word for word in str(value).split(",") if word not in ("", "none", "None")]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _peers(options: dict[str, Any]) -> list[dict[str, Any]]:
    from repro.benchmarks import peers

    _only(options, ["rounds", "steps", "model", "batch_size"])
    return peers.rows(**options)


def _sequential(options: dict[str, Any]) -> list[dict[str, Any]]:
    from repro.benchmarks.one_process import SequentialBench

    if "methods" in options:
        options = {**options, "methods": tuple(_words(options["methods"]))}
    _only(options, [f.name for f in fields(SequentialBench)])
    return SequentialBench(**options).rows()


def _only(options: dict[str, Any], known: Sequence[str]) -> None:
    for key in options:
        if key not in known:
            raise UserError(f"unknown setting '{key}'.{nearest(key, known)} Allowed: {', '.join(known)}")


_BENCHMARKS: dict[str, Callable[[dict[str, Any]], list[dict[str, Any]]]] = {
    "engine": _engine,
    "kernels": _kernels,
    "peers": _peers,
    "sequential": _sequential,
    "startup": _startup,
}
