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

FIGURES = ("svg", "png", "pdf")


def show_prediction(
    name: str, asked: Asked, profile: str | None, settings: Sequence[str], device: str, as_json: bool
) -> None:
    """Print each method's predicted seconds per batch and speed-up at each K; draw them where asked to."""
    from repro.planning import units

    bandwidth = units.bandwidth(asked.bandwidth) if asked.bandwidth is not None else float("inf")
    latency = units.seconds(asked.latency) if asked.latency is not None else 0.0
    if asked.figure is not None and asked.figure.suffix.removeprefix(".") not in FIGURES:
        raise UserError(f"--figure {asked.figure}: give a file that ends with one of .{', .'.join(FIGURES)}")
    device = choose_device(device)
    recipe = choose_recipe(name, profile, [*settings, "cut=estimated"], device)
    counts = asked.counts(recipe.blocks)

    from repro.planning.layer_times import read_layer_times
    from repro.planning.machine import environment
    from repro.planning.prediction import Network, predict
    from repro.planning.run_plan import make_plan

    plan = make_plan(recipe, device, measure=asked.layer_times is None)
    costs = plan.costs if asked.layer_times is None else read_layer_times(asked.layer_times, plan.names)
    assert costs is not None
    network = Network(recipe.model.name, recipe.data.batch_size, tuple(costs), plan.shapes)
    rows = predict(network, counts, latency=latency, bandwidth=bandwidth)
    if asked.figure is not None:
        _draw(asked.figure, rows, f"{recipe.model.name}, batch {recipe.data.batch_size}{_links(asked)}")
    if as_json:
        alone = sum(c.forward + c.backward for c in costs)
        summary: dict[str, Any] = {
            "recipe": recipe.name,
            "seconds_per_batch_on_one_device": alone,
            "latency_seconds": latency,
            "bandwidth_bytes_per_second": None if bandwidth == float("inf") else bandwidth,
        }
        print(json.dumps({"rows": rows, "summary": summary, "environment": environment()}, indent=1))
        return
    _print(recipe.model.name, recipe.data.batch_size, rows, asked, sum(c.forward + c.backward for c in costs))


def _print(model: str, batch_size: int, rows: Sequence[dict[str, Any]], asked: Asked, alone: float) -> None:
    source = (
        "layer times measured here" if asked.layer_times is None else f"layer times of {asked.layer_times}"
    )
    print(f"{model}, batch {batch_size}, {source}{_links(asked)}; one device: {1e3 * alone:.2f} ms a batch")
    print(" K  method               ms a batch  speed-up  a device  messages free  largest message")
    for row in rows:
        print(
            f"{row['blocks']:>2}  {row['method']:<19}  {1e3 * row['seconds_per_batch']:>10.2f}  {row['speedup']:>8.2f}  "
            f"{row['efficiency']:>8.2f}  {row['speedup_with_free_messages']:>13.2f}  "
            f"{row['largest_message_bytes'] / 1e6:>12.2f} MB"
        )
    best = max(rows, key=lambda row: float(row["speedup"]))
    print(f"fastest: {best['method']} with {best['blocks']} blocks, {best['speedup']:.2f} times one device")
    print("simulated: a device a block, transfers beside compute, no optimiser")


def _links(asked: Asked) -> str:
    if asked.bandwidth is None and asked.latency is None:
        return ", free messages"
    return f", links of {asked.bandwidth or 'any bandwidth'} and {asked.latency or 'no latency'}"


def _draw(path: Path, rows: Sequence[dict[str, Any]], title: str) -> None:
    from repro.report.figures import canvas
    from repro.report.figures.scaling_panel import figure

    lines: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        lines.setdefault(row["method"], []).append((row["blocks"], row["speedup"]))
    with canvas.settings():
        drawn = figure(
            {title: lines}, {}, "predicted by the simulator from layer times; dotted: K times one device."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(canvas.encode(drawn, path.suffix.removeprefix(".")))
    except OSError as error:
        raise RunFailed(f"--figure {path}: cannot be written ({error.strerror})") from None
