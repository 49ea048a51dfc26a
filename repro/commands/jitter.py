"""`repro plan RECIPE --jitter FILE|measured`: queues of DSP for a wanted loss of throughput."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, stdev
from typing import TYPE_CHECKING, Any

import typer

from repro import paths
from repro.commands.resolve import choose_device, choose_recipe
from repro.commands.runs_folder import runs_to_read
from repro.errors import RunFailed, UserError
from repro.recipe import Recipe
from repro.schedule import Staleness

if TYPE_CHECKING:
    from repro.commands.plan import Asked
    from repro.planning.jitter import Jitter
    from repro.planning.queue_search import Bootstrap, Proposal
    from repro.planning.run_plan import Plan
    from repro.store import StoredRun

MEASURED = "measured"
DEFAULT_LOSS = "2%"
LADDER = (1, 2, 3, 4, 6, 8, 12, 16)  # p + q at every boundary, shown beside what is proposed


def show_queues(
    name: str, asked: Asked, profile: str | None, settings: Sequence[str], device: str, as_json: bool
) -> None:
    """Print what shorter and longer queues lose, and the setting proposed; exit code 1 where none is fast enough."""
    from repro.planning import units

    loss = units.percent(asked.loss or DEFAULT_LOSS)
    if asked.predicts:
        raise UserError(
            "--jitter proposes queues for one K, from recorded times alone: leave out --layer-times, --bandwidth, "
            "--latency, --figure and further numbers of --blocks"
        )
    device = choose_device(device)
    extra = [] if asked.blocks is None else [f"blocks={asked.counts(1)[0]}"]
    recipe = choose_recipe(name, profile, [*settings, *extra], device)
    if recipe.method.name != "dsp":
        raise UserError(
            f"--jitter: method.name = {recipe.method.name} has no queues to choose: give a recipe of dsp, for example "
            "dsp-resnet98"
        )
    if recipe.blocks < 2:
        raise UserError("--jitter: blocks = 1 has no neighbour to wait for: give --blocks 2 or more")

    from repro.planning.queue_search import Bootstrap, search
    from repro.planning.run_plan import make_plan

    replays = [k < recipe.blocks - 1 for k in range(recipe.blocks)]
    jitter, source = _jitter(asked, recipe, device, replays)
    plan = make_plan(recipe, device, measure=False)
    bootstrap = Bootstrap(jitter)
    found = search(bootstrap, loss)
    rows = _rows(plan, bootstrap, found, loss)
    spread = [_spread(jitter, k, replays[k]) for k in range(recipe.blocks)]
    bound = bootstrap.bound(replays)
    if as_json:
        _print_json(recipe, rows, spread, found, loss, bound, source)
    else:
        _print(recipe, rows, spread, found, loss, bound, source)
    if found is None:
        raise typer.Exit(RunFailed.exit_code)


def _jitter(asked: Asked, recipe: Recipe, device: str, replays: Sequence[bool]) -> tuple[Jitter, str]:
    from repro.planning.jitter import read_jitter

    assert asked.jitter is not None
    if asked.jitter != MEASURED:
        if asked.runs is not None:
            raise UserError(f"--runs {asked.runs} belongs to --jitter measured")
        found = read_jitter(Path(asked.jitter), recipe.blocks, replays)
        return found, f"{_count(found)} of {asked.jitter}"
    runs = _recorded(recipe, asked.runs, device)
    if not runs:
        raise UserError(
            f"--jitter measured: no stored run of {recipe.model.name} with blocks = {recipe.blocks} and batches of "
            f"{recipe.data.batch_size} has times of this machine, a core or device for each block; make one with: "
            f"repro run {recipe.name} --profile {recipe.profile} --engine processes"
        )
    from repro.planning.jitter import from_spans
    from repro.report.stored.bound import read_timeline

    found = from_spans((read_timeline(run) for run in runs), recipe.blocks)
    names = ", ".join(sorted({run.recipe_name for run in runs}))
    return found, f"{_count(found)}, recorded in {len(runs)} run(s) of {names}"


def _count(jitter: Jitter) -> str:
    fewest = min(map(len, jitter.samples))
    return f"{fewest} batches a block" + (" (few: their tails are hardly known)" if fewest < 30 else "")


def _recorded(recipe: Recipe, folder: Path | None, device: str) -> list[StoredRun]:
    """Timed runs of the same network, batch and K on this machine, of the recipe itself where there are any."""
    import torch

    from repro.planning import machine
    from repro.planning.jitter import from_spans
    from repro.report.stored.bound import read_timeline
    from repro.store import COMPLETE, read_runs

    here = machine.machine_name(torch.device(device))
    wanted = _network(recipe.model_dump(mode="json"))

    def fits(run: StoredRun) -> bool:
        result: Mapping[str, Any] = run.result or {}
        return (
            run.status == COMPLETE
            and run.timed
            and not result.get("oversubscribed")
            and (result.get("machine"), result.get("blocks")) == (here, recipe.blocks)
            and run.recipe.get("method", {}).get("name") not in ("dni", "gpipe")
            and _network(run.recipe) == wanted
            and all(from_spans([read_timeline(run)], recipe.blocks).samples)
        )

    roots = [runs_to_read(folder)] if folder else [paths.runs(), paths.reference()]
    for root in roots:
        found = [run for run in read_runs(root) if fits(run)]
        if found:
            return [run for run in found if run.recipe_name == recipe.name] or found
    return []


def _network(recipe: Mapping[str, Any]) -> tuple[Any, ...]:
    """What decides a batch's compute: network, samples, replicas that share them, layout."""
    data = recipe.get("data", {})
    size = [data.get(key) for key in ("name", "batch_size", "image_size")]
    return recipe.get("model"), size, recipe.get("replicas", 1), recipe.get("memory_format", "contiguous")


def _spread(jitter: Jitter, block: int, replays: bool) -> dict[str, Any]:
    seconds = jitter.busy(block, replays)
    mean = sum(seconds) / len(seconds)
    return {
        "block": block,
        "batches": len(seconds),
        "mean_seconds": mean,
        "median_seconds": median(seconds),
        "deviation_percent": 100 * stdev(seconds) / mean if len(seconds) > 1 and mean > 0 else 0.0,
        "slowest_over_mean": max(seconds) / mean if mean > 0 else 1.0,
    }


def _rows(plan: Plan, bootstrap: Bootstrap, found: Proposal | None, loss: float) -> list[dict[str, Any]]:
    """A row per setting: uniform queues up to the first that is enough, the recipe's own, and the proposal."""
    from repro.methods.dsp import DSP
    from repro.planning.queue_search import setting_of

    assert isinstance(plan.recipe.method, DSP)
    settings = {Staleness.parse(plan.recipe.method.staleness, plan.blocks): "recipe"}
    if found is not None:
        settings[found.setting] = "proposed" if found.setting not in settings else "recipe, proposed"
    for slack in LADDER:
        uniform = setting_of((slack,) * (plan.blocks - 1))
        settings.setdefault(uniform, "")
        if bootstrap.pace(uniform, "shared").mean >= 1.0 - loss:
            break
    ordered = sorted(settings, key=lambda s: (sum(s.m), str(s)))
    return [_row(plan, bootstrap, setting, settings[setting]) for setting in ordered]


def _row(plan: Plan, bootstrap: Bootstrap, setting: Staleness, mark: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "setting": str(setting),
        "total_staleness": sum(setting.m),
        "queue_entries": sum(m + 1 for m in setting.m) + sum(setting.slack),
        "queue_bytes": _bytes(plan, setting),
        "mark": mark,
    }
    for queues in ("split", "shared"):
        pace = bootstrap.pace(setting, "split" if queues == "split" else "shared")
        row |= {queues: pace.mean, f"{queues}_low": pace.low, f"{queues}_high": pace.high}
    return row


def _bytes(plan: Plan, setting: Staleness) -> int:
    """Of stored inputs and of the messages between blocks, which are inputs of the upper one or their gradients."""
    from repro.planning.block_times import message_bytes

    low = [a for a, _ in plan.layer_spans]
    inputs = message_bytes(plan.shapes, [*((0, a) for a in low), (0, 0)], plan.recipe.data.batch_size)
    messages = sum(s * size for s, size in zip(setting.slack, inputs[1:], strict=True))
    return round(sum((m + 1) * size for m, size in zip(setting.m, inputs, strict=True)) + messages)


def _chosen(found: Proposal) -> str:
    words = f'--set method.staleness="{found.setting}"'
    return words + (" --set method.queues=shared" if found.queues == "shared" else "")


def _print_json(
    recipe: Recipe, rows: Any, spread: Any, found: Proposal | None, loss: float, bound: float, source: str
) -> None:
    from repro.planning.machine import environment

    summary = {
        "recipe": recipe.name,
        "source": source,
        "wanted_loss": loss,
        "bound_seconds_per_batch": bound,
        "proposed": None if found is None else str(found.setting),
        "queues": None if found is None else found.queues,
        "settings": None if found is None else _chosen(found),
        "expected_seconds_per_batch": None if found is None else bound / found.pace.mean,
    }
    answer = {"rows": rows, "blocks": spread, "summary": summary, "environment": environment()}
    print(json.dumps(answer, indent=1))


def _print(
    recipe: Recipe, rows: Any, spread: Any, found: Proposal | None, loss: float, bound: float, source: str
) -> None:
    from repro.planning.queue_search import LONGEST, REPEATS

    print(
        f"{recipe.name}, K = {recipe.blocks}: {source}; wanted: at most {100 * loss:g} % of throughput lost"
    )
    print("block  mean ms  median ms  deviation %  slowest / mean")
    for row in spread:
        print(
            f"{row['block']:>5}  {1e3 * row['mean_seconds']:>7.2f}  {1e3 * row['median_seconds']:>9.2f}  "
            f"{row['deviation_percent']:>11.1f}  {row['slowest_over_mean']:>14.2f}"
        )
    width = max(len("setting p;m"), *(len(row["setting"]) for row in rows))
    print(f"\n{'setting p;m':<{width}}  sum of m  entries  queue MB  % of bound: split  queues shared")
    for row in rows:
        both = "  ".join(f"{_percent(row, q):>16}" for q in ("split", "shared"))
        mark = f"  <- {row['mark']}" if row["mark"] else ""
        print(
            f"{row['setting']:<{width}}  {row['total_staleness']:>8}  {row['queue_entries']:>7}  "
            f"{row['queue_bytes'] / 1e6:>8.2f}  {both}{mark}"
        )
    if found is None:
        print(
            f"\nno setting with p + q up to {LONGEST} at each boundary loses so little: allow a larger --loss"
        )
    else:
        pace = found.pace
        print(f"\nproposed: {_chosen(found)}")
        print(
            f"expected: {1e3 * bound / pace.mean:.2f} ms a batch, {100 * pace.mean:.1f} % of the bound of "
            f"{1e3 * bound:.2f} ms; staleness m = {', '.join(map(str, found.setting.m))}"
        )
    print(
        f"simulated: {REPEATS} runs of batches drawn from the recorded ones, block by block (95 % interval over the runs); "
        "free messages, a device a block. Split: the paper's queues of p and q; shared: method.queues=shared"
    )


def _percent(row: Mapping[str, Any], queues: str) -> str:
    half = 100 * (row[f"{queues}_high"] - row[queues])
    return f"{100 * row[queues]:.1f} ± {half:.1f}"
