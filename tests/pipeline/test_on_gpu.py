"""What only a GPU can show: no step waits for the device, and messages between blocks carry what they should."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from repro.engine.block.late_read import LateRead
from repro.engine.processes.worker import Worker
from repro.engine.transport.crossing import SideStream
from repro.engine.transport.exchange import Exchange, MemoryNetwork
from repro.planning.run_plan import make_plan
from repro.schedule import Kind
from repro.verification import compare
from tests.pipeline.in_process import Listening, Outcome

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
WARM_UP = 4  # batches


@pytest.mark.parametrize("autocast", ["none", "bfloat16"])
def test_no_step_waits_for_the_device(autocast: str, tiny: Callable[..., Any]) -> None:
    """torch raises at whatever synchronises by itself; waits for events of earlier batches are meant to be there."""
    recipe = tiny(autocast=autocast, epochs=3, max_steps=16, evaluate_every=3)
    plan = make_plan(recipe, "cuda", measure=False)
    outcome = Outcome()
    reporter: Any = Listening(outcome)
    worker = Worker(plan, 0, 0, MemoryNetwork(0, Exchange()), reporter)
    try:
        for action in worker.begin(None, None):
            step = action.kind is not Kind.EVALUATE and action.batch >= WARM_UP
            torch.cuda.set_sync_debug_mode("error" if step else "default")
            worker.act(action)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert sorted(outcome.losses) == list(range(16))


def test_a_late_read_gives_the_value_of_its_moment() -> None:
    value = torch.zeros(1, device="cuda")
    reads = []
    for number in range(100):
        value.fill_(number)
        reads.append(LateRead(value))
    assert [read.values() for read in reads] == [[float(number)] for number in range(100)]


def test_a_side_stream_reads_what_compute_has_written_and_leads_it() -> None:
    stream = SideStream(torch.device("cuda"))
    for number in range(50):
        source = torch.full((1 << 20,), float(number), device="cuda")
        stream.follow_compute(source)
        with stream.running():
            copied = source * 2
        del source
        stream.lead_compute(copied, stream.mark())
        assert float(copied.sum()) == 2 * number * (1 << 20)


@pytest.mark.parametrize("method", ["dsp", "gpipe", "2bw"])
def test_blocks_that_share_a_gpu_equal_the_oracle_there(
    method: str, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    """Through pinned memory and the courier."""
    found = compare(tiny(method=method, blocks=2, max_steps=8, **{"optimizer.lr": 0.01}), 0, "cuda", tmp_path)
    assert found.holds(1e-4), "\n".join(found.lines(1e-4))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("autocast", ["none", "bfloat16"])
def test_blocks_on_two_gpus_equal_the_oracle(autocast: str, tiny: Callable[..., Any], tmp_path: Path) -> None:
    """Over NCCL."""
    recipe = tiny(method="dsp", blocks=2, max_steps=8, autocast=autocast, **{"optimizer.lr": 0.01})
    found = compare(recipe, 0, "cuda", tmp_path)
    tolerance = 1e-4 if autocast == "none" else 1e-2
    assert found.holds(tolerance), "\n".join(found.lines(tolerance))
