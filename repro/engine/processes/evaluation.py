"""Evaluation through the blocks: its own messages, apart from the training queues; statistics are left alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from repro.engine.block.block import Block
from repro.engine.block.samples import Samples
from repro.engine.transport.message import Envelope
from repro.engine.transport.ports import BlockNetwork
from repro.planning.run_plan import Plan

UNDER_WAY = 2  # batches that a block may have sent ahead


class Evaluation:
    """Every test sample once through block `index`, a batch at a time, so that blocks in one process can take turns."""

    def __init__(self, plan: Plan, index: int, block: Block, samples: Samples, network: BlockNetwork) -> None:
        self.plan, self.index, self.block = plan, index, block
        self.data, self.network = samples.data, network
        self.low, self.high = plan.layer_spans[index]
        self.result: tuple[float, float] | None = None  # last block, at the end: (mean loss, accuracy in %)
        self._sent: list[tuple[Any, Tensor]] = []

    def batches(self) -> Iterator[None]:
        """Carry the evaluation out; gives way after each batch."""
        total, correct = 0.0, 0
        with self.block.evaluating():
            for step in range(self.data.test_steps):
                x = self._pass(step)
                if self.index == self.plan.blocks - 1:
                    labels = self.data.test_labels(step)
                    total += float(torch.nn.functional.cross_entropy(x, labels, reduction="sum"))
                    correct += int((x.argmax(1) == labels).sum())
                yield
            while self._sent:
                self.network.wait(self._sent.pop(0), self.index + 1)
        if self.index == self.plan.blocks - 1:
            self.result = total / self.data.test_size, 100.0 * correct / self.data.test_size

    def _pass(self, step: int) -> Tensor:
        """Take a batch, run the block on it, hand the output on; returns the output."""
        size = self.data.test_batch_size(step)
        if self.index == 0:
            x = self.data.test_images(step)
        else:
            envelope = Envelope("evaluation", step, 0, (size, *self.plan.shapes[self.low]))
            x = self.network.receive_now(self.index - 1, envelope, step)
        x = self.block.evaluate(x)
        if self.index < self.plan.blocks - 1:
            envelope = Envelope("evaluation", step, 0, (size, *self.plan.shapes[self.high]))
            self._sent.append(self.network.send_now(self.index + 1, envelope, x, step))
            if len(self._sent) > UNDER_WAY:
                self.network.wait(self._sent.pop(0), self.index + 1)
        return x
