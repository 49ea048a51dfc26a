"""Our GPipe against a program that is not ours: torch.distributed.pipelining's ScheduleGPipe on the same blocks."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp

from repro import data, models
from repro.planning.partition import spans
from repro.planning.run_plan import make_plan
from repro.recipe import validate
from tests.pipeline.test_oracles import engine

MICRO = 4


def peer(rank: int, recipe: dict[str, Any], cut: tuple[int, ...], port: int, results: Any) -> None:
    """One stage of torch's GPipe: the same layers, data and optimiser."""
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch.set_num_threads(1)
    settings = validate(recipe)
    blocks = settings.blocks
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=blocks)
    batches = data.load(settings.data, Path("data"), 0)
    factories = models.layers(settings.model, batches.image_shape, batches.num_classes)
    low, high = spans(cut, len(factories))[rank]
    named = [(f.name, f.build(0)) for f in factories[low:high]]
    net = torch.nn.Sequential(*(layer for _, layer in named))
    stage = PipelineStage(net, rank, blocks, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, MICRO, loss_fn=torch.nn.functional.cross_entropy, scale_grads=True)
    sgd = torch.optim.SGD(net.parameters(), lr=settings.optimizer.lr, momentum=settings.optimizer.momentum)
    found = []
    for i in range(settings.max_steps):
        losses: list[torch.Tensor] = []
        sgd.zero_grad()
        if rank == 0:
            schedule.step(batches.train_images(i))
        elif rank == blocks - 1:
            schedule.step(target=batches.train_labels(i), losses=losses)
        else:
            schedule.step()
        sgd.step()
        found.append(float(torch.stack(losses).detach().mean()) if losses else None)
    state = {f"{name}.{k}": v.numpy() for name, layer in named for k, v in layer.state_dict().items()}
    results.put((found if rank == blocks - 1 else None, state))
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.parametrize("blocks", [2, 3])
def test_gpipe_equals_torchs_schedule(blocks: int, tiny: Callable[..., Any], tmp_path: Path) -> None:
    import socket

    recipe = tiny(
        **{
            "model": {"name": "tiny", "batch_norm": False},
            "data.train_limit": 192,
            "method": {"name": "gpipe", "micro": MICRO},
            "optimizer": {"lr": 0.05, "momentum": 0.9},
            "blocks": blocks,
            "max_steps": 10,
        }
    )
    losses, _, state = engine(recipe, tmp_path)
    plan = make_plan(recipe, "cpu")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = mp.get_context("spawn")
    results = context.Queue()
    processes = [
        context.Process(target=peer, args=(k, recipe.model_dump(mode="json"), plan.cut, port, results))
        for k in range(blocks)
    ]
    for process in processes:
        process.start()
    try:
        parts = [results.get(timeout=120) for _ in processes]
    except queue.Empty:
        pytest.fail("torch's schedule did not end")
    finally:
        for process in processes:
            process.join(10)
            if process.is_alive():
                process.kill()
    theirs = next(found for found, _ in parts if found is not None)
    assert losses == pytest.approx(theirs, rel=1e-5)
    weights = {name: torch.from_numpy(v) for _, part in parts for name, v in part.items()}
    assert set(weights) == set(state)
    for name, value in weights.items():
        torch.testing.assert_close(state[name], value, rtol=1e-5, atol=1e-6, msg=name)
