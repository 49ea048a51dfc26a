"""Speed of top1's kernels against the library's dense filter gradient: the rows of `repro bench kernels`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from repro.gradient import kernels, library
from repro.gradient.geometry import ConvShape, Geometry
from repro.gradient.timings import interleaved

BATCH = 128
_PLAIN = Geometry((3, 3), padding=(1, 1))
# Cin = Cout and the map's side: ResNet-20's three stages, then VGG-19's five
CHANNELS_AND_SIZES = ((16, 32), (32, 16), (64, 8), (64, 32), (128, 16), (256, 8), (512, 4), (512, 2))
SHAPES = tuple(ConvShape(BATCH, c, size, size, c, _PLAIN) for c, size in CHANNELS_AND_SIZES)
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def kernels_here(device: torch.device) -> tuple[str, ...]:
    """The kernels that run on this device, fastest first; the reference is the yardstick of the error."""
    if device.type == "cuda":
        return ("torch",) if kernels.missing() else ("cupy", "torch")
    return ("cpu", "torch")


def rows(
    device: torch.device | str = "cpu",
    *,
    shapes: Sequence[ConvShape] = SHAPES,
    names: Sequence[str] | None = None,
    repeats: int = 11,
    dtype: torch.dtype = torch.float32,
    processor_time: bool = False,
    progress: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """One row for each (shape, layout, kernel).

    `dense_ms` is the library's filter gradient in the layout that is fastest for it at that shape (`dense_layout`),
    `ms` the kernel in the row's layout; both medians of `repeats` interleaved runs, with the quartiles beside them.
    `ratio` = dense_ms / ms, its quartiles over the repeats. `error` is relative, against the reference. `chosen`:
    the schedule `measured` would use the kernel, that is, it beats the library in the row's own layout.
    `processor_time`: one thread, time that it really ran (see timings.interleaved).
    """
    device = torch.device(device)
    names = tuple(names or kernels_here(device))
    found: list[dict[str, Any]] = []
    for shape in shapes:
        if progress:
            progress(shape.label)
        found += _rows(shape, names, device, dtype, repeats, processor_time)
    return found


def geometric_mean(table: Sequence[dict[str, Any]], kernel: str, layout: str | None = None) -> float:
    """Geometric mean of the ratios of one kernel, over the shapes; without `layout`, each shape's faster one."""
    best: dict[str, float] = {}
    for row in table:
        if row["kernel"] == kernel and layout in (None, row["layout"]):
            best[row["shape"]] = max(row["ratio"], best.get(row["shape"], 0.0))
    return math.exp(statistics.fmean(math.log(ratio) for ratio in best.values()))


def _rows(
    shape: ConvShape,
    names: Sequence[str],
    device: torch.device,
    dtype: torch.dtype,
    repeats: int,
    processor_time: bool,
) -> list[dict[str, Any]]:
    actions: dict[tuple[str, str], Callable[[], Tensor]] = {}
    for layout in LAYOUTS:
        x, dy, weight = _tensors(shape, layout, device, dtype)
        actions[layout, "dense"] = _bind(library.filter_gradient, x, dy, weight, shape.geometry)
        for name in names:
            actions[layout, name] = _bind(kernels.prepare(name, x, dy, weight, shape.geometry), x, dy, weight)
    series = interleaved(list(actions.values()), device, repeats, processor_time=processor_time)
    times = dict(zip(actions, series, strict=True))
    dense_layout = min(LAYOUTS, key=lambda layout: statistics.median(times[layout, "dense"]))
    dense = times[dense_layout, "dense"]
    found = []
    for layout in LAYOUTS:
        x, dy, weight = _tensors(shape, layout, device, dtype)
        expected = kernels.load("reference").top1(x, dy, weight, shape.geometry).double()
        for name in names:
            own = times[layout, name]
            ratios = [d / t for d, t in zip(dense, own, strict=True)]
            error = (actions[layout, name]().double() - expected).norm() / expected.norm()
            found.append(
                {
                    "shape": shape.label,
                    "layout": layout,
                    "kernel": name,
                    **_summary("dense_ms", [1e3 * t for t in dense]),
                    **_summary("ms", [1e3 * t for t in own]),
                    "ratio": statistics.median(dense) / statistics.median(own),
                    "ratio_low": _quartile(ratios, 0),
                    "ratio_high": _quartile(ratios, 2),
                    "error": float(error),
                    "dense_layout": dense_layout,
                    "chosen": statistics.median(own) < statistics.median(times[layout, "dense"]),
                    "n": repeats,
                }
            )
    return found


def _tensors(shape: ConvShape, layout: str, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    groups, g = shape.geometry.groups, shape.geometry
    sizes = (
        (shape.batch, shape.in_channels, shape.height, shape.width),
        (shape.batch, shape.out_channels, *shape.output_size),
        (shape.out_channels, shape.in_channels // groups, *g.kernel),
    )
    made = (torch.randn(size, generator=generator).to(device, dtype) for size in sizes)
    return tuple(t.contiguous(memory_format=LAYOUTS[layout]) for t in made)


def _bind(function: Callable[..., Tensor], *arguments: Any) -> Callable[[], Tensor]:
    return lambda: function(*arguments)


def _summary(name: str, values: Sequence[float]) -> dict[str, float]:
    return {
        name: statistics.median(values),
        f"{name}_low": _quartile(values, 0),
        f"{name}_high": _quartile(values, 2),
    }


def _quartile(values: Sequence[float], which: int) -> float:
    return statistics.quantiles(values, n=4)[which] if len(values) > 1 else values[0]
