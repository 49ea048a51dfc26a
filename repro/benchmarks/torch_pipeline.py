"""torch.distributed.pipelining's schedules, and a bare PyTorch loop, on a plan's own layers, weights and batches.

Each system has processes of its own (from the engine's fork server, so that starting them costs no more than the
engine's), which report seconds per batch and how far their resident memory grew.
"""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection, wait
from pathlib import Path
from statistics import median
from typing import Any

import torch

from repro import data, models
from repro.engine.block.optimizer import BlockOptimizer
from repro.engine.processes import fork_server
from repro.engine.processes.launch import rendezvous
from repro.errors import RunFailed
from repro.planning.partition import spans
from repro.planning.run_plan import Plan, data_root
from repro.recipe import Recipe, validate

WARM_UP = 5  # batches left out
LIMIT_SECONDS = 600.0


@dataclass(frozen=True)
class Peer:
    """A system of torch's: `schedule` None is a plain loop in one process with `threads` threads."""

    schedule: str | None
    micro_batches: int = 1
    stages: int = 1  # of a process
    threads: int = 1


@dataclass(frozen=True)
class Measured:
    """Of one run: median seconds per batch, and growth of resident memory, summed over the processes."""

    seconds_per_batch: float
    grown_bytes: int


def run(peer: Peer, plan: Plan, cut: tuple[int, ...]) -> Measured:
    """Train the plan's batches; `cut`: first layers of all stages but the first, in order. RunFailed with the reason."""
    blocks = 1 if peer.schedule is None else plan.blocks
    context = fork_server.context("cpu")
    store = rendezvous(0)
    raw = {**plan.recipe.model_dump(mode="json"), "memory_format": plan.memory_format}
    job = (raw, peer, cut, blocks, plan.num_batches, store.port)
    processes, pipes = [], []
    try:
        for rank in range(blocks):
            ours, theirs = context.Pipe()
            process = context.Process(target=_process, args=(rank, *job, theirs))
            process.start()
            theirs.close()
            processes.append(process)
            pipes.append(ours)
        answers = _answers(peer, pipes)
    finally:
        for process in processes:
            process.join(2 if len(processes) == len(pipes) else 0)
            if process.is_alive():
                process.kill()
                process.join()
    seconds = [s for s, _ in answers if s is not None]
    return Measured(seconds[-1], sum(grown for _, grown in answers))


def _answers(peer: Peer, pipes: list[Connection]) -> list[tuple[float | None, int]]:
    answers: dict[int, tuple[float | None, int]] = {}
    deadline = time.monotonic() + LIMIT_SECONDS
    while len(answers) < len(pipes):
        open_pipes = [p for i, p in enumerate(pipes) if i not in answers]
        ready = wait(open_pipes, timeout=max(0.0, deadline - time.monotonic()))
        if not ready:
            raise RunFailed(
                f"torch's {peer.schedule or 'plain loop'} did not end within {LIMIT_SECONDS:.0f} s"
            )
        for pipe in ready:
            assert isinstance(pipe, Connection)
            try:
                found = pipe.recv()
            except EOFError:
                found = "its process died"
            if isinstance(found, str):
                raise RunFailed(f"torch's {peer.schedule or 'plain loop'} failed: {found}")
            answers[pipes.index(pipe)] = found
    return [answers[i] for i in range(len(pipes))]


def _process(
    rank: int, raw: Any, peer: Peer, cut: Any, blocks: int, batches: int, port: int, pipe: Any
) -> None:
    """One process of a peer."""
    try:
        torch.set_num_threads(peer.threads)
        recipe = validate(raw)

        before = resident_bytes()
        seconds = (
            _loop(recipe, batches)
            if peer.schedule is None
            else _stage(rank, recipe, peer, cut, blocks, batches, port)
        )
        pipe.send((seconds, peak_resident_bytes() - before))
    except BaseException as error:
        pipe.send(f"{type(error).__name__}: {error}")
    finally:
        os._exit(0)  # no destructor may wait for a process that is gone


def _loop(recipe: Recipe, num_batches: int) -> float:
    """What a user without a pipeline would write."""
    batches, factories = _parts(recipe)
    layers = [(f.name, f.build(0)) for f in factories]
    net = torch.nn.Sequential(*(layer for _, layer in layers)).train()
    (sgd,) = BlockOptimizer(layers, recipe.optimizer, batches.steps_per_epoch).parts
    times = [time.monotonic()]
    for i in range(num_batches):
        loss = models.cross_entropy(net(batches.train_images(i)), batches.train_labels(i))
        sgd.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        sgd.step()
        loss.item()
        times.append(time.monotonic())
    return _median(times)


def _stage(
    rank: int, recipe: Recipe, peer: Peer, cut: Any, blocks: int, num_batches: int, port: int
) -> float | None:
    """The stages of one process: `rank`, and with two of them `rank` + `blocks`."""
    import torch.distributed as dist
    from torch.distributed import TCPStore, pipelining  # type: ignore[attr-defined]

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=blocks)
    batches, factories = _parts(recipe)
    parts = spans(cut, len(factories))
    mine = [rank + i * blocks for i in range(peer.stages)]
    own = [[(f.name, f.build(0)) for f in factories[slice(*parts[stage])]] for stage in mine]
    stages = [
        pipelining.PipelineStage(
            _PlainBorders(*(layer for _, layer in part)).train(), stage, len(parts), torch.device("cpu")
        )
        for stage, part in zip(mine, own, strict=True)
    ]
    runner = getattr(pipelining, str(peer.schedule))(
        stages if peer.stages > 1 else stages[0],
        peer.micro_batches,
        loss_fn=models.cross_entropy,
        scale_grads=True,
    )
    (sgd,) = BlockOptimizer(
        [pair for part in own for pair in part], recipe.optimizer, batches.steps_per_epoch
    ).parts
    first, last = rank == 0, rank == blocks - 1
    times = [time.monotonic()]
    for i in range(num_batches):
        sgd.zero_grad(set_to_none=True)
        inputs = (batches.train_images(i),) if first else ()
        if last:
            losses: list[torch.Tensor] = []
            runner.step(*inputs, target=batches.train_labels(i), losses=losses)
            float(torch.stack([loss.detach() for loss in losses]).mean())
        else:
            runner.step(*inputs)
        sgd.step()
        times.append(time.monotonic())
    dist.barrier()
    return _median(times) if last else None


class _PlainBorders(torch.nn.Sequential):
    """Layers whose input, output and gradients are contiguous: gloo sends nothing else, whatever layout lies between."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As Sequential."""
        y: torch.Tensor = _Plain.apply(super().forward(_Plain.apply(x)))  # type: ignore[no-untyped-call]
        return y


class _Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x).contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.contiguous()


def _parts(recipe: Recipe) -> tuple[data.Data, list[models.LayerFactory]]:
    batches = data.load(recipe.data, data_root(recipe), 0)
    factories = models.layers(recipe.model, batches.image_shape, batches.num_classes, recipe.memory_format)
    batches.train_images(0)  # what is loaded or made once is no part of the first batch
    return batches, factories


def _median(times: list[float]) -> float:
    intervals = [b - a for a, b in pairwise(times)]
    return median(intervals[WARM_UP:] or intervals)


def resident_bytes() -> int:
    """Memory of this process that is in RAM now; 0 where the system does not say."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) * resource.getpagesize() if file.is_file() else 0


def peak_resident_bytes() -> int:
    """The most that this process ever had in RAM."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
