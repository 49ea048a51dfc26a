"""Vectors of eight numbers for the compiled loops, where the compiler would not find them by itself.

Left alone, it keeps running maxima in memory, asks before every run whether the arrays overlap, and does a run's last
numbers one by one. With these a vector is a value that stays in a register, of a size that suits every processor.
Nothing here checks an index: the caller does. Importing this imports Numba.
"""

from __future__ import annotations

import importlib
from typing import Any

from llvmlite import ir

_extending: Any = importlib.import_module("numba.extending")  # Numba's types do not describe these modules
_types: Any = importlib.import_module("numba").types
_arrays: Any = importlib.import_module("numba.np.arrayobj")

LANES = 8
_BIT, _INT, _FLOAT = ir.IntType(1), ir.IntType(32), ir.FloatType()
_INTS, _FLOATS = ir.VectorType(_INT, LANES), ir.VectorType(_FLOAT, LANES)
_NO_SIGN = ir.Constant(_INTS, [0x7FFFFFFF] * LANES)
_NUMBERED = ir.Constant(_INTS, list(range(LANES)))
_NEVER = ir.Constant(_INTS, [0x7FFFFFFF] * LANES)


class _Vector(_types.Type):  # type: ignore[misc]
    """Eight numbers in a register, as a type that compiled loops know."""

    def __init__(self, name: str, code: ir.Type) -> None:
        self.code = code
        super().__init__(name=f"vector of {LANES} {name}")


@_extending.register_model(_Vector)
class _Model(_extending.models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.code)


_ints, _floats = _Vector("int32", _INTS), _Vector("float32", _FLOATS)
_peak = _types.Tuple((_ints, _ints, _floats))




@_extending.intrinsic  # type: ignore[untyped-decorator]
def no_peak(_context: Any) -> Any:
    """() -> the peaks of eight maps of which nothing was seen yet."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        nothing = ir.Constant(_INTS, [-1] * LANES), _NEVER, ir.Constant(_FLOATS, [0.0] * LANES)
        return context.make_tuple(builder, signature.return_type, nothing)

    return _peak(), emit


@_extending.intrinsic  # type: ignore[untyped-decorator]
def look(_context: Any, values: Any, index: Any, pixel: Any, peak: Any) -> Any:
    """(values float32, index, pixel int32, peak) -> peak after values[index : index + 8], which are called `pixel`.

    A float's absolute value orders as the integer of its bits without the sign: NaN counts as the largest.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, index, pixel, peak = arguments
        best, where, total = (builder.extract_value(peak, i) for i in range(3))
        value = _load(context, builder, signature.args[0], values, index, _FLOATS)
        magnitude = builder.and_(builder.bitcast(value, _INTS), _NO_SIGN)
        larger = builder.icmp_signed(">", magnitude, best)
        found = (
            builder.select(larger, magnitude, best),
            builder.select(larger, _spread(builder, pixel, _INTS), where),
            builder.fadd(total, value),
        )
        return context.make_tuple(builder, signature.return_type, found)

    return _peak(values, _types.uint64, _types.int32, _peak), emit


@_extending.intrinsic  # type: ignore[untyped-decorator]
def both(_context: Any, one: Any, other: Any) -> Any:
    """(peak, peak) -> the peak over what both have seen; of equal magnitudes the earlier pixel."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (best, where, total), (best2, where2, total2) = (
            [builder.extract_value(peak, i) for i in range(3)] for peak in arguments
        )
        same, earlier = builder.icmp_signed("==", best2, best), builder.icmp_signed("<", where2, where)
        larger = builder.or_(builder.icmp_signed(">", best2, best), builder.and_(same, earlier))
        found = builder.select(larger, best2, best), builder.select(larger, where2, where), builder.fadd(total, total2)
        return context.make_tuple(builder, signature.return_type, found)

    return _peak(_peak, _peak), emit


@_extending.intrinsic  # type: ignore[untyped-decorator]
def put(_context: Any, position: Any, total: Any, index: Any, peak: Any) -> Any:
    """(position int32, total float32, index, peak): write pixels and sums to [index : index + 8]."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        position, total, index, peak = arguments
        for kind, array, vector in ((0, position, 1), (1, total, 2)):
            value = builder.extract_value(peak, vector)
            place = _address(context, builder, signature.args[kind], array, index, value.type)
            builder.store(value, place, align=4)
        return context.get_dummy_value()

    return _types.void(position, total, _types.uint64, _peak), emit


@_extending.intrinsic  # type: ignore[untyped-decorator]
def side_by_side(_context: Any, peak: Any) -> Any:
    """(peak) -> (magnitude int32, pixel int32, sum float32) of one map whose neighbouring pixels the eight are."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        best, where, total = (builder.extract_value(arguments[0], i) for i in range(3))
        largest = _reduce(builder, "smax.v8i32", best)
        hit = builder.icmp_signed("==", best, _spread(builder, largest, _INTS))
        pixel = _reduce(builder, "smin.v8i32", builder.select(hit, builder.add(where, _NUMBERED), _NEVER))
        lanes = [builder.extract_element(total, ir.Constant(_INT, i)) for i in range(LANES)]
        while len(lanes) > 1:  # a fixed tree
            lanes = [builder.fadd(a, b) for a, b in zip(lanes[: len(lanes) // 2], lanes[len(lanes) // 2 :], strict=True)]
        return context.make_tuple(builder, signature.return_type, (largest, pixel, lanes[0]))

    return _types.Tuple((_types.int32, _types.int32, _types.float32))(_peak), emit


@_extending.intrinsic  # type: ignore[untyped-decorator]
def add_run(_context: Any, target: Any, there: Any, source: Any, here: Any, factor: Any) -> Any:
    """(target, there, source, here, factor): target[there : there + 8] += factor * source[here : here + 8]."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, there, source, here, factor = arguments
        value = _load(context, builder, signature.args[2], source, here, _FLOATS)
        place = _address(context, builder, signature.args[0], target, there, _FLOATS)
        product = builder.fmul(value, _spread(builder, factor, _FLOATS), flags=("contract",))
        builder.store(builder.fadd(builder.load(place, align=4), product, flags=("contract",)), place, align=4)
        return context.get_dummy_value()

    return _types.void(target, _types.uint64, source, _types.uint64, _types.float32), emit


@_extending.intrinsic  # type: ignore[untyped-decorator]
def prefetch(_context: Any, values: Any, index: Any) -> Any:
    """(values, index): ask for the cache line of values[index], which may lie outside: a hint, not a read."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature.args[0], *arguments, ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [place.type, _INT, _INT, _INT])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(hint, [place, *(ir.Constant(_INT, n) for n in (0, 3, 1))])  # to read, into every cache, data
        return context.get_dummy_value()

    return _types.void(values, _types.int64), emit


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any, content: ir.Type) -> Any:
    data = _arrays.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), content.as_pointer())


def _load(context: Any, builder: Any, kind: Any, array: Any, index: Any, content: ir.Type) -> Any:
    return builder.load(_address(context, builder, kind, array, index, content), align=4)


def _spread(builder: Any, number: Any, content: ir.VectorType) -> Any:
    one = builder.insert_element(ir.Constant(content, ir.Undefined), number, ir.Constant(_INT, 0))
    return builder.shuffle_vector(one, ir.Constant(content, ir.Undefined), ir.Constant(_INTS, [0] * LANES))


def _reduce(builder: Any, operation: str, vector: Any) -> Any:
    name = f"llvm.vector.reduce.{operation}"
    kind = ir.FunctionType(_INT, [_INTS])
    known = builder.module.globals.get(name)
    return builder.call(known or ir.Function(builder.module, kind, name), [vector])
