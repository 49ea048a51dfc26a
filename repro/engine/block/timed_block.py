"""A block that computes nothing: every action waits as long as it would take, and hands over tensors of true size."""

from __future__ import annotations

import torch
from torch import Tensor

from repro.engine.block.block import Block
from repro.engine.block.in_flight import Entry, Key
from repro.engine.block.optimizer import BlockOptimizer
from repro.engine.block.pace import Pace
from repro.engine.block.samples import Samples
from repro.engine.block.stopwatch import Stopwatch
from repro.planning.block_times import BlockTimes
from repro.planning.run_plan import Plan
from repro.schedule import Schedule


class TimedBlock(Block):
    """Block `index` of a plan in timing-only runs; the same queues and entries, no layers, losses of zero."""

    def __init__(
        self, plan: Plan, index: int, schedule: Schedule, times: BlockTimes, watch: Stopwatch
    ) -> None:
        super().__init__(
            [],
            BlockOptimizer([], plan.recipe.optimizer, plan.steps_per_epoch),
            seed=0,
            first=index == 0,
            last=index == plan.blocks - 1,
            recompute=schedule.recompute[index],
            stash=False,
            clone_input=False,
            norm_statistics="both",
            deferred=False,
        )
        self.times, self.watch, self.pace = times, watch, Pace()
        self.batch_size = plan.recipe.data.batch_size
        high = plan.layer_spans[index][1]
        self._output_shape, self._output_type = plan.shapes[high], plan.dtype(high)
        self._made: dict[tuple[tuple[int, ...], torch.dtype], Tensor] = {}

    def forward(self, key: Key, x: Tensor, labels: Tensor | None = None, weight: float = 1.0) -> Tensor:
        """Wait for the forward's time; an output of true size (zero, the loss, at the end)."""
        self.in_flight[key] = entry = Entry(x)
        self._wait(self.times.forward, x)
        if not self.recompute:
            self._keep(entry)
        return (
            torch.zeros(())
            if self.last
            else self._zeros((x.shape[0], *self._output_shape), self._output_type)
        )

    def replay(self, key: Key) -> Tensor:
        """Wait for the replay's time."""
        entry = self.in_flight[key]
        self._wait(self.times.recompute, entry.x)
        self._keep(entry)
        return torch.zeros(())

    def backward(self, key: Key, gradient: Tensor | None) -> Tensor | None:
        """Wait for the backward's time; a gradient of the input's size."""
        x = self.in_flight.pop(key).x
        self._wait(self.times.backward, x)
        return None if self.first else self._zeros(tuple(x.shape), x.dtype)

    def update(self) -> None:
        """Wait for the update's time; counts the update."""
        self.pace.pass_time(self.times.update, self.watch.waited)
        self.updates += 1

    def _wait(self, seconds: float, x: Tensor) -> None:
        self.pace.pass_time(seconds * x.shape[0] / self.batch_size, self.watch.waited)

    def _keep(self, entry: Entry) -> None:
        """Count the graph as a real block does."""
        entry.y = torch.zeros(())
        samples = entry.x.shape[0]
        self.graph_bytes[samples] = self.times.graph_bytes * samples // self.batch_size

    def _zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """One tensor a shape: messages copy what they carry."""
        if (shape, dtype) not in self._made:
            self._made[shape, dtype] = torch.zeros(shape, dtype=dtype)
        return self._made[shape, dtype]


class TimedSamples(Samples):
    """Batches of the right sizes with nothing in them."""

    def warm_up(self, first: bool, last: bool) -> None:
        """There is nothing to load."""

    def images(self, key: Key) -> Tensor:
        """Zeros [n, C, H, W]."""
        size = self.micro_sizes(key[0])[key[1]]
        if self._images is None or len(self._images) != size:
            self._images = torch.zeros((size, *self.plan.shapes[0]))
        return self._images

    def labels(self, key: Key, order: int) -> Tensor:
        """Zeros [n]."""
        return torch.zeros(self.micro_sizes(key[0])[key[1]], dtype=torch.int64)

    def order(self, batch: int) -> int:
        """No samples, no order."""
        return 0
