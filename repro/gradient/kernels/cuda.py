"""top1 by our own CUDA kernels, through CuPy: (A) the peak of every map, (B) the sum of the patches under them.

Everything is launched on torch's current stream (field report B32), tensors pass by DLPack, memory comes from
torch's allocator. The sums' order is fixed: no atomics. The sources are peaks.cu and patches.cu beside this
file.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repro.gradient.geometry import ConvShape, Geometry
from repro.gradient.kernels.sources import OPTIONS, source
from repro.gradient.layout import in_order

_LARGE_MAP = 4096  # pixels: above, a block of 256 threads reads one map instead of a warp
TILE_THREADS, TILE_EACH = 128, 4  # as in patches.cu


def top1(x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, scale: float = 1.0) -> Tensor:
    """Filter gradient, as weight [Cout, Cin/groups, Kh, Kw], from x [N, Cin, H, W] and dy [N, Cout, Ho, Wo].

    All three on one GPU, of one type out of float32, float16, bfloat16; any strides of x and weight.
    """
    import cupy

    x, dy = x.detach(), dy.detach().to(x.dtype)
    if not in_order(dy):
        dy = dy.contiguous()
    dw = torch.empty_like(weight)
    samples, outputs = dy.shape[:2]
    position = torch.empty((outputs, samples), dtype=torch.int32, device=x.device)
    total = torch.empty((outputs, samples), dtype=torch.float32, device=x.device)
    index = x.device.index if x.device.index is not None else torch.cuda.current_device()
    stream = torch.cuda.current_stream(x.device).cuda_stream
    with torch.cuda.device(index), cupy.cuda.Device(index), cupy.cuda.ExternalStream(stream):
        module = _module(x.dtype, index)
        peaks = (_array(position), _array(total))
        name, grid, block, sizes = peak_launch(dy)
        module.get_function(name)(grid, block, (_array(dy), *sizes, *peaks))
        numbers = _on_device(patch_sizes(x, dy, weight, geometry), index)
        grid, block = patch_launch(weight)
        arguments = (_array(x), *peaks, _array(dw), _array(numbers), np.float32(scale))
        module.get_function("patches")(grid, block, arguments)
    return dw


def why_not(shape: ConvShape, dtype: torch.dtype, device: torch.device) -> str | None:
    """Why this kernel cannot do it, or None."""
    if device.type != "cuda":
        return f"kernel 'cupy' runs on a GPU, the tensors are on {device}"
    if dtype not in OPTIONS:
        return f"kernel 'cupy' computes float32, float16 and bfloat16, the tensors are {dtype}"
    high, wide = shape.output_size
    if shape.batch > 65535 or high * wide >= 1 << 31:
        return "kernel 'cupy' takes at most 65535 samples and 2^31 pixels"
    return None


def peak_launch(dy: Tensor) -> tuple[str, tuple[int, ...], tuple[int, ...], tuple[Any, ...]]:
    """Kernel (A) for dy: its name, grid, block, and the numbers that follow the pointer to dy."""
    samples, outputs, high, wide = dy.shape
    pixels, many = np.int32(high * wide), np.int64
    if dy.is_contiguous():
        maps = samples * outputs
        block = (256, 1) if high * wide > _LARGE_MAP else (32, 8)
        grid = ((maps + block[1] - 1) // block[1], 1)
        return "peaks_planes", grid, block, (many(maps), pixels, many(samples), many(outputs))
    block = (32, max(1, min(8, high * wide)))
    return "peaks_pixels", ((outputs + 31) // 32, samples), block, (pixels, many(samples), many(outputs))


def patch_launch(weight: Tensor) -> tuple[tuple[int, int], tuple[int, int]]:
    """Grid and block of kernel (B): a block for each output channel and tile of its elements."""
    tile = TILE_THREADS * TILE_EACH
    return (weight.shape[0], (weight[0].numel() + tile - 1) // tile), (TILE_THREADS, 1)


def patch_sizes(x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry) -> tuple[int, ...]:
    """The numbers of `struct Sizes` in patches.cu, in its order."""
    samples, _, height, width = x.shape
    g = geometry
    windows = (*g.kernel, *g.stride, *g.padding, *g.dilation)
    groups = (weight.shape[1], weight.shape[0] // g.groups, int(x.stride(1) == 1))
    return (
        samples,
        height,
        width,
        dy.shape[3],
        *windows,
        *groups,
        *x.stride(),
        *torch.empty_like(weight).stride(),
    )


@lru_cache(maxsize=1024)
def _on_device(numbers: tuple[int, ...], index: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int64, device=f"cuda:{index}")


@lru_cache(maxsize=32)
def _module(dtype: torch.dtype, index: int) -> Any:
    """The compiled sources for an element type; loaded once on each device."""
    import cupy

    return cupy.RawModule(code=source(), options=OPTIONS[dtype], backend="nvrtc")


def _array(tensor: Tensor) -> Any:
    """The same memory as a CuPy array; 16-bit floats as 16-bit integers, since CuPy has no bfloat16."""
    import cupy

    return cupy.from_dlpack(tensor.view(torch.int16) if tensor.element_size() == 2 else tensor)
