"""Evaluation through the blocks: its own messages, apart from the training queues; statistics are left alone.

With `norm_recalibration: N` the first N training batches pass before the test set, and BN evaluates with their
statistics at the present weights; the running statistics come back afterwards, so training does not notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from repro.engine.block.block import Block
from repro.engine.block.samples import Samples
from repro.engine.transport.message import Envelope
from repro.engine.transport.ports import BlockNetwork
from repro.models import cross_entropy
from repro.planning.run_plan import Plan

UNDER_WAY = 2  # batches that a block may have sent ahead


class Evaluation:
    """Every test sample once through the block of `rank`, a batch at a time, so that blocks in one process can take turns.

    Replica 0 evaluates, with its own BN statistics; the weights of the others are the same.
    """

    def __init__(self, plan: Plan, rank: int, block: Block, samples: Samples, network: BlockNetwork) -> None:
        self.plan, self.block = plan, block
        self.replica, index = divmod(rank, plan.blocks)
        self.index = index
        self.data, self.network = samples.data, network
        self.low, self.high = plan.layer_spans[index]
        self.result: dict[str, float] | None = None  # last block, at the end: what `Data.scores` says
        self._sent: list[tuple[Any, Tensor]] = []

    def batches(self) -> Iterator[None]:
        """Carry the evaluation out; gives way after each batch."""
        if self.replica > 0:
            with self.block.evaluating():  # only looks at what is still under way
                return
        losses: list[Tensor] = []  # on the device until the last batch
        correct: list[Tensor] = []
        calibration = self.plan.recipe.norm_recalibration
        with self.block.evaluating(recalibrate=calibration > 0):
            for batch in range(calibration):
                self._pass(batch, self.data.train_images, self.data.train_batch_size(batch), batch)
                yield
            self.block.calibrated()
            for step in range(self.data.test_steps):
                size = self.data.test_batch_size(step)
                x = self._pass(step, self.data.test_images, size, calibration + step)
                if self.index == self.plan.blocks - 1:
                    labels = self.data.test_labels(step)
                    losses.append(cross_entropy(x, labels, "sum"))
                    correct.append((x.argmax(-1) == labels).sum())
                yield
            while self._sent:
                self.network.wait(self._sent.pop(0), self.index + 1)
        if self.index == self.plan.blocks - 1:
            total = 0.0  # added up one by one: sum() would round otherwise
            for loss in torch.stack(losses).tolist():
                total += loss
            self.result = self.data.scores(total, int(torch.stack(correct).sum()))

    def _pass(self, step: int, images: Callable[[int], Tensor], size: int, number: int) -> Tensor:
        """Take a batch of `size`, the evaluation's message `number`, run the block on it, hand the output on; returns it."""
        if self.index == 0:
            x = images(step)
        else:
            envelope = self._envelope(number, size, self.low)
            x = self.network.receive_now(self.index - 1, envelope, number)
        x = self.block.evaluate(x)
        if self.index < self.plan.blocks - 1:
            envelope = self._envelope(number, size, self.high)
            self._sent.append(self.network.send_now(self.index + 1, envelope, x, number))
            if len(self._sent) > UNDER_WAY:
                self.network.wait(self._sent.pop(0), self.index + 1)
        return x

    def _envelope(self, number: int, size: int, boundary: int) -> Envelope:
        plan = self.plan
        return Envelope("evaluation", number, 0, (size, *plan.shapes[boundary]), plan.dtype(boundary))
