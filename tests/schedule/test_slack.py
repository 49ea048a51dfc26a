"""How much jitter DSP's queues absorb: docs/evidence.md, D7."""

from __future__ import annotations

import random

import pytest

from repro.methods import parse_method
from repro.planning.block_times import BlockTimes, duration
from repro.schedule import Action, Kind, simulate

BLOCKS, BATCHES = 4, 500


def slowdown(staleness: str, queues: str) -> float:
    """Per cent that random delays cost blocks alike: before one batch in ten, three times a block's compute."""
    schedule = parse_method({"name": "dsp", "staleness": staleness, "queues": queues}).schedule(
        BLOCKS, BATCHES, {}
    )
    calm = duration((BlockTimes(1.0, 1.0, 2.0),) * BLOCKS, 1)
    draw = random.Random(0)
    late = {(k, i): 12.0 if draw.random() < 0.1 else 0.0 for k in range(BLOCKS) for i in range(BATCHES)}

    def delayed(k: int, action: Action) -> float:
        return calm(k, action) + (late[k, action.batch] if action.kind is Kind.FORWARD else 0.0)

    return 100.0 * (simulate(schedule, delayed).end / simulate(schedule, calm).end - 1.0)


def test_longer_queues_absorb_more_only_where_a_message_may_wait_in_either() -> None:
    settings = ("p=1 q=1", "p=2 q=1", "p=5 q=2")
    assert [round(slowdown(s, "split")) for s in settings] == pytest.approx([83, 82, 79], abs=1)
    assert [round(slowdown(s, "shared")) for s in settings] == pytest.approx([78, 65, 50], abs=1)
