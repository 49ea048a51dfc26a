"""`repro plan` and `repro run --dry-run`: the cut, the schedule as a timeline, predicted times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro import paths
from repro.commands.resolve import choose_device, choose_recipe
from repro.errors import UserError
from repro.recipe import Given, Recipe
from repro.schedule import Action, Kind, Schedule, simulate

if TYPE_CHECKING:
    from repro.planning.run_plan import Plan
    from repro.planning.seats import Seats

_TIMES = (("forward_seconds", 10), ("backward_seconds", 11), ("busy_seconds", 7))
_SHADES = {Kind.FORWARD: "F", Kind.RECOMPUTE: "R", Kind.BACKWARD: "B", Kind.UPDATE: "U", Kind.MODULE: "M"}


def describe_plans(
    recipes: Sequence[Recipe],
    given: Sequence[Given],
    seeds: Sequence[int],
    out: Path,
    device: str,
    engine: str = "auto",
    seats: Seats | None = None,
) -> None:
    """Print what `repro run` would do; runs and writes nothing. UserError where it would refuse."""
    from repro.planning.engine_choice import choose_engine
    from repro.planning.run_plan import make_plan
    from repro.planning.seats import Seats as _Seats
    from repro.runner import without_duplicates

    seats = seats or _Seats.on(device, 1, False)
    plans = []
    for recipe, asked in zip(recipes, given, strict=True):
        chosen, _ = choose_engine(recipe, engine, seats.places, device)
        plan = make_plan(recipe, device, engine=chosen, share=seats.cores, measure=False)
        plans.append(replace(seats.checked(plan), given=asked))
    for plan in without_duplicates(plans, say=print):
        recipe = plan.recipe
        where = paths.seed_folder(out, recipe.name, "<hash>", seeds[0]).parent
        print(f"{plan.title} (profile {recipe.profile})")
        blocks = f"{plan.blocks} block(s){recipe.of_replicas}"
        print(f"  method   {recipe.method.label(plan.blocks)}, {blocks} on {', '.join(plan.devices)}")
        _, reason = choose_engine(recipe, engine, seats.places, device)
        print(f"  engine   {plan.engine} ({reason}), {plan.threads} thread(s), {seats.jobs} run(s) at once")
        print(f"  model    {recipe.model.name}, {len(plan.names)} layers, cut {recipe.cut}")
        print(f"  memory   {format_words(recipe, plan)}")
        print(f"  update   {optimizer_line(plan)}")
        print(f"  data     {plan.data_identity}")
        print(f"  batches  {plan.num_batches} of {recipe.data.batch_size}, {plan.steps_per_epoch} an epoch")
        print(f"  seeds    {', '.join(map(str, seeds))} -> {where}/seed-<s>")


def optimizer_line(plan: Plan) -> str:
    """The optimiser, and for Muon which weights are whose."""
    from repro import models
    from repro.planning.optimizer_rules import optimizer_words

    shape = plan.image_shape
    return optimizer_words(plan.recipe, models.layers(plan.recipe.model, shape, plan.num_classes))


def format_words(recipe: Recipe, plan: Plan) -> str:
    """The layout, and where it was chosen by measurement, both times."""
    if recipe.memory_format != "auto":
        return plan.memory_format
    if not plan.format_seconds:
        return "auto (not measured here yet)"
    times = ", ".join(f"{name} {1e3 * s:.1f} ms a batch" for name, s in plan.format_seconds.items())
    return f"{plan.memory_format} (auto: {times})"


@dataclass(frozen=True)
class Asked:
    """What a prediction is for: numbers of blocks, the user's own layers, links; `figure`: where to draw it.

    `replicas`: numbers of replicas; `hosts` or `per_host`: where the ranks are, links being those between hosts.
    `jitter`: recorded times for which queues are proposed, at a `loss` of throughput; `runs`: where they are stored.
    """

    blocks: str | None = None
    layer_times: Path | None = None
    bandwidth: str | None = None
    latency: str | None = None
    figure: Path | None = None
    jitter: str | None = None
    loss: str | None = None
    runs: Path | None = None
    replicas: str | None = None
    hosts: int | None = None
    per_host: int | None = None

    @property
    def predicts(self) -> bool:
        """Whether all methods are compared, or one plan is shown."""
        links = (self.bandwidth, self.latency, self.hosts, self.per_host)
        given = (self.layer_times, self.figure, self.replicas, *links)
        return any(value is not None for value in given) or "," in (self.blocks or "")

    def counts(self, default: int) -> list[int]:
        """The numbers of blocks; UserError where they are none."""
        return _counts("--blocks", self.blocks, default)

    def copies(self, default: int) -> list[int]:
        """The numbers of replicas; UserError where they are none."""
        return _counts("--replicas", self.replicas, default)


def _counts(option: str, text: str | None, default: int) -> list[int]:
    words = [str(default)] if text is None else [w.strip() for w in text.split(",")]
    if not all(w.isdigit() and int(w) >= 1 for w in words):
        raise UserError(f"{option} {text!r}: give whole numbers >= 1 separated by commas, for example 2,4,8")
    return sorted({int(w) for w in words})


def show(
    name: str, asked: Asked, profile: str | None, settings: Sequence[str], device: str, as_json: bool
) -> None:
    """One plan, all methods at several K, or queues for recorded jitter."""
    if asked.jitter is not None:
        from repro.commands.jitter import show_queues

        show_queues(name, asked, profile, settings, device, as_json)
        return
    for option, value in (("--loss", asked.loss), ("--runs", asked.runs)):
        if value is not None:
            raise UserError(f"{option} {value} belongs to --jitter: give --jitter FILE or --jitter measured")
    if not asked.predicts:
        blocks = None if asked.blocks is None else asked.counts(1)[0]
        show_plan(name, blocks, profile, settings, device, as_json)
        return
    from repro.commands.predict import show_prediction

    show_prediction(name, asked, profile, settings, device, as_json)


def show_plan(
    name: str, blocks: int | None, profile: str | None, settings: Sequence[str], device: str, as_json: bool
) -> None:
    """Measure the layers and print the plan."""
    from repro.planning.layer_times import layer_rows
    from repro.planning.machine import environment
    from repro.planning.run_plan import bound, make_plan

    extra = [] if blocks is None else [f"blocks={blocks}"]
    device = choose_device(device)
    recipe = choose_recipe(name, profile, [*settings, *extra], device)
    plan = make_plan(recipe, device, measure=True)
    assert plan.costs is not None
    schedule = plan.schedule()
    rows: list[dict[str, Any]] = []
    for k, (low, high) in enumerate(plan.layer_spans):
        layers = plan.costs[low:high]
        forward, backward = sum(c.forward for c in layers), sum(c.backward for c in layers)
        rows.append(
            {
                "block": k,
                "device": plan.devices[k],
                "first_layer": plan.names[low],
                "last_layer": plan.names[high - 1],
                "layers": high - low,
                "staleness": schedule.staleness[k],
                "recompute": schedule.recompute[k],
                "forward_seconds": forward,
                "backward_seconds": backward,
                "busy_seconds": forward * (2 if schedule.recompute[k] else 1) + backward,
            }
        )
    period = bound(plan, plan.costs)
    alone = (
        sum(c.forward + c.backward for c in plan.costs) * recipe.replicas
    )  # of the whole batch, on one device
    summary = {
        "recipe": recipe.name,
        "method": recipe.method.label(plan.blocks),
        "seconds_per_batch": period,
        "bp_seconds_per_batch": alone,
        "speedup_bound": alone / period,
        "oversubscribed": plan.oversubscribed,
        "memory_format": plan.memory_format,
        "format_seconds": plan.format_seconds,
    }
    if as_json:
        every_layer = layer_rows(plan.names, plan.costs)
        print(
            json.dumps(
                {"rows": rows, "summary": summary, "layers": every_layer, "environment": environment()},
                indent=1,
            )
        )
        return
    print(f"{recipe.name}: {summary['method']}, {recipe.model.name}, batch {recipe.data.batch_size}")
    print(f"memory format: {format_words(recipe, plan)}")
    print(f"optimiser: {optimizer_line(plan)}")
    print("block  layers                                m  recompute  forward ms  backward ms  busy ms")
    for row in rows:
        span = f"{row['first_layer']} .. {row['last_layer']} ({row['layers']})"
        print(
            f"{row['block']:>5}  {span:<36}  {row['staleness']:>1}  {'yes' if row['recompute'] else 'no':>9}  "
            + "  ".join(f"{1e3 * float(row[key]):>{width}.2f}" for key, width in _TIMES)
        )
    print(
        f"\npredicted {1e3 * period:.2f} ms a batch; BP {1e3 * alone:.2f} ms; bound of the speed-up {alone / period:.2f}"
    )
    if plan.oversubscribed:
        print("more blocks than devices or cores here: the prediction is for one device a block")
    print(
        "\n"
        + draw(
            recipe.method.schedule(plan.blocks, 2 * max(schedule.staleness) + 6, {}),
            durations(rows, max(1, recipe.method.micro_batches(recipe.data.batch_size))),
        )
    )


def draw(schedule: Schedule, duration: Any, width: int = 100) -> str:
    """The schedule as a timeline of letters, one line a block; dots are waits."""
    timeline = simulate(schedule, duration)
    scale = width / timeline.end if timeline.end else 0.0
    lines = []
    for k in range(schedule.num_blocks):
        cells = ["."] * width
        for span in timeline.of(k):
            low, high = int(span.start * scale), max(int(span.start * scale) + 1, int(span.end * scale))
            if span.action.kind is Kind.UPDATE:
                continue
            for i in range(low, min(high, width)):
                cells[i] = _SHADES.get(span.action.kind, "?")
        lines.append(f"block {k}  " + "".join(cells))
    return "\n".join(lines)


def durations(rows: Sequence[dict[str, Any]], micro: int) -> Any:
    """Seconds of an action, from a row a block of seconds a batch, of which a micro-batch takes its share of `micro`."""

    def duration(block: int, action: Action) -> float:
        row = rows[block]
        if action.kind in (Kind.FORWARD, Kind.RECOMPUTE):
            return float(row["forward_seconds"]) / micro
        return float(row["backward_seconds"]) / micro if action.kind is Kind.BACKWARD else 0.0

    return duration
