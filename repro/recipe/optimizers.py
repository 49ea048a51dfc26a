"""The optimisers: settings of SGD, AdamW, NAdam and Muon, and of the learning rate and clipping that all share.

Every default is that of torch.optim's class, but SGD's learning rate. The classes are built in
repro/engine/block/optimizer.py; formulas and sources: docs/optimisers-and-corrections.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from repro.errors import nearest
from repro.recipe.spec import Count, Fraction, NonNegative, PositiveInt, Spec

Beta = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[float, Field(gt=0.0)]


class OptimizerSpec(Spec):
    """What all optimisers share: weight decay, and learning rate and clipping by a block's own updates.

    Update number u (from 0) of a block has the rate lr x decay^(milestones passed), or with `schedule: cosine`
    one that falls along half a cosine to `cosine_floor` x lr in `cosine_steps` updates (None: the epochs that the
    recipe asks for, also where max_steps ends the run earlier). Before, `warmup_steps` updates rise in a straight
    line from `warmup_start`. `clip_norm`: a block's gradient is scaled down to that norm where it is longer.
    """

    name: str
    lr: NonNegative
    weight_decay: NonNegative = 0.0
    weight_decay_layers: tuple[str, ...] | None = None  # layers that decay; None = all
    milestones: tuple[PositiveInt, ...] = ()  # epochs after which lr is multiplied by `decay`
    decay: Annotated[float, Field(gt=0.0, le=1.0)] = 0.1
    schedule: Literal["step", "cosine"] = "step"
    cosine_floor: Fraction = 0.0
    cosine_steps: PositiveInt | None = None
    warmup_steps: Count = 0
    warmup_start: NonNegative = 0.0
    clip_norm: Positive | None = None
    clip: Literal["block", "global"] = "block"

    @model_validator(mode="after")
    def _check_rate(self) -> OptimizerSpec:
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"milestones must increase, got {list(self.milestones)}")
        if self.schedule == "cosine" and self.milestones:
            raise ValueError(
                f"milestones = {list(self.milestones)} belong to schedule = 'step', not to 'cosine': leave one of them out"
            )
        if self.schedule == "step" and (self.cosine_steps is not None or self.cosine_floor):
            raise ValueError(
                "cosine_steps and cosine_floor belong to schedule = 'cosine', not to 'step': give schedule = cosine"
            )
        if self.cosine_steps is not None and self.cosine_steps <= self.warmup_steps:
            raise ValueError(
                f"cosine_steps = {self.cosine_steps} updates, warm-up included, end before the warm-up of "
                f"warmup_steps = {self.warmup_steps}: give more than {self.warmup_steps}"
            )
        if self.warmup_start and (not self.warmup_steps or self.warmup_start > self.lr):
            raise ValueError(
                f"warmup_start = {self.warmup_start} needs warmup_steps >= 1, and is at most lr = {self.lr}"
            )
        if self.clip == "global":
            raise ValueError(
                "clip = 'global' is not offered: the norm over all blocks is known only when block 0 has its gradient, "
                "so that every block would wait for all others before each update; give clip = block "
                "(with blocks = 1 both are the same)"
            )
        return self

    @property
    def momentum_like(self) -> bool:
        """Whether its state holds a direction that weight prediction can go along."""
        return True


class SGD(OptimizerSpec):
    """torch.optim.SGD with an optional momentum."""

    name: Literal["sgd"] = "sgd"
    lr: NonNegative = 0.1
    momentum: Beta = 0.0
    nesterov: bool = False

    @model_validator(mode="after")
    def _check(self) -> SGD:
        if self.nesterov and self.momentum == 0.0:
            raise ValueError("nesterov needs momentum > 0")
        return self

    @property
    def momentum_like(self) -> bool:
        """Only with momentum."""
        return self.momentum > 0.0


class AdamW(OptimizerSpec):
    """torch.optim.AdamW (arXiv 1711.05101)."""

    name: Literal["adamw"] = "adamw"
    lr: NonNegative = 1e-3
    weight_decay: NonNegative = 0.01
    beta1: Beta = 0.9
    beta2: Beta = 0.999
    eps: Positive = 1e-8


class NAdam(OptimizerSpec):
    """torch.optim.NAdam with decoupled weight decay; beta1 = 0.99 is AsyncPP's look-ahead (arXiv 2505.01099).

    `beta1_per_block`: block k of K with m_k updates of staleness, so m_k + 1 weight versions, has
    beta1 = 0.9 + 0.09 m_k / K (AsyncPP's public code).
    """

    name: Literal["nadam"] = "nadam"
    lr: NonNegative = 2e-3
    beta1: Beta = 0.9
    beta1_per_block: bool = False
    beta2: Beta = 0.999
    eps: Positive = 1e-8
    momentum_decay: NonNegative = 4e-3

    @model_validator(mode="after")
    def _check(self) -> NAdam:
        if self.beta1_per_block and self.beta1 != 0.9:
            raise ValueError(
                f"beta1 = {self.beta1} has no effect with beta1_per_block = true, which sets it by block: leave one out"
            )
        return self

    def block_beta1(self, staleness: int, blocks: int) -> float:
        """Beta1 of a block of that staleness, of `blocks`."""
        return 0.9 + staleness / blocks * 0.09 if self.beta1_per_block else self.beta1


class Muon(OptimizerSpec):
    """torch.optim.Muon for the matrices of inner layers, AdamW for all other weights.

    An inner matrix is a weight of two dimensions that is no embedding's and lies neither in the first nor in the
    last layer with weights. `filters`: what 4-d filters of inner layers are: refused (None), matrices of
    [out, in x height x width] (`flatten`), or AdamW's. `adamw_lr`: None = lr, which suits `adjust_lr`
    match_rms_adamw; the schedule applies to both.
    """

    name: Literal["muon"] = "muon"
    lr: NonNegative = 1e-3
    weight_decay: NonNegative = 0.1
    momentum: Beta = 0.95
    nesterov: bool = True
    ns_steps: Annotated[int, Field(ge=1, le=99, strict=True)] = 5
    adjust_lr: Literal["original", "match_rms_adamw"] = "original"
    filters: Literal["flatten", "adamw"] | None = None
    adamw_lr: NonNegative | None = None
    beta1: Beta = 0.9
    beta2: Beta = 0.999
    eps: Positive = 1e-8

    @property
    def momentum_like(self) -> bool:
        """Its direction would take a Newton-Schulz iteration for every forward."""
        return False


OPTIMIZERS: dict[str, type[OptimizerSpec]] = {"sgd": SGD, "adamw": AdamW, "nadam": NAdam, "muon": Muon}


def find_optimizer(value: Any) -> type[OptimizerSpec]:
    """The class that a name, or a mapping with `name` (sgd where it has none), stands for; ValueError for others."""
    name = value.get("name", "sgd") if isinstance(value, Mapping) else value
    if not isinstance(name, str) or name not in OPTIMIZERS:
        raise ValueError(
            f"optimizer.name = {name!r} is unknown.{nearest(str(name), OPTIMIZERS)} Allowed: {', '.join(OPTIMIZERS)}"
        )
    return OPTIMIZERS[name]


def parse_optimizer(value: Any) -> OptimizerSpec:
    """Turn a name or a mapping into the optimiser that it describes; ValueError for another one's settings."""
    if isinstance(value, OptimizerSpec):
        return value
    kind = find_optimizer(value)
    given = {"name": value} if isinstance(value, str) else dict(value)
    for key in given:
        owners = [name for name, other in OPTIMIZERS.items() if key in other.model_fields]
        if key not in kind.model_fields and owners:
            name = next(n for n, other in OPTIMIZERS.items() if other is kind)
            raise ValueError(
                f"optimizer.{key} is a setting of {' and '.join(owners)}, not of {name}: leave it out "
                f"(optimizer={name} on its own replaces all settings of the optimiser); "
                f"allowed: {', '.join(kind.model_fields)}"
            )
    return kind.model_validate(given)
