"""Lowerings of `functrace.ops.elementwise`: operands are cast as NumPy casts them, and then a
function of JAX computes in one dtype.

Layer: 7.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.ir.primitive import Primitive
from functrace.ops import PRIMITIVES
from functrace.ops import elementwise as ops
from functrace.xla.lowering import Operation, Value, cast, register, typed, untyped, without_form

Dtypes = tuple[np.dtype[Any], ...]


@functools.lru_cache(4096)
def loop_dtypes(ufunc: np.ufunc, specs: tuple[Any, ...]) -> Dtypes:
    """Return the dtypes of the loop that NumPy takes for operands: JAX promotes otherwise.

    Args:
        ufunc: NumPy's function.
        specs: by operand its aval, or the type of a Python number.
    """
    given = [np.dtype(bool) if s is bool else s if isinstance(s, type) else s.dtype for s in specs]
    found: Dtypes = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout))
    return found


def widened(x: Value, shape: tuple[int, ...]) -> Any:
    """Return a value broadcast to a shape."""
    have = np.shape(x)
    if have == shape:
        return x
    if not have:
        return lax.broadcast(x, shape)
    axes = tuple([k for k, n in enumerate(have) if n != 1])
    if len(axes) < len(have):
        x = lax.reshape(x, tuple([have[k] for k in axes]))
    offset = len(shape) - len(have)
    return lax.broadcast_in_dim(x, shape, [k + offset for k in axes])


def broadcasting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of ``lax`` of two operands, which broadcasts them."""

    @functools.wraps(function)
    def apply(x: Value, y: Value) -> Any:
        shape = np.broadcast_shapes(np.shape(x), np.shape(y))
        return function(widened(x, shape), widened(y, shape))

    return apply


def ufunc(primitive: Primitive, function: Callable[..., Any], complex_too: bool = True) -> None:
    """Register the lowering of a ufunc.

    Args:
        primitive: its ``eval`` is the ufunc.
        function: of operands of the loop's dtypes.
        complex_too: False if the function has no complex form.
    """
    numpy = primitive.eval

    def lowered(op: Operation, *values: Value) -> Any:
        dtypes = loop_dtypes(numpy, op.specs)
        if not complex_too and dtypes[0].kind == "c":
            return without_form(op, *values, reason="JAX has it for real numbers only")
        return function(*[cast(x, d) for x, d in zip(values, dtypes, strict=False)])

    register(primitive)(lowered)


def real_or(function: Callable[..., Any], other: Callable[..., Any], kinds: str) -> Any:
    """Return a function that computes dtypes of some kinds by another one."""
    return lambda *xs: (other if xs[0].dtype.kind in kinds else function)(*xs)


def _floor_divide(x: Value, y: Value) -> Any:
    if x.dtype.kind not in "biu":
        return jnp.floor_divide(x, y)
    is_zero = y == 0  # (NumPy's quotients of integers by zero are zero)
    return jnp.where(is_zero, 0, jnp.floor_divide(x, jnp.where(is_zero, 1, y))).astype(x.dtype)


def _of_sizes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of integers that computes with their absolute values, unsigned as NumPy does:
    JAX's loops do not end for the least integer.
    """

    def apply(x: Value, y: Value) -> Any:
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        found = function(*[jnp.abs(v).astype(unsigned) for v in (x, y)])
        return found.astype(x.dtype)

    return apply


def _reciprocal(x: Value) -> Any:
    if x.dtype.kind not in "iu":
        return lax.integer_pow(x, -1)
    with np.errstate(divide="ignore"):  # (the quotient by zero depends on the dtype)
        of_zero = np.reciprocal(np.zeros((), x.dtype))
    return jnp.where(x == 0, of_zero, jnp.where(jnp.abs(x) == 1, x, 0)).astype(x.dtype)


def _integer_power(x: Value, n: Value) -> Any:
    """Powers of integers, modulo the size of the dtype; exponents are not negative."""

    def step(state: Value) -> Any:
        made, x, n = state
        return jnp.where(n & 1, made * x, made), x * x, n >> 1

    x, n = jnp.broadcast_arrays(x, n)
    start = jnp.ones_like(x), x, jnp.maximum(n, 0)
    return lax.while_loop(lambda state: jnp.any(state[2] > 0), step, start)[0]


def _plain_power(x: Value, n: Value) -> Any:
    if x.dtype.kind not in "iu":
        return jnp.power(x, n)
    if isinstance(n, np.ndarray | np.generic) and n.ndim == 0:
        return lax.integer_pow(jnp.asarray(x), max(int(n), 0))
    return _integer_power(x, n)


def _modf(x: Value) -> tuple[Any, Any]:
    rest, whole = jnp.modf(x)
    return jnp.where(jnp.isinf(x), jnp.copysign(jnp.zeros_like(x), x), rest), whole


def _spacing(x: Value) -> Any:
    return jnp.where(jnp.isfinite(x), jnp.spacing(x), np.nan).astype(x.dtype)


_BINARY: Mapping[str, Callable[..., Any]] = {
    "sub": lax.sub, "div": lax.div, "arctan2": lax.atan2,
    "nextafter": lax.nextafter, "bitwise_and": lax.bitwise_and, "bitwise_or": lax.bitwise_or,
    "bitwise_xor": lax.bitwise_xor, "equal": lax.eq, "not_equal": lax.ne,
}  # fmt: skip
_ORDERS: Mapping[str, tuple[Callable[..., Any], str]] = {
    "maximum": (lax.max, "maximum"), "minimum": (lax.min, "minimum"),
    "clip_below": (lax.max, "maximum"), "clip_above": (lax.min, "minimum"),
    "less": (lax.lt, "less"), "less_equal": (lax.le, "less_equal"),
    "greater": (lax.gt, "greater"), "greater_equal": (lax.ge, "greater_equal"),
}  # fmt: skip
_UNARY: Mapping[str, Callable[..., Any]] = {
    "neg": lax.neg, "exp": lax.exp, "exp2": lax.exp2, "expm1": lax.expm1, "log": lax.log, "log1p": lax.log1p,
    "sin": lax.sin, "cos": lax.cos, "tan": lax.tan, "sinh": lax.sinh, "cosh": lax.cosh, "tanh": lax.tanh,
    "sqrt": lax.sqrt, "square": lax.square, "arcsin": lax.asin, "arccos": lax.acos, "arctan": lax.atan,
    "arcsinh": lax.asinh, "arccosh": lax.acosh, "arctanh": lax.atanh, "plain_arccosh": lax.acosh,
    "invert": lax.bitwise_not, "positive": lambda x: x, "conj": jnp.conj,
    "sqrt_of_square": lax.sqrt, "absolute": jnp.abs, "plain_absolute": jnp.abs,
    "reciprocal": _reciprocal, "log2": jnp.log2, "log10": jnp.log10, "sign": jnp.sign,
    "rint": jnp.rint, "isfinite": jnp.isfinite, "isinf": jnp.isinf, "isnan": jnp.isnan,
    "logical_not": jnp.logical_not,
}  # fmt: skip
_REAL: Mapping[str, Callable[..., Any]] = {
    "cbrt": lax.cbrt, "deg2rad": jnp.deg2rad, "rad2deg": jnp.rad2deg, "fabs": jnp.abs,
    "signbit": jnp.signbit, "spacing": _spacing, "modf": _modf,
    "frexp": lambda x: tuple(jnp.frexp(x)), "bitwise_count": jnp.bitwise_count,
    "remainder": jnp.remainder, "fmod": jnp.fmod, "copysign": jnp.copysign, "ldexp": jnp.ldexp,
    "heaviside": jnp.heaviside, "floor_divide": _floor_divide, "left_shift": jnp.left_shift,
    "right_shift": jnp.right_shift, "gcd": _of_sizes(jnp.gcd), "lcm": _of_sizes(jnp.lcm), "hypot": jnp.hypot,
    "plain_hypot": jnp.hypot, "logaddexp2": jnp.logaddexp2, "fmax": jnp.fmax, "fmin": jnp.fmin,
}  # fmt: skip
_OTHERS: Mapping[str, Callable[..., Any]] = {
    "float_power": jnp.power, "plain_power": _plain_power, "logaddexp": jnp.logaddexp,
    "plain_logaddexp": jnp.logaddexp, "logical_and": jnp.logical_and, "logical_or": jnp.logical_or,
    "logical_xor": jnp.logical_xor,
}  # fmt: skip

for _name, _function in _BINARY.items():
    ufunc(PRIMITIVES[_name], broadcasting(_function))
# (XLA has no sums and products of bools)
ufunc(PRIMITIVES["add"], real_or(broadcasting(lax.add), jnp.logical_or, "b"))
ufunc(PRIMITIVES["mul"], real_or(broadcasting(lax.mul), jnp.logical_and, "b"))
for _name, (_function, _word) in _ORDERS.items():  # XLA has no order of complex numbers
    ufunc(PRIMITIVES[_name], real_or(broadcasting(_function), getattr(jnp, _word), "c"))
for _name, _function in {**_UNARY, **_OTHERS}.items():
    ufunc(PRIMITIVES[_name], _function)
for _name, _function in _REAL.items():
    ufunc(PRIMITIVES[_name], _function, complex_too=False)
for _name in ("floor", "ceil", "trunc"):
    ufunc(PRIMITIVES[_name], real_or(getattr(jnp, _name), lambda x: x, "biu"), complex_too=False)


@register(ops.power)
def _power(op: Operation, x: Value, n: Value) -> Any:
    dtypes = loop_dtypes(np.power, op.specs)
    x, n = (cast(v, d) for v, d in zip((x, n), dtypes, strict=False))
    if dtypes[0].kind in "iu":
        op.require(
            jnp.asarray(n) >= 0,
            ValueError,
            "Integers to negative integer powers are not allowed.",
        )
    return _plain_power(x, n)


def _sgn(x: Value) -> Any:
    return (
        jnp.where(jnp.isnan(x), 0, jnp.sign(x)).astype(x.dtype)
        if x.dtype.kind == "f"
        else jnp.sign(x)
    )


def _signed_remainder(x: Value, y: Value) -> Any:
    rest = jnp.remainder(x, y)
    return jnp.where(rest == 0, jnp.copysign(rest, x), rest)


register(PRIMITIVES["trunc_divide"])(untyped(lambda x, y: jnp.trunc(jnp.divide(x, y))))
register(PRIMITIVES["complex_reciprocal"])(typed(lambda x: 1 / x))
register(PRIMITIVES["complex_power"])(typed(jnp.power))
register(PRIMITIVES["sgn"])(untyped(_sgn))
register(PRIMITIVES["signed_remainder"])(typed(_signed_remainder))
register(PRIMITIVES["sigmoid"])(typed(jax.nn.sigmoid))
register(PRIMITIVES["relu"])(typed(lambda x: jnp.maximum(x, 0)))
register(PRIMITIVES["angle"])(untyped(jnp.angle))
register(PRIMITIVES["sinc"])(typed(jnp.sinc))
register(PRIMITIVES["complex"])(typed(lambda x, y: x + 1j * y))
register(PRIMITIVES["clip"])(typed(lambda x, low, high: jnp.minimum(jnp.maximum(x, low), high)))
register(PRIMITIVES["stop_gradient"])(untyped(lambda x: x))


@register(PRIMITIVES["where"])
def _where(op: Operation, condition: Value, x: Value, y: Value) -> Any:
    given = cast(condition, bool), cast(x, op.dtype), cast(y, op.dtype)
    return lax.select(*[widened(value, op.shape) for value in given])


@register(PRIMITIVES["round"])
def _round(op: Operation, x: Value, decimals: int) -> Any:
    if decimals < 0 and op.dtype.kind in "iu":  # half to even, as NumPy rounds integers
        unit = 10**-decimals
        half = jnp.floor_divide(x, unit)
        rest = x - half * unit
        up = (2 * rest > unit) | ((2 * rest == unit) & (half % 2 == 1))
        return (half + up) * unit
    return jnp.round(x, decimals)


register(PRIMITIVES["sinc_derivative"])(
    untyped(lambda x, order: ops.sinc_derivative_of(x, order, jnp))
)
