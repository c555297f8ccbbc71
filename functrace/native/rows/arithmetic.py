"""More elementwise operations: divisions that round, shifts, and functions made of others.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.native.loop_ir import Atom, Builder, Const, DType
from functrace.native.lowering import DEAR, Lowering, NoNativeForm, Operation, Row
from functrace.native.rows import elementwise as rows
from functrace.native.values import Value
from functrace.ops import edges, reductions
from functrace.ops import elementwise as ops

BOOL = np.dtype(bool)


def _integer_quotient(builder: Builder, dtype: DType, x: Atom, y: Atom) -> tuple[Atom, Atom]:
    """Return the quotient that is rounded towards zero, and the rest; fails where NumPy warns."""
    let, zero = builder.let, Const(0, dtype)
    if type(y) is not Const or y.value == 0:
        builder.fail(let("equal", BOOL, y, zero), 1)
    if dtype.kind == "i" and (type(y) is not Const or y.value == -1):
        least = let("equal", BOOL, x, Const(int(np.iinfo(dtype).min), dtype))
        negates = let("equal", BOOL, y, Const(-1, dtype))
        builder.fail(let("and", BOOL, least, negates), 1)
    return let("div", dtype, x, y), let("rest", dtype, x, y)


def _is_below(builder: Builder, dtype: DType, rest: Atom, y: Atom) -> Atom:
    """Return True where a quotient that is not exact is negative."""
    let, zero = builder.let, Const(0, dtype)
    signs = [let("less", BOOL, one, zero) for one in (rest, y)]
    differ = let("not_equal", BOOL, *signs)
    return let("and", BOOL, differ, let("not_equal", BOOL, rest, zero))


def _remainder(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
    if dtype.kind == "f":
        return rows.called(builder, "remainder", dtype, x, y)
    _, rest = _integer_quotient(builder, dtype, x, y)
    if dtype.kind == "u":
        return rest
    moved = builder.let("add", dtype, rest, y)
    return builder.let("select", dtype, _is_below(builder, dtype, rest, y), moved, rest)


def _floor_divide(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
    if dtype.kind == "f":
        return rows.called(builder, "floor_divide", dtype, x, y)
    quotient, rest = _integer_quotient(builder, dtype, x, y)
    if dtype.kind == "u":
        return quotient
    lower = builder.let("sub", dtype, quotient, Const(1, dtype))
    return builder.let("select", dtype, _is_below(builder, dtype, rest, y), lower, quotient)


def _fmod(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
    if dtype.kind == "f":
        return rows.called(builder, "fmod", dtype, x, y)
    return _integer_quotient(builder, dtype, x, y)[1]


def _trunc_divide(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
    _need_float(dtype)
    let = builder.let
    quotient = let("trunc", dtype, let("div", dtype, x, y))
    exact = let("sub", dtype, x, _fmod(builder, dtype, x, y))
    exact = let("rint", dtype, let("div", dtype, exact, y))
    size = let("fabs", dtype, quotient)
    is_finite = let("less", BOOL, size, Const(math.inf, dtype))
    return let("select", dtype, is_finite, exact, quotient)


def _signed_remainder(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
    rest = _remainder(builder, dtype, x, y)
    if dtype.kind != "f":
        return rest
    is_zero = builder.let("equal", BOOL, rest, Const(0.0, dtype))
    signed = builder.let("copysign", dtype, rest, x)
    return builder.let("select", dtype, is_zero, signed, rest)


def _need_float(dtype: DType) -> None:
    if dtype.kind != "f":
        raise NoNativeForm("a function of floats, of integers")


def _shift(op: str) -> rows.Writer:
    def write(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
        let, zero = builder.let, Const(0, dtype)
        inside = let("less", BOOL, y, Const(8 * dtype.itemsize, dtype))
        if dtype.kind == "i":
            inside = let("and", BOOL, inside, let("greater_equal", BOOL, y, zero))
        moved = let(op, dtype, x, let("select", dtype, inside, y, zero))
        rest: Atom = zero
        if dtype.kind == "i" and op == "shift_right":
            negative = let("less", BOOL, x, zero)
            rest = let("select", dtype, negative, Const(-1, dtype), zero)
        return let("select", dtype, inside, moved, rest)

    return write


def _count(builder: Builder, dtype: DType, x: Atom) -> Atom:
    if x.dtype.kind == "i":
        x = builder.let("absolute", x.dtype, x)
    if x.dtype.kind not in "iu":
        raise NoNativeForm("bits of other than integers")
    count = builder.let("count_bits", x.dtype, x)
    return count if x.dtype == dtype else builder.let("convert", dtype, count)


def _rsqrt(builder: Builder, dtype: DType, x: Atom) -> Atom:
    _need_float(x.dtype)
    return builder.let("div", dtype, Const(1.0, dtype), builder.let("sqrt", dtype, x))


def _sgn(builder: Builder, dtype: DType, x: Atom) -> Atom:
    write: Callable[..., Atom] = rows.WRITERS[ops.sign][0]
    sign = write(builder, dtype, x)
    if dtype.kind != "f":
        return sign
    is_nan = builder.let("is_nan", BOOL, x)
    return builder.let("select", dtype, is_nan, Const(0.0, dtype), sign)


def _lerp(builder: Builder, dtype: DType, x: Atom, end: Atom, weight: Atom) -> Atom:
    _need_float(dtype)
    let = builder.let
    way = let("sub", dtype, end, x)
    near = let("add", dtype, x, let("mul", dtype, weight, way))
    rest = let("mul", dtype, way, let("sub", dtype, Const(1.0, dtype), weight))
    is_near = let("less", BOOL, let("fabs", dtype, weight), Const(0.5, dtype))
    return let("select", dtype, is_near, near, let("sub", dtype, end, rest))


def _sinc(builder: Builder, dtype: DType, x: Atom) -> Atom:
    _need_float(x.dtype)
    let = builder.let
    is_zero = let("equal", BOOL, x, Const(0.0, dtype))
    x = let("mul", dtype, x, Const(math.pi, dtype))
    x = let("select", dtype, is_zero, Const(1e-20, dtype), x)
    return let("div", dtype, let("sin", dtype, x), x)


def _same(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
    equal = builder.let("equal", BOOL, x, y)
    if x.dtype.kind != "f" or y.dtype.kind != "f":
        return equal
    both = builder.let("and", BOOL, *[builder.let("is_nan", BOOL, z) for z in (x, y)])
    return builder.let("or", BOOL, equal, both)


WRITERS: Mapping[Primitive, tuple[rows.Writer, int]] = {
    ops.remainder: (_remainder, DEAR),
    ops.floor_divide: (_floor_divide, DEAR),
    ops.fmod: (_fmod, DEAR),
    ops.float_power: (rows.WRITERS[ops.power][0], DEAR),
    ops.left_shift: (_shift("shift_left"), 4),
    ops.right_shift: (_shift("shift_right"), 5),
    ops.bitwise_count: (_count, 3),
    ops.trunc_divide: (_trunc_divide, DEAR),
    edges.signed_remainder: (_signed_remainder, DEAR),
    edges.plain_power: (rows.WRITERS[ops.power][0], DEAR),
    edges.sgn: (_sgn, 4),
    edges.clamp: (rows.WRITERS[ops.clip][0], 4),
}
"""Writers whose operands are in the compute dtypes of the operation."""

CAST: Mapping[Primitive, tuple[rows.Writer, int]] = {
    edges.rsqrt: (_rsqrt, 8),
    edges.lerp: (_lerp, 6),
    ops.sinc: (_sinc, DEAR),
}
"""Writers of floats whose operands are in the dtype of the result."""

KERNELS = {
    edges.plain_hypot: "hypot",
    edges.plain_logaddexp: "logaddexp",
    edges.plain_arccosh: "arccosh",
}
"""Primitives that are kernels of other names."""


def _cast_row(write: rows.Writer, cost: int) -> Row:
    def row(low: Lowering, op: Operation) -> Value:
        dtype = op.dtype

        def element(inner: Lowering, *atoms: Atom) -> Atom:
            return write(inner.builder, dtype, *[inner.cast(x, dtype) for x in atoms])

        return low.elementwise(element, op.operands, op.shape, dtype, cost)

    return row


def _round(low: Lowering, op: Operation) -> Value:
    (decimals,) = op.params
    dtype = op.dtype
    if dtype.kind != "f":
        if decimals < 0 or dtype.kind == "b" or op.operands[0].dtype != dtype:
            raise NoNativeForm("rounding of integers")
        return op.operands[0]
    factor = Const(10.0 ** abs(decimals), dtype)
    before, after = ("mul", "div") if decimals >= 0 else ("div", "mul")

    def element(inner: Lowering, x: Atom) -> Atom:
        let = inner.builder.let
        if not decimals:
            return let("rint", dtype, inner.cast(x, dtype))
        whole = let("rint", dtype, let(before, dtype, inner.cast(x, dtype), factor))
        return let(after, dtype, whole, factor)

    return low.elementwise(element, op.operands, op.shape, dtype, 8)


def _same_row(low: Lowering, op: Operation) -> Value:
    x, y = op.operands
    if x.dtype != y.dtype:
        raise NoNativeForm("a comparison of two dtypes")

    def write(inner: Lowering, *atoms: Atom) -> Atom:
        return _same(inner.builder, BOOL, *atoms)

    return low.elementwise(write, [x, y], op.shape, BOOL, 4)


ROWS: dict[Primitive, Row] = {
    **{primitive: rows.row_of(primitive, *pair) for primitive, pair in WRITERS.items()},
    **{primitive: _cast_row(*pair) for primitive, pair in CAST.items()},
    **{
        primitive: rows.row_of(primitive, rows.kernel(name), DEAR)
        for primitive, name in KERNELS.items()
    },
    ops.round_p: _round,
    reductions.same_p: _same_row,
}
"""Lowering by primitive."""
