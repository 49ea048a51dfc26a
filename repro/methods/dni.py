"""DNI and cDNI: decoupled neural interfaces with synthetic gradients (Jaderberg et al.; arXiv 1608.05343).

What: every block but the last has a small network that predicts the gradient of its output; the block updates
at once with the prediction, and the predictor is regressed (squared error, Adam) on the gradient that comes
later from above. Our choice where the paper leaves it open: the predictor learns from batch i right after the
block's update i + `lag`, with the output and label of batch i as they were; after the last batch it learns
from the remaining ones. The gradient that a block sends down is the one its own (synthetic) backward gives.
`conditional` (cDNI) adds the label to the predictor's input. It is known to lag behind BP on deep networks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from repro.methods.method import Method, PositiveInt
from repro.schedule import Action, Kind, Schedule


class DNI(Method):
    """Synthetic gradients; the predictor's size, learning rate and lag."""

    synchronous: ClassVar[bool] = True
    name: Literal["dni"] = "dni"
    conditional: bool = False
    lag: PositiveInt = 1
    hidden: PositiveInt = 128  # channels of the predictor's two hidden layers
    kernel: Annotated[int, Field(ge=1, strict=True)] = 5
    lr: Annotated[float, Field(gt=0.0)] = 3e-5  # Adam, of the predictor

    def check(self, blocks: int, batch_size: int) -> None:
        """The predictor keeps the map's size."""
        if self.kernel % 2 == 0:
            raise ValueError(
                f"method.kernel = {self.kernel} must be odd, so that the predictor keeps the map's size"
            )

    def schedule(self, blocks: int, num_batches: int, evaluations: Mapping[int, int]) -> Schedule:
        """F B U with the prediction, then M on the gradient that is `lag` batches old."""
        lag = self.lag

        def block(k: int) -> Iterator[Action]:
            last = k == blocks - 1
            for i in range(num_batches):
                yield Action(Kind.FORWARD, i)
                yield Action(Kind.BACKWARD, i)
                yield Action(Kind.UPDATE, i)
                if not last and i >= lag:
                    yield Action(Kind.MODULE, i - lag)
                if i + 1 in evaluations:
                    yield Action(Kind.EVALUATE, evaluations[i + 1])
            if not last:
                for i in range(max(0, num_batches - lag), num_batches):
                    yield Action(Kind.MODULE, i)

        return Schedule(
            num_blocks=blocks,
            num_batches=num_batches,
            staleness=(0,) * blocks,
            output_room=(lag,) * blocks,
            gradient_room=(lag,) * blocks,
            recompute=(False,) * blocks,
            block_actions=block,
            synthetic=True,
        )

    def label(self, blocks: int) -> str:
        """DNI or cDNI."""
        return "cDNI" if self.conditional else "DNI"
