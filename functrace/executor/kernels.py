"""NumPy kernels: NumPy calls for primitives that are faster than their ``eval`` rules.

One table serves instruction lists and generated code: a kernel has the function for the former and
the expression for the latter.

Layer: 7.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from functrace.executor.parallel.matmul import in_parts
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ir.tape import Params, Spec
from functrace.ops import elementwise as ew
from functrace.ops.contraction import dot_p, matmul_in_parts_p
from functrace.ops.elementwise import ELEMENTWISE, holds, loop_dtypes
from functrace.ops.indexing import decode_index, embed_p, index_p
from functrace.ops.joining import stack_p
from functrace.ops.reductions import reduce_max_p, reduce_min_p, reduce_sum_p
from functrace.ops.shaping import broadcast_to_p, permute_p, reshape_p, roll_p
from functrace.typing import Array, Scalar

BindValue = Callable[[Any], str]
"""Binds a value to a name in generated code."""
Index = tuple[Any, ...] | slice | int


class Kernel(NamedTuple):
    """NumPy call of an operation.

    Args:
        call: function of the operands.
        spell: returns the expression for the operands (names in generated code); see `BindValue`.
    """

    call: Callable[..., Any]
    spell: Callable[[Sequence[str], BindValue], str]


# -- scalars ---------------------------------------------------------------------------------------


def _operator(call: Callable[..., Any], text: str) -> Kernel:
    def spell(operands: Sequence[str], _bind: BindValue) -> str:
        return text.format(*operands)

    return Kernel(call, spell)


OPERATORS: Mapping[Primitive, Kernel] = {
    ew.add: _operator(operator.add, "{} + {}"),
    ew.sub: _operator(operator.sub, "{} - {}"),
    ew.mul: _operator(operator.mul, "{} * {}"),
    ew.div: _operator(operator.truediv, "{} / {}"),  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    ew.neg: _operator(operator.neg, "-{}"),
    ew.less: _operator(operator.lt, "{} < {}"),
    ew.less_equal: _operator(operator.le, "{} <= {}"),
    ew.greater: _operator(operator.gt, "{} > {}"),
    ew.greater_equal: _operator(operator.ge, "{} >= {}"),
}
"""Operations that NumPy scalars' operators compute exactly as the ufunc does, for single floats.

``a * b`` of two NumPy scalars takes 0.05 us, the ufunc 0.6; both are the same processor
instruction.
"""

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def is_exact_number(value: Scalar) -> bool:
    """Return True if Python operator and ufunc agree on the number, next to a single float."""
    return type(value) in (int, float) and math.isfinite(value) and abs(value) < 1 << 53  # type: ignore[arg-type,operator]


def scalar_operator(
    primitive: Primitive, specs: Sequence[Spec], numbers: Sequence[Scalar]
) -> Kernel | None:
    """Return the operator of an operation whose result is a single number; ``None`` if only the
    ufunc is correct.

    Args:
        primitive: the operation.
        specs: avals of the operands, or types of numbers.
        numbers: the Python numbers among them.
    """
    found = OPERATORS.get(primitive)
    if found is None:
        return None
    kinds = {spec.dtype for spec in specs if isinstance(spec, ShapeDtype)}
    return (
        found
        if len(kinds) == 1 and kinds.issubset(FLOATS) and all(map(is_exact_number, numbers))
        else None
    )


def number_array(
    primitive: Primitive, specs: Sequence[Spec], place: int, value: Scalar
) -> Array | None:
    """Return a Python number as a 0-d array of the dtype to which a ufunc converts it (NEP 50).

    Measured on 3 elements: multiply(x, 1.01) 0.33 us, multiply(x, array(1.01)) 0.22 us.

    Returns:
        ``None`` if it stays a number: for other functions, for dtypes that are not floating or do
        not hold it.
    """
    dtype = number_dtype(primitive, specs, place)
    return None if dtype is None else as_number_array(dtype, value)


def as_number_array(dtype: np.dtype[Any], value: Scalar) -> Array | None:
    """Return a Python number as an array of a floating dtype, ``None`` if that does not hold it."""
    return (
        np.asarray(value, dtype)
        if (dtype is FLOATS[0] and type(value) is float) or holds(dtype, value)
        else None
    )


def number_dtype(primitive: Primitive, specs: Sequence[Spec], place: int) -> np.dtype[Any] | None:
    """Return the floating dtype to which a ufunc converts a Python number, ``None`` if it stays a
    number.
    """
    if not isinstance(primitive.eval, np.ufunc) or specs[place] not in (int, float):
        return None
    return _floating_dtype(
        primitive.eval, tuple([s.dtype if isinstance(s, ShapeDtype) else s for s in specs]), place
    )


@functools.lru_cache(maxsize=256)
def _floating_dtype(ufunc: np.ufunc, kinds: tuple[Any, ...], place: int) -> np.dtype[Any] | None:
    specs: list[Spec] = [kind if isinstance(kind, type) else ShapeDtype((), kind) for kind in kinds]
    wanted = loop_dtypes(ufunc, specs)[place]
    return wanted if wanted.kind == "f" else None


# -- the table -------------------------------------------------------------------------------------


def _named(function: Callable[..., Any], *static: object) -> Kernel:
    """Return the kernel of a function of operands, then static arguments."""

    def spell(operands: Sequence[str], bind: BindValue) -> str:
        return f"{bind(function)}({', '.join([*operands, *[_spelled(value, bind) for value in static]])})"

    def call(*operands: object) -> Any:
        return function(*operands, *static)

    return Kernel(call if static else function, spell)


def _method(name: str, *static: object) -> Kernel:
    """Return the kernel of a method of the first operand."""

    def spell(operands: Sequence[str], bind: BindValue) -> str:
        return f"{operands[0]}.{name}({', '.join([*operands[1:], *[_spelled(value, bind) for value in static]])})"

    return Kernel(operator.methodcaller(name, *static), spell)


def _spelled(value: object, bind: BindValue) -> str:
    """Spell a static argument; only integers are spelled in the source, all other values are bound
    to names.
    """
    parts: Any = value
    is_sizes = type(value) is tuple and all(isinstance(n, int) for n in parts)  # or unknown
    return spelled_sizes(parts) if is_sizes else bind(value)


def spelled_sizes(numbers: tuple[int, ...]) -> str:
    """Spell sizes or axes; only integers reach the source."""
    return f"({''.join([f'{int.__repr__(operator.index(n))}, ' for n in numbers])})"


def _index(params: Params) -> Kernel:
    parts = decode_index(params[0])
    index = parts[0] if len(parts) == 1 else parts

    def spell(operands: Sequence[str], bind: BindValue) -> str:
        return f"{operands[0]}[{bind(index)}]"

    return Kernel(operator.itemgetter(index), spell)


def _reduce_by(ufunc: np.ufunc) -> Callable[[Params], Kernel]:
    # Measured on 9 elements: 0.5 us with the default axis 0, 1.2 us with an axis argument.
    reduce = ufunc.reduce
    first = _named(reduce)
    return lambda params: first if params[0] == (0,) else _named(reduce, params[0])


def _dot(_params: Params) -> Kernel:
    # The method is 0.15 us faster than the function.
    def spell(operands: Sequence[str], _bind: BindValue) -> str:
        return f"{operands[0]}.dot({', '.join(operands[1:])})"

    return Kernel(np.dot, spell)


def _stack(params: Params) -> Kernel:
    (axis,) = params

    def call(*operands: Array) -> Any:
        return stacked(operands, axis)

    def spell(operands: Sequence[str], bind: BindValue) -> str:
        return f"{bind(stacked)}(({''.join([f'{name}, ' for name in operands])}), {bind(axis)})"

    return Kernel(call, spell)


def stacked(arrays: tuple[Array, ...], axis: int) -> Any:
    """Return ``np.stack``. Measured on three numbers: 0.6 us, against 5.9; on three vectors 0.8 or
    2.1, against 4.7.
    """
    first = arrays[0]
    dtype, rank = first.dtype, first.ndim
    if rank > 1:
        return np.stack(arrays, axis)
    for x in arrays:
        if x.dtype is not dtype:
            return np.stack(arrays, axis)
    if not axis:
        return np.array(arrays)
    out = np.empty((first.shape[0], len(arrays)), dtype)
    for k, x in enumerate(arrays):
        out[:, k] = x
    return out


def _broadcast_to(params: Params) -> Kernel:
    # Generated code materializes small results, if that is not observable (`layout_sensitive`): 0.3
    # us, against 2.5 for broadcast_to.
    (shape,) = params
    spelled = _named(np.broadcast_to if math.prod(shape) > 4096 else filled, shape)

    def call(x: Array) -> Any:
        return broadcasted(x, shape)

    return Kernel(call, spelled.spell)


def broadcasted(x: Array | Scalar, shape: tuple[int, ...]) -> Any:
    """Return ``np.broadcast_to``; for a single number in 0.6 us, against 2.5."""
    x = np.asarray(x)  # a packed array (`functrace.control.residuals.PackedArray`) unpacks itself
    if x.ndim:
        return np.broadcast_to(x, shape)
    out = np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
    out.flags.writeable = False
    return out


def filled(x: Array, shape: tuple[int, ...]) -> Any:
    """Return ``x`` broadcast to a shape, in new memory."""
    out = np.empty(shape, x.dtype if hasattr(x, "dtype") else np.result_type(x))
    out[...] = x
    return out


def rolled(x: Array, shift: int, axis: int) -> Any:
    """Return ``np.roll`` along one axis, by two slice assignments. Measured on 256 x 256: 6 us,
    against 10.
    """
    out = np.empty_like(x)
    n = x.shape[axis]
    shift = shift % n if n else 0
    before = (slice(None),) * axis
    out[(*before, slice(shift, None))] = x[(*before, slice(None, n - shift))]
    if shift:
        out[(*before, slice(None, shift))] = x[(*before, slice(n - shift, None))]
    return out


def _embed(params: Params) -> Kernel:
    parts = decode_index(params[0])
    index = parts[0] if len(parts) == 1 else parts
    margins, shape = _margins(parts, params[1]), params[1]
    if margins is not None:  # on 200 x 200: 15 us, against 18 us by `embedded`
        return _named(embedded_between, index, shape, margins)

    def call(x: Array) -> Any:
        out = np.zeros(shape, x.dtype)
        out[index] = x
        return out

    return Kernel(call, _named(embedded, index, shape).spell)


def embedded(x: Array, index: Index, shape: tuple[int, ...]) -> Any:
    """Return zeros with ``x`` written at a decoded index."""
    out = np.zeros(shape, x.dtype)
    out[index] = x
    return out


def _margins(parts: tuple[Any, ...], shape: tuple[int, ...]) -> list[tuple[slice, ...]] | None:
    """Return the complement of a contiguous index, as a list of indices; ``None`` if it is larger
    than the index itself.
    """
    if not all(type(part) is slice for part in parts) or math.prod(shape) < 4096:
        return None
    found: list[tuple[slice, ...]] = []
    inside = 1.0
    before: tuple[slice, ...] = ()
    for part, n in zip(parts, shape, strict=False):
        start, stop, step = part.indices(n)
        if step != 1 or stop <= start:
            return None
        found += [(*before, s) for s in (slice(0, start), slice(stop, n)) if s.start < s.stop]
        before = (*before, slice(start, stop))
        inside *= (stop - start) / n
    return found if inside > 0.5 else None


def embedded_between(
    x: Array, index: Index, shape: tuple[int, ...], margins: list[tuple[slice, ...]]
) -> Any:
    """Return ``x`` written at an index, and zeros around it."""
    out = np.empty(shape, x.dtype)
    out[index] = x
    for margin in margins:
        out[margin] = 0
    return out


def layout_sensitive(program: Program) -> set[int]:
    """Return variables whose memory layout can change the rounding of an operation that reads them,
    also through views.

    Elementwise operations are independent of layout. A matrix product is not: NumPy does not call
    BLAS for strides of 0.
    """
    found: set[int] = set()
    for k in range(len(program.ops) - 1, -1, -1):
        primitive, operands, _ = program.ops[k]
        if primitive.batch is not ELEMENTWISE and (not primitive.view or k in found):
            found.update(operands)
    return found


KERNELS: Mapping[Primitive, Callable[[Params], Kernel]] = {
    broadcast_to_p: _broadcast_to,
    dot_p: _dot,
    embed_p: _embed,
    index_p: _index,
    matmul_in_parts_p: lambda _: _named(in_parts),
    reduce_max_p: _reduce_by(np.maximum),
    reduce_min_p: _reduce_by(np.minimum),
    reduce_sum_p: _reduce_by(np.add),
    reshape_p: lambda params: _method("reshape", params[0]),
    permute_p: lambda params: _method("transpose", params[0]),
    roll_p: lambda params: _named(rolled, *params),
    stack_p: _stack,
}
"""Kernels by primitive, as functions of the params."""


# -- spelling of operands --------------------------------------------------------------------------

_BY_WORD = (np.maximum, np.minimum)
"""Ufuncs that require ``out=``; for others the target is a positional argument, which is 0.03 us
faster.
"""


def spelled_target(primitive: Primitive, target: str) -> str:
    """Spell the array that a ufunc writes its result into."""
    return f"out={target}" if primitive.eval in _BY_WORD else target


def spelled_literal(program: Program, i: int, k: int, bind_value: BindValue) -> str:
    """Spell a Python number among the operands of an operation."""
    value = program.literals[~i]
    primitive, operands, _ = program.ops[k]
    array = number_array(primitive, tuple(map(program.spec, operands)), operands.index(i), value)
    if array is not None:
        return bind_value(array)
    kind = type(value)
    if (
        kind is bool
        or (kind is int and abs(value) < 1 << 63)
        or (type(value) is float and math.isfinite(value))
    ):
        return repr(value)
    return bind_value(
        value
    )  # the repr of 1-0j is 1+0j, inf is a name, and an int may be too long to be read
