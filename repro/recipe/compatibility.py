"""Settings that must fit each other across groups: corrections and optimiser against the method's schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro.corrections import Facts
from repro.recipe.optimizers import NAdam

if TYPE_CHECKING:
    from repro.recipe.schema import Recipe


def check_precision(recipe: Recipe) -> None:
    """Raise ValueError where forwards are to compute in 16 bits and something of the recipe needs them in 32."""
    if recipe.autocast == "none":
        return
    why = None
    if recipe.gradient.estimator != "full" or not isinstance(recipe.gradient.schedule, str):
        why = "the kernels that estimate filter gradients read float32 maps (gradient.estimator = full has none)"
    elif recipe.experiment == "bias":
        why = "experiment = 'bias' measures kernels that read float32 maps"
    elif recipe.method.schedule(recipe.blocks, 1, {}).present_weights:
        why = (
            f"the backward of method '{recipe.method.name}' reads the weights of now, and what a graph under autocast "
            "keeps are 16-bit copies of the weights of then"
        )
    if why is not None:
        raise ValueError(f"autocast = '{recipe.autocast}' cannot be: {why}; give none")


def check_replicas(recipe: Recipe) -> None:
    """Raise ValueError where a recipe cannot be trained by several replicas of its pipeline."""
    count, batch = recipe.replicas, recipe.data.batch_size
    if count == 1:
        return
    why = None
    if recipe.experiment != "train":
        why = f"experiment = '{recipe.experiment}' is about one pipeline"
    elif recipe.method.schedule(recipe.blocks, 1, {}).synthetic:
        why = f"method '{recipe.method.name}' trains predictors beside the blocks, whose gradients no replica averages"
    elif recipe.straggler.probability > 0 and recipe.straggler.delay > 0:
        why = "straggler: random delays are of the blocks of one pipeline"
    elif recipe.gradient.schedule == "measured" and recipe.gradient.estimator != "full":
        why = "gradient.schedule = 'measured' may decide otherwise in each replica"
    if why is not None:
        raise ValueError(f"replicas = {count}: {why}; give 1")
    if batch % count:
        near = sorted({max(count, batch - batch % count), batch - batch % count + count})
        raise ValueError(
            f"replicas = {count} does not divide data.batch_size = {batch}: each replica takes an equal share of a batch; "
            f"give a batch of {' or '.join(map(str, near))} samples, or other replicas"
        )


def check_corrections(recipe: Recipe) -> None:
    """Raise ValueError where a correction, or NAdam's beta1 by block, makes no sense with the method."""
    spec = recipe.optimizer
    by_block = isinstance(spec, NAdam) and spec.beta1_per_block
    if not recipe.corrections and not by_block:
        return
    schedule = recipe.method.schedule(recipe.blocks, 1, {})
    if isinstance(spec, NAdam) and by_block:
        for k, m in enumerate(schedule.staleness):
            if (beta1 := spec.block_beta1(m, recipe.blocks)) >= 1.0:
                raise ValueError(
                    f"optimizer.beta1_per_block = true gives beta1 = {beta1:g} in block {k} with its staleness of {m}, "
                    "but beta1 < 1 is needed: give optimizer.beta1"
                )
    if recipe.timing_only and recipe.corrections:
        raise ValueError(
            "corrections: a timing-only run trains nothing, so that there is nothing to correct: give []"
        )
    if recipe.experiment not in ("train", "straggler") and recipe.corrections:
        raise ValueError(
            f"corrections are of runs that train; experiment = '{recipe.experiment}' compares plain gradients: give []"
        )
    facts = Facts(
        method=recipe.method.name,
        synchronous=recipe.method.synchronous,
        staleness=schedule.staleness,
        replays=tuple(again and not schedule.kept_versions for again in schedule.recompute),
        two_weights=schedule.present_weights,
        optimizer=spec.name,
        has_direction=spec.momentum_like,
    )
    for correction in recipe.corrections:
        correction.check(facts)
