"""Elementwise operations.

A writer gets the operands of one element, in the compute dtypes of the operation, and returns the
result. Functions without an instruction are calls of `functrace.native.kernels`.

Layer: 7.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.native.loop_ir import DTYPES, Atom, Builder, Const, DType
from functrace.native.lowering import DEAR, Lowering, NoNativeForm, Operation, Row, extreme
from functrace.native.values import Value
from functrace.ops import edges, shaping
from functrace.ops import elementwise as ops

BOOL = np.dtype(bool)
Writer: TypeAlias = (
    Callable[[Builder, DType, Atom], Atom]
    | Callable[[Builder, DType, Atom, Atom], Atom]
    | Callable[[Builder, DType, Atom, Atom, Atom], Atom]
)
"""``writer(builder, dtype, *operands)``: writes the code of one element."""


def _instruction(op: str, kinds: str = "fiu") -> Writer:
    def write(builder: Builder, dtype: DType, *x: Atom) -> Atom:
        if x[0].dtype.kind not in kinds:
            raise NoNativeForm(f"{op} of {x[0].dtype}")
        return builder.let(op, dtype, *x)

    return write


def kernel(op: str) -> Writer:
    """Return the writer of a kernel."""
    return _instruction(op, "f")


def _unless_integer(op: str) -> Writer:
    """An op of floats that leaves integers as they are."""

    def write(builder: Builder, dtype: DType, x: Atom) -> Atom:
        return builder.let(op, dtype, x) if x.dtype.kind == "f" else x

    return write


def _number(value: float, like: Atom) -> Const:
    return Const(value, like.dtype)


def _add(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
    return builder.let("or" if dtype == BOOL else "add", dtype, x, y)


def _mul(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
    return builder.let("and" if dtype == BOOL else "mul", dtype, x, y)


def _square(builder: Builder, dtype: DType, x: Atom) -> Atom:
    return _mul(builder, dtype, x, x)


def _reciprocal(builder: Builder, dtype: DType, x: Atom) -> Atom:
    if dtype.kind != "f":
        raise NoNativeForm("reciprocal of integers")
    return builder.let("div", dtype, _number(1.0, x), x)


def _power(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
    if dtype.kind in "iu":
        if type(y) is Const and 0 <= y.value <= 64:
            return _repeated(builder, dtype, x, y.value)
        raise NoNativeForm("power of integers")
    if type(y) is Const:
        exponent = float(y.value)
        if exponent in (0.5, 1.5, 2.5):  # (other than a root, of -0.0 it is 0.0, of -inf inf)
            base = builder.let("add", dtype, x, _number(0.0, x))
            root = builder.let("sqrt", dtype, base)
            if exponent > 1:
                whole = _repeated(builder, dtype, base, int(exponent))
                root = builder.let("mul", dtype, whole, root)
            is_infinite = builder.let("equal", BOOL, x, _number(-math.inf, x))
            return builder.let("select", dtype, is_infinite, _number(math.inf, x), root)
        if exponent in (1.0, 2.0, 3.0):
            return _repeated(builder, dtype, x, int(exponent))
        if exponent == -1.0:
            return builder.let("div", dtype, _number(1.0, x), x)
    return called(builder, "power", dtype, x, y)


def _power_of_number(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
    """Return a power whose exponent is one number: of -0.0 and -inf, NumPy's root has other results
    than its power.
    """
    if dtype.kind != "f" or not is_root_of_half():
        return _power(builder, dtype, x, y)
    if type(y) is Const:
        is_root = float(y.value) == 0.5
        return builder.let("sqrt", dtype, x) if is_root else _power(builder, dtype, x, y)
    is_half = builder.let("equal", BOOL, y, _number(0.5, y))
    root = builder.let("sqrt", dtype, builder.let("select", dtype, is_half, x, _number(1.0, x)))
    exponent = builder.let("select", dtype, is_half, _number(1.0, y), y)
    return builder.let("select", dtype, is_half, root, _power(builder, dtype, x, exponent))


@functools.lru_cache(maxsize=1)
def is_root_of_half() -> bool:
    """Return True if ``np.power(x, 0.5)`` is a root (from NumPy 2.4 on)."""
    with np.errstate(all="ignore"):
        return bool(np.isnan(np.power(np.array([-np.inf, -np.inf]), 0.5)).all())


def called(builder: Builder, op: str, dtype: DType, *x: Atom) -> Atom:
    """Call a kernel.

    Raises:
        NoNativeForm: if there is none.
    """
    from functrace.native.kernels import KERNELS as written

    if op not in written:
        raise NoNativeForm(op)
    return builder.let(op, dtype, *x)


def _repeated(builder: Builder, dtype: DType, x: Atom, exponent: int) -> Atom:
    """Return a power by repeated squaring."""
    result: Atom | None = None
    while exponent:
        if exponent & 1:
            result = x if result is None else builder.let("mul", dtype, result, x)
        exponent >>= 1
        if exponent:
            x = builder.let("mul", dtype, x, x)
    return Const(1, dtype) if result is None else result


def _absolute(builder: Builder, dtype: DType, x: Atom) -> Atom:
    if x.dtype.kind == "f":
        return builder.let("fabs", dtype, x)
    return builder.let("absolute", dtype, x) if x.dtype.kind == "i" else x


def _sign(builder: Builder, dtype: DType, x: Atom) -> Atom:
    zero = _number(0, x)
    above = builder.let("greater", BOOL, x, zero)
    negative = _number(-1, x) if x.dtype.kind != "u" else zero
    below = builder.let("less", BOOL, x, zero)
    # (zero and nan are their own signs, but the sign of -0.0 is 0.0)
    rest = builder.let("add", dtype, x, zero)
    return builder.let(
        "select", dtype, above, _number(1, x), builder.let("select", dtype, below, negative, rest)
    )


_BY_ORDER: Mapping[str, tuple[bool, bool]] = {
    "less": (True, False), "less_equal": (True, False),
    "greater": (False, True), "greater_equal": (False, True),
    "equal": (False, False), "not_equal": (True, True),
}  # fmt: skip
"""By comparison, its results where the first operand is smaller, and where it is larger."""


def _comparison(op: str) -> Writer:
    def write(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
        if x.dtype == y.dtype or "u" not in (x.dtype.kind, y.dtype.kind):
            return builder.let(op, BOOL, x, y)
        # A signed and an unsigned integer, which no dtype of integers holds: by sign first.
        is_second, wide = y.dtype.kind == "i", np.dtype(np.uint64)
        signed = y if is_second else x
        is_negative = builder.let("less", BOOL, signed, _number(0, signed))
        both = [z if z.dtype == wide else builder.let("convert", wide, z) for z in (x, y)]
        of_negative = Const(_BY_ORDER[op][is_second], BOOL)
        return builder.let("select", BOOL, is_negative, of_negative, builder.let(op, BOOL, *both))

    return write


def truth(builder: Builder, x: Atom) -> Atom:
    """Return True where a scalar is not zero."""
    if x.dtype == BOOL:
        return x
    return builder.let("not_equal", BOOL, x, _number(0, x))


def _logical(op: str) -> Writer:
    def write(builder: Builder, dtype: DType, *x: Atom) -> Atom:
        return builder.let(op, BOOL, *[truth(builder, one) for one in x])

    return write


def _bitwise(op: str) -> Writer:
    return _instruction(op, "iub")


def _is_nan(builder: Builder, dtype: DType, x: Atom) -> Atom:
    return builder.let("is_nan", BOOL, x) if x.dtype.kind == "f" else Const(False, BOOL)


def _is_inf(builder: Builder, dtype: DType, x: Atom) -> Atom:
    if x.dtype.kind != "f":
        return Const(False, BOOL)
    return builder.let("equal", BOOL, builder.let("fabs", x.dtype, x), _number(math.inf, x))


def _is_finite(builder: Builder, dtype: DType, x: Atom) -> Atom:
    if x.dtype.kind != "f":
        return Const(True, BOOL)
    size = builder.let("fabs", x.dtype, x)
    is_number = builder.let("equal", BOOL, x, x)
    return builder.let(
        "and", BOOL, is_number, builder.let("not_equal", BOOL, size, _number(math.inf, x))
    )


def _sign_bit(builder: Builder, dtype: DType, x: Atom) -> Atom:
    if x.dtype.kind != "f":
        return builder.let("less", BOOL, x, _number(0, x))
    whole = np.dtype(f"i{x.dtype.itemsize}")
    return builder.let("less", BOOL, builder.let("bits", whole, x), Const(0, whole))


def _extreme(op: str) -> Writer:
    return lambda builder, dtype, x, y: extreme(builder, op, x, y)


def _extreme_number(op: str) -> Writer:
    """``fmax`` and ``fmin``: of nan and a number, the number."""

    def write(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
        if x.dtype.kind != "f":
            return extreme(builder, "maximum" if op == "greater" else "minimum", x, y)
        first = builder.let(op, BOOL, x, y)
        first = builder.let("or", BOOL, first, builder.let("is_nan", BOOL, y))
        return builder.let("select", dtype, first, x, y)

    return write


def _clip(builder: Builder, dtype: DType, x: Atom, low: Atom, high: Atom) -> Atom:
    return extreme(builder, "minimum", extreme(builder, "maximum", x, low), high)


def _clip_by_numbers(builder: Builder, dtype: DType, x: Atom, low: Atom, high: Atom) -> Atom:
    """Clip by one number each: a zero between zeros keeps its sign."""
    let, kept = builder.let, x
    for op, bound in (("less", low), ("greater", high)):
        kept = let("select", dtype, let(op, BOOL, kept, bound), bound, kept)
    for bound in (high, low):
        is_number = type(bound) is Const and bound.value == bound.value
        if dtype.kind == "f" and not is_number:
            kept = let("select", dtype, let("is_nan", BOOL, bound), bound, kept)
    return kept


def _relu(builder: Builder, dtype: DType, x: Atom) -> Atom:
    return extreme(builder, "maximum", x, _number(0, x))


def _where(builder: Builder, dtype: DType, condition: Atom, x: Atom, y: Atom) -> Atom:
    return builder.let("select", dtype, condition, x, y)


def _copysign(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
    return builder.let("copysign", dtype, x, y)


def _scaled(function: np.ufunc) -> Writer:
    """A function that multiplies by a constant, which is its value of 1."""

    def write(builder: Builder, dtype: DType, x: Atom) -> Atom:
        if x.dtype.kind != "f":
            raise NoNativeForm(f"{function.__name__} of {x.dtype}")
        factor = function(x.dtype.type(1.0)).item()
        return builder.let("mul", dtype, x, _number(factor, x))

    return write


def _heaviside(builder: Builder, dtype: DType, x: Atom, middle: Atom) -> Atom:
    zero = _number(0.0, x)
    above, is_zero = (builder.let(op, BOOL, x, zero) for op in ("greater", "equal"))
    rest = builder.let("select", dtype, builder.let("is_nan", BOOL, x), x, zero)
    rest = builder.let("select", dtype, is_zero, middle, rest)
    return builder.let("select", dtype, above, _number(1.0, x), rest)


def _same(builder: Builder, dtype: DType, x: Atom) -> Atom:
    return x


def _imag(builder: Builder, dtype: DType, x: Atom) -> Atom:
    return _number(0, x)


def _angle(builder: Builder, dtype: DType, x: Atom) -> Atom:
    if x.dtype.kind != "f":
        raise NoNativeForm("the angle of integers")
    return builder.let("arctan2", dtype, _number(0.0, x), x)


def _complex(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
    return builder.let("complex", dtype, x, y)


WRITERS: Mapping[Primitive, tuple[Writer, int]] = {
    ops.add: (_add, 1),
    ops.sub: (_instruction("sub"), 1),
    ops.mul: (_mul, 1),
    ops.div: (_instruction("div", "f"), 4),
    ops.neg: (_instruction("neg"), 1),
    ops.positive: (_same, 0),
    ops.power: (_power, DEAR),
    ops.square: (_square, 1),
    ops.sqrt: (_instruction("sqrt", "f"), 4),
    ops.sqrt_of_square: (_instruction("sqrt", "f"), 4),
    ops.reciprocal: (_reciprocal, 4),
    ops.maximum: (_extreme("maximum"), 2),
    ops.minimum: (_extreme("minimum"), 2),
    ops.clip_below: (_extreme("maximum"), 2),
    ops.clip_above: (_extreme("minimum"), 2),
    ops.clip: (_clip, 4),
    ops.fmax: (_extreme_number("greater"), 3),
    ops.fmin: (_extreme_number("less"), 3),
    ops.relu: (_relu, 2),
    ops.absolute: (_absolute, 1),
    ops.fabs: (_absolute, 1),
    ops.sign: (_sign, 3),
    ops.floor: (_unless_integer("floor"), 1),
    ops.ceil: (_unless_integer("ceil"), 1),
    ops.trunc: (_unless_integer("trunc"), 1),
    ops.rint: (_unless_integer("rint"), 1),
    ops.copysign: (_copysign, 1),
    ops.deg2rad: (_scaled(np.deg2rad), 1),
    ops.rad2deg: (_scaled(np.rad2deg), 1),
    ops.heaviside: (_heaviside, 4),
    ops.where: (_where, 1),
    ops.conj: (_same, 0),
    ops.real: (_same, 0),
    ops.imag: (_imag, 1),
    ops.angle: (_angle, 2),
    ops.complex_of: (_complex, 1),
    edges.complex_reciprocal: (_reciprocal, 4),
    edges.plain_absolute: (_absolute, 1),
    ops.isnan: (_is_nan, 1),
    ops.isinf: (_is_inf, 2),
    ops.isfinite: (_is_finite, 3),
    ops.signbit: (_sign_bit, 1),
    ops.logical_and: (_logical("and"), 1),
    ops.logical_or: (_logical("or"), 1),
    ops.logical_xor: (_logical("xor"), 1),
    ops.logical_not: (_logical("not"), 1),
    ops.bitwise_and: (_bitwise("and"), 1),
    ops.bitwise_or: (_bitwise("or"), 1),
    ops.bitwise_xor: (_bitwise("xor"), 1),
    ops.invert: (_bitwise("not"), 1),
    **{
        primitive: (_comparison(primitive.name), 1)
        for primitive in (
            ops.equal, ops.not_equal, ops.less, ops.less_equal, ops.greater, ops.greater_equal,
        )
    },
}  # fmt: skip
"""By primitive, the writer and the cost of an element."""

OF_NUMBERS: Mapping[Primitive, Writer] = {
    ops.power: _power_of_number,
    edges.plain_power: _power_of_number,
    ops.clip: _clip_by_numbers,
}
"""Writers for second and third operands of which NumPy's loop has one number."""


def _is_number(op: Operation, x: Value) -> bool:
    """Return True if NumPy's loop reads the same element of an operand at every step."""
    return not x.shape or (math.prod(x.shape) == 1 and math.prod(op.shape) != 1)


COMPLEX_OPS: Mapping[Primitive, str] = {
    ops.add: "add", ops.sub: "sub", ops.mul: "mul", ops.div: "div", ops.neg: "neg",
    ops.conj: "conj", ops.square: "square", ops.reciprocal: "reciprocal", ops.exp: "exp",
    ops.log: "log", ops.sqrt: "sqrt", ops.sin: "sin", ops.cos: "cos", ops.tan: "tan",
    ops.sinh: "sinh", ops.cosh: "cosh", ops.tanh: "tanh", ops.power: "power", ops.sign: "sign",
    ops.absolute: "absolute", ops.equal: "equal", ops.not_equal: "not_equal",
    ops.isnan: "is_nan", ops.isinf: "is_inf", ops.isfinite: "is_finite", ops.real: "real",
    ops.imag: "imag", ops.angle: "angle", edges.complex_reciprocal: "reciprocal",
    edges.plain_absolute: "absolute", edges.sgn: "sign",
}  # fmt: skip
"""By primitive, the op of `functrace.native.complex_numbers`."""

SAME_FOR_COMPLEX = {
    ops.positive, ops.where, ops.stop_gradient, ops.complex_of, ops.logical_and, ops.logical_or,
    ops.logical_xor, ops.logical_not,
}  # fmt: skip
"""Primitives whose writers take complex numbers."""

COMPLEX = frozenset((*COMPLEX_OPS, *SAME_FOR_COMPLEX, shaping.convert_p))
"""Primitives whose native form takes complex numbers."""

KERNELS = (
    ops.exp, ops.exp2, ops.expm1, ops.log, ops.log2, ops.log10, ops.log1p, ops.sin, ops.cos,
    ops.tan, ops.sinh, ops.cosh, ops.tanh, ops.arcsin, ops.arccos, ops.arctan, ops.arctan2,
    ops.arcsinh, ops.arccosh, ops.arctanh, ops.hypot, ops.cbrt, ops.logaddexp, ops.logaddexp2,
    ops.sigmoid,
)  # fmt: skip
"""Primitives of one kernel each, of the same name."""

CASTS_ALL = {ops.sigmoid, ops.relu, ops.stop_gradient}
"""Primitives whose operands have the result's dtype."""


def row_of(primitive: Primitive, write: Writer, cost: int) -> Row:
    """Return the row of an elementwise primitive."""

    def row(low: Lowering, op: Operation) -> Value:
        dtype = op.dtype
        of_numbers = primitive in OF_NUMBERS and all(_is_number(op, x) for x in op.operands[1:])
        run: Callable[..., Atom] = OF_NUMBERS[primitive] if of_numbers else write
        kinds = op.typed.dtypes if primitive not in CASTS_ALL else (dtype,) * len(op.operands)

        def element(inner: Lowering, *atoms: Atom) -> Atom:
            given = [inner.cast(x, kind) for x, kind in zip(atoms, kinds, strict=True)]
            if any(x.dtype.kind == "c" for x in given) and primitive not in SAME_FOR_COMPLEX:
                made = inner.builder.let(COMPLEX_OPS[primitive], dtype, *given)
            else:
                made = run(inner.builder, dtype, *given)
            return inner.cast(made, dtype)

        _check(op, kinds)
        return low.elementwise(element, op.operands, op.shape, dtype, cost)

    return row


def _check(op: Operation, kinds: tuple[Any, ...]) -> None:
    """Raise if the operation computes in a dtype that machine code does not have."""
    for kind in kinds:
        if np.dtype(kind) not in DTYPES:
            raise NoNativeForm(f"{op.primitive.name} of {kind}")


def _convert(low: Lowering, op: Operation) -> Value:
    return low.elementwise(
        lambda inner, x: inner.cast(x, op.dtype), op.operands, op.shape, op.dtype, 1
    )


def _kernel_rows() -> dict[Primitive, Row]:
    from functrace.native.kernels import KERNELS as written

    return {
        primitive: row_of(primitive, kernel(primitive.name), DEAR)
        for primitive in KERNELS
        if primitive.name in written
    }


ROWS: dict[Primitive, Row] = {
    **{primitive: row_of(primitive, write, cost) for primitive, (write, cost) in WRITERS.items()},
    **_kernel_rows(),
    ops.stop_gradient: row_of(ops.stop_gradient, _same, 0),
    shaping.convert_p: _convert,
}
"""Lowering by primitive."""
