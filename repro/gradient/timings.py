"""Measured times of filter gradients, stored per device: what the schedule `measured` decides by."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from repro.cores import cores
from repro.gradient import library
from repro.gradient.estimators import Estimator
from repro.gradient.geometry import ConvShape
from repro.gradient.kernels.version import version
from repro.gradient.layout import by_pixel

PAIRS = 7  # interleaved repeats of (library, estimate)


class Timings:
    """A JSON file for each device under `folder`; what is missing is measured once, by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, dict[str, dict[str, float]]] = {}

    def faster(self, shape: ConvShape, x: Tensor, estimator: Estimator) -> bool:
        """Whether `estimator` beats the library's filter gradient at this shape, in the layout, type and device of x.

        The batch size takes part in the measurement but not in the stored name, so that a smaller last batch,
        or a resumed run, decides the same.
        """
        device = device_name(x.device)
        name = self._name(shape, x, estimator)
        if name not in self._read(device):
            self._measure(device, name, shape, x, estimator)
        row = self._known[device][name]
        return row["ms"] < row["dense_ms"]

    def _read(self, device: str) -> dict[str, dict[str, float]]:
        if device not in self._known:
            try:
                found = json.loads(self._file(device).read_text(encoding="utf-8"))
            except (FileNotFoundError, ValueError):
                found = None
            self._known[device] = found if isinstance(found, dict) else {}
        return self._known[device]

    def _measure(self, device: str, name: str, shape: ConvShape, x: Tensor, estimator: Estimator) -> None:
        from filelock import FileLock

        file = self._file(device)
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{file}.lock"):
            self._known.pop(device, None)
            known = self._read(device)
            if name in known:
                return
            known[name] = measure(shape, x, estimator)
            part = file.with_suffix(f".{os.getpid()}.part")
            part.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")
            part.replace(file)

    def _file(self, device: str) -> Path:
        return self.folder / f"gradient-{re.sub('[^a-z0-9]+', '-', device.lower()).strip('-')}.json"

    @staticmethod
    def _name(shape: ConvShape, x: Tensor, estimator: Estimator) -> str:
        layout = "channels_last" if by_pixel(x) else "contiguous"
        threads = torch.get_num_threads() if x.device.type == "cpu" else 0
        kernel = getattr(estimator, "kernel", "")
        if kernel:
            kernel = f"{kernel}-{version()}"  # an improved kernel is measured anew
        return f"{estimator.name} {kernel} {shape.label} {layout} {x.dtype} threads={threads}".replace(
            "torch.", ""
        )


def measure(shape: ConvShape, like: Tensor, estimator: Estimator, pairs: int = PAIRS) -> dict[str, float]:
    """Milliseconds of the library's filter gradient and of the estimate: medians of interleaved runs on random data."""
    form = torch.channels_last if by_pixel(like) else torch.contiguous_format
    generator = torch.Generator(device=like.device).manual_seed(0)
    g = shape.geometry

    def noise(*size: int) -> Tensor:
        data = torch.randn(size, generator=generator, device=like.device).to(like.dtype)
        return data.contiguous(memory_format=form)

    x = noise(shape.batch, shape.in_channels, shape.height, shape.width)
    dy = noise(shape.batch, shape.out_channels, *shape.output_size)
    weight = noise(shape.out_channels, shape.in_channels // g.groups, *g.kernel)
    dense, estimate = interleaved(
        [lambda: library.filter_gradient(x, dy, weight, g), lambda: estimator(x, dy, weight, g, 0)],
        like.device,
        pairs,
    )
    return {"dense_ms": statistics.median(dense) * 1e3, "ms": statistics.median(estimate) * 1e3}


def interleaved(
    actions: Sequence[Callable[[], object]],
    device: torch.device,
    repeats: int,
    *,
    processor_time: bool = False,
) -> list[list[float]]:
    """Seconds of each action, `repeats` times in turn, after two unmeasured rounds.

    `processor_time` (CPU only): one thread, and only the time that it really ran. For a machine that others use too:
    what two threads take there is decided by the scheduler.
    """
    if processor_time:
        return _on_one_thread(actions, repeats)

    def seconds(action: Callable[[], object]) -> float:
        start = time.perf_counter()
        action()
        return time.perf_counter() - start

    return _in_turn(actions, repeats, _event_seconds if device.type == "cuda" else seconds)


def _event_seconds(action: Callable[[], object]) -> float:
    """Seconds between two CUDA events around the action: the GPU's time, without Python's way to the first launch."""
    begin: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    end: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    begin.record()
    action()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1000.0


def _on_one_thread(actions: Sequence[Callable[[], object]], repeats: int) -> list[list[float]]:
    def seconds(action: Callable[[], object]) -> float:
        start = time.thread_time()
        action()
        return time.thread_time() - start

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _in_turn(actions, repeats, seconds)
    finally:
        torch.set_num_threads(threads)


def _in_turn(
    actions: Sequence[Callable[[], object]], repeats: int, seconds: Callable[[Callable[[], object]], float]
) -> list[list[float]]:
    for _ in range(2):
        for action in actions:
            seconds(action)
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(repeats):
        for own, action in zip(times, actions, strict=True):
            own.append(seconds(action))
    return times


def device_name(device: torch.device) -> str:
    """Name of the GPU, or of the processor with its number of cores."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{name} {cores()} cores"
