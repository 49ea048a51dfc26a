"""Every kernel of top1 against the reference, and the promises of their choice."""

from __future__ import annotations

import itertools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.errors import MissingError, UserError
from repro.gradient import kernels
from repro.gradient.estimators.top1 import Top1
from repro.gradient.geometry import ConvShape, Geometry
from repro.gradient.kernels import cpu, library_ops, reference, threads
from repro.gradient.library import filter_gradient
from tests.gradient.cases import CASES, FORMATS, TOLERANCE, Case, relative

FAST = {"cpu": cpu, "torch": library_ops}


@pytest.mark.parametrize("weights", FORMATS)
@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kernel", FAST)
def test_equals_reference(kernel: str, dtype: torch.dtype, layout: str, weights: str) -> None:
    for name, case in CASES.items():
        x, dy, weight = case.tensors(dtype, layout, weights)
        found = FAST[kernel].top1(x, dy, weight, case.geometry, 0.5)
        assert found.dtype == dtype
        assert found.stride() == weight.stride(), name
        assert relative(found, reference.top1(x, dy, weight, case.geometry, 0.5)) < TOLERANCE[dtype], name


def test_float64() -> None:
    x, dy, weight = CASES["all at once"].tensors(torch.float64)
    found = library_ops.top1(x, dy, weight, CASES["all at once"].geometry)
    assert relative(found, reference.top1(x, dy, weight, CASES["all at once"].geometry)) < 1e-14


@st.composite
def cases(draw: Any) -> Case:
    """Any small convolution."""
    groups = draw(st.integers(1, 3))
    pair = st.tuples(st.integers(1, 4), st.integers(1, 4))
    small = st.tuples(st.integers(1, 3), st.integers(1, 3))
    g = Geometry(
        draw(pair), draw(small), draw(st.tuples(st.integers(0, 3), st.integers(0, 3))), draw(small), groups
    )
    least = [max(1, d * (k - 1) + 1 - 2 * p) for k, p, d in zip(g.kernel, g.padding, g.dilation, strict=True)]
    height, width = (low + draw(st.integers(0, 20)) for low in least)
    depth = draw(
        st.integers(1, 5) | st.sampled_from([16, 31, 32, 48, 64, 71, 115])
    )  # what a register holds, and beside it
    channels, outputs = groups * depth, groups * draw(st.integers(1, 20))
    return Case(draw(st.integers(1, 11)), channels, height, width, outputs, g)


@settings(max_examples=150, deadline=None)
@given(case=cases(), layout=st.sampled_from(sorted(FORMATS)), weights=st.sampled_from(sorted(FORMATS)))
def test_any_shape(case: Case, layout: str, weights: str) -> None:
    x, dy, weight = case.tensors(layout=layout, weights=weights)
    expected = reference.top1(x, dy, weight, case.geometry)
    for name, kernel in FAST.items():
        assert relative(kernel.top1(x, dy, weight, case.geometry), expected) < 1e-5, name


# -- the cases where top1 is exact (spec, section 1)
# -------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["reference", *FAST])
def test_exact_where_every_map_has_one_value(kernel: str) -> None:
    case = CASES["all at once"]
    x, dy, weight = case.tensors()
    flat = dy.flatten(2)
    kept = torch.arange(flat.shape[2]) == (
        torch.arange(flat[..., 0].numel()).view(*flat.shape[:2], 1) * 7 % 13
    )
    dy = (flat * kept).view_as(dy)
    found = kernels.load(kernel).top1(x, dy, weight, case.geometry)
    assert relative(found, filter_gradient(x, dy, weight, case.geometry)) < 2e-6


@pytest.mark.parametrize("kernel", ["reference", *FAST])
def test_exact_where_x_is_constant_without_padding(kernel: str) -> None:
    case = Case(4, 6, 9, 11, 8, Geometry((3, 3)))
    x, dy, weight = case.tensors()
    x = x[:, :, :1, :1].expand_as(x).contiguous()
    found = kernels.load(kernel).top1(x, dy, weight, case.geometry)
    assert relative(found, filter_gradient(x, dy, weight, case.geometry)) < 1e-5


@pytest.mark.parametrize("kernel", ["reference", *FAST])
def test_exact_where_the_map_is_one_pixel(kernel: str) -> None:
    case = CASES["one pixel"]
    x, dy, weight = case.tensors()
    found = kernels.load(kernel).top1(x, dy, weight, case.geometry)
    assert relative(found, filter_gradient(x, dy, weight, case.geometry)) < 1e-6


def test_the_value_is_replaced_by_the_sum() -> None:
    """By hand: dy = (1, -3, 1) sums to -1 and peaks at its middle, where x is 5: dW = -1 * 5, not -3 * -1 * 5."""
    x = torch.tensor([2.0, 5.0, 7.0]).view(1, 1, 1, 3)
    dy = torch.tensor([1.0, -3.0, 1.0]).view(1, 1, 1, 3)
    for name in ("reference", *FAST):
        found = kernels.load(name).top1(x, dy, torch.zeros(1, 1, 1, 1), Geometry((1, 1)))
        assert found.item() == -5.0, name


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("size", [2, 5, 24])
@pytest.mark.parametrize("outputs", [5, 8, 20, 43])
def test_ties_zero_channels_and_nan(layout: str, size: int, outputs: int) -> None:
    case = Case(3, 4, size, size, outputs, Geometry((3, 3), padding=(1, 1)))
    x, dy, weight = case.tensors(layout=layout)
    dy.copy_(torch.where(dy > 0, 1.0, -1.0))  # a tie everywhere: the first pixel counts
    first = torch.zeros_like(dy)
    first[:, :, 0, 0] = dy.sum(dim=(2, 3))
    expected = filter_gradient(x, first, weight, case.geometry)
    for kernel in FAST.values():
        assert relative(kernel.top1(x, dy, weight, case.geometry), expected) < 1e-5
    dy[:, 2] = 0
    x[0, 0, 0, 0] = float("inf")
    for name, kernel in FAST.items():
        found = kernel.top1(x, dy, weight, case.geometry)
        if name == "cpu":  # 0 * infinity would be NaN
            assert torch.equal(found[2], torch.zeros_like(found[2]))
        dy[1, 3, 1, 1] = float("nan")
        assert kernel.top1(x, dy, weight, case.geometry)[3].isnan().any()
        dy[1, 3, 1, 1] = 1.0


def test_strange_strides_are_copied_not_misread() -> None:
    case = CASES["plain"]
    x, dy, weight = case.tensors()
    expected = reference.top1(x, dy, weight, case.geometry)
    wide = torch.zeros(*x.shape[:3], 2 * x.shape[3])[..., ::2].copy_(x)
    assert relative(cpu.top1(wide, dy, weight, case.geometry), expected) < 1e-6
    turned = weight.permute(1, 0, 3, 2).contiguous().permute(1, 0, 3, 2)
    assert relative(cpu.top1(x, dy, turned, case.geometry), expected) < 1e-6
    even = dy[:, :, :1, :1].expand_as(dy)  # as behind a mean over the map: strides of 0
    expected = reference.top1(x, even, weight, case.geometry)
    assert relative(cpu.top1(x, even, weight, case.geometry), expected) < 1e-6


@pytest.mark.parametrize("pool", ["team", "own"])
@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("name", ["plain", "parts", "many samples", "depthwise"])
def test_same_bits_for_any_number_of_threads(
    name: str, layout: str, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "WORTH", 1)
    if pool == "own":
        monkeypatch.setattr(threads, "torchs_team", lambda: None)
    x, dy, weight = CASES[name].tensors(layout=layout)
    before, found = torch.get_num_threads(), []
    try:
        for number in (1, 2, 3, 1):
            torch.set_num_threads(number)
            found.append(cpu.top1(x, dy, weight, CASES[name].geometry))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("layout", FORMATS)
def test_two_threads_may_use_one_estimator(layout: str) -> None:
    """What is prepared for a shape has memory that a call writes to: each thread has its own."""
    case, estimator = CASES["many samples"], Top1()
    x, dy, weight = case.tensors(layout=layout)
    pairs = [(x * factor, dy * factor) for factor in range(1, 9)]
    expected = [reference.top1(*pair, weight, case.geometry) for pair in pairs]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            found = pool.map(lambda pair: estimator(*pair, weight, case.geometry, 0), pairs)
            assert all(relative(one, other) < 1e-5 for one, other in zip(found, expected, strict=True))


def test_what_is_prepared_fits_only_its_own_kind() -> None:
    case, estimator = CASES["plain"], Top1()
    for layout, weights, samples in itertools.product(FORMATS, FORMATS, (case.samples, 1, 2)):
        x, dy, weight = case.tensors(layout=layout, weights=weights)
        for _ in range(2):
            found = estimator(x[:samples], dy[:samples], weight, case.geometry, 0)
            assert relative(found, reference.top1(x[:samples], dy[:samples], weight, case.geometry)) < 1e-5


def test_cached_code_is_that_of_these_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba itself looks only at the file of the function that is called, not at those of what it calls."""
    from repro.gradient.kernels import job, version

    before = version.version()
    assert job.run_phase.py_func.__qualname__ == f"run_phase_{before}"
    for file in Path(version.__file__).parent.glob("*.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(version, "__file__", str(tmp_path / "version.py"))
    assert version.version.__wrapped__() == before
    for name in ("patch_loops.py", "peaks.cu", "scalar.cuh"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(f"{text} ", encoding="utf-8")
        assert version.version.__wrapped__() != before
        (tmp_path / name).write_text(text, encoding="utf-8")


def test_torchs_team_is_found_here() -> None:
    """Without it the kernel still works, at half the speed: see repro/gradient/kernels/team.py."""
    if not sorted((Path(torch.__file__).parent / "lib").glob("libgomp*")):
        pytest.skip("this torch has no OpenMP library of its own")
    assert threads.torchs_team() is not None


# -- the choice
# ---------------------------------------------------------------------------------------------------

SHAPE = ConvShape(4, 8, 9, 9, 8, Geometry((3, 3)))
CPU = torch.device("cpu")


def test_auto_on_the_cpu() -> None:
    assert kernels.choose("auto", SHAPE, torch.float32, CPU) == "cpu"
    assert kernels.choose("auto", SHAPE, torch.bfloat16, CPU) == "cpu"
    assert kernels.choose("auto", SHAPE, torch.float64, CPU) == "torch"
    assert kernels.choose("reference", SHAPE, torch.float32, CPU) == "reference"


def test_a_gpu_without_cupy_uses_library_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert kernels.choose("auto", SHAPE, torch.float32, torch.device("cuda", 0)) == "torch"
    with pytest.raises(MissingError, match="CuPy"):
        kernels.require("cupy", torch.device("cuda", 0))


def test_forced_without_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MissingError, match="needs a CUDA GPU") as raised:
        kernels.choose("cupy", SHAPE, torch.float32, CPU)
    assert raised.value.exit_code == 3
    with pytest.raises(UserError, match="float32"):
        kernels.choose("cpu", SHAPE, torch.float64, CPU)
    with pytest.raises(UserError, match="Did you mean 'cpu'"):
        kernels.choose("cpux", SHAPE, torch.float32, CPU)


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    code = "import sys, repro.gradient, repro.gradient.kernels.cpu, repro.gradient.estimator_bias\n"
    code += "print([m for m in ('numba', 'cupy', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_numba_without_a_folder_for_its_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba")
    from repro.gradient.kernels.compiled import compiled

    def no_cache(*arguments: Any, **options: Any) -> Any:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return original(*arguments, **options)

    original = numba.njit
    monkeypatch.setattr(numba, "njit", no_cache)
    assert compiled(lambda a, b: a + b)(1, 2) == 3
