"""top1 on the CPU by compiled loops: one pass over dy, then runs of memory added up per output channel.

No sum depends on the number of threads: an output channel (or a fixed part of the samples) belongs to one thread.

What surrounds the loops is NumPy and not torch on purpose: right after a convolution a torch call costs 10 to 30
microseconds, and twenty of them were a sixth of this kernel's time on ResNet-20's layers.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from repro.gradient.geometry import ConvShape, Geometry
from repro.gradient.kernels.scratch import scratch
from repro.gradient.kernels.threads import share

Array = NDArray[Any]
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_CHUNK_BYTES = 512 << 10  # of x, next to the accumulators in a core's second-level cache
_PARTS = 8  # of the samples; fixed, so that the order of the sum is
_WIDE = 256  # pixels: above, a transposed copy of all of x would cost more than the rest


def top1(x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, scale: float = 1.0) -> Tensor:
    """Filter gradient, as weight [Cout, Cin/groups, Kh, Kw], from x [N, Cin, H, W] and dy [N, Cout, Ho, Wo]."""
    if not dy.shape[0]:
        return torch.zeros_like(weight)
    position, total = peaks(_array(dy))
    if scale != 1.0:
        total *= np.float32(scale)
    dw = torch.empty_like(weight, dtype=torch.float32)
    if not _in_order(dw.numpy()):  # a weight in an order of its own
        dw = torch.empty(weight.shape)
    _patches(_array(x), position, total, dw.numpy(), geometry, dy.shape[3])
    return dw if weight.dtype == torch.float32 else dw.to(weight.dtype)


def why_not(shape: ConvShape, dtype: torch.dtype, device: torch.device) -> str | None:
    """Why this kernel cannot do it, or None."""
    if device.type != "cpu":
        return f"kernel 'cpu' runs on the CPU, the tensors are on {device}"
    if dtype not in _TYPES:
        return f"kernel 'cpu' computes in float32, the tensors are {dtype}"
    return None


def peaks(dy: Array) -> tuple[Array, Array]:
    """Position (int32, y * Wo + x) and sum (float32) of each map of dy [N, Cout, Ho, Wo], both as [Cout, N]."""
    from repro.gradient.kernels import peak_loops

    samples, outputs = dy.shape[:2]
    position, total = np.empty((outputs, samples), np.int32), np.empty((outputs, samples), np.float32)
    maps: Array
    if _by_pixel(dy):
        maps, loop, count = dy.transpose(0, 2, 3, 1).reshape(samples, -1, outputs), peak_loops.peaks_pixels, samples
    else:
        maps, loop, count = dy.reshape(samples * outputs, -1), peak_loops.peaks_planes, samples * outputs
    bits = maps.view(np.int32)
    share(loop, (maps, bits, position, total), count, maps.size)
    return position, total


def _patches(x: Array, position: Array, total: Array, dw: Array, geometry: Geometry, wide: int) -> None:
    """Fill dw [Cout, Cin/groups, Kh, Kw] in its own layout."""
    from repro.gradient.kernels import patch_loops as loops

    samples, channels, height, width = x.shape
    outputs, depth = dw.shape[:2]
    area = geometry.kernel[0] * geometry.kernel[1]
    image = (height, width, channels, wide)
    windows = (*geometry.kernel, *geometry.stride, *geometry.padding, *geometry.dilation)
    sizes = (*image, *windows, depth, outputs // geometry.groups)

    gathered = samples * outputs * area * depth
    way = _way(x, outputs, depth, area)
    parts = min(_PARTS, samples) if way == "parts" else 1
    flat = (dw.transpose(0, 2, 3, 1) if _by_pixel(dw) else dw).reshape(outputs, -1)
    turn = _by_pixel(dw) == (way == "in place")  # the sums lie in the other order than the weight's memory
    ready = parts == 1 and not turn
    sums = flat[None] if ready else scratch("sums", parts, outputs, area * depth)
    if way == "in place":
        share(loops.add_patches_in_place, (x.reshape(samples, -1), position, total, sizes, sums[0]), outputs, gathered)
    elif way == "parts":
        buffers = scratch("pixels", parts, 1, height * width * channels)
        arguments = (x.reshape(samples, -1), position, total, sizes, buffers, sums)
        share(loops.add_patches_by_parts, arguments, parts, x.size)
    else:
        chunk = max(1, _CHUNK_BYTES // (4 * channels * height * width))
        settings = (sizes, (0, samples), chunk, True)
        share(loops.add_patches, (_pixels(x), 0, position, total, *settings, sums[0]), outputs, gathered)
    if not ready:
        rows = depth if way == "in place" else area
        share(loops.finish, (sums, flat, rows, turn), outputs, sums.size)


def _way(x: Array, outputs: int, depth: int, area: int) -> Literal["in place", "parts", "pixels"]:
    """How to add up the patches. A contiguous x is transposed, unless fewer values are needed than it has."""
    if _by_pixel(x):
        return "pixels"
    pixels = x.shape[2] * x.shape[3]
    if outputs * area < pixels // 2 or depth == 1:
        return "in place"
    if pixels > _WIDE and outputs * depth * area * 4 <= _CHUNK_BYTES:
        return "parts"
    return "pixels"


def _pixels(x: Array) -> Array:
    """x as an array [N, H*W*Cin]: a view where x is channels_last, else a transposed copy."""
    from repro.gradient.kernels.patch_loops import to_pixels

    samples, channels = x.shape[:2]
    if _by_pixel(x):
        return x.transpose(0, 2, 3, 1).reshape(samples, -1)
    planes = x.reshape(samples, -1)
    pixels = scratch("pixels", *planes.shape)
    share(to_pixels, (planes, pixels, channels), samples, x.size)
    return pixels


def _array(tensor: Tensor) -> Array:
    """The tensor as a float32 array in one of the two layouts; a copy only where it is neither."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.dtype != torch.float32:
        tensor = tensor.float()
    array: Array = tensor.numpy()
    return array if _in_order(array) else tensor.contiguous().numpy()


def _in_order(array: Array) -> bool:
    return array.flags.c_contiguous or _by_pixel(array)


def _by_pixel(array: Array) -> bool:
    """True where the channels of a pixel lie side by side and a plane's pixels do not."""
    return not array.flags.c_contiguous and array.transpose(0, 2, 3, 1).flags.c_contiguous
