"""Builds from a plan what a worker works with: its samples, and a block with layers, optimiser, approximation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from repro import gradient, models
from repro.corrections import Place
from repro.engine.block.block import Block
from repro.engine.block.corrector import Corrector
from repro.engine.block.optimizer import BlockOptimizer
from repro.engine.block.samples import Samples
from repro.engine.block.stopwatch import Stopwatch
from repro.engine.block.timed_block import TimedBlock, TimedSamples
from repro.planning.block_times import BlockTimes
from repro.planning.optimizer_rules import inner_matrices, named_layers
from repro.planning.run_plan import Plan
from repro.recipe.optimizers import Muon, NAdam
from repro.schedule import Schedule


def build_parts(
    plan: Plan, rank: int, seed: int, schedule: Schedule, times: BlockTimes | None, watch: Stopwatch
) -> tuple[Samples, Block]:
    """Samples and block of a rank; with `times` those of a timing-only run, which wait instead of computing."""
    if times is None:
        return Samples(plan, rank, seed), build_block(plan, rank, seed, schedule)
    return TimedSamples(plan, rank, seed), TimedBlock(plan, rank, schedule, times, watch)


def build_optimizer(
    plan: Plan,
    index: int,
    layers: Sequence[tuple[str, nn.Module]],
    schedule: Schedule,
    factories: Sequence[models.LayerFactory],
) -> BlockOptimizer:
    """The optimiser of block `index` over its `layers`; `factories`: of the whole network."""
    recipe, spec = plan.recipe, plan.recipe.optimizer
    beta1 = None
    if isinstance(spec, NAdam):
        beta1 = spec.block_beta1(schedule.staleness[index], plan.blocks)
    return BlockOptimizer(
        layers,
        spec,
        plan.steps_per_epoch,
        recipe.method.lr_factor(index, plan.blocks),
        total_updates=plan.steps_per_epoch * recipe.epochs,
        beta1=beta1,
        matrices=inner_matrices(named_layers(factories), spec) if isinstance(spec, Muon) else (),
    )


def build_corrector(plan: Plan, index: int, optimizer: BlockOptimizer, schedule: Schedule) -> Corrector:
    """The corrections of block `index`."""
    place = Place(index, plan.blocks, schedule.staleness[index], plan.steps_per_epoch)
    return Corrector(plan.recipe.corrections, place, optimizer, kept_versions=schedule.kept_versions)


def build_block(plan: Plan, rank: int, seed: int, schedule: Schedule) -> Block:
    """Return the block of `rank` of `plan` with its first weights; UserError where layers share weights."""
    recipe, device = plan.recipe, torch.device(plan.devices[rank])
    replica, index = divmod(rank, plan.blocks)
    parts = recipe.method.micro_batches(recipe.shard_size)
    factories = models.layers(recipe.model, plan.image_shape, plan.num_classes, plan.memory_format)
    low, high = plan.layer_spans[index]
    layers = [(f.name, f.build(seed).to(device)) for f in factories[low:high]]
    models.shared_parameters(layers)
    approximation = None
    if plan.approximates:
        approximation = gradient.attach(
            layers,
            recipe.gradient,
            seed=seed,
            steps_per_epoch=plan.steps_per_epoch,
            epochs=recipe.epochs,
            numbers=gradient.number_convolutions([(f.name, f.build(0)) for f in factories]),
        )
    optimizer = build_optimizer(plan, index, layers, schedule, factories)
    side: torch.cuda.Stream | None = None
    # Where blocks share a stream, a replay beside it could overtake the neighbour's forward that it replays.
    # Where both passes count, the forward and the replay beside it would write the same statistics at once.
    apart = plan.engine == "processes" and recipe.norm_statistics != "both"
    if recipe.runtime.two_streams and device.type == "cuda" and apart:
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    recompute = schedule.recompute[index]
    probe = factories[low].zeros((2, *plan.shapes[low]), device)
    return Block(
        layers,
        optimizer,
        seed=seed,
        first=index == 0,
        last=index == plan.blocks - 1,
        recompute=recompute,
        stash=not (recompute or schedule.kept_versions or schedule.present_weights)
        and schedule.staleness[index] > 0,
        clone_input=models.mutates_input(nn.Sequential(*(layer for _, layer in layers)), probe),
        norm_statistics=recipe.norm_statistics,
        deferred=parts > 1,
        approximation=approximation,
        side_stream=side,
        corrector=build_corrector(plan, index, optimizer, schedule),
        delay=schedule.staleness[index] if schedule.kept_versions else None,
        present_weights=schedule.present_weights and schedule.staleness[index] > 0,
        precision=plan.precision,
        first_micro=replica * parts,
    )
