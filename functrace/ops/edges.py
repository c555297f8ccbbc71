"""Elementwise primitives with PyTorch's values or derivatives at the edges of their domains.

The functions of elementwise.py are NumPy's, and their derivatives take limits where these exist.
The functions here have the same values inside of their domains, and PyTorch's formulas as
derivatives: where such a formula gives nan, or reads the result, so does the derivative.
`functrace.torch` uses them.

Layer: 2.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Tangents, Values, absent
from functrace.ir.symbolic_numbers import computed
from functrace.ops import elementwise as ew
from functrace.ops.elementwise import (
    ELEMENTWISE,
    Elementwise,
    broadcast_shape,
    elementwise,
    in_loop_dtypes,
    jvp_from,
    result_dtype,
)
from functrace.ops.shaping import convert
from functrace.tracing.tracer import Value
from functrace.typing import Array


def _power_of_exponent(x: Value, n: Any, o: Array) -> Any:
    if type(x) in (bool, int, float, complex):
        if x != 0:
            return ew.mul(o, ew.log(o.dtype.type(x)))
        return ew.where(_is_settled(n), 0.0, ew.mul(o, ew.log(o.dtype.type(0))))
    return ew.where(ew.logical_and(ew.equal(x, 0), _is_settled(n)), 0.0, ew.mul(o, ew.log(x)))


def _is_settled(n: Array) -> Any:
    """Return True if 0 to this power is constant near this power."""
    if n.dtype.kind != "c":
        return ew.greater_equal(n, 0)
    return ew.logical_and(ew.equal(ew.imag(n), 0), ew.greater_equal(ew.real(n), 0))


def _power_jvp(power: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def jvp(primals: Values, outputs: Values, tangents: Tangents) -> Any:
        (o,), (a, b) = outputs, tangents
        x, n = in_loop_dtypes(np.power, primals, o)
        first = None
        if a is not None:
            if n.__class__ in (int, float, complex):
                factor = 0.0 if n == 0 else ew.mul(power(x, computed(operator.sub, n, 1)), n)
                first = ew.mul(a, factor)
            else:
                constant = ew.equal(n, 0)
                factor = ew.where(constant, 0.0, ew.mul(n, power(x, ew.sub(n, 1))))
                first = ew.mul(ew.where(constant, 0.0, a), factor)
        return ew.plus(first, None if b is None else ew.mul(b, _power_of_exponent(x, n, o)))

    return jvp


plain_power = elementwise("plain_power", np.power, jvp=_power_jvp(lambda x, n: plain_power(x, n)))
"""``power`` whose derivatives are ``n * x**(n - 1)`` and ``x**n * log(x)``, but 0 for ``x**0`` and
``0**n``.
"""


def _complex_power_eval(x: Any, n: Any) -> Any:
    if n.__class__ not in (int, float, complex):
        if x.__class__ in (int, float, complex):
            if x == 1:
                return np.ones_like(n)
            x = n.dtype.type(x)
        return np.exp(n * np.log(x))
    if n in (0, 1, 2, 3):
        return np.power(x, int(n.real))
    if n in (-1, -2):
        return np.divide(1, x if n == -1 else x * x)
    if n in (0.5, -0.5):
        return np.sqrt(x) if n == 0.5 else np.divide(1, np.sqrt(x))
    return np.exp(n * np.log(x))


complex_power = Elementwise(
    "complex_power",
    eval=_complex_power_eval,
    aval=ew.power.aval,
    jvp=_power_jvp(lambda x, n: complex_power(x, n)),
    transpose=absent(
        because="complex_power is not linear", instead="differentiate with functrace.vjp instead"
    ),
    batch=ELEMENTWISE,
)
"""``exp(n * log(x))``, nan for ``0**0`` except for some literal exponents; derivatives like
`plain_power`."""
complex_reciprocal = Elementwise(
    "complex_reciprocal",
    eval=lambda x: np.divide(1, x),
    aval=ew.reciprocal.aval,
    jvp=ew.reciprocal.jvp,
    transpose=absent(
        because="complex_reciprocal is not linear",
        instead="differentiate with functrace.vjp instead",
    ),
    batch=ELEMENTWISE,
    written="1 / {0}",
)
"""``reciprocal`` by division: infinite at 0."""
plain_hypot = elementwise(
    "plain_hypot", np.hypot, lambda x, y, o: ew.div(x, o), lambda x, y, o: ew.div(y, o)
)
"""``hypot`` whose derivatives are nan at (0, 0)."""


def _share(x: Value, y: Value) -> Any:
    return ew.reciprocal(ew.add(ew.exp(ew.sub(y, x)), 1.0))


plain_logaddexp = elementwise(
    "plain_logaddexp", np.logaddexp, lambda x, y, o: _share(x, y), lambda x, y, o: _share(y, x)
)
"""``logaddexp`` whose derivatives are nan where both operands are the same infinity."""


def _arccosh_derivative(x: Array, _o: Array) -> Any:
    if x.dtype.kind == "c":
        return ew.reciprocal(ew.mul(ew.sqrt(ew.sub(x, 1.0)), ew.sqrt(ew.add(x, 1.0))))
    return rsqrt(ew.sub(ew.square(x), 1.0))


plain_arccosh = elementwise("plain_arccosh", np.arccosh, _arccosh_derivative)
"""``arccosh`` whose derivative is a number also below -1."""


def _sgn_eval(x: Array) -> Any:
    signs = np.sign(x)
    if signs.dtype.kind == "f":
        unknown = np.isnan(signs)
        if unknown.any():
            return np.where(unknown, signs.dtype.type(0), signs)[()]
    return signs


def _sgn_jvp(primals: Values, outputs: Values, tangents: tuple[Array]) -> Any:
    (x,), (out,), (t,) = primals, outputs, tangents
    if x.dtype.kind != "c":
        return None
    zero = ew.equal(x, 0)
    # Its transpose is g - out * real(g / out): the component orthogonal to the direction.
    along = ew.conj(ew.reciprocal(ew.where(zero, 1.0, out)))
    across = ew.sub(t, ew.mul(along, ew.real(ew.mul(t, ew.conj(out)))))
    return ew.where(zero, 0.0, ew.div(across, ew.where(zero, 1.0, ew.absolute(x))))


sgn = Elementwise(
    "sgn",
    eval=_sgn_eval,
    aval=ew.sign.aval,
    jvp=_sgn_jvp,
    transpose=absent(
        because="sgn is not linear", instead="differentiate with functrace.vjp instead"
    ),
    batch=ELEMENTWISE,
)
"""``sign``, which is 0 at nan; the derivative for complex numbers uses the result."""


def _absolute_jvp(primals: Values, outputs: Values, tangents: tuple[Array]) -> Any:
    if primals[0].dtype.kind == "c":
        return ew.absolute.jvp(primals, outputs, tangents)  # type: ignore[operator]
    return ew.mul(tangents[0], sgn(primals[0]))


plain_absolute = elementwise("plain_absolute", np.absolute, jvp=_absolute_jvp)
"""``absolute`` whose derivative is 0 at nan."""
rsqrt = Elementwise(
    "rsqrt",
    eval=lambda x: np.divide(1, np.sqrt(x)),
    aval=lambda x: ShapeDtype(x.shape, np.sqrt(np.zeros(0, x.dtype)).dtype),
    jvp=lambda p, o, t: ew.mul(t[0], ew.mul(ew.power(o[0], 3), -0.5)),
    transpose=absent(
        because="rsqrt is not linear", instead="differentiate with functrace.vjp instead"
    ),
    batch=ELEMENTWISE,
    written="1 / np.sqrt({0})",
)
"""``1 / sqrt(x)``; its derivative uses the result."""


def _signed_remainder_eval(x: Array, y: Array) -> Any:
    rest: Any = np.remainder(x, y)
    if rest.dtype.kind == "f":
        none = np.equal(rest, 0)
        if none.any():
            return np.where(none, np.copysign(rest, x), rest)[()]
    return rest


signed_remainder = Elementwise(
    "signed_remainder",
    eval=_signed_remainder_eval,
    aval=ew.remainder.aval,
    jvp=ew.remainder.jvp,
    transpose=absent(
        because="signed_remainder is not linear", instead="differentiate with functrace.vjp instead"
    ),
    batch=ELEMENTWISE,
)
"""``remainder`` with signed zeros like the dividend."""


def _lerp_eval(x: Array, end: Array, weight: Array | complex) -> Any:
    is_number = type(weight) in (bool, int, float, complex)
    dtype = np.result_type(x, end) if is_number else np.result_type(x, end, weight)
    if dtype == np.float16:  # rounded once, at the end
        wide: Any = weight if is_number else np.asarray(weight, np.float32)
        found = _lerp_eval(np.asarray(x, np.float32), np.asarray(end, np.float32), wide)
        return found.astype(np.float16)
    way = np.subtract(end, x)
    if is_number:
        if abs(weight) < 0.5:
            return x + weight * way
        rest = 1 - dtype.type(weight) if dtype.kind in "fc" else 1 - weight
        return end - way * rest
    return np.where(np.absolute(weight) < 0.5, x + weight * way, end - way * (1 - weight))[()]


lerp = Elementwise(
    "lerp",
    eval=_lerp_eval,
    aval=lambda x, end, weight: ShapeDtype(
        broadcast_shape("lerp", (x, end, weight)), result_dtype(x, end, weight)
    ),
    jvp=jvp_from(
        (
            lambda x, end, weight, o: ew.sub(1.0, weight),
            lambda x, end, weight, o: weight,
            lambda x, end, weight, o: ew.sub(end, x),
        ),
        lambda operands, o: [
            x if x.__class__ in ew.WEAK else convert(x, o.dtype) for x in operands
        ],
    ),
    transpose=absent(
        because="lerp is not linear", instead="differentiate with functrace.vjp instead"
    ),
    batch=ELEMENTWISE,
)
"""``x + weight * (end - x)``, computed from the nearer end."""


def _clamp_jvp(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    (x, low, high), (a, b, c) = primals, tangents
    total = None
    if a is not None:
        total = ew.where(ew.logical_and(ew.greater_equal(x, low), ew.less_equal(x, high)), a, 0.0)
    if b is not None:
        total = ew.plus(
            total, ew.where(ew.logical_and(ew.less(low, high), ew.less(x, low)), b, 0.0)
        )
    if c is not None:
        total = ew.plus(
            total, ew.where(ew.logical_or(ew.greater(x, high), ew.less(high, low)), c, 0.0)
        )
    return total


clamp = Elementwise(
    "clamp",
    eval=lambda x, low, high: np.minimum(np.maximum(x, low), high),
    aval=lambda x, low, high: ShapeDtype(
        broadcast_shape("clamp", (x, low, high)), result_dtype(x, low, high)
    ),
    jvp=_clamp_jvp,
    transpose=absent(
        because="clamp is not linear", instead="differentiate with functrace.vjp instead"
    ),
    batch=ELEMENTWISE,
    written="np.minimum(np.maximum({0}, {1}), {2})",
)
"""``minimum(maximum(x, low), high)``: on a bound x has the derivative; if the bounds are equal they
have none."""
