"""Builds the CUDA sources with the C++ compiler and calls their kernels as CuPy would."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from repro.gradient.geometry import Geometry
from repro.gradient.kernels.cuda import patch_launch, patch_sizes, peak_launch
from repro.gradient.kernels.sources import OPTIONS, source

HERE = Path(__file__).resolve().parent

# One entry for each kernel: (grid and block), then the kernel's own arguments.
_ENTRIES = r"""
extern "C" void run_peaks_planes(const int* sizes, const scalar_t* dy, index_t maps, int pixels, index_t samples,
                                 index_t outputs, int* position, float* total) {
    fibres::launch(sizes, [=] { peaks_planes(dy, maps, pixels, samples, outputs, position, total); });
}
extern "C" void run_peaks_pixels(const int* sizes, const scalar_t* dy, int pixels, index_t samples, index_t outputs,
                                 int* position, float* total) {
    fibres::launch(sizes, [=] { peaks_pixels(dy, pixels, samples, outputs, position, total); });
}
extern "C" void run_patches(const int* sizes, const scalar_t* x, const int* position, const float* total,
                            scalar_t* dw, const Sizes* given, float scale) {
    fibres::launch(sizes, [=] { patches(x, position, total, dw, given, scale); });
}
extern "C" void widen(const scalar_t* from, float* to, int count) {
    for (int i = 0; i < count; ++i) to[i] = to_float(from[i]);
}
extern "C" void narrow(const float* from, scalar_t* to, int count) {
    for (int i = 0; i < count; ++i) to[i] = from_float(from[i]);
}
"""


def compiler() -> str | None:
    """A C++ compiler on this machine."""
    return shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")


class CudaOnCpu:
    """The kernels for one element type, as a library in `folder`; the launches are those of kernels/cuda.py."""

    def __init__(self, dtype: torch.dtype, folder: Path) -> None:
        name = str(dtype).removeprefix("torch.")
        unit, library = folder / f"{name}.cpp", folder / f"{name}.so"
        unit.write_text(
            f'#include "{HERE / "cuda_on_cpu.h"}"\n{source()}\n#line 1 "entries"\n{_ENTRIES}',
            encoding="utf-8",
        )
        defines = [option for option in OPTIONS[dtype] if option.startswith("-D")]
        command = [
            str(compiler()),
            "-std=c++17",
            "-O1",
            "-fPIC",
            "-shared",
            "-Wall",
            "-Werror",
            "-Wno-unknown-pragmas",
        ]
        command += [
            "-Wno-sign-compare",
            "-Wno-unused-variable",
            "-ffp-contract=off",
            *defines,
            str(unit),
            "-o",
            str(library),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self.library = ctypes.CDLL(str(library))

    def peaks(self, dy: Tensor) -> tuple[Tensor, Tensor]:
        """Position (int32) and total (float32), both [Cout, N]."""
        position = torch.full((dy.shape[1], dy.shape[0]), -7, dtype=torch.int32)
        total = torch.full((dy.shape[1], dy.shape[0]), float("nan"))
        name, grid, block, numbers = peak_launch(dy)
        arguments = [_pointer(dy), *[_number(n) for n in numbers], _pointer(position), _pointer(total)]
        getattr(self.library, f"run_{name}")(_launch(grid, block), *arguments)
        return position, total

    def top1(self, x: Tensor, dy: Tensor, weight: Tensor, geometry: Geometry, scale: float = 1.0) -> Tensor:
        """As the kernels' top1."""
        position, total = self.peaks(dy)
        dw = torch.full_like(weight, float("nan"))
        sizes = torch.tensor(patch_sizes(x, dy, weight, geometry), dtype=torch.int64)
        arguments = [_pointer(t) for t in (x, position, total, dw, sizes)]
        self.library.run_patches(_launch(*patch_launch(weight)), *arguments, ctypes.c_float(scale))
        return dw

    def widen(self, bits: Tensor) -> Tensor:
        """to_float of every element."""
        out = torch.empty(bits.numel())
        self.library.widen(_pointer(bits), _pointer(out), bits.numel())
        return out

    def narrow(self, values: Tensor, dtype: torch.dtype) -> Tensor:
        """from_float of every element."""
        out = torch.empty(values.numel(), dtype=dtype)
        self.library.narrow(_pointer(values), _pointer(out), values.numel())
        return out


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _number(value: Any) -> Any:
    return (ctypes.c_int if value.dtype == "int32" else ctypes.c_longlong)(int(value))


def _launch(grid: tuple[int, ...], block: tuple[int, ...]) -> Any:
    return (ctypes.c_int * 4)(*grid, *block)
