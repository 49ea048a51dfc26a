"""Runs of memory as vectors: what patch_loops.py and plane_loops.py call. See vectors.py."""

from __future__ import annotations

from typing import Any

from repro.gradient.kernels.vectors import (
    FLOATS,
    INT,
    INTS,
    LANES,
    RUN,
    RUN_FLOATS,
    Vector,
    address,
    intrinsic,
    ir,
    load,
    spread,
    types,
)

_run = Vector(RUN_FLOATS)


@intrinsic  # type: ignore[untyped-decorator]
def take(_context: Any, values: Any, index: Any) -> Any:
    """(values float32, index) -> the sixteen from values[index] on."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, index = arguments
        return load(context, builder, signature.args[0], values, index, RUN_FLOATS)

    return _run(values, types.uint64), emit


@intrinsic  # type: ignore[untyped-decorator]
def keep(_context: Any, values: Any, index: Any, run: Any) -> Any:
    """(values float32, index, sixteen): write them to values[index : index + 16]."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, index, run = arguments
        builder.store(run, address(context, builder, signature.args[0], values, index, RUN_FLOATS), align=4)
        return context.get_dummy_value()

    return types.void(values, types.uint64, _run), emit


@intrinsic  # type: ignore[untyped-decorator]
def add_times(_context: Any, run: Any, factor: Any, values: Any, index: Any) -> Any:
    """(sixteen, factor, values float32, index) -> sixteen + factor * values[index : index + 16]."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        run, factor, values, index = arguments
        value = load(context, builder, signature.args[2], values, index, RUN_FLOATS)
        product = builder.fmul(value, spread(builder, factor, RUN_FLOATS), flags=("contract",))
        return builder.fadd(run, product, flags=("contract",))

    return _run(_run, types.float32, values, types.uint64), emit


@intrinsic  # type: ignore[untyped-decorator]
def within(_context: Any, values: Any, index: Any, more: Any, end: Any) -> Any:
    """(values int32, index, more int32, end int32) -> as sixteen bits: 0 <= values[index : index + 16] + more < end."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, index, more, end = arguments
        sixteen = ir.VectorType(INT, RUN)
        value = load(context, builder, signature.args[0], values, index, sixteen)
        moved = builder.add(value, spread(builder, more, sixteen))
        below = builder.icmp_unsigned(
            "<", moved, spread(builder, end, sixteen)
        )  # below 0 is large without its sign
        return builder.zext(builder.bitcast(below, ir.IntType(RUN)), ir.IntType(64))

    return types.uint64(values, types.uint64, types.int32, types.int32), emit


@intrinsic  # type: ignore[untyped-decorator]
def lowest(_context: Any, bits: Any) -> Any:
    """(bits uint64, not 0) -> number of the lowest bit that is set."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), emit


@intrinsic  # type: ignore[untyped-decorator]
def turn(_context: Any, target: Any, there: Any, apart: Any, source: Any, here: Any, distance: Any) -> Any:
    """Transpose eight rows of eight: (target, there, apart, source, here, distance), all float32 and uint64.

    Row k is read from source[here + k * distance], column k written to target[there + k * apart].
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, there, apart, source, here, distance = arguments

        def places(kind: int, array: Any, start: Any, step: Any) -> list[Any]:
            found = []
            for _ in range(LANES):
                found.append(address(context, builder, signature.args[kind], array, start, FLOATS))
                start = builder.add(start, step)
            return found

        rows = [builder.load(place, align=4) for place in places(3, source, here, distance)]
        for step in (4, 2, 1):  # exchange the blocks beside the diagonal, of half the size each time
            first = ir.Constant(
                INTS, [lane if not lane & step else LANES + lane - step for lane in range(LANES)]
            )
            second = ir.Constant(
                INTS, [lane + step if not lane & step else LANES + lane for lane in range(LANES)]
            )
            for k in (k for k in range(LANES) if not k & step):
                one, other = rows[k], rows[k + step]
                rows[k] = builder.shuffle_vector(one, other, first)
                rows[k + step] = builder.shuffle_vector(one, other, second)
        for row, place in zip(rows, places(0, target, there, apart), strict=True):
            builder.store(row, place, align=4)
        return context.get_dummy_value()

    number = types.uint64
    return types.void(target, number, number, source, number, number), emit
