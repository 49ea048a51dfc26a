"""The kernels of top1, and which one is used for a shape, type and device."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Protocol, cast

import torch
from torch import Tensor

from repro.errors import MissingError, UserError, nearest
from repro.gradient.geometry import ConvShape, Geometry

# name in a recipe -> module; `torch` cannot be a module's name here
_MODULES = {"reference": "reference", "cpu": "cpu", "cupy": "cuda", "torch": "library_ops"}
NAMES = tuple(_MODULES)


Run = Callable[[Tensor, Tensor, Tensor], Tensor]  # x, dy, weight -> the filter gradient, as weight


class Kernel(Protocol):
    """What a kernel's module offers."""

    def top1(self, x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, scale: float = 1.0) -> Tensor:
        """Approximated filter gradient, as weight [Cout, Cin/groups, Kh, Kw]."""

    def why_not(self, shape: ConvShape, dtype: torch.dtype, device: torch.device) -> str | None:
        """Why it cannot do this (an unsupported case), or None."""


def load(name: str) -> Kernel:
    """The kernel by name; heavy packages are imported on its first use. UserError for an unknown name."""
    if name not in _MODULES:
        raise UserError(f"kernel = '{name}' is not one of auto, {', '.join(NAMES)}.{nearest(name, NAMES)}")
    return cast(Kernel, importlib.import_module(f"repro.gradient.kernels.{_MODULES[name]}"))


def prepare(name: str, x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, scale: float = 1.0) -> Run:
    """The kernel for tensors of these shapes, strides, types and device: what a step then calls, on one thread."""
    kernel = load(name)
    if name == "cpu":
        from repro.gradient.kernels import cpu

        return cpu.prepare(x, dy, weight, geometry, scale)
    return lambda x, dy, weight: kernel.top1(x, dy, weight, geometry, scale)


def choose(kernel: str, shape: ConvShape, dtype: torch.dtype, device: torch.device) -> str:
    """Name of the kernel to use: the one that is asked for, or with `auto` the fastest that can do it.

    The choice is a fixed rule, so that the same recipe gives the same bits: on CUDA `cupy`, on the CPU `cpu`,
    `torch` where these cannot. MissingError where the forced kernel's hardware or package is missing, UserError
    where it cannot do this shape or type.
    """
    if kernel != "auto":
        require(kernel, device)
        reason = load(kernel).why_not(shape, dtype, device)
        if reason:
            raise UserError(f"{reason}; use kernel = auto.")
        return kernel
    first = "cupy" if device.type == "cuda" else "cpu"
    if first == "cupy" and missing() is not None:
        return "torch"
    return "torch" if load(first).why_not(shape, dtype, device) else first


def require(kernel: str, device: torch.device) -> None:
    """Raise MissingError if the forced kernel cannot run on this machine at all, UserError on the wrong device."""
    if kernel != "auto":
        load(kernel)
    if kernel == "cupy":
        reason = missing()
        if reason:
            raise MissingError(f"kernel = cupy {reason}; use kernel = auto.")
        if device.type != "cuda":
            raise UserError(
                f"kernel = cupy runs on a GPU, but the device is '{device}'; use --device cuda or kernel = auto."
            )
    if kernel == "cpu" and device.type != "cpu":
        raise UserError(f"kernel = cpu runs on the CPU, but the device is '{device}'; use kernel = auto.")


def missing() -> str | None:
    """What the `cupy` kernel needs and this machine lacks, in words, or None."""
    if not torch.cuda.is_available():
        return "needs a CUDA GPU and there is none"
    try:
        import cupy
    except ImportError:
        return "needs the package CuPy (pip install 'repro[cuda12]' or 'repro[cuda13]')"
    return None if cupy.cuda.is_available() else "needs a CUDA driver that CuPy can use"
