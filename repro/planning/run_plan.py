"""Everything about a run that is settled before processes start: cut, shapes, schedule, identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from repro import data, models, paths
from repro.cores import cores
from repro.errors import MissingError, UserError
from repro.planning.layer_costs import measured_costs
from repro.planning.machine import machine_name
from repro.planning.memory_formats import Choice, choose
from repro.planning.network_checks import (
    check_memory_format,
    check_number_formats,
    check_one_value,
    check_recalibration,
    check_tied,
)
from repro.planning.optimizer_rules import check_optimizer
from repro.planning.partition import LayerCost, best_cut, checked_cut, spans
from repro.planning.replication import check_shards, rank_words
from repro.planning.schedule_checks import check_boundaries, check_schedule
from repro.recipe import Given, Recipe, run_hash, validate
from repro.schedule import Action, Kind, Schedule, simulate


@dataclass(frozen=True)
class Plan:
    """A resolved run: what every block, and the oracle, needs to know."""

    recipe: Recipe
    devices: tuple[str, ...]  # one per rank: block k of replica r is rank r * K + k
    threads: int
    cut: tuple[int, ...]
    memory_format: str  # "contiguous" or "channels_last"
    format_seconds: dict[str, float]  # of a batch in each, where `memory_format: auto` measured them
    names: tuple[str, ...]  # of all layers
    dtypes: tuple[str, ...]  # of each layer's input, of real numbers
    shapes: tuple[tuple[int, ...], ...]  # input shape of each layer, then the output, without the batch
    num_classes: int
    steps_per_epoch: int
    test_steps: int
    num_batches: int
    evaluations: dict[int, int]  # number of updates -> epoch
    costs: tuple[LayerCost, ...] | None
    data_root: Path
    data_identity: str
    hash: str
    # How it is carried out; changes no number, so it is not in the hash.
    engine: str = "processes"  # or "sequential": all blocks in one process; "oracle": no engine
    jobs: int = 1  # runs at once on this machine
    pinned: tuple[int, ...] = ()  # cores that the run's processes keep to; () = all
    hosts: tuple[str, ...] = ()  # of each rank; () = all on this machine
    crowded: bool = False  # with `hosts`: one of them has more ranks than cores or GPUs
    given: Given | None = None  # what the command asked for; recorded, no part of the identity
    log: tuple[str, ...] = ()  # trackers that hear the rows

    @property
    def title(self) -> str:
        """The recipe's name, with the swept settings where there are any."""
        return self.given.title(self.recipe.name) if self.given else self.recipe.name

    @property
    def blocks(self) -> int:
        """K."""
        return self.recipe.blocks

    @property
    def ranks(self) -> int:
        """K x R: a block of a replica each."""
        return self.recipe.ranks

    def rank_words(self, rank: int) -> str:
        """Which block that is, of which replica where there are several."""
        return rank_words(rank, self.blocks, self.recipe.replicas)

    @property
    def image_shape(self) -> tuple[int, ...]:
        """C, H, W of an image, or (context,) of a text."""
        return self.shapes[0]

    @property
    def precision(self) -> models.Precision:
        """In which formats the layers compute."""
        return models.Precision(self.recipe.autocast, self.recipe.tf32)

    def dtype(self, boundary: int) -> torch.dtype:
        """Type of what enters layer number `boundary`; the number of layers stands for the output."""
        if boundary == 0 and self.reads_text:
            return torch.int64
        found: torch.dtype = (
            getattr(torch, self.dtypes[boundary]) if boundary < len(self.dtypes) else torch.float32
        )
        return found

    @property
    def reads_text(self) -> bool:
        """Whether samples are sequences of tokens: whole numbers of eight bytes, with a label each."""
        return self.recipe.data.name == "text"

    @property
    def approximates(self) -> bool:
        """Whether some filter gradients are not the library's."""
        gradient = self.recipe.gradient
        return gradient.estimator != "full" or not isinstance(gradient.schedule, str)

    @property
    def layer_spans(self) -> list[tuple[int, int]]:
        """Half-open range of layers of each block."""
        return spans(self.cut, len(self.names))

    @property
    def oversubscribed(self) -> bool:
        """More blocks (of all replicas) than cores or GPUs: wall-clock is no speed-up then."""
        if self.hosts:
            return self.crowded
        if self.devices[0].startswith("cuda"):
            return self.ranks > torch.cuda.device_count()
        return self.ranks * self.threads > cores()

    def schedule(self, evaluations: bool = True) -> Schedule:
        """The actions of all blocks."""
        return self.recipe.method.schedule(
            self.blocks, self.num_batches, self.evaluations if evaluations else {}
        )


def packed(plan: Plan) -> dict[str, Any]:
    """The plan as plain data, for another process; a recipe may hold a class from a file there."""
    values = {f.name: getattr(plan, f.name) for f in fields(plan)}
    return {**values, "recipe": plan.recipe.model_dump(mode="json")}


def unpacked(values: Mapping[str, Any]) -> Plan:
    """Inverse of `packed`."""
    return Plan(**{**values, "recipe": validate(values["recipe"])})


def make_plan(
    recipe: Recipe,
    device: str,
    *,
    measure: bool | None = None,
    costs_folder: Path | None = None,
    engine: str = "processes",
    share: int | None = None,
) -> Plan:
    """Resolve `recipe` for `device` ("cpu" or "cuda"); prepares the data, measures layers, checks the schedule.

    Raises UserError, before any process starts, where blocks exceed layers, a cut is out of range or the
    schedule deadlocks; MissingError where data or devices are not there. `measure` forces or forbids the
    measurement of layer times (default: where the cut asks for it); times measured before are taken from `costs_folder`
    (default: the machine's cache). `engine`: "processes" or "sequential"; `share`: the run's cores (default: all here).
    """
    if recipe.timing_only:
        device = "cpu"  # blocks wait there, whatever the machine has
    root = data_root(recipe)
    data.prepare(recipe.data, root)
    seedless = data.load(recipe.data, root, 0)
    layers = partial(models.layers, recipe.model, seedless.image_shape, seedless.num_classes)
    factories = layers()
    precision = models.Precision(recipe.autocast, recipe.tf32)
    if recipe.blocks > len(factories):
        raise UserError(
            f"blocks = {recipe.blocks} is more than the {len(factories)} layers of {recipe.model.name}: "
            f"give 1..{len(factories)}"
        )
    share = cores() if share is None else share
    ranks = recipe.ranks
    apart = recipe.runtime.threads or max(1, share // ranks)  # with a process a block
    threads = recipe.runtime.threads or (share if engine == "sequential" else apart)
    steps = seedless.steps_per_epoch
    num_batches = min(steps * recipe.epochs, recipe.max_steps or steps * recipe.epochs)
    evaluations = evaluation_points(recipe, steps, num_batches)
    recompute = recipe.method.schedule(recipe.blocks, num_batches, {}).recompute
    shapes = models.shapes(factories, seedless.image_shape)
    check_recalibration(recipe, steps)
    check_tied(factories)
    check_number_formats(recipe, factories, device)
    sizes = check_shards(recipe, {seedless.train_batch_size(i) for i in range(min(steps, num_batches))})
    check_one_value(recipe, factories, shapes, sizes)
    cut = checked_cut(recipe.cut, len(factories)) if isinstance(recipe.cut, tuple) else ()
    needed = (recipe.cut == "measured" and recipe.blocks > 1) or recipe.timing_only
    where = torch.device(devices(ranks, device)[0])
    known = costs_folder or paths.costs()
    inputs = [(recipe.shard_size, *shape) for shape in shapes[:-1]]
    choice = Choice(recipe.memory_format, {})
    check_memory_format(recipe)
    if recipe.memory_format == "auto" and recipe.data.name == "text":
        choice = Choice("contiguous", {})  # no maps to lay out
    elif recipe.memory_format == "auto":
        choice = choose(
            # `apart`: the engine changes no number, so it must not change the choice either
            lambda form: models.typed(layers(form), precision, shapes, where),
            inputs,
            where,
            apart,
            known,
            machine_name(where),
            measure=measure is not False,
        )
    factories = layers(choice.memory_format)
    check_optimizer(recipe, factories, steps, choice.memory_format)
    measure = needed if measure is None else measure
    measured = models.typed(factories, precision, shapes, where)
    costs = measured_costs(measured, inputs, where, apart, known, machine_name(where), measure=measure)
    if not isinstance(recipe.cut, tuple) and recipe.blocks > 1:
        basis = costs if recipe.cut == "measured" and costs else _estimated(factories, shapes)
        cut = best_cut(basis, recompute)
    plan = Plan(
        recipe=recipe,
        devices=devices(ranks, device, engine),
        threads=threads,
        cut=cut,
        memory_format=choice.memory_format,
        format_seconds=choice.seconds,
        names=tuple(f.name for f in factories),
        dtypes=tuple(str(f.dtype).removeprefix("torch.") for f in measured),
        shapes=tuple(shapes),
        num_classes=seedless.num_classes,
        steps_per_epoch=steps,
        test_steps=seedless.test_steps,
        num_batches=num_batches,
        evaluations=evaluations,
        costs=None if costs is None else tuple(costs),
        data_root=root,
        data_identity=data.identity(recipe.data, root),
        hash="",
        engine=engine,
    )
    check_boundaries(plan)
    check_schedule(plan)
    number = run_hash(
        recipe, device=device, data_identity=plan.data_identity, cut=cut, memory_format=plan.memory_format
    )
    return replace(plan, hash=number)


def data_root(recipe: Recipe) -> Path:
    """The folder of the data's files: the recipe's own, or the common one."""
    return Path(recipe.data.path) if recipe.data.path else paths.data_root()


def evaluation_points(recipe: Recipe, steps: int, num_batches: int) -> dict[int, int]:
    """Map numbers of updates to the epoch evaluated there: every `evaluate_every` epochs, and at the end."""
    points = {e * steps: e for e in range(recipe.evaluate_every, recipe.epochs + 1, recipe.evaluate_every)}
    points = {updates: epoch for updates, epoch in points.items() if updates <= num_batches}
    points.setdefault(num_batches, -(-num_batches // steps))
    return dict(sorted(points.items()))


def devices(ranks: int, device: str, engine: str = "processes") -> tuple[str, ...]:
    """The device of each rank; ranks share GPUs in turn where there are fewer. MissingError without any.

    With the sequential engine all blocks are on the first GPU.
    """
    if device == "cpu":
        return ("cpu",) * ranks
    count = torch.cuda.device_count()
    if count == 0:
        raise MissingError(
            "device 'cuda' was asked for, but this machine has no CUDA device: use --device cpu"
        )
    used = 1 if engine == "sequential" else count
    return tuple(f"cuda:{k % used}" for k in range(ranks))


def bound(plan: Plan, costs: Sequence[LayerCost], batches: int = 120) -> float:
    """Seconds per batch if communication and updates were free: the simulator on measured layer times."""
    recipe = plan.recipe
    micro = max(1, recipe.method.micro_batches(recipe.shard_size))
    sums = [
        (sum(c.forward for c in costs[a:b]) / micro, sum(c.backward for c in costs[a:b]) / micro)
        for a, b in plan.layer_spans
    ]

    def duration(block: int, action: Action) -> float:
        forward, backward = sums[block]
        if action.kind in (Kind.FORWARD, Kind.RECOMPUTE):
            return forward
        return backward if action.kind is Kind.BACKWARD else 0.0

    return simulate(recipe.method.schedule(plan.blocks, batches, {}), duration).period()


def predicted_seconds_per_batch(plan: Plan) -> float:
    """Seconds per batch of a plan with measured layers: the simulation, or all work over the cores where they are few."""
    assert plan.costs is not None
    recipe = plan.recipe
    recompute = plan.schedule(evaluations=False).recompute
    work = 0.0
    for (low, high), replays in zip(plan.layer_spans, recompute, strict=True):
        work += sum(c.forward * (2 if replays else 1) + c.backward for c in plan.costs[low:high])
    at_once = max(1, cores() // plan.threads) if plan.devices[0] == "cpu" else len(set(plan.devices))
    return max(bound(plan, plan.costs), work * recipe.replicas / at_once)


def _estimated(
    factories: Sequence[models.LayerFactory], shapes: Sequence[tuple[int, ...]]
) -> list[LayerCost]:
    known: dict[tuple[str, tuple[int, ...]], LayerCost] = {}
    for factory, shape in zip(factories, shapes[:-1], strict=True):
        key = (factory.kind, shape)
        if key not in known:
            dtype = factory.zeros((1,)).dtype
            work = float(models.estimated_cost(factory.build(0), shape, dtype))
            known[key] = LayerCost(work, 2 * work)
    return [known[factory.kind, shape] for factory, shape in zip(factories, shapes[:-1], strict=True)]
