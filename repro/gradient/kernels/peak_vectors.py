"""The peaks of eight maps, or of eight pixels of one, side by side: what peak_loops.py calls. See vectors.py.

A peak is (magnitude int32, pixel int32, sum float32), eight of each. A float's absolute value orders as the
integer of its bits without the sign.
"""

from __future__ import annotations

from typing import Any

from repro.gradient.kernels.vectors import (
    FLOATS,
    INT,
    INTS,
    LANES,
    Vector,
    address,
    intrinsic,
    ir,
    load,
    spread,
    types,
)

_NO_SIGN = ir.Constant(INTS, [0x7FFFFFFF] * LANES)
_NUMBERED = ir.Constant(INTS, list(range(LANES)))
_NEVER = ir.Constant(INTS, [0x7FFFFFFF] * LANES)
_peak = types.Tuple((Vector(INTS), Vector(INTS), Vector(FLOATS)))


@intrinsic  # type: ignore[untyped-decorator]
def no_peak(_context: Any) -> Any:
    """() -> the peaks of eight maps of which nothing was seen yet."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        nothing = ir.Constant(INTS, [-1] * LANES), _NEVER, ir.Constant(FLOATS, [0.0] * LANES)
        return context.make_tuple(builder, signature.return_type, nothing)

    return _peak(), emit


@intrinsic  # type: ignore[untyped-decorator]
def look(_context: Any, values: Any, index: Any, pixel: Any, peak: Any) -> Any:
    """(values float32, index, pixel int32, peak) -> peak after values[index : index + 8], which are called `pixel`.

    A float's absolute value orders as the integer of its bits without the sign: NaN counts as the largest.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, index, pixel, peak = arguments
        best, where, total = (builder.extract_value(peak, i) for i in range(3))
        value = load(context, builder, signature.args[0], values, index, FLOATS)
        magnitude = builder.and_(builder.bitcast(value, INTS), _NO_SIGN)
        larger = builder.icmp_signed(">", magnitude, best)
        found = (
            builder.select(larger, magnitude, best),
            builder.select(larger, spread(builder, pixel, INTS), where),
            builder.fadd(total, value),
        )
        return context.make_tuple(builder, signature.return_type, found)

    return _peak(values, types.uint64, types.int32, _peak), emit


@intrinsic  # type: ignore[untyped-decorator]
def both(_context: Any, one: Any, other: Any) -> Any:
    """(peak, peak) -> the peak over what both have seen; of equal magnitudes the earlier pixel."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (best, where, total), (best2, where2, total2) = (
            [builder.extract_value(peak, i) for i in range(3)] for peak in arguments
        )
        same, earlier = builder.icmp_signed("==", best2, best), builder.icmp_signed("<", where2, where)
        larger = builder.or_(builder.icmp_signed(">", best2, best), builder.and_(same, earlier))
        found = (
            builder.select(larger, best2, best),
            builder.select(larger, where2, where),
            builder.fadd(total, total2),
        )
        return context.make_tuple(builder, signature.return_type, found)

    return _peak(_peak, _peak), emit


@intrinsic  # type: ignore[untyped-decorator]
def put(_context: Any, position: Any, total: Any, index: Any, peak: Any) -> Any:
    """(position int32, total float32, index, peak): write pixels and sums to [index : index + 8]."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        position, total, index, peak = arguments
        for kind, array, vector in ((0, position, 1), (1, total, 2)):
            value = builder.extract_value(peak, vector)
            place = address(context, builder, signature.args[kind], array, index, value.type)
            builder.store(value, place, align=4)
        return context.get_dummy_value()

    return types.void(position, total, types.uint64, _peak), emit


@intrinsic  # type: ignore[untyped-decorator]
def side_by_side(_context: Any, peak: Any) -> Any:
    """(peak) -> (magnitude int32, pixel int32, sum float32) of one map whose neighbouring pixels the eight are."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        best, where, total = (builder.extract_value(arguments[0], i) for i in range(3))
        largest = _reduce(builder, "smax.v8i32", best)
        hit = builder.icmp_signed("==", best, spread(builder, largest, INTS))
        pixel = _reduce(builder, "smin.v8i32", builder.select(hit, builder.add(where, _NUMBERED), _NEVER))
        lanes = [builder.extract_element(total, ir.Constant(INT, i)) for i in range(LANES)]
        while len(lanes) > 1:  # a fixed tree
            lanes = [
                builder.fadd(a, b)
                for a, b in zip(lanes[: len(lanes) // 2], lanes[len(lanes) // 2 :], strict=True)
            ]
        return context.make_tuple(builder, signature.return_type, (largest, pixel, lanes[0]))

    return types.Tuple((types.int32, types.int32, types.float32))(_peak), emit


def _reduce(builder: Any, operation: str, vector: Any) -> Any:
    name = f"llvm.vector.reduce.{operation}"
    kind = ir.FunctionType(INT, [INTS])
    known = builder.module.globals.get(name)
    return builder.call(known or ir.Function(builder.module, kind, name), [vector])
