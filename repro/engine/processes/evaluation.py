"""Evaluation through the blocks: its own messages, apart from the training queues; statistics are left alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from repro.engine.block.block import Block
from repro.engine.block.samples import Samples
from repro.engine.transport.message import Envelope
from repro.engine.transport.process_group import Network
from repro.planning.run_plan import Plan

UNDER_WAY = 2  # test batches that a block may have sent ahead


def evaluate(
    plan: Plan, index: int, block: Block, samples: Samples, network: Network
) -> tuple[float, float] | None:
    """Pass every test sample once through block `index`; the last block returns (mean loss, accuracy in %)."""
    low, high = plan.layer_spans[index]
    last = index == plan.blocks - 1
    total, correct = 0.0, 0
    sent: list[tuple[Any, Tensor]] = []
    with block.evaluating():
        for step in range(samples.data.test_steps):
            size = samples.data.test_batch_size(step)
            if index == 0:
                x = samples.data.test_images(step)
            else:
                envelope = Envelope("evaluation", step, 0, (size, *plan.shapes[low]))
                x = network.receive_now(index - 1, envelope, step)
            x = block.evaluate(x)
            if last:
                labels = samples.data.test_labels(step)
                total += float(torch.nn.functional.cross_entropy(x, labels, reduction="sum"))
                correct += int((x.argmax(1) == labels).sum())
                continue
            envelope = Envelope("evaluation", step, 0, (size, *plan.shapes[high]))
            sent.append(network.send_now(index + 1, envelope, x, step))
            if len(sent) > UNDER_WAY:
                network.wait(sent.pop(0), index + 1)
        for work in sent:
            network.wait(work, index + 1)
    return (total / samples.data.test_size, 100.0 * correct / samples.data.test_size) if last else None
