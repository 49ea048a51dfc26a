"""top1 on the CPU by compiled loops: one pass over dy, then runs of memory added up per output channel.

No sum depends on the number of threads: an output channel (or a fixed part of the samples) belongs to one thread.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from repro.gradient.geometry import ConvShape, Geometry
from repro.gradient.kernels.scratch import scratch
from repro.gradient.kernels.threads import share

_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_CHUNK_BYTES = 512 << 10  # of x, next to the accumulators in a core's second-level cache
_PARTS = 8  # of the samples; fixed, so that the order of the sum is
_WIDE = 256  # pixels: above, a transposed copy of all of x would cost more than the rest


def top1(x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, scale: float = 1.0) -> Tensor:
    """Filter gradient, as weight [Cout, Cin/groups, Kh, Kw], from x [N, Cin, H, W] and dy [N, Cout, Ho, Wo]."""
    position, total = _peaks(dy.detach())
    if scale != 1.0:
        total *= scale
    return _patches(x.detach(), position, total, weight, geometry, dy.shape[3])


def why_not(shape: ConvShape, dtype: torch.dtype, device: torch.device) -> str | None:
    """Why this kernel cannot do it, or None."""
    if device.type != "cpu":
        return f"kernel 'cpu' runs on the CPU, the tensors are on {device}"
    if dtype not in _TYPES:
        return f"kernel 'cpu' computes in float32, the tensors are {dtype}"
    return None


def _peaks(dy: Tensor) -> tuple[Tensor, Tensor]:
    """Position (int32) and sum (float32) of each map, [Cout, N]."""
    from repro.gradient.kernels import peak_loops

    dy = dy.float()
    samples, outputs = dy.shape[:2]
    position = torch.empty((outputs, samples), dtype=torch.int32)
    total = torch.empty((outputs, samples))
    if _by_pixel(dy):
        maps, loop, count = dy.permute(0, 2, 3, 1).reshape(samples, -1, outputs), peak_loops.peaks_pixels, samples
    else:
        maps, loop, count = dy.reshape(samples * outputs, -1), peak_loops.peaks_planes, samples * outputs
    maps = maps.contiguous()
    arguments = (maps.numpy(), maps.view(torch.int32).numpy(), position.numpy(), total.numpy())
    share(lambda first, last: loop(*arguments, first, last), count, maps.numel())
    return position, total


def _patches(x: Tensor, position: Tensor, total: Tensor, weight: Tensor, geometry: Geometry, wide: int) -> Tensor:
    from repro.gradient.kernels import patch_loops as loops

    x = x.float()
    samples, channels, height, width = x.shape
    outputs, depth = weight.shape[:2]
    area = geometry.kernel[0] * geometry.kernel[1]
    image = (height, width, channels, wide)
    windows = (*geometry.kernel, *geometry.stride, *geometry.padding, *geometry.dilation)
    sizes = (*image, *windows, depth, outputs // geometry.groups)
    peaks = (position.numpy(), total.numpy())

    gathered = samples * outputs * area * depth
    way = _way(x, outputs, depth, area)
    parts = min(_PARTS, samples) if way == "parts" else 1
    out = torch.empty_like(weight, dtype=torch.float32)
    flat = (out.permute(0, 2, 3, 1) if _by_pixel(out) else out).view(1, outputs, -1)
    turn = _by_pixel(out) == (way == "in place")  # the sums lie in the other order than the weight's memory
    ready = parts == 1 and not turn
    accumulators = (flat if ready else scratch("sums", parts, outputs, area * depth)).zero_()
    sums = accumulators.numpy()
    if way == "in place":
        planes = x.contiguous().view(samples, -1).numpy()
        share(lambda a, b: loops.add_patches_in_place(planes, *peaks, sizes, sums[0], a, b), outputs, gathered)
    elif way == "parts":
        planes = x.contiguous().view(samples, -1).numpy()
        buffers = scratch("pixels", parts, 1, height * width * channels).numpy()
        share(lambda a, b: loops.add_patches_by_parts(planes, *peaks, sizes, buffers, sums, a, b), parts, x.numel())
    else:
        pixels = _pixels(x)
        chunk = max(1, _CHUNK_BYTES // (4 * channels * height * width))
        every = (0, samples)
        share(lambda a, b: loops.add_patches(pixels, 0, *peaks, sizes, every, chunk, sums[0], a, b), outputs, gathered)

    if not ready:
        target, rows = flat[0].numpy(), depth if way == "in place" else area
        share(lambda a, b: loops.finish(sums, target, rows, turn, a, b), outputs, accumulators.numel())
    return out.to(weight.dtype)


def _way(x: Tensor, outputs: int, depth: int, area: int) -> Literal["in place", "parts", "pixels"]:
    """How to add up the patches. A contiguous x is transposed, unless fewer values are needed than it has."""
    if _by_pixel(x):
        return "pixels"
    pixels = x.shape[2] * x.shape[3]
    if outputs * area < pixels // 2 or depth == 1:
        return "in place"
    if pixels > _WIDE and outputs * depth * area * 4 <= _CHUNK_BYTES:
        return "parts"
    return "pixels"


def _pixels(x: Tensor) -> Any:
    """x as an array [N, H*W*Cin]: a view where x is channels_last, else a transposed copy."""
    from repro.gradient.kernels.patch_loops import to_pixels

    samples, channels = x.shape[:2]
    if _by_pixel(x):
        return x.permute(0, 2, 3, 1).reshape(samples, -1).numpy()
    planes = x.contiguous().view(samples, -1).numpy()
    pixels = scratch("pixels", *planes.shape).numpy()
    share(lambda a, b: to_pixels(planes, pixels, channels, a, b), samples, x.numel())
    return pixels


def _by_pixel(tensor: Tensor) -> bool:
    """True where the channels of a pixel lie side by side and a plane's pixels do not."""
    return tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()
