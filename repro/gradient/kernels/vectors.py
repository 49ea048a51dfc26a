"""Vectors for the compiled loops, where the compiler would not find them by itself.

Left alone, it keeps running maxima in memory, asks before every run whether the arrays overlap, and does a run's last
numbers one by one. With these a vector is a value that stays in a register, of a size that suits every processor.
Nothing here checks an index: the caller does. Importing this imports Numba.
"""

from __future__ import annotations

import importlib
from typing import Any

ir: Any = importlib.import_module("llvmlite.ir")  # neither it nor these of Numba's modules have types
_extending: Any = importlib.import_module("numba.extending")
_types: Any = importlib.import_module("numba").types
_arrays: Any = importlib.import_module("numba.np.arrayobj")

LANES = 8  # of a peak: its three vectors, four times over, must fit a processor's registers
RUN = 16  # of a sum: only one vector each
_BIT, _INT, _FLOAT = ir.IntType(1), ir.IntType(32), ir.FloatType()
_INTS, _FLOATS, _RUN = ir.VectorType(_INT, LANES), ir.VectorType(_FLOAT, LANES), ir.VectorType(_FLOAT, RUN)
_NO_SIGN = ir.Constant(_INTS, [0x7FFFFFFF] * LANES)
_NUMBERED = ir.Constant(_INTS, list(range(LANES)))
_NEVER = ir.Constant(_INTS, [0x7FFFFFFF] * LANES)


class _Vector(_types.Type):  # type: ignore[misc]
    """Numbers side by side in a register, as a type that compiled loops know."""

    def __init__(self, code: Any) -> None:
        self.code = code
        super().__init__(name=str(code))


@_extending.register_model(_Vector)
class _Model(_extending.models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.code)


_ints, _floats, _run = _Vector(_INTS), _Vector(_FLOATS), _Vector(_RUN)
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
def take(_context: Any, values: Any, index: Any) -> Any:
    """(values float32, index) -> the sixteen from values[index] on."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, index = arguments
        return _load(context, builder, signature.args[0], values, index, _RUN)

    return _run(values, _types.uint64), emit


@_extending.intrinsic  # type: ignore[untyped-decorator]
def keep(_context: Any, values: Any, index: Any, run: Any) -> Any:
    """(values float32, index, sixteen): write them to values[index : index + 16]."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, index, run = arguments
        builder.store(run, _address(context, builder, signature.args[0], values, index, _RUN), align=4)
        return context.get_dummy_value()

    return _types.void(values, _types.uint64, _run), emit


@_extending.intrinsic  # type: ignore[untyped-decorator]
def add_times(_context: Any, run: Any, factor: Any, values: Any, index: Any) -> Any:
    """(sixteen, factor, values float32, index) -> sixteen + factor * values[index : index + 16]."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        run, factor, values, index = arguments
        value = _load(context, builder, signature.args[2], values, index, _RUN)
        product = builder.fmul(value, _spread(builder, factor, _RUN), flags=("contract",))
        return builder.fadd(run, product, flags=("contract",))

    return _run(_run, _types.float32, values, _types.uint64), emit


@_extending.intrinsic  # type: ignore[untyped-decorator]
def within(_context: Any, values: Any, index: Any, more: Any, end: Any) -> Any:
    """(values int32, index, more int32, end int32) -> as sixteen bits: 0 <= values[index : index + 16] + more < end."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, index, more, end = arguments
        sixteen = ir.VectorType(_INT, RUN)
        value = _load(context, builder, signature.args[0], values, index, sixteen)
        moved = builder.add(value, _spread(builder, more, sixteen))
        below = builder.icmp_unsigned("<", moved, _spread(builder, end, sixteen))  # below 0 is large without its sign
        return builder.zext(builder.bitcast(below, ir.IntType(RUN)), ir.IntType(64))

    return _types.uint64(values, _types.uint64, _types.int32, _types.int32), emit


@_extending.intrinsic  # type: ignore[untyped-decorator]
def lowest(_context: Any, bits: Any) -> Any:
    """(bits uint64, not 0) -> number of the lowest bit that is set."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(_BIT, 1))

    return _types.uint64(_types.uint64), emit


@_extending.intrinsic  # type: ignore[untyped-decorator]
def turn(_context: Any, target: Any, there: Any, apart: Any, source: Any, here: Any, distance: Any) -> Any:
    """Transpose eight rows of eight: (target, there, apart, source, here, distance), all float32 and uint64.

    Row k is read from source[here + k * distance], column k written to target[there + k * apart].
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, there, apart, source, here, distance = arguments

        def places(kind: int, array: Any, start: Any, step: Any) -> list[Any]:
            found = []
            for _ in range(LANES):
                found.append(_address(context, builder, signature.args[kind], array, start, _FLOATS))
                start = builder.add(start, step)
            return found

        rows = [builder.load(place, align=4) for place in places(3, source, here, distance)]
        for step in (4, 2, 1):  # exchange the blocks beside the diagonal, of half the size each time
            first = ir.Constant(_INTS, [lane if not lane & step else LANES + lane - step for lane in range(LANES)])
            second = ir.Constant(_INTS, [lane + step if not lane & step else LANES + lane for lane in range(LANES)])
            for k in (k for k in range(LANES) if not k & step):
                one, other = rows[k], rows[k + step]
                rows[k] = builder.shuffle_vector(one, other, first)
                rows[k + step] = builder.shuffle_vector(one, other, second)
        for row, place in zip(rows, places(0, target, there, apart), strict=True):
            builder.store(row, place, align=4)
        return context.get_dummy_value()

    number = _types.uint64
    return _types.void(target, number, number, source, number, number), emit


@_extending.intrinsic  # type: ignore[untyped-decorator]
def prefetch(_context: Any, values: Any, index: Any) -> Any:
    """(values, index): ask for the cache line of values[index], which may lie outside: a hint, not a read."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, index = arguments
        place = _address(context, builder, signature.args[0], values, index, ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [place.type, _INT, _INT, _INT])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(hint, [place, *(ir.Constant(_INT, n) for n in (0, 3, 1))])  # to read, into every cache, data
        return context.get_dummy_value()

    return _types.void(values, _types.int64), emit


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any, content: Any) -> Any:
    data = _arrays.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), content.as_pointer())


def _load(context: Any, builder: Any, kind: Any, array: Any, index: Any, content: Any) -> Any:
    return builder.load(_address(context, builder, kind, array, index, content), align=4)


def _spread(builder: Any, number: Any, content: Any) -> Any:
    one = builder.insert_element(ir.Constant(content, ir.Undefined), number, ir.Constant(_INT, 0))
    zeros = ir.Constant(ir.VectorType(_INT, content.count), [0] * content.count)
    return builder.shuffle_vector(one, ir.Constant(content, ir.Undefined), zeros)


def _reduce(builder: Any, operation: str, vector: Any) -> Any:
    name = f"llvm.vector.reduce.{operation}"
    kind = ir.FunctionType(_INT, [_INTS])
    known = builder.module.globals.get(name)
    return builder.call(known or ir.Function(builder.module, kind, name), [vector])
