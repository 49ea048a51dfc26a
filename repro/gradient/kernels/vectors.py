"""Vectors for the compiled loops, where the compiler would not find them by itself.

Left alone, it keeps running maxima in memory, asks before every run whether the arrays overlap, and does a
run's last numbers one by one. With these a vector is a value that stays in a register, of a size that suits
every processor. Nothing here checks an index: the caller does. What the loops call is in peak_vectors.py and
run_vectors.py, and stands on what is here: types, and pieces of code for Numba's compiler (LLVM). Importing
this imports Numba.
"""

from __future__ import annotations

import importlib
from typing import Any

ir: Any = importlib.import_module("llvmlite.ir")  # neither it nor these of Numba's modules have types
types: Any = importlib.import_module("numba").types
_extending: Any = importlib.import_module("numba.extending")
_arrays: Any = importlib.import_module("numba.np.arrayobj")
intrinsic = _extending.intrinsic

LANES = 8  # of a peak: its three vectors, four times over, must fit a processor's registers
RUN = 16  # of a sum: only one vector each
INT, FLOAT = ir.IntType(32), ir.FloatType()
INTS, FLOATS, RUN_FLOATS = ir.VectorType(INT, LANES), ir.VectorType(FLOAT, LANES), ir.VectorType(FLOAT, RUN)


class Vector(types.Type):  # type: ignore[misc]
    """Numbers side by side in a register, as a type that compiled loops know."""

    def __init__(self, code: Any) -> None:
        self.code = code
        super().__init__(name=str(code))


@_extending.register_model(Vector)
class _Model(_extending.models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.code)


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_context: Any, values: Any, index: Any) -> Any:
    """(values, index): ask for the cache line of values[index], which may lie outside: a hint, not a read."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, index = arguments
        place = address(context, builder, signature.args[0], values, index, ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [place.type, INT, INT, INT])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(
            hint, [place, *(ir.Constant(INT, n) for n in (0, 3, 1))]
        )  # to read, into every cache, data
        return context.get_dummy_value()

    return types.void(values, types.int64), emit


def address(context: Any, builder: Any, kind: Any, array: Any, index: Any, content: Any) -> Any:
    """Where array[index] lies, as a pointer to `content`; `kind` is the array's type."""
    data = _arrays.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), content.as_pointer())


def load(context: Any, builder: Any, kind: Any, array: Any, index: Any, content: Any) -> Any:
    """The `content` that starts at array[index]."""
    return builder.load(address(context, builder, kind, array, index, content), align=4)


def spread(builder: Any, number: Any, content: Any) -> Any:
    """The vector `content` with `number` in every place."""
    one = builder.insert_element(ir.Constant(content, ir.Undefined), number, ir.Constant(INT, 0))
    zeros = ir.Constant(ir.VectorType(INT, content.count), [0] * content.count)
    return builder.shuffle_vector(one, ir.Constant(content, ir.Undefined), zeros)
