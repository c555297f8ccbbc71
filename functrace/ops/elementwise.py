"""Elementwise primitives: NumPy's ufuncs, one row each.

A row names the primitive, the NumPy function and the partial derivatives. A derivative is a
function of the operands and the output, written with ordinary operators; ``None`` means "no
derivative by this operand" (it is inactive: piecewise constant, or not a float). Primitives
broadcast like ufuncs; the transforms, never a rule here, sum cotangents back
(transforms/transpose.py) and align ranks under vmap (transforms/vmap.py).

Note [Kinks and ties]
    Where a function has no derivative, one is chosen, equal to PyTorch's if PyTorch has one:
    abs'(0) = 0, relu'(0) = 0, sign' = 0, sqrt'(0) = inf, arctan2'(0, 0) = 0; maximum and minimum
    split ties evenly, and next to nan give each operand all of it; on a tie of fmax and fmin the
    first operand has it. PyTorch's derivatives of hypot at (0, 0), and of logaddexp where both
    operands are the same infinity, are nan; here they are 0, and one half each.

Note [Precision of partial derivatives]
    A ufunc casts its operands to the dtypes of one of its loops: ``arctan2(float64, int8)`` is
    computed in float64. Its partial derivatives are computed from operands cast likewise
    (`in_loop_dtypes`); otherwise they would overflow or round where the function does not: 100
    squared is 16 in int8. Python numbers are left as they are (NEP 50), since rules read them; a
    rule that computes with a number alone casts it to the output's dtype first (`_typed`).

Layer: 2.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from functrace.errors import DtypeError, ShapeError
from functrace.ir.aval import ShapeDtype, broadcast_shapes
from functrace.ir.primitive import (
    ZERO,
    LinearOperand,
    NoRule,
    Operand,
    Params,
    Primitive,
    Rule,
    RuleMarker,
    Tangents,
    Values,
    absent,
    is_linear,
)
from functrace.ir.symbolic_numbers import computed
from functrace.ir.tape import Spec
from functrace.ops import counts
from functrace.ops.broadcasting import ELEMENTWISE, Elementwise
from functrace.ops.shaping import convert, part_aval, real
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array, Scalar

if TYPE_CHECKING:
    from functrace.ir.primitive import Jvps
    from functrace.typing import Function

Partial = Callable[..., Any] | None

_EXAMPLES: dict[type, Any] = {bool: False, int: 0, float: 0.0, complex: 0j}
WEAK = (int, float, complex)
"""Types of Python numbers that adopt the dtype of the arrays next to them."""
_BOOL = np.dtype(bool)


def broadcast_shape(name: str, specs: tuple[Spec, ...]) -> tuple[int, ...]:
    """Return the shape that operands broadcast to; raises `ShapeError` naming the avals."""
    shapes = [spec.shape for spec in specs if isinstance(spec, ShapeDtype)]
    try:
        return broadcast_shapes(*shapes)
    except ValueError:
        avals = " and ".join(repr(spec) for spec in specs if isinstance(spec, ShapeDtype))
        raise ShapeError(
            f"{name} cannot broadcast {avals}",
            fix="make the sizes equal, or 1, axis by axis from the last; x[:, None] adds an axis",
        ) from None


def result_dtype(*specs: Spec) -> np.dtype[Any]:
    """Return the dtype that operands promote to (NEP 50: Python numbers are weak)."""
    return np.result_type(*(s.dtype if isinstance(s, ShapeDtype) else _EXAMPLES[s] for s in specs))


def loop_dtypes(ufunc: np.ufunc, specs: Sequence[Spec]) -> tuple[np.dtype[Any], ...]:
    """Return the dtypes of the loop that NumPy chooses, of operands and then of results (Python
    bools are never weak).

    Raises:
        TypeError: if there is no such loop.
    """
    kinds = tuple(
        [s.dtype if isinstance(s, ShapeDtype) else _BOOL if s is bool else s for s in specs]
    )
    if all(isinstance(kind, type) for kind in kinds):
        kinds = tuple([np.dtype(kind) for kind in kinds])
    return ufunc.resolve_dtypes(kinds + (None,) * ufunc.nout)


def _range(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return (float(np.finfo(dtype).min), float(np.finfo(dtype).max)) if dtype.kind != "b" else (0, 1)


_LIMITS = {np.dtype(code): _range(np.dtype(code)) for code in "?bBhHiIlLqQefdgFDG"}
"""The least and the greatest number of a dtype, as Python numbers."""


def holds(dtype: np.dtype[Any], value: Scalar) -> bool:
    """Return True if NumPy converts a Python number to a dtype without an error or a warning."""
    limits = _LIMITS.get(dtype)
    if limits is None:
        return False
    low, high = limits
    parts = (value.real, value.imag) if type(value) is complex else (value,)
    return all(
        low <= part <= high or (type(part) is float and not math.isfinite(part)) for part in parts
    )


def ufunc_aval(name: str, ufunc: np.ufunc) -> Rule:
    """Return the aval rule of a ufunc, which gets the result dtypes from NumPy."""

    def aval(*specs: Spec) -> Any:
        try:
            dtypes = loop_dtypes(ufunc, specs)[ufunc.nin :]
        except TypeError as error:
            avals = ", ".join(repr(s) if isinstance(s, ShapeDtype) else s.__name__ for s in specs)
            raise DtypeError(
                f"{name} is not defined for {avals}", fix="convert the operands with .astype"
            ) from error
        shape = broadcast_shape(name, specs)
        results = tuple(ShapeDtype(shape, dtype) for dtype in dtypes)
        return results[0] if len(results) == 1 else results

    return aval


def in_loop_dtypes(ufunc: np.ufunc, operands: Params, output: Array) -> Params:
    """Cast operands to a ufunc's loop dtypes; see Note [Precision of partial derivatives]."""
    dtype = output.dtype
    for x in operands:
        if getattr(x, "dtype", dtype) is not dtype or x.__class__ is bool:
            break
    else:
        return operands
    loop = loop_dtypes(
        ufunc,
        [x.__class__ if x.__class__ in _EXAMPLES else ShapeDtype((), x.dtype) for x in operands],
    )
    return tuple(
        [x if x.__class__ in WEAK else _cast(x, to) for x, to in zip(operands, loop, strict=False)]
    )


def _cast(x: Value, dtype: np.dtype[Any]) -> Any:
    """Convert to the precision of a dtype; real numbers stay real."""
    if x.__class__ is bool:
        return dtype.type(x)
    if dtype.kind == "c" and x.dtype.kind != "c":  # type: ignore[union-attr]
        dtype = dtype.type(0).real.dtype
    return convert(x, dtype)  # type: ignore[type-var]


def jvp_from(
    partials: tuple[Function[Any] | None, ...],
    cast: Callable[[Params, Array], Sequence[Value]] | None = None,
) -> Rule | RuleMarker:
    """Return the jvp rule of partial derivatives; see `elementwise`.

    Args:
        partials: one for each operand, or ``None``.
        cast: called with the operands (if there are several) and the output; returns operands in
            the dtypes to compute in.
    """
    rules: list[Partial] = [*partials]
    if not any(rules):
        return ZERO
    if len(rules) == 1:
        (partial,) = rules

        def unary(primals: Values, outputs: Values, tangents: tuple[Array]) -> Any:
            return mul(tangents[0], partial(primals[0], outputs[0]))  # type: ignore[misc]

        return unary

    def jvp(primals: Values, outputs: Values, tangents: Tangents) -> Any:
        output, total = outputs[0], None
        operands = primals if cast is None else cast(primals, output)
        for tangent, partial in zip(tangents, rules, strict=True):
            if tangent is not None and partial is not None:
                term = mul(tangent, partial(*operands, output))
                total = term if total is None else add(total, term)
        return total

    return jvp


def elementwise(
    name: str,
    ufunc: np.ufunc,
    *deriv: Function[Any] | None,
    jvp: Jvps | RuleMarker | None = None,
    transpose: Function[Any] | NoRule | None = None,
    fails: Function[bool] | None = None,
    check: Rule | None = None,
    flops: Rule | None = None,
    source: str = "",
    blind: bool = False,
    written: str | None = None,
) -> Elementwise:
    """Make the primitive of a ufunc.

    Args:
        name: name in listings.
        ufunc: the NumPy function.
        deriv: one partial derivative per operand, ``(*operands, output) -> factor``, or ``None``.
        jvp: the rule itself, if partial derivatives do not express it well.
        transpose: the rule, for primitives that are linear in an operand.
        fails, check, flops: see `Primitive`.
        source: source of the formula (DLMF number, …), unless it is elementary.
        blind: True if the rule forwards numbers without reading them, see `Primitive`.
        written: spelling in NumPy source, if the ufunc has no name in NumPy.
    """
    if jvp is None:
        jvp = jvp_from(deriv, functools.partial(in_loop_dtypes, ufunc))
        home = next((partial.__module__ for partial in deriv if partial is not None), None)
        if home is not None and not isinstance(jvp, RuleMarker):
            jvp.__module__ = home  # the module with the primitive's name, for pickling
    return Elementwise(
        name,
        eval=ufunc,
        aval=ufunc_aval(name, ufunc),
        jvp=jvp,
        transpose=transpose
        or absent(
            because=f"{name} is not linear",
            instead="differentiate with functrace.vjp or functrace.grad instead",
        ),
        batch=ELEMENTWISE,
        many=ufunc.nout > 1,
        fails=fails,
        check=check,
        flops=flops,
        source=source,
        blind=blind,
        written=written,
    )


# -- arithmetic: linear in an operand, with transposes ---------------------------------------------


def plus(first: Array | None, second: Array | None) -> Any:
    """Add two parts of a tangent, either of which may be None."""
    return second if first is None else first if second is None else add(first, second)


def _add_jvp(_primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    return plus(*tangents)


def _sub_jvp(_primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    a, b = tangents
    return a if b is None else neg(b) if a is None else sub(a, b)


def _add_transpose(ct: Array, x: Operand, y: Operand) -> Any:
    return ct if is_linear(x) else None, ct if is_linear(y) else None


def _sub_transpose(ct: Array, x: Operand, y: Operand) -> Any:
    return ct if is_linear(x) else None, neg(ct) if is_linear(y) else None


def _mul_transpose(ct: Array, x: Operand, y: Operand) -> Any:
    return (mul(ct, y), None) if is_linear(x) else (None, mul(x, ct))


def _mul_jvp(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    (x, y), (a, b) = primals, tangents
    return plus(None if a is None else mul(a, y), None if b is None else mul(x, b))


def _div_jvp(primals: Values, outputs: Values, tangents: Tangents) -> Any:
    (_, y), (a, b) = primals, tangents
    return plus(
        None if a is None else div(a, y), None if b is None else mul(b, neg(div(outputs[0], y)))
    )


add = elementwise("add", np.add, jvp=_add_jvp, transpose=_add_transpose, blind=True)
sub = elementwise("sub", np.subtract, jvp=_sub_jvp, transpose=_sub_transpose, blind=True)
mul = elementwise("mul", np.multiply, jvp=_mul_jvp, transpose=_mul_transpose, blind=True)
div = elementwise(
    "div", np.divide, jvp=_div_jvp, transpose=lambda ct, x, y: (div(ct, y), None), blind=True
)
neg = elementwise(
    "neg", np.negative, jvp=lambda p, o, t: neg(t[0]), transpose=lambda ct, x: (neg(ct),)
)
positive = elementwise(
    "positive",
    np.positive,
    jvp=lambda p, o, t: t[0],
    transpose=lambda ct, x: (ct,),
    flops=counts.moved,
)

# -- powers ----------------------------------------------------------------------------------------


def _typed(x: Value, o: Array) -> Any:
    """Cast a Python number to the output's dtype, for computations with it alone."""
    return o.dtype.type(x) if x.__class__ in _EXAMPLES else x


def _one_less(n: float, dtype: np.dtype[Any]) -> float:
    """Return a concrete exponent less 1, rounded to the output's precision."""
    if type(n) is int and abs(n) < 1000:
        return n - 1
    real_type = dtype.type(0).real.dtype.type
    return float(real_type(n) - real_type(1))


def _power_base(x: Array, n: Value, o: Array) -> Any:
    if n.__class__ is int or n.__class__ is float:
        if n == 0:
            return 0.0
        if n == 1:
            return 1.0
        if n == 2:
            return mul(x, 2.0)
        return mul(power(x, computed(_one_less, n, o.dtype)), n)
    return _power_slope(power, x, n, o)


def _power_slope(primitive: Elementwise, x: Value, n: Value, o: Array) -> Any:
    """Derivative by the base, where the exponent may carry a derivative: at n = 0 it is 0, but its
    derivative by n is 1 / x. Only where 1 / x overflows it is the constant 0."""
    x, tiny = _typed(x, o), np.finfo(o.dtype).tiny
    lost = logical_and(equal(n, 0), logical_not(greater_equal(absolute(x), tiny)))
    return where(lost, 0.0, mul(n, primitive(where(lost, 1, x), sub(n, 1))))


def _power_exponent(x: Array, n: Value, o: Array) -> Any:
    # d/dn x**n = x**n log x; at x = 0 the limit for n > 0 is 0.
    # For n < 0 both factors are infinite there.
    x = _typed(x, o)
    zero = equal(x, 0)
    return where(zero, _either(less(n, 0), -math.inf, 0.0, o), mul(o, log(where(zero, 1, x))))


def _either(condition: Value, x: float, y: float, like: Array) -> Any:
    """Select one of two numbers, in the dtype of an array: numbers alone would be float64."""
    kind = like.dtype.type
    return where(condition, kind(x), kind(y))


def _is_integer_power(x: Spec, n: Spec) -> bool:
    return result_dtype(x, n).kind in "iu" and not (_is_empty(x) or _is_empty(n))


def _is_empty(spec: Spec) -> bool:
    return isinstance(spec, ShapeDtype) and 0 in spec.shape


def _power_check(value: Callable[[int], Any], _x: Spec, _n: Spec) -> None:
    n = value(1)
    if n is not None and np.any(np.less(n, 0)):
        raise ValueError("Integers to negative integer powers are not allowed.")


power = elementwise(
    "power",
    np.power,
    _power_base,
    _power_exponent,
    fails=_is_integer_power,
    check=_power_check,
    source="DLMF 4.2.26",
)
float_power = elementwise(
    "float_power",
    np.float_power,
    lambda x, n, o: _power_slope(float_power, x, n, o),
    _power_exponent,
)
square = elementwise("square", np.square, lambda x, o: mul(x, 2.0))
sqrt = elementwise("sqrt", np.sqrt, lambda x, o: div(0.5, o))
cbrt = elementwise("cbrt", np.cbrt, lambda x, o: div(1 / 3, square(o)))
reciprocal = elementwise("reciprocal", np.reciprocal, lambda x, o: neg(square(o)))

# -- exponentials and logarithms -------------------------------------------------------------------

exp = elementwise("exp", np.exp, lambda x, o: o)
exp2 = elementwise("exp2", np.exp2, lambda x, o: mul(o, math.log(2)))
expm1 = elementwise("expm1", np.expm1, lambda x, o: add(o, 1.0))
log = elementwise("log", np.log, lambda x, o: reciprocal(x))
log2 = elementwise("log2", np.log2, lambda x, o: div(1 / math.log(2), x))
log10 = elementwise("log10", np.log10, lambda x, o: div(1 / math.log(10), x))
log1p = elementwise("log1p", np.log1p, lambda x, o: reciprocal(add(x, 1.0)))


def _logaddexp_partials(scale: float) -> tuple[Partial, Partial]:
    def share(x: Value, y: Value, o: Array) -> Any:
        x, y = _typed(x, o), _typed(y, o)
        # From the difference, which is exact where exp(x - o) is not; equal infinities get half
        # each.
        same = logical_and(isinf(x), equal(x, y))
        apart = sub(where(same, 0.0, x), where(same, 0.0, y))
        return sigmoid(apart if scale == 1.0 else mul(apart, scale))

    def other_share(x: Value, y: Value, o: Array) -> Any:
        return share(y, x, o)

    return share, other_share


logaddexp = elementwise("logaddexp", np.logaddexp, *_logaddexp_partials(1.0))
logaddexp2 = elementwise("logaddexp2", np.logaddexp2, *_logaddexp_partials(math.log(2)))

# -- trigonometry, DLMF 4.20 and 4.24 --------------------------------------------------------------

sin = elementwise("sin", np.sin, lambda x, o: cos(x))
cos = elementwise("cos", np.cos, lambda x, o: neg(sin(x)))
tan = elementwise("tan", np.tan, lambda x, o: add(square(o), 1.0))


def _root_of_rest(x: Array, o: Array, of_output: Callable[[Array], Array]) -> Any:
    """Return sqrt(1 - x**2); for complex x from the output, which has the side of the cut."""
    return of_output(o) if o.dtype.kind == "c" else sqrt(sub(1.0, square(x)))


arcsin = elementwise("arcsin", np.arcsin, lambda x, o: reciprocal(_root_of_rest(x, o, cos)))
arccos = elementwise("arccos", np.arccos, lambda x, o: neg(reciprocal(_root_of_rest(x, o, sin))))
arctan = elementwise("arctan", np.arctan, lambda x, o: reciprocal(add(square(x), 1.0)))


def _over_squares(part: Value, x: Value, y: Value, o: Array) -> Any:
    """Return part / (x**2 + y**2), with 0 for 0 / 0; the squares alone would overflow earlier."""
    size = hypot(_typed(x, o), _typed(y, o))
    is_zero = equal(size, 0)
    size = where(is_zero, 1.0, size)
    return where(is_zero, 0.0, div(div(part, size), size))


arctan2 = elementwise(
    "arctan2",
    np.arctan2,
    lambda y, x, o: _over_squares(x, x, y, o),
    lambda y, x, o: neg(_over_squares(y, x, y, o)),
)
hypot = elementwise(
    "hypot",
    np.hypot,
    lambda x, y, o: where(equal(o, 0), 0.0, div(x, where(equal(o, 0), 1.0, o))),
    lambda x, y, o: where(equal(o, 0), 0.0, div(y, where(equal(o, 0), 1.0, o))),
)
sinh = elementwise("sinh", np.sinh, lambda x, o: cosh(x))
cosh = elementwise("cosh", np.cosh, lambda x, o: sinh(x))
tanh = elementwise("tanh", np.tanh, lambda x, o: sub(1.0, square(o)), source="DLMF 4.34")
arcsinh = elementwise("arcsinh", np.arcsinh, lambda x, o: reciprocal(sqrt(add(square(x), 1.0))))
arccosh = elementwise(
    "arccosh",
    np.arccosh,
    lambda x, o: reciprocal(mul(sqrt(sub(x, 1.0)), sqrt(add(x, 1.0)))),
    source="DLMF 4.38",
)
arctanh = elementwise("arctanh", np.arctanh, lambda x, o: reciprocal(sub(1.0, square(x))))
deg2rad = elementwise("deg2rad", np.deg2rad, lambda x, o: math.pi / 180)
rad2deg = elementwise("rad2deg", np.rad2deg, lambda x, o: 180 / math.pi)

# -- choices ---------------------------------------------------------------------------------------


def _choice(name: str, ufunc: np.ufunc, loses: Callable[[Array, Array], Array]) -> Elementwise:
    """A two-way choice: the operand that does not lose has the tangent; half of each on a tie."""

    def jvp(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
        (x, y), (a, b) = primals, tangents
        first = None if a is None else where(equal(x, y), mul(a, 0.5), where(loses(x, y), 0.0, a))
        second = None if b is None else where(equal(x, y), mul(b, 0.5), where(loses(y, x), 0.0, b))
        return plus(first, second)

    return elementwise(name, ufunc, jvp=jvp, blind=True)


def _choice_of_numbers(
    name: str, ufunc: np.ufunc, wins: Callable[[Array, Array], Array]
) -> Elementwise:
    """A two-way choice that prefers numbers to nan; the first operand wins ties."""

    def jvp(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
        (x, y), (a, b) = primals, tangents
        return where(
            logical_or(wins(x, y), _is_nan(y)), 0.0 if a is None else a, 0.0 if b is None else b
        )

    return elementwise(name, ufunc, jvp=jvp)


def _is_nan(x: Value) -> Any:
    return (
        x != x if type(x) in _EXAMPLES else isnan(x)
    )  # NumPy's isnan has no integers beyond 64 bits


maximum = _choice("maximum", np.maximum, lambda x, y: less(x, y))
minimum = _choice("minimum", np.minimum, lambda x, y: greater(x, y))
fmax = _choice_of_numbers("fmax", np.fmax, lambda x, y: greater_equal(x, y))
fmin = _choice_of_numbers("fmin", np.fmin, lambda x, y: less_equal(x, y))


def _bound(
    name: str,
    ufunc: np.ufunc,
    inside: Callable[[Array, Array], Array],
    outside: Callable[[Array, Array], Array],
) -> Elementwise:
    """One side of ``clip``: on the bound x has all of the derivative, as in PyTorch's ``clamp``."""

    def jvp(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
        (x, bound), (a, b) = primals, tangents
        first = None if a is None else where(inside(x, bound), a, 0.0)
        return plus(first, None if b is None else where(outside(x, bound), b, 0.0))

    return elementwise(name, ufunc, jvp=jvp, blind=True)


clip_below = _bound(
    "clip_below", np.maximum, lambda x, low: greater_equal(x, low), lambda x, low: less(x, low)
)
clip_above = _bound(
    "clip_above", np.minimum, lambda x, high: less_equal(x, high), lambda x, high: greater(x, high)
)


def _clip_jvp(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    (x, low, high), (a, b, c) = primals, tangents
    total = None
    if a is not None:
        total = where(logical_and(greater_equal(x, low), less_equal(x, high)), a, 0.0)
    if b is not None:
        total = plus(total, where(logical_and(less(x, low), less_equal(low, high)), b, 0.0))
    if c is not None:
        total = plus(total, where(logical_or(greater(x, high), greater(low, high)), c, 0.0))
    return total


clip = elementwise(
    "clip",
    cast("Any", np)._core.umath.clip,
    jvp=_clip_jvp,
    blind=True,
    written="np.clip({0}, {1}, {2})",
)
"""Both sides of ``clip``: zeros keep their signs, unlike with ``maximum``, which may return the
bound's."""

# -- remainders: x - y * floor(x / y), x - y * trunc(x / y) ----------------------------------------

remainder = elementwise(
    "remainder",
    np.remainder,
    lambda x, y, o: 1.0,
    lambda x, y, o: neg(floor_divide(x, y)),
    source="NumPy remainder",
)


def _trunc_divide_eval(x: Array, y: Array) -> Any:
    # The quotient may be rounded up to an integer, so the integer part is computed from fmod's
    # remainder.
    quotient = np.trunc(np.divide(x, y))
    return np.where(
        np.isfinite(quotient), np.rint(np.divide(np.subtract(x, np.fmod(x, y)), y)), quotient
    )[()]


trunc_divide = Elementwise(
    "trunc_divide",
    eval=_trunc_divide_eval,
    aval=lambda x, y: ShapeDtype(broadcast_shape("trunc_divide", (x, y)), result_dtype(x, y)),
    jvp=ZERO,
    transpose=absent(
        because="trunc_divide is piecewise constant", instead="leave it out of the derivative"
    ),
    batch=ELEMENTWISE,
)
"""Quotient of floats rounded towards zero; if finite, exactly consistent with ``fmod``."""
fmod = elementwise("fmod", np.fmod, lambda x, y, o: 1.0, lambda x, y, o: neg(trunc_divide(x, y)))


def _is_negative(x: Value) -> Any:
    kind: Any = x.__class__
    return math.copysign(1.0, x) < 0 if kind in (bool, int, float) else signbit(x)  # type: ignore[arg-type]


copysign = elementwise(
    "copysign",
    np.copysign,
    lambda x, y, o: where(
        equal(x, 0), 0.0, _either(equal(signbit(x), _is_negative(y)), 1.0, -1.0, o)
    ),
    None,
)
ldexp = elementwise(
    "ldexp",
    np.ldexp,
    jvp=lambda p, o, t: ldexp(t[0], p[1]),
    transpose=lambda ct, x, n: (ldexp(ct, n), None),
)
nextafter = elementwise("nextafter", np.nextafter, lambda x, y, o: 1.0, None)
modf = elementwise("modf", np.modf, jvp=lambda p, o, t: (t[0], None))
frexp = elementwise("frexp", np.frexp, jvp=lambda p, o, t: (ldexp(t[0], neg(o[1])), None))

# -- complex numbers -------------------------------------------------------------------------------


def _abs_jvp(primals: Values, outputs: Values, tangents: tuple[Array]) -> Any:
    (x,), (out,), (t,) = primals, outputs, tangents
    if x.dtype.kind != "c":
        return mul(t, sign(x))
    zero = equal(out, 0)
    return real(mul(t, div(conj(x), where(zero, 1.0, out))))


def _real_if_linear(ct: Array, x: LinearOperand) -> Any:
    return (conj(ct) if x.aval.dtype.kind == "c" else ct,)


absolute = elementwise("absolute", np.absolute, jvp=_abs_jvp)
fabs = elementwise("fabs", np.fabs, lambda x, o: sign(x))


def _sign_jvp(primals: Values, outputs: Values, tangents: tuple[Array]) -> Any:
    # Constant for real numbers. For complex ones, sign(x) = x / |x|, and the tangent is the
    # orthogonal component.
    (x,), (out,), (t,) = primals, outputs, tangents
    if x.dtype.kind != "c":
        return None
    zero = equal(x, 0)
    turned = mul(mul(out, 1j), imag(mul(t, conj(out))))
    return where(zero, 0.0, div(turned, where(zero, 1.0, absolute(x))))


sign = elementwise("sign", np.sign, jvp=_sign_jvp)
conj = elementwise(
    "conj",
    np.conjugate,
    jvp=lambda p, o, t: conj(t[0]),
    transpose=_real_if_linear,
    flops=counts.moved,
)

# -- piecewise constant: no derivative, except that heaviside is its second operand where the first is 0

floor = elementwise("floor", np.floor)
ceil = elementwise("ceil", np.ceil)
trunc = elementwise("trunc", np.trunc)
rint = elementwise("rint", np.rint)
heaviside = elementwise(
    "heaviside", np.heaviside, None, lambda x, y, o: _either(equal(x, 0), 1.0, 0.0, o)
)
spacing = elementwise("spacing", np.spacing)
floor_divide = elementwise("floor_divide", np.floor_divide)
equal = elementwise("equal", np.equal)
not_equal = elementwise("not_equal", np.not_equal)
less = elementwise("less", np.less)
less_equal = elementwise("less_equal", np.less_equal)
greater = elementwise("greater", np.greater)
greater_equal = elementwise("greater_equal", np.greater_equal)
logical_and = elementwise("logical_and", np.logical_and)
logical_or = elementwise("logical_or", np.logical_or)
logical_xor = elementwise("logical_xor", np.logical_xor)
logical_not = elementwise("logical_not", np.logical_not)
isfinite = elementwise("isfinite", np.isfinite)
isinf = elementwise("isinf", np.isinf)
isnan = elementwise("isnan", np.isnan)
signbit = elementwise("signbit", np.signbit)
bitwise_and = elementwise("bitwise_and", np.bitwise_and)
bitwise_or = elementwise("bitwise_or", np.bitwise_or)
bitwise_xor = elementwise("bitwise_xor", np.bitwise_xor)
invert = elementwise("invert", np.invert)
left_shift = elementwise("left_shift", np.left_shift)
right_shift = elementwise("right_shift", np.right_shift)
bitwise_count = elementwise("bitwise_count", np.bitwise_count)
gcd = elementwise("gcd", np.gcd)
lcm = elementwise("lcm", np.lcm)

# -- not ufuncs, but elementwise -------------------------------------------------------------------


def _where_aval(condition: Spec, x: Spec, y: Spec) -> ShapeDtype:
    return ShapeDtype(broadcast_shape("where", (condition, x, y)), result_dtype(x, y))


def _where_jvp(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    _, a, b = tangents
    if a is None and b is None:
        return None  # only the condition is active, and its truth value is piecewise constant
    return where(primals[0], 0.0 if a is None else a, 0.0 if b is None else b)


def _where_transpose(ct: Array, condition: Operand, x: Operand, y: Operand) -> Any:
    return (
        None,
        where(condition, ct, 0.0) if is_linear(x) else None,
        where(condition, 0.0, ct) if is_linear(y) else None,
    )


_LEAST_BY_BITS = 1024
_BITS = {np.dtype(name): np.dtype(f"i{name[1]}") for name in ("f4", "i4", "f8", "i8")}


def _where_eval(condition: Any, x: Any, y: Any) -> Array:
    if (
        type(condition) is np.ndarray
        and condition.size >= _LEAST_BY_BITS
        and condition.dtype == np.bool_
    ):
        found = _by_bits(condition, x, y)
        if found is not None:
            return found
    return cast("Array", np.where(condition, x, y))


def _is_zero(value: Any) -> bool:
    return type(value) in (int, float) and value == 0 and math.copysign(1.0, value) > 0


def _lie_alike(array: Array, condition: Array) -> bool:
    return array.shape == condition.shape and array.strides == tuple(
        [array.itemsize * step for step in condition.strides]
    )


def _by_bits(condition: Array, x: Any, y: Any) -> Array | None:
    """Return ``np.where`` by arithmetic on bits, without branches; None if that is not faster.

    NumPy branches at every element, which processors cannot predict for signs of a layer's values.
    Measured on 65,536 float32 and such signs, one thread: with 0 as one of the choices 31 us
    against 427; with two arrays 60 against 423, and as long as NumPy's for predictable ones.
    """
    is_first = _is_zero(x)
    if is_first or _is_zero(y):
        array, zero = (y, x) if is_first else (x, y)
        if (
            type(array) is not np.ndarray
            or (bits := _BITS.get(array.dtype)) is None
            or not _lie_alike(array, condition)
            or (array.dtype.kind == "i" and type(zero) is float)
        ):
            return None
        kept = np.logical_not(condition) if is_first else condition
        return np.multiply(array.view(bits), kept).view(array.dtype)
    if (
        type(x) is not np.ndarray
        or type(y) is not np.ndarray
        or x.dtype != y.dtype
        or x.dtype.itemsize != 4
        or (bits := _BITS.get(x.dtype)) is None
        or condition.size < 4 * _LEAST_BY_BITS
        or not (_lie_alike(x, condition) and _lie_alike(y, condition))
    ):
        return None
    other = y.view(bits)
    made = np.bitwise_xor(x.view(bits), other)
    np.multiply(made, condition, out=made)
    return np.bitwise_xor(made, other, out=made).view(x.dtype)


where = Elementwise(
    "where",
    eval=_where_eval,
    aval=_where_aval,
    jvp=_where_jvp,
    transpose=_where_transpose,
    batch=ELEMENTWISE,
    written="np.where({0}, {1}, {2})",
    flops=counts.moved,
    blind=True,
)


def _sigmoid_eval(x: Array) -> Any:
    if np.iscomplexobj(x):
        is_right = np.greater_equal(np.real(x), 0)
        decay = np.exp(np.where(is_right, -x, x))  # never overflows
        return (np.where(is_right, 1, decay) / (1 + decay))[()]
    decay = np.exp(-np.abs(x))
    top = np.maximum(decay, np.greater_equal(x, 0))  # 1 on the right: `where` is 10x slower
    decay += 1
    top /= decay
    return top


sigmoid = Elementwise(
    "sigmoid",
    eval=_sigmoid_eval,
    aval=lambda spec: ShapeDtype(spec.shape, np.exp(np.zeros((), spec.dtype)).dtype),
    jvp=jvp_from((lambda x, o: mul(o, sub(1.0, o)),)),
    transpose=absent(
        because="sigmoid is not linear", instead="differentiate with functrace.vjp instead"
    ),
    batch=ELEMENTWISE,
    source="DLMF 4.2",
)
relu = Elementwise(
    "relu",
    eval=lambda x: np.maximum(x, 0),
    aval=lambda spec: spec,
    # From the output, like PyTorch: it is the only residual. NaN stays NaN, and passes tangents.
    jvp=lambda p, o, t: where(less_equal(o[0], 0), 0.0, t[0]),
    transpose=absent(
        because="relu is not linear", instead="differentiate with functrace.vjp instead"
    ),
    batch=ELEMENTWISE,
    written="np.maximum({0}, 0)",
)


def _complex_eval(x: Array | float, y: Array | float) -> Any:
    out = np.empty(
        np.broadcast_shapes(np.shape(x), np.shape(y)), np.result_type(x, y, np.complex64)
    )
    out.real, out.imag = x, y
    return out[()]


def _complex_jvp(_primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    return complex_of(*[0.0 if t is None else t for t in tangents])


complex_of = Elementwise(
    "complex",
    eval=_complex_eval,
    aval=lambda x, y: ShapeDtype(
        broadcast_shape("complex", (x, y)), np.result_type(result_dtype(x, y), np.complex64)
    ),
    jvp=_complex_jvp,
    transpose=lambda ct, x, y: (
        real(ct) if is_linear(x) else None,
        neg(imag(ct)) if is_linear(y) else None,
    ),
    batch=ELEMENTWISE,
    flops=counts.moved,
)
"""Complex numbers from parts: ``x + 1j * y`` is NaN where ``y`` is infinite, and loses signs of
zero."""
imag = Elementwise(
    "imag",
    eval=np.imag,
    aval=part_aval,
    jvp=lambda p, o, t: imag(t[0]),
    transpose=lambda ct, x: (mul(ct, -1j),),
    batch=ELEMENTWISE,
    view=True,
    written="np.imag({0})",
    flops=counts.moved,
)


def _angle_jvp(primals: Values, _outputs: Values, tangents: tuple[Array]) -> Any:
    (x,), (t,) = primals, tangents
    if x.dtype.kind != "c":
        return None
    zero = equal(x, 0)
    return imag(div(where(zero, 0.0, t), where(zero, 1.0, x)))


angle = Elementwise(
    "angle",
    eval=np.angle,
    aval=lambda spec: ShapeDtype(spec.shape, np.angle(spec.dtype.type(1)).dtype),
    jvp=_angle_jvp,
    transpose=absent(
        because="angle is not linear", instead="differentiate with functrace.vjp instead"
    ),
    batch=ELEMENTWISE,
    written="np.angle({0})",
)


def sinc_derivative_of(x: Array, order: int, xp: Any = np) -> Any:
    """Return a derivative of ``sinc``.

    Args:
        x: an array of floats.
        order: order of the derivative, 1 or more.
        xp: the module that computes, which has NumPy's names.
    """
    u = np.pi * x
    small = xp.abs(u) < max(1, order)
    # Power series near 0; elsewhere u f = sin u, differentiated n times: u f_n + n f_{n-1} = sin(u
    # + n pi / 2).
    near, far = xp.where(small, u, 0.0), xp.where(small, 1.0, u)
    series, first = xp.zeros_like(u), (order + 1) // 2
    power_of, factorial = near ** (2 * first - order), float(math.factorial(2 * first - order))
    for k in range(first, first + 12 + 2 * order):
        n = 2 * k - order
        series = series + (-1) ** k * power_of / (factorial * (2 * k + 1))
        power_of, factorial = power_of * near * near, factorial * (n + 1) * (n + 2)
    value = xp.sin(far) / far
    for n in range(1, order + 1):
        value = (xp.sin(far + n * np.pi / 2) - n * value) / far
    return (np.pi**order * xp.where(small, series, value)).astype(u.dtype)


def _sinc_derivative_eval(x: Array, order: int) -> Any:
    return sinc_derivative_of(np.asarray(x), order)[()]


sinc_derivative_p = Primitive(
    "sinc_derivative",
    eval=_sinc_derivative_eval,
    aval=lambda x, order: x,
    jvp=lambda p, o, t, order: mul(t[0], bind(sinc_derivative_p, (p[0],), (order + 1,))),
    transpose=absent(
        because="sinc is not linear",
        instead="differentiate with functrace.vjp or functrace.grad instead",
    ),
    batch=ELEMENTWISE,
    params=("order",),
)
sinc = Elementwise(
    "sinc",
    eval=np.sinc,
    aval=lambda spec: ShapeDtype(spec.shape, np.sinc(np.ones((), spec.dtype)).dtype),
    jvp=lambda p, o, t: mul(t[0], bind(sinc_derivative_p, (p[0],), (1,))),
    transpose=absent(
        because="sinc is not linear",
        instead="differentiate with functrace.vjp or functrace.grad instead",
    ),
    batch=ELEMENTWISE,
    written="np.sinc({0})",
)


def _round_aval(x: ShapeDtype, decimals: int) -> ShapeDtype:
    return ShapeDtype(x.shape, np.round(np.zeros(1, x.dtype), decimals).dtype)


round_p = Primitive(
    "round",
    eval=np.round,
    aval=_round_aval,
    jvp=ZERO,
    transpose=absent(
        because="round is piecewise constant", instead="leave it out of the derivative"
    ),
    batch=ELEMENTWISE,
    params=("decimals",),
    written="np.round({0}, {decimals})",
)


# sqrt with derivative 0 at 0: for the standard deviation of equal numbers.
sqrt_of_square = elementwise(
    "sqrt_of_square",
    np.sqrt,
    lambda x, o: where(equal(o, 0), 0.0, div(0.5, where(equal(o, 0), 1.0, o))),
)
stop_gradient = Elementwise(
    "stop_gradient",
    eval=np.copy,
    aval=lambda spec: spec,
    jvp=ZERO,
    transpose=absent(because="stop_gradient has no derivative", instead="leave stop_gradient out"),
    batch=ELEMENTWISE,
    written="np.copy({0})",
    flops=counts.moved,
)

TABLE: tuple[Elementwise, ...] = tuple(
    v for v in list(globals().values()) if isinstance(v, Elementwise)
)
"""Every primitive of this file, in order."""

# Reversed, so that of several primitives of one ufunc the first one wins.
UFUNCS: dict[np.ufunc, Elementwise] = {
    p.eval: p for p in reversed(TABLE) if isinstance(p.eval, np.ufunc)
} | {
    np.degrees: rad2deg,
    np.radians: deg2rad,
}  # type: ignore[dict-item]
"""The NEP-13 table: the primitive of each ufunc."""
