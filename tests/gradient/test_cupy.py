"""The CuPy kernel on a GPU, on the same cases that the CPU runs."""

from __future__ import annotations

import pytest
import torch

from repro.gradient import kernels
from repro.gradient.geometry import Geometry
from repro.gradient.kernels import reference
from repro.gradient.kernels.sources import OPTIONS
from tests.gradient.cases import CASES, FORMATS, TOLERANCE, Case, relative

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(kernels.missing() is not None, reason=f"kernel cupy {kernels.missing()}"),
]


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("dtype", OPTIONS, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_equals_reference(name: str, dtype: torch.dtype, layout: str) -> None:
    x, dy, weight = CASES[name].tensors(dtype, layout)
    expected = reference.top1(x, dy, weight, CASES[name].geometry)
    found = kernels.load("cupy").top1(x.cuda(), dy.cuda(), weight.cuda(), CASES[name].geometry)
    assert found.stride() == weight.stride()
    assert relative(found.cpu(), expected) < TOLERANCE[dtype]


def test_same_bits_in_a_side_stream_with_memory_churn() -> None:
    """Field report B32: 200 gradients while memory is freed and taken again, on a stream that is not the default."""
    case = CASES["many samples"]
    x, dy, weight = (t.cuda() for t in case.tensors())
    kernel = kernels.load("cupy")
    first = kernel.top1(x, dy, weight, case.geometry)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(200):
            churn = torch.randn(1 << 16, device="cuda")
            found = kernel.top1(x + 0, dy + 0, weight, case.geometry)
            del churn
            assert torch.equal(found, first)


def test_the_driver_sees_no_memory_that_torch_does_not_count() -> None:
    """Field report B41: what a launch takes from the GPU is in torch's figures, to 20 %."""
    case = Case(64, 64, 64, 64, 64, Geometry((3, 3), padding=(1, 1)))  # 64 MiB a tensor
    kernel = kernels.load("cupy")
    kernel.top1(*(t[:1].cuda() for t in case.tensors()[:2]), case.tensors()[2].cuda(), case.geometry)
    torch.cuda.synchronize()  # the kernel is compiled and loaded; the context is there
    torch.cuda.empty_cache()
    free, counted = torch.cuda.mem_get_info()[0], torch.cuda.memory_reserved()
    held = [t.cuda() for t in case.tensors()]
    found = [kernel.top1(*held, case.geometry) for _ in range(8)]
    torch.cuda.synchronize()
    taken = free - torch.cuda.mem_get_info()[0]
    reserved = torch.cuda.memory_reserved() - counted
    assert reserved >= sum(t.numel() * 4 for t in held + found)
    assert taken == pytest.approx(reserved, rel=0.2)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_second_gpu() -> None:
    case = CASES["plain"]
    x, dy, weight = case.tensors()
    found = kernels.load("cupy").top1(x.cuda(1), dy.cuda(1), weight.cuda(1), case.geometry)
    assert relative(found.cpu(), reference.top1(x, dy, weight, case.geometry)) < 1e-5
