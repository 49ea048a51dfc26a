"""The CUDA sources without a GPU: compiled by NVRTC, and run on the CPU against the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from repro.gradient.geometry import Geometry
from repro.gradient.kernels import reference
from repro.gradient.kernels.peaks import peaks
from repro.gradient.kernels.sources import FOLDER, OPTIONS, source
from tests.gradient.cases import CASES, TOLERANCE, Case, relative
from tests.gradient.cuda_on_cpu import CudaOnCpu, compiler

TYPES = tuple(OPTIONS)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[torch.dtype, CudaOnCpu]:
    if compiler() is None:
        pytest.skip("no C++ compiler")
    folder: Path = tmp_path_factory.mktemp("cuda_on_cpu")
    return {dtype: CudaOnCpu(dtype, folder) for dtype in TYPES}


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", TYPES)
def test_nvrtc_compiles_without_any_header(dtype: torch.dtype, architecture: str) -> None:
    nvrtc: Any = pytest.importorskip("cuda.bindings.nvrtc", reason="no NVRTC: package cuda-bindings")
    try:
        _, program = nvrtc.nvrtcCreateProgram(source().encode(), b"top1.cu", 0, [], [])
    except RuntimeError as error:  # the bindings are here, the library is not
        pytest.skip(f"no NVRTC: {error}")
    options = [o.encode() for o in (*OPTIONS[dtype], f"--gpu-architecture={architecture}")]
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    # NVRTC writes into this object. A single byte would be Python's shared one: an empty log then overwrote
    # every b" ".
    log = bytes(max(2, size))
    nvrtc.nvrtcGetProgramLog(program, log)
    assert int(result) == 0, log.decode()
    assert not log.decode().strip("\0 \n"), log.decode()


def test_no_source_includes_a_header() -> None:
    for file in FOLDER.glob("*.cu*"):
        assert "#include" not in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", CASES)
def test_equals_reference(
    built: dict[torch.dtype, CudaOnCpu], name: str, dtype: torch.dtype, layout: str
) -> None:
    x, dy, weight = CASES[name].tensors(dtype, layout)
    found = built[dtype].top1(x, dy, weight, CASES[name].geometry, 0.5)
    expected = reference.top1(x, dy, weight, CASES[name].geometry, 0.5)
    assert found.stride() == weight.stride()
    assert relative(found, expected) < TOLERANCE[dtype]


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_peaks_exactly(built: dict[torch.dtype, CudaOnCpu], layout: str) -> None:
    for case in CASES.values():
        _, dy, _ = case.tensors(torch.float32, layout)
        position, total = built[torch.float32].peaks(dy)
        where, sums = peaks(dy)
        assert torch.equal(position.t().long(), where)
        torch.testing.assert_close(total.t(), sums, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_ties_take_the_first_and_zero_channels_give_exact_zero(
    built: dict[torch.dtype, CudaOnCpu], layout: str
) -> None:
    case = Case(3, 4, 8, 8, 5, Geometry((3, 3), padding=(1, 1)))
    x, dy, weight = case.tensors(torch.float32, layout)
    dy.copy_(torch.where(dy > 0, 1.0, -1.0))
    assert int(built[torch.float32].peaks(dy)[0].abs().max()) == 0
    dy[:, 2] = 0
    x[0, 0, 0, 0] = float("inf")
    found = built[torch.float32].top1(x, dy, weight, case.geometry)
    assert torch.equal(found[2], torch.zeros_like(found[2]))


def test_nan_shows(built: dict[torch.dtype, CudaOnCpu]) -> None:
    x, dy, weight = CASES["plain"].tensors()
    dy[1, 3, 2, 2] = float("nan")
    position, total = built[torch.float32].peaks(dy)
    assert int(position[3, 1]) == 2 * dy.shape[3] + 2
    assert total[3, 1].isnan()
    assert built[torch.float32].top1(x, dy, weight, CASES["plain"].geometry)[3].isnan().any()


def test_same_bits_twice(built: dict[torch.dtype, CudaOnCpu]) -> None:
    x, dy, weight = CASES["many samples"].tensors()
    first, second = (
        built[torch.float32].top1(x, dy, weight, CASES["many samples"].geometry) for _ in range(2)
    )
    assert torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_conversions_are_those_of_the_library(
    built: dict[torch.dtype, CudaOnCpu], dtype: torch.dtype
) -> None:
    bits = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    every = bits.view(dtype)
    torch.testing.assert_close(built[dtype].widen(bits), every.float(), rtol=0, atol=0, equal_nan=True)
    generator = torch.Generator().manual_seed(0)
    values = (
        torch.randint(-(1 << 31), 1 << 31, (200_000,), generator=generator)
        .to(torch.int32)
        .view(torch.float32)
    )
    near = every.float()
    values = torch.cat([values, torch.randn(50_000, generator=generator), near, (near[1:] + near[:-1]) / 2])
    torch.testing.assert_close(
        built[dtype].narrow(values, dtype), values.to(dtype), rtol=0, atol=0, equal_nan=True
    )


def test_strided_x_and_weight(built: dict[torch.dtype, CudaOnCpu]) -> None:
    """Strides are the tensor's own: a slice of a larger tensor needs no copy."""
    case = CASES["all at once"]
    x, dy, weight = case.tensors()
    wide = torch.zeros(*x.shape[:3], 2 * x.shape[3])[..., ::2]
    wide.copy_(x)
    found = built[torch.float32].top1(wide, dy, weight, case.geometry)
    assert relative(found, reference.top1(x, dy, weight, case.geometry)) < 1e-6


def test_offsets_beyond_32_bits(built: dict[torch.dtype, CudaOnCpu]) -> None:
    """Samples that lie more than 2^31 elements apart; only the pages that are touched cost memory."""
    case = Case(3, 2, 6, 5, 4, Geometry((3, 3), padding=(1, 1)))
    x, dy, weight = case.tensors(torch.float16)
    stride = (1 << 30) + (1 << 27)
    try:
        memory = torch.empty(2 * stride + x[0].numel(), dtype=torch.float16)
    except RuntimeError:
        pytest.skip("this machine does not lend 5 GB of address space")
    far = memory.as_strided(x.shape, (stride, *x.stride()[1:]))
    far.copy_(x)
    assert 2 * stride > 1 << 31
    found = built[torch.float16].top1(far, dy, weight, case.geometry)
    assert relative(found, reference.top1(x, dy, weight, case.geometry)) < TOLERANCE[torch.float16]
