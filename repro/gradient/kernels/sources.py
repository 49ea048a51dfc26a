"""The CUDA sources and the options that compile them; nothing here needs CUDA."""

from __future__ import annotations

from pathlib import Path

import torch

FOLDER = Path(__file__).resolve().parent
OPTIONS: dict[torch.dtype, tuple[str, ...]] = {
    torch.float32: ("--std=c++17",),
    torch.float16: ("--std=c++17", "-DSCALAR_HALF"),
    torch.bfloat16: ("--std=c++17", "-DSCALAR_BFLOAT"),
}


def source() -> str:
    """All of the CUDA text as one unit: element type, (A) peaks, (B) patches."""
    names = ("scalar.cuh", "peaks.cu", "patches.cu")
    return "\n".join(f'#line 1 "{name}"\n' + (FOLDER / name).read_text(encoding="utf-8") for name in names)
