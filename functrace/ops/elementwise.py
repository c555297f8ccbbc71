"""Elementwise primitives: NumPy's ufuncs, one row each.

A row names the primitive, the NumPy function and the partial derivatives. A derivative is a function of the
operands and the output, written with ordinary operators; ``None`` says "no derivative in this operand"
(it is inactive: piecewise constant, or not a float). Primitives broadcast as ufuncs do; the transforms sum
cotangents back (transforms/transpose.py) and align ranks under vmap (transforms/vmap.py), never a rule here.

Note [Kinks and ties]
    Where a function has no derivative, one is chosen, equal to PyTorch's where PyTorch has one: abs'(0) = 0,
    sign' = 0, maximum and minimum split ties evenly, fmax and fmin too, hypot'(0, 0) = 0 from the quotient x / y
    guarded at 0, sqrt'(0) = inf.

Floor: 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from functrace.errors import DtypeError, ShapeError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import ZERO, Absent, Marker, Primitive, Rule, absent, is_linear
from functrace.ir.tape import Spec
from functrace.tracing.recording import Tracer

ELEMENTWISE = Marker("ELEMENTWISE")
"""batch rule of a primitive that broadcasts: align ranks, then the same primitive."""

Partial = Callable[..., Any] | None

_EXAMPLES: dict[type, Any] = {bool: False, int: 0, float: 0.0, complex: 0j}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Elementwise(Primitive):
    """A primitive without parameters that can be called like the ufunc that it stands for."""

    source: str = ""

    def __call__(self, *operands: Any) -> Any:
        # `bind`, in line: rules call primitives more than anything else does.
        newest = None
        for value in operands:
            if isinstance(value, Tracer):
                recording = value._recording
                if newest is None or recording.serial > newest.serial:
                    newest = recording
        return self.eval(*operands) if newest is None else newest.record(self, operands)


def broadcast_shape(name: str, specs: tuple[Spec, ...]) -> tuple[int, ...]:
    """Return the shape that operands broadcast to; raises `ShapeError` naming the avals."""
    shapes = [spec.shape for spec in specs if isinstance(spec, ShapeDtype)]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        avals = " and ".join(repr(spec) for spec in specs if isinstance(spec, ShapeDtype))
        raise ShapeError(
            f"{name} cannot broadcast {avals}",
            fix="make the sizes equal, or 1, axis by axis from the last; x[:, None] adds an axis",
        ) from None


def result_dtype(*specs: Spec) -> np.dtype[Any]:
    """Return the dtype that operands promote to (NEP 50: Python numbers are weak)."""
    return np.result_type(*(s.dtype if isinstance(s, ShapeDtype) else _EXAMPLES[s] for s in specs))


def _ufunc_aval(name: str, ufunc: np.ufunc) -> Rule:
    def aval(*specs: Spec) -> Any:
        kinds = tuple(s.dtype if isinstance(s, ShapeDtype) else (np.dtype(bool) if s is bool else s) for s in specs)
        if all(isinstance(kind, type) for kind in kinds):
            kinds = tuple(np.dtype(kind) for kind in kinds)
        try:
            dtypes = ufunc.resolve_dtypes(kinds + (None,) * ufunc.nout)[ufunc.nin :]
        except TypeError as error:
            avals = ", ".join(repr(s) if isinstance(s, ShapeDtype) else s.__name__ for s in specs)
            raise DtypeError(f"{name} is not defined for {avals}", fix="convert the operands with .astype") from error
        shape = broadcast_shape(name, specs)
        results = tuple(ShapeDtype(shape, dtype) for dtype in dtypes)
        return results[0] if len(results) == 1 else results

    return aval


def _jvp_from(partials: tuple[Partial, ...]) -> Rule | Marker:
    if not any(partials):
        return ZERO
    if len(partials) == 1:
        (partial,) = partials

        def unary(primals: Any, outputs: Any, tangents: Any) -> Any:
            return mul(tangents[0], partial(primals[0], outputs[0]))  # type: ignore[misc]

        return unary

    def jvp(primals: Any, outputs: Any, tangents: Any) -> Any:
        total = None
        for tangent, partial in zip(tangents, partials, strict=True):
            if tangent is not None and partial is not None:
                term = mul(tangent, partial(*primals, outputs[0]))
                total = term if total is None else add(total, term)
        return total

    return jvp


def elementwise(
    name: str,
    ufunc: np.ufunc,
    *deriv: Partial,
    jvp: Rule | Marker | None = None,
    transpose: Rule | Absent | None = None,
    source: str = "",
) -> Elementwise:
    """Make the primitive of a ufunc.

    Args:
        name: the word in listings.
        ufunc: the NumPy function.
        deriv: one partial derivative per operand, ``(*operands, output) -> factor``, or ``None``.
        jvp: the rule itself, where partial derivatives do not say it best.
        transpose: the rule, for primitives that are linear in an operand.
        source: where the formula stands (DLMF number, …), if it is not school mathematics.
    """
    return Elementwise(
        name,
        eval=ufunc,
        aval=_ufunc_aval(name, ufunc),
        jvp=jvp if jvp is not None else _jvp_from(deriv),
        transpose=transpose
        or absent(because=f"{name} is not linear", instead="differentiate with functrace.vjp or functrace.grad instead"),
        batch=ELEMENTWISE,
        many=ufunc.nout > 1,
        source=source,
    )


# -- arithmetic: linear in an operand, so with transposes ------------------------------------------


def _add_jvp(_primals: Any, _outputs: Any, tangents: Any) -> Any:
    a, b = tangents
    return b if a is None else a if b is None else add(a, b)


def _sub_jvp(_primals: Any, _outputs: Any, tangents: Any) -> Any:
    a, b = tangents
    return neg(b) if a is None else a if b is None else sub(a, b)


def _add_transpose(ct: Any, x: Any, y: Any) -> Any:
    return ct if is_linear(x) else None, ct if is_linear(y) else None


def _sub_transpose(ct: Any, x: Any, y: Any) -> Any:
    return ct if is_linear(x) else None, neg(ct) if is_linear(y) else None


def _mul_transpose(ct: Any, x: Any, y: Any) -> Any:
    return (mul(ct, y), None) if is_linear(x) else (None, mul(x, ct))


def _mul_jvp(primals: Any, _outputs: Any, tangents: Any) -> Any:
    (x, y), (a, b) = primals, tangents
    if b is None:
        return mul(a, y)
    return mul(x, b) if a is None else add(mul(a, y), mul(x, b))


def _div_jvp(primals: Any, outputs: Any, tangents: Any) -> Any:
    (_, y), (a, b) = primals, tangents
    first = None if a is None else div(a, y)
    second = None if b is None else mul(b, neg(div(outputs[0], y)))
    return second if first is None else first if second is None else add(first, second)


add = elementwise("add", np.add, jvp=_add_jvp, transpose=_add_transpose)
sub = elementwise("sub", np.subtract, jvp=_sub_jvp, transpose=_sub_transpose)
mul = elementwise("mul", np.multiply, jvp=_mul_jvp, transpose=_mul_transpose)
div = elementwise("div", np.divide, jvp=_div_jvp, transpose=lambda ct, x, y: (div(ct, y), None))
neg = elementwise("neg", np.negative, jvp=lambda p, o, t: neg(t[0]), transpose=lambda ct, x: (neg(ct),))
positive = elementwise("positive", np.positive, jvp=lambda p, o, t: t[0], transpose=lambda ct, x: (ct,))

# -- powers ----------------------------------------------------------------------------------------


def _power_base(x: Any, n: Any, o: Any) -> Any:
    if type(n) in (int, float):
        if n == 0:
            return 0.0
        if n == 2:
            return mul(x, 2.0)
        return mul(power(x, n - 1), n)
    zero = equal(n, 0)
    return where(zero, 0.0, mul(n, power(x, where(zero, 1, sub(n, 1)))))


def _power_exponent(x: Any, n: Any, o: Any) -> Any:
    # d/dn x**n = x**n log x; at x = 0 the limit for n > 0 is 0.
    zero = equal(x, 0)
    return where(zero, 0.0, mul(o, log(where(zero, 1, x))))


power = elementwise("power", np.power, _power_base, _power_exponent, source="DLMF 4.2.26")
float_power = elementwise(
    "float_power",
    np.float_power,
    lambda x, n, o: where(equal(n, 0), 0.0, mul(n, float_power(x, where(equal(n, 0), 1.0, sub(n, 1.0))))),
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


def _logaddexp_partials(function: Any) -> tuple[Partial, Partial]:
    def first(x: Any, y: Any, o: Any) -> Any:
        tie = equal(x, y)
        return where(tie, 0.5, function(sub(x, where(tie, 0.0, o))))

    def second(x: Any, y: Any, o: Any) -> Any:
        tie = equal(x, y)
        return where(tie, 0.5, function(sub(y, where(tie, 0.0, o))))

    return first, second


logaddexp = elementwise("logaddexp", np.logaddexp, *_logaddexp_partials(exp))
logaddexp2 = elementwise("logaddexp2", np.logaddexp2, *_logaddexp_partials(exp2))

# -- trigonometry, DLMF 4.20 and 4.24 ----------------------------------------------------------------

sin = elementwise("sin", np.sin, lambda x, o: cos(x))
cos = elementwise("cos", np.cos, lambda x, o: neg(sin(x)))
tan = elementwise("tan", np.tan, lambda x, o: add(square(o), 1.0))
arcsin = elementwise("arcsin", np.arcsin, lambda x, o: reciprocal(sqrt(sub(1.0, square(x)))))
arccos = elementwise("arccos", np.arccos, lambda x, o: neg(reciprocal(sqrt(sub(1.0, square(x))))))
arctan = elementwise("arctan", np.arctan, lambda x, o: reciprocal(add(square(x), 1.0)))
arctan2 = elementwise(
    "arctan2",
    np.arctan2,
    lambda y, x, o: div(x, add(square(x), square(y))),
    lambda y, x, o: neg(div(y, add(square(x), square(y)))),
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
    "arccosh", np.arccosh, lambda x, o: reciprocal(mul(sqrt(sub(x, 1.0)), sqrt(add(x, 1.0)))), source="DLMF 4.38"
)
arctanh = elementwise("arctanh", np.arctanh, lambda x, o: reciprocal(sub(1.0, square(x))))
deg2rad = elementwise("deg2rad", np.deg2rad, lambda x, o: math.pi / 180)
rad2deg = elementwise("rad2deg", np.rad2deg, lambda x, o: 180 / math.pi)

# -- choices ---------------------------------------------------------------------------------------


def _wins(better: Any) -> tuple[Partial, Partial]:
    """Partials of a two-way choice: 1 for the chosen operand, 1/2 each on a tie."""

    def first(x: Any, y: Any, o: Any) -> Any:
        return where(equal(x, y), 0.5, where(better(x, y), 1.0, 0.0))

    def second(x: Any, y: Any, o: Any) -> Any:
        return where(equal(x, y), 0.5, where(better(x, y), 0.0, 1.0))

    return first, second


maximum = elementwise("maximum", np.maximum, *_wins(lambda x, y: logical_or(greater(x, y), isnan(x))))
minimum = elementwise("minimum", np.minimum, *_wins(lambda x, y: logical_or(less(x, y), isnan(x))))
fmax = elementwise("fmax", np.fmax, *_wins(lambda x, y: logical_or(greater(x, y), isnan(y))))
fmin = elementwise("fmin", np.fmin, *_wins(lambda x, y: logical_or(less(x, y), isnan(y))))

# -- remainders: x - y * floor(x / y), x - y * trunc(x / y) -------------------------------------------

remainder = elementwise(
    "remainder", np.remainder, lambda x, y, o: 1.0, lambda x, y, o: neg(floor_divide(x, y)), source="NumPy remainder"
)
fmod = elementwise("fmod", np.fmod, lambda x, y, o: 1.0, lambda x, y, o: neg(trunc(div(x, y))))
copysign = elementwise(
    "copysign",
    np.copysign,
    lambda x, y, o: where(equal(signbit(x), signbit(y)), where(equal(x, 0), 0.0, 1.0), where(equal(x, 0), 0.0, -1.0)),
    None,
)
ldexp = elementwise("ldexp", np.ldexp, lambda x, n, o: exp2(n), None)
nextafter = elementwise("nextafter", np.nextafter, lambda x, y, o: 1.0, None)
modf = elementwise("modf", np.modf, jvp=lambda p, o, t: (t[0], None))
frexp = elementwise("frexp", np.frexp, jvp=lambda p, o, t: (mul(t[0], exp2(neg(o[1]))), None))

# -- complex numbers ---------------------------------------------------------------------------------


def _abs_jvp(primals: Any, outputs: Any, tangents: Any) -> Any:
    (x,), (out,), (t,) = primals, outputs, tangents
    if x.dtype.kind != "c":
        return mul(t, sign(x))
    zero = equal(out, 0)
    return real(mul(t, div(conj(x), where(zero, 1.0, out))))


def _real_if_linear(ct: Any, x: Any) -> Any:
    return (conj(ct) if x.aval.dtype.kind == "c" else ct,)


absolute = elementwise("absolute", np.absolute, jvp=_abs_jvp)
fabs = elementwise("fabs", np.fabs, lambda x, o: sign(x))
conj = elementwise("conj", np.conjugate, jvp=lambda p, o, t: conj(t[0]), transpose=_real_if_linear)

# -- piecewise constant: no derivative -----------------------------------------------------------------

sign = elementwise("sign", np.sign)
floor = elementwise("floor", np.floor)
ceil = elementwise("ceil", np.ceil)
trunc = elementwise("trunc", np.trunc)
rint = elementwise("rint", np.rint)
heaviside = elementwise("heaviside", np.heaviside)
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

# -- not ufuncs, but elementwise -----------------------------------------------------------------------


def _where_aval(condition: Spec, x: Spec, y: Spec) -> ShapeDtype:
    return ShapeDtype(broadcast_shape("where", (condition, x, y)), result_dtype(x, y))


def _where_jvp(primals: Any, _outputs: Any, tangents: Any) -> Any:
    _, a, b = tangents
    return where(primals[0], 0.0 if a is None else a, 0.0 if b is None else b)


def _where_transpose(ct: Any, condition: Any, x: Any, y: Any) -> Any:
    return (
        None,
        where(condition, ct, 0.0) if is_linear(x) else None,
        where(condition, 0.0, ct) if is_linear(y) else None,
    )


where = Elementwise(
    "where",
    eval=np.where,
    aval=_where_aval,
    jvp=_where_jvp,
    transpose=_where_transpose,
    batch=ELEMENTWISE,
    written="np.where({0}, {1}, {2})",
)


def _part_aval(spec: ShapeDtype) -> ShapeDtype:
    return ShapeDtype(spec.shape, spec.dtype.type(0).real.dtype)


real = Elementwise(
    "real",
    eval=np.real,
    aval=_part_aval,
    jvp=lambda p, o, t: real(t[0]),
    transpose=lambda ct, x: (ct,),
    batch=ELEMENTWISE,
    view=True,
    written="np.real({0})",
)
imag = Elementwise(
    "imag",
    eval=np.imag,
    aval=_part_aval,
    jvp=lambda p, o, t: imag(t[0]),
    transpose=lambda ct, x: (mul(ct, -1j),),
    batch=ELEMENTWISE,
    view=True,
    written="np.imag({0})",
)


def _angle_jvp(primals: Any, _outputs: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    if x.dtype.kind != "c":
        return None
    return imag(div(t, where(equal(x, 0), 1.0, x)))


angle = Elementwise(
    "angle",
    eval=np.angle,
    aval=lambda spec: ShapeDtype(spec.shape, np.angle(spec.dtype.type(1)).dtype),
    jvp=_angle_jvp,
    transpose=absent(because="angle is not linear", instead="differentiate with functrace.vjp instead"),
    batch=ELEMENTWISE,
    written="np.angle({0})",
)
stop_gradient = Elementwise(
    "stop_gradient",
    eval=np.positive,
    aval=lambda spec: spec,
    jvp=ZERO,
    transpose=absent(because="stop_gradient has no derivative", instead="leave stop_gradient out"),
    batch=ELEMENTWISE,
    written="np.copy({0})",
)

TABLE: tuple[Elementwise, ...] = tuple(v for v in list(globals().values()) if isinstance(v, Elementwise))
"""Every primitive of this file, in order."""

UFUNCS: dict[np.ufunc, Elementwise] = {p.eval: p for p in TABLE if isinstance(p.eval, np.ufunc)} | {
    np.positive: positive
}  # type: ignore[dict-item]
"""The NEP-13 table: which primitive a ufunc is."""
