"""What a training method is: its settings, and a schedule built from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from repro.schedule import Schedule

PositiveInt = Annotated[int, Field(ge=1, strict=True)]
LockingRule = Literal["free", "mailbox", "barrier"]


class Method(BaseModel):
    """Base of all methods. A subclass sets `name`, adds its settings as fields and builds a schedule.

    The numbers of a run depend on the schedule's staleness m and on recompute-or-stash alone; everything
    else in a schedule decides when things run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Whether every gradient is of the weights that it updates, for every number of blocks: nothing to correct then.
    synchronous: ClassVar[bool] = False

    name: str

    def check(self, blocks: int, batch_size: int) -> None:
        """Raise ValueError, naming field and allowed values, where the settings do not fit the recipe."""

    def resolve(self, blocks: int) -> Method:
        """The same method with every setting that depends on K written out (it enters the run's hash)."""
        return self

    def schedule(self, blocks: int, num_batches: int, evaluations: Mapping[int, int]) -> Schedule:
        """The actions of `blocks` blocks for `num_batches` batches; `evaluations`: updates -> epoch."""
        raise NotImplementedError

    def micro_batches(self, size: int) -> int:
        """Number of micro-batches that a batch of `size` samples is cut into."""
        return 1

    def lr_factor(self, block: int, blocks: int) -> float:
        """Factor on block `block`'s learning rate."""
        return 1.0

    def label(self, blocks: int) -> str:
        """The method as tables and figures print it."""
        return self.name.upper()
