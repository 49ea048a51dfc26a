"""`repro bench compute`: what one change of the compute brings on one thread, beside the plain contiguous loop.

Every variant is a plain loop (forward, backward, SGD) in a process of its own, since the allocator, flushed denormals
and oneDNN's cache belong to a process. The processes stay and take turns batch by batch; one computes, the others sleep.
Beside the times stand the floating-point operations a second that the loop reaches in all and those of a matrix
product of the same thread, as a yardstick (a convolution that multiplies less, such as Winograd's, could beat it).
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from repro import models
from repro.benchmarks.rounds import ratios, with_interval
from repro.benchmarks.turns import Turn, Turns
from repro.errors import RunFailed, UserError, nearest
from repro.recipe import ModelSpec

START_SECONDS = 8.0  # of a process: imports and first batches
BATCH_SECONDS = 2.0  # before anything is known
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # of glibc's mallopt
_GEMM = 768  # side of the matrix product


@dataclass(frozen=True)
class Variant:
    """One way to run the loop."""

    memory_format: str = "channels_last"
    sgd: Mapping[str, bool] = field(default_factory=dict)
    relu_in_place: bool = False  # behind the shortcut of a residual block
    keep_memory: bool = False  # glibc: large blocks stay in the process instead of going back to the system
    flush_denormal: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    compiled: bool = False


VARIANTS = {
    "contiguous": Variant("contiguous"),
    "channels_last": Variant(),
    "fused": Variant(sgd={"fused": True}),
    "foreach": Variant(sgd={"foreach": True}),
    "relu-in-place": Variant(relu_in_place=True),
    "keep-memory": Variant(keep_memory=True),
    "flush-denormal": Variant(flush_denormal=True),
    "onednn-cache": Variant(environment={"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "8192"}),
    "all": Variant(sgd={"fused": True}, relu_in_place=True, keep_memory=True),
    "compile": Variant(compiled=True),
}
USUAL = tuple(
    name for name in VARIANTS if name not in ("compile", "foreach")
)  # compile: minutes before the first batch


@dataclass
class ComputeBench:
    """Settings of the benchmark, each to be given as `--set name=value`."""

    model: str = "resnet98"
    image_size: int = 32
    batch_size: int = 64
    variants: str = ",".join(USUAL)
    rounds: int | None = None  # None: as many as fit into `minutes`
    minutes: float = 4.0
    turns: Turns = field(default_factory=lambda: Turns("compute"))

    def rows(self) -> list[dict[str, Any]]:
        """Measure; a row a variant with its ratio to the first one, and one of the matrix product."""
        names = [word.strip() for word in self.variants.split(",")]
        for name in names:
            if name not in VARIANTS:
                known = tuple(VARIANTS)
                raise UserError(f"variants = '{name}'.{nearest(name, known)} Allowed: {', '.join(known)}")
        models.layers(
            ModelSpec(name=self.model), (3, self.image_size, self.image_size), 10
        )  # or it is refused here
        self.turns.rounds, self.turns.minutes = self.rounds, self.minutes
        self.turns.say(f"compute: starting {len(names)} processes, about {len(names) * START_SECONDS:.0f} s")
        loops: dict[str, _Loop] = {}
        try:
            for name in names:
                loops[name] = _Loop(VARIANTS[name], self.model, self.image_size, self.batch_size)
            systems = {name: Turn(partial(loop.ask, "batch"), loop.seconds) for name, loop in loops.items()}
            systems["matrix product"] = Turn(partial(next(iter(loops.values())).ask, "product"), 1.0)
            found = self.turns.measure(systems)
        finally:
            for loop in loops.values():
                loop.end()
        products = found.pop("matrix product", [])
        operations = self._operations()
        rows = [
            {
                "variant": name,
                "model": self.model,
                "image_size": self.image_size,
                "batch_size": self.batch_size,
                "threads": 1,
                **with_interval("seconds_per_batch", times),
                **with_interval("ratio_to_first", ratios(found[names[0]], times)),
                **with_interval("gflops", [operations / t / 1e9 for t in times]),
            }
            for name, times in found.items()
        ]
        speeds = [2 * _GEMM**3 / t / 1e9 for t in products]
        return [*rows, {"variant": "matrix product", "threads": 1, **with_interval("gflops", speeds)}]

    def _operations(self) -> float:
        """Floating-point operations of a batch: two a multiply-add, the backward twice the forward."""
        factories = models.layers(ModelSpec(name=self.model), (3, self.image_size, self.image_size), 10)
        shapes = models.shapes(factories, (3, self.image_size, self.image_size))
        one = sum(models.estimated_cost(f.build(0), s) for f, s in zip(factories, shapes[:-1], strict=True))
        return 6.0 * float(one) * self.batch_size


class _Loop:
    """A process with a variant's loop in it, which computes when asked."""

    def __init__(self, variant: Variant, model: str, image_size: int, batch_size: int) -> None:
        before = dict(os.environ)
        os.environ.update(variant.environment)  # the process takes it over
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, replace(variant, environment={}), model, image_size, batch_size)
        )
        try:
            self._process.start()
        finally:
            os.environ.clear()
            os.environ.update(before)
        theirs.close()
        self.seconds = self._answer()  # of the second batch; the first one warms up

    def ask(self, what: str) -> float:
        """Seconds of a batch, or of a matrix product."""
        self._pipe.send(what)
        return self._answer()

    def _answer(self) -> float:
        try:
            return float(self._pipe.recv())
        except EOFError:
            raise RunFailed("a process of the benchmark has ended (its own words are above)") from None

    def end(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.kill()


def _serve(pipe: Connection, variant: Variant, model: str, image_size: int, batch_size: int) -> None:
    """Build the loop, run two batches, then one whenever asked, until the other end closes."""
    torch.set_num_threads(1)
    if variant.keep_memory:
        keep_memory()
    if variant.flush_denormal:
        torch.set_flush_denormal(True)
    if variant.relu_in_place:
        functional.relu = lambda x, inplace=False: torch.relu_(x)  # type: ignore[assignment]
    batch = _loop(variant, model, image_size, batch_size)
    matrix = torch.randn(_GEMM, _GEMM)
    batch()
    pipe.send(_seconds(batch))
    with suppress(EOFError, KeyboardInterrupt, OSError):
        while True:
            product = pipe.recv() == "product"
            times = [_seconds(lambda: matrix @ matrix) for _ in range(9)] if product else [_seconds(batch)]
            pipe.send(median(times))


def _loop(variant: Variant, model: str, image_size: int, batch_size: int) -> Any:
    shape = (3, image_size, image_size)
    factories = models.layers(ModelSpec(name=model), shape, 10, variant.memory_format)
    net = nn.Sequential(*(f.build(0) for f in factories)).train()
    if variant.compiled:
        for layer in net:
            layer.compile()  # layers that are made alike share what is compiled
    sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, **variant.sgd)
    images = torch.randn((batch_size, *shape), generator=torch.Generator().manual_seed(0))
    labels = torch.arange(batch_size) % 10

    def batch() -> None:
        loss = functional.cross_entropy(net(images), labels)
        sgd.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        sgd.step()
        loss.item()

    return batch


def keep_memory() -> None:
    """Tell glibc to take large blocks from its heap and to keep them; without effect elsewhere."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None)
            libc.mallopt(_MMAP_THRESHOLD, 1 << 30)
            libc.mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)


def _seconds(run: Any) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin
