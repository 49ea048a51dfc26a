"""`repro plan RECIPE --blocks 2,4,8 --layer-times F --bandwidth B --latency L`: all methods, from layer times alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.commands.resolve import choose_device, choose_recipe
from repro.errors import RunFailed, UserError

if TYPE_CHECKING:
    from repro.commands.plan import Asked
    from repro.planning.run_plan import Plan

FIGURES = ("svg", "png", "pdf")


def show_prediction(
    name: str, asked: Asked, profile: str | None, settings: Sequence[str], device: str, as_json: bool
) -> None:
    """Print each method's predicted seconds per batch and speed-up at each K; draw them where asked to."""
    from repro.planning import units

    bandwidth = units.bandwidth(asked.bandwidth) if asked.bandwidth is not None else float("inf")
    latency = units.seconds(asked.latency) if asked.latency is not None else 0.0
    if asked.hosts is not None and asked.per_host is not None:
        raise UserError(
            f"--hosts {asked.hosts} and --per-host {asked.per_host} exclude each other: give one of them"
        )
    if asked.figure is not None and asked.figure.suffix.removeprefix(".") not in FIGURES:
        raise UserError(f"--figure {asked.figure}: give a file that ends with one of .{', .'.join(FIGURES)}")
    device = choose_device(device)
    recipe = choose_recipe(name, profile, [*settings, "cut=estimated"], device)
    counts, copies = asked.counts(recipe.blocks), asked.copies(recipe.replicas)
    recipe = recipe.model_copy(update={"replicas": 1})  # layers are measured on whole batches

    from repro.planning.hosts_and_links import Machines
    from repro.planning.layer_times import read_layer_times
    from repro.planning.machine import environment
    from repro.planning.prediction import Network, check_numbers, predict
    from repro.planning.run_plan import make_plan

    machines = Machines(latency, bandwidth, asked.hosts, asked.per_host)
    check_numbers(recipe.data.batch_size, counts, copies, machines)
    plan = make_plan(recipe, device, measure=asked.layer_times is None)
    costs = plan.costs if asked.layer_times is None else read_layer_times(asked.layer_times, plan.names)
    assert costs is not None
    network = Network(recipe.model.name, recipe.data.batch_size, tuple(costs), plan.shapes, _weights(plan))
    rows = predict(network, counts, copies, machines)
    if asked.figure is not None:
        _draw(asked.figure, rows, f"{recipe.model.name}, batch {recipe.data.batch_size}{_links(asked)}")
    if as_json:
        alone = sum(c.forward + c.backward for c in costs)
        summary: dict[str, Any] = {
            "recipe": recipe.name,
            "seconds_per_batch_on_one_device": alone,
            "latency_seconds": latency,
            "bandwidth_bytes_per_second": None if bandwidth == float("inf") else bandwidth,
            "hosts": asked.hosts,
            "per_host": asked.per_host,
        }
        print(json.dumps({"rows": rows, "summary": summary, "environment": environment()}, indent=1))
        return
    _print(recipe.model.name, recipe.data.batch_size, rows, asked, sum(c.forward + c.backward for c in costs))


def _print(model: str, batch_size: int, rows: Sequence[dict[str, Any]], asked: Asked, alone: float) -> None:
    source = (
        "layer times measured here" if asked.layer_times is None else f"layer times of {asked.layer_times}"
    )
    print(f"{model}, batch {batch_size}, {source}{_links(asked)}; one device: {1e3 * alone:.2f} ms a batch")
    print(
        " K  method                                ms a batch  speed-up  a device  messages free  largest message"
    )
    for row in rows:
        print(
            f"{row['blocks']:>2}  {_name(row):<35}  {1e3 * row['seconds_per_batch']:>11.2f}  {row['speedup']:>8.2f}  "
            f"{row['efficiency']:>8.2f}  {row['speedup_with_free_messages']:>13.2f}  "
            f"{row['largest_message_bytes'] / 1e6:>12.2f} MB"
        )
    best = max(rows, key=lambda row: float(row["speedup"]))
    print(f"fastest: {_name(best)} with {best['blocks']} blocks, {best['speedup']:.2f} times one device")
    print("simulated: a device for each block of each replica, transfers beside compute, no optimiser")


def _name(row: dict[str, Any]) -> str:
    return str(row["method"]) + (f" x {row['replicas']} replicas" if row["replicas"] > 1 else "")


def _weights(plan: Plan) -> tuple[int, ...]:
    """Bytes of each layer's weights."""
    import torch

    from repro import models
    from repro.planning.counted_memory import tensor_bytes

    with torch.device("meta"):
        modules = [f.make() for f in models.layers(plan.recipe.model, plan.image_shape, plan.num_classes)]
    return tuple(tensor_bytes(module.parameters()) for module in modules)


def _links(asked: Asked) -> str:
    if asked.bandwidth is None and asked.latency is None:
        return ", free messages"
    what = f"of {asked.bandwidth or 'any bandwidth'} and {asked.latency or 'no latency'}"
    if asked.hosts is not None:
        return f", {asked.hosts} host{'' if asked.hosts == 1 else 's'}, between them links {what}"
    return f", links {what}" + (f" between hosts of {asked.per_host} devices" if asked.per_host else "")


def _draw(path: Path, rows: Sequence[dict[str, Any]], title: str) -> None:
    from repro.report.figures import canvas
    from repro.report.figures.scaling_panel import figure

    panels: dict[str, dict[str, list[tuple[int, float]]]] = {}
    ideal = {}
    for row in rows:
        several = len({row["replicas"] for row in rows}) > 1 or row["replicas"] > 1
        name = f"R = {row['replicas']}: {title}" if several else title
        panels.setdefault(name, {}).setdefault(row["method"], []).append((row["blocks"], row["speedup"]))
        ideal[name] = row["replicas"]
    words = (
        "predicted by the simulator from layer times; dotted: as many times one device as there are devices."
    )
    with canvas.settings():
        drawn = figure(panels, {}, words, ideal)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(canvas.encode(drawn, path.suffix.removeprefix(".")))
    except OSError as error:
        raise RunFailed(f"--figure {path}: cannot be written ({error.strerror})") from None
