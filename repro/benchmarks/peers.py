"""`repro bench peers`: our GPipe and BP beside torch.distributed.pipelining's GPipe and 1F1B, on the same blocks.

The same network, data, cut, micro-batches, optimiser and threads; each system has a process per block.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import sys
import time
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any

import torch

from repro import data, models
from repro.benchmarks.engine import EngineBench
from repro.benchmarks.rounds import ratios, with_interval
from repro.engine.processes.launch import Launch, rendezvous
from repro.errors import RunFailed
from repro.planning.run_plan import Plan, bound
from repro.recipe import validate

MICRO = 4
WARM_UP = 5  # batches left out
PEERS = ("ScheduleGPipe", "Schedule1F1B")


def rows(
    rounds: int = 3, steps: int = 16, model: str = "resnet98", batch_size: int = 64
) -> list[dict[str, Any]]:
    """Measure; images per second of each system with K = 2."""
    bench = EngineBench(model=model, batch_size=batch_size, steps=steps, rounds=rounds)
    kept = {"name": "gpipe", "micro": MICRO, "rematerialise": False}
    plans = {"bp": bench.plan("bp", 2), "gpipe": bench.plan("gpipe", 2, kept)}
    plans["gpipe"] = replace(plans["gpipe"], cut=plans["bp"].cut)
    periods: dict[str, list[float]] = {name: [] for name in [*plans, *PEERS]}
    for number in range(rounds):
        for name in periods:
            print(f"round {number + 1}/{rounds}: {name}", file=sys.stderr, flush=True)
            if name in plans:
                periods[name].append(float(Launch(plans[name], seed=0).run()[-1]["seconds_per_batch"]))
            else:
                periods[name].append(peer_seconds(plans["gpipe"], name))
    gpipe = plans["gpipe"]
    assert gpipe.costs is not None
    limit = sum(c.forward + c.backward for c in gpipe.costs) / bound(gpipe, gpipe.costs)
    found = []
    for name, times in periods.items():
        speedups = ratios(periods["bp"], times)
        row: dict[str, Any] = {
            "system": "repro" if name in plans else "torch.distributed.pipelining",
            "method": gpipe.recipe.method.label(2) if name == "gpipe" else "BP" if name == "bp" else name,
            "micro_batches": 1 if name == "bp" else MICRO,
            "blocks": 2,
            "model": model,
            **with_interval("images_per_second", [batch_size / t for t in times]),
            **with_interval("ratio_to_bp", speedups),
            "bound": 1.0 if name == "bp" else limit,
        }
        row.update(with_interval("share_of_bound", [s / row["bound"] for s in speedups]))
        found.append(row)
    return found


def peer_seconds(plan: Plan, schedule: str) -> float:
    """Median seconds per batch of torch's schedule on the plan's blocks."""
    context = multiprocessing.get_context("spawn")
    store = rendezvous(0)
    results = context.Queue()
    job = (plan.recipe.model_dump(mode="json"), plan.cut, plan.threads, schedule, store.port)
    processes = [context.Process(target=_stage, args=(k, *job, results)) for k in range(plan.blocks)]
    for process in processes:
        process.start()
    try:
        return float(results.get(timeout=600))
    except queue.Empty:
        raise RunFailed(f"torch's {schedule} did not end within 600 s") from None
    finally:
        for process in processes:
            process.join(10)
            if process.is_alive():
                process.kill()


def _stage(rank: int, raw: Any, cut: Any, threads: int, schedule: str, port: int, results: Any) -> None:
    """One process of the peer."""
    import torch.distributed as dist
    from torch.distributed import TCPStore, pipelining  # type: ignore[attr-defined]

    from repro.planning.partition import spans
    from repro.planning.run_plan import data_root

    torch.set_num_threads(threads)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    recipe = validate(raw)
    dist.init_process_group(
        "gloo",
        store=TCPStore("127.0.0.1", port, is_master=False),
        rank=rank,
        world_size=recipe.blocks,
    )
    batches = data.load(recipe.data, data_root(recipe), 0)
    factories = models.layers(recipe.model, batches.image_shape, batches.num_classes, recipe.memory_format)
    low, high = spans(cut, len(factories))[rank]
    net = torch.nn.Sequential(*(f.build(0) for f in factories[low:high])).train()
    stage = pipelining.PipelineStage(net, rank, recipe.blocks, torch.device("cpu"))
    runner = getattr(pipelining, schedule)(
        stage, MICRO, loss_fn=torch.nn.functional.cross_entropy, scale_grads=True
    )
    sgd = torch.optim.SGD(net.parameters(), lr=recipe.optimizer.lr, momentum=recipe.optimizer.momentum)
    times = [time.monotonic()]
    last = rank == recipe.blocks - 1
    for i in range(batches.steps_per_epoch):
        sgd.zero_grad(set_to_none=True)
        if rank == 0:
            runner.step(batches.train_images(i))
        elif last:
            runner.step(target=batches.train_labels(i), losses=[])
        else:
            runner.step()
        sgd.step()
        times.append(time.monotonic())
    if last:
        results.put(median([b - a for a, b in pairwise(times)][WARM_UP:]))
    dist.barrier()
    dist.destroy_process_group()
