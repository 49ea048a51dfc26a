"""What a correction of staleness is: settings, where it may be used, and hooks that the engine calls.

A hook that a subclass does not override has no effect and costs nothing. Tensors come in and go out; no hook may
change one in place, but `memory`, a dictionary of tensors by name for each weight, is the correction's own: it
is kept in checkpoints and counted as memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Facts:
    """What a recipe has that decides whether a correction makes sense in it."""

    method: str
    synchronous: bool  # every gradient is of the weights that it updates, whatever K
    staleness: tuple[int, ...]  # m_k of each block
    replays: tuple[bool, ...]  # the gradient is taken at the weights of now
    two_weights: bool  # forward and backward of a batch use different weights, without a replay (PipeMare)
    optimizer: str
    has_direction: bool  # the optimiser keeps a direction that weights can be moved along


@dataclass(frozen=True)
class Place:
    """A block, as a correction sees it."""

    block: int
    blocks: int
    staleness: int  # m_k
    steps_per_epoch: int


class Correction(BaseModel):
    """Base of all corrections. A subclass sets `name`, adds its settings as fields and overrides hooks."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str

    def check(self, facts: Facts) -> None:
        """Raise ValueError, with the reason, where the correction makes no sense."""
        if facts.synchronous:
            raise ValueError(
                f"correction '{self.name}' with method '{facts.method}': its gradients are of the weights that they update, "
                "so that there is nothing to correct; take a method with staleness"
            )

    def rate(self, rate: float, update: int, place: Place) -> float:
        """The learning rate of a block's update number `update`, which would be `rate`."""
        return rate

    def ahead(self, weight: Tensor, direction: Tensor, rate: float, updates: int) -> Tensor:
        """The weight that a forward uses, `updates` >= 1 before its own update, with the optimiser's `direction`."""
        return weight

    def compensate(self, gradient: Tensor, now: Tensor, then: Tensor, memory: dict[str, Tensor]) -> Tensor:
        """The gradient that updates the weight `now`, where `gradient` was taken at the weight `then`."""
        return gradient

    def backward(self, weight: Tensor, memory: dict[str, Tensor], place: Place) -> Tensor:
        """The weight that a backward uses whose forward used older ones (methods with two weights a batch)."""
        return weight

    def moved(self, before: Tensor, after: Tensor, memory: dict[str, Tensor], place: Place) -> None:
        """An update has moved a weight; for what `backward` remembers."""

    def overrides(self, hook: str) -> bool:
        """Whether this class has a hook of its own."""
        return getattr(type(self), hook) is not getattr(Correction, hook)

    def label(self) -> str:
        """The correction as tables and figures print it."""
        return self.name.rpartition(":")[2]
