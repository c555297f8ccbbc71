"""`Multiprecision`: arrays of mpmath's numbers, with any number of digits.

It has elementwise functions, moved elements, sums and products of matrices, and factorizations by
elimination. Other operations are left to `debug.precision`, which linearizes them.

Layer: 6.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, final

import mpmath
import numpy as np

from functrace.diagnostics.arithmetic import Arithmetic, Number
from functrace.ir.primitive import Primitive
from functrace.ops import elementwise as ew
from functrace.ops.checks import require_p
from functrace.ops.cholesky import cholesky_p
from functrace.ops.contraction import einsum_p, matmul_p
from functrace.ops.cumulative import cumprod_p, cumsum_p
from functrace.ops.edges import (
    clamp,
    complex_power,
    complex_reciprocal,
    lerp,
    plain_absolute,
    plain_power,
    rsqrt,
    sgn,
)
from functrace.ops.foreign import returned_p
from functrace.ops.indexing import embed_p, gather_p, index_p, scatter_add_p, scatter_set_p
from functrace.ops.joining import concatenate_p, stack_p
from functrace.ops.linalg import det_p, inv_p, norm_p, solve_p
from functrace.ops.naming import name_p
from functrace.ops.reductions import (
    log_softmax_p,
    logsumexp_p,
    reduce_max_p,
    reduce_min_p,
    reduce_prod_p,
    reduce_sum_p,
    shared_p,
    softmax_p,
    variance_p,
)
from functrace.ops.shaping import (
    broadcast_to_p,
    convert_p,
    diagonal_p,
    embed_diagonal_p,
    permute_p,
    real,
    reshape_p,
    roll_p,
)
from functrace.ops.solutions import required_p
from functrace.ops.sorting import add_along_axis_p, take_along_axis_p
from functrace.ops.triangular import solve_triangular_p
from functrace.ops.windows import put_flat_p, take_flat_p
from functrace.typing import Array

LONG: type = np.longdouble
LONG_COMPLEX: type = np.clongdouble

SUMS: frozenset[Primitive] = frozenset(
    {
        ew.add, ew.sub, ew.mul, ew.neg, ew.square, cumprod_p, cumsum_p, einsum_p, matmul_p,
        reduce_prod_p, reduce_sum_p,
    }
)  # fmt: skip
"""Operations whose eval rules add and multiply, for numbers of any class."""
MOVES: frozenset[Primitive] = frozenset(
    {
        add_along_axis_p, broadcast_to_p, concatenate_p, diagonal_p, embed_diagonal_p, embed_p,
        gather_p, index_p, name_p, permute_p, put_flat_p, required_p, reshape_p, returned_p, roll_p,
        scatter_add_p, scatter_set_p, shared_p, stack_p, take_along_axis_p, take_flat_p,
    }
)  # fmt: skip
"""Operations whose eval rules move elements, at positions that are integers."""
BRANCHED: frozenset[Primitive] = frozenset(
    {
        ew.arccos, ew.arccosh, ew.arcsin, ew.arctan, ew.arctanh, ew.log, ew.log10, ew.log1p, ew.log2,
        ew.power, ew.sqrt, ew.angle, complex_power,
    }
)  # fmt: skip
"""Functions with a branch cut on the real axis, whose side is decided by the sign of a zero."""


@final
class Multiprecision(Arithmetic):
    """Arrays of mpmath's numbers.

    Args:
        digits: decimal digits.
        is_perturbed: True to change rounded results at random by a rounding error.
    """

    real = complex_ = np.dtype(object)

    def __init__(self, digits: int, *, is_perturbed: bool = False) -> None:
        self.context: Any = mpmath.MPContext()  # its own, so that the process's precision stays
        self.context.dps = digits
        super().__init__(self.context.eps * 1 if is_perturbed else None)
        self._convert = np.frompyfunc(self._number, 1, 1)
        self._elementwise = {p: self._each(f) for p, f in self._functions().items()}
        self._arrays = self._array_functions()

    def _number(self, x: Number) -> Any:
        context = self.context
        if hasattr(x, "_mpf_"):
            return context.make_mpf(x._mpf_)
        if hasattr(x, "_mpc_"):
            return context.make_mpc(x._mpc_)
        if isinstance(x, LONG):
            high = float(x)
            return context.mpf(high) + (context.mpf(float(x - high)) if np.isfinite(high) else 0)
        if isinstance(x, LONG_COMPLEX):
            return context.mpc(self._number(x.real), self._number(x.imag))
        plain = x.item() if isinstance(x, np.generic) else x
        return context.mpc(plain) if isinstance(plain, complex) else context.mpf(plain)

    def lift(self, value: Number) -> Any:
        """Return a floating or complex value in this arithmetic, exactly."""
        value = np.asarray(value)
        if value.dtype.kind == "V":  # bfloat16
            value = value.astype(np.float64)
        kept = value if value.dtype in (np.longdouble, np.clongdouble) else value.astype(object)
        made = np.empty(value.shape, object)
        made[...] = self._convert(kept) if value.shape else self._number(value[()])
        return made

    def apply(
        self,
        primitive: Primitive,
        operands: Sequence[Any],
        params: tuple[Any, ...],
        *,
        is_complex: bool,
    ) -> tuple[Any, ...] | None:
        """Apply an operation; ``None`` if this arithmetic does not have it."""
        kinds = "fc" if primitive in MOVES else "iufc"
        given = [_in(self, x, kinds) for x in operands]
        function = self._elementwise.get(primitive) or self._arrays.get(primitive)
        if primitive in MOVES or primitive in SUMS:
            function = primitive.eval
        elif is_complex and primitive in BRANCHED and self._is_on_cut(given):
            return None
        if function is None:
            return None
        found = function(*given, *params)
        made = np.empty(np.shape(found), object)
        made[...] = found
        clean = np.frompyfunc(functools.partial(self._clean, is_complex=is_complex), 1, 1)
        result = np.empty(made.shape, object)
        result[...] = clean(made)
        return (self.perturbed(primitive, given, result),)

    def _is_short(self, value: Number) -> Array:
        most = self.context.prec // 2

        def is_short(x: Number) -> bool:
            x = self._number(x)
            parts = x._mpc_ if isinstance(x, self.context.mpc) else (x._mpf_,)
            return all(bits <= most for _, _, _, bits in parts)

        return np.asarray(np.frompyfunc(is_short, 1, 1)(value), bool)

    def _clean(self, x: Number, *, is_complex: bool) -> Any:
        """Return a number: of an array of one number, and NaN for a function's complex value where
        it is undefined for reals."""
        number = x[()] if isinstance(x, np.ndarray) else x
        is_undefined = not is_complex and isinstance(number, self.context.mpc)
        return self.context.nan if is_undefined else number

    def _is_on_cut(self, operands: Sequence[Any]) -> bool:
        """Return True if a complex element is real: mpmath's zeros have no sign."""
        return any(not self._number(x).imag for a in operands for x in np.ravel(a))

    def error(self, value: Number, exact: Number, tiny: float) -> Array:
        """Return relative errors; see `Arithmetic.error`."""
        context = self.context

        def distance(a: Number, b: Number) -> float:
            a, b = self._number(a), self._number(b)
            if not (context.isfinite(a) and context.isfinite(b)):
                return 0.0 if a == b or (context.isnan(a) and context.isnan(b)) else np.inf
            if a == b:
                return 0.0
            size = max(abs(b), tiny)
            return float(abs(a - b) / size) if size else np.inf

        value = np.asarray(value)
        if value.dtype.kind == "V":
            value = value.astype(np.float64)
        kept = value if value.dtype in (np.longdouble, np.clongdouble) else value.astype(object)
        found = np.empty(np.broadcast_shapes(kept.shape, np.shape(exact)), np.float64)
        found[...] = np.frompyfunc(distance, 2, 1)(kept, exact)
        return found

    def narrow(self, value: Number) -> Any:
        """Return values rounded to float64 or complex128."""
        value = np.asarray(value, object)
        is_complex = any(isinstance(x, self.context.mpc) for x in value.flat)
        return value.astype(np.complex128 if is_complex else np.float64)

    def text(self, value: Number, digits: int) -> str:
        """Write one value."""
        number = self._number(np.asarray(value, object)[()])
        if isinstance(number, self.context.mpc):
            return f"{complex(number):.{digits}g}"
        return str(self.context.nstr(number, digits, min_fixed=-5, max_fixed=digits))

    # -- elementwise -------------------------------------------------------------------------------

    def _each(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of arrays; poles are infinite, and other undefined values NaN."""
        context = self.context

        def one(*values: Number) -> Any:
            try:
                return function(*values)
            except ZeroDivisionError:
                is_zero = len(values) > 1 and not values[0]
                return context.nan if is_zero else context.inf
            except (ValueError, OverflowError):
                return context.nan

        def call(*operands: Number) -> Any:
            return np.frompyfunc(one, len(operands), 1)(*operands)

        return call

    def _functions(self) -> dict[Primitive, Callable[..., Any]]:
        c = self.context
        ten = c.mpf(10)

        def power(x: Number, y: Number) -> Any:
            return c.mpf(1) if y == 0 else c.power(x, y)

        def log(x: Number) -> Any:
            return c.log(x) if x else -c.inf

        def cbrt(x: Number) -> Any:
            return -c.cbrt(-x) if x < 0 else c.cbrt(x)

        def larger(x: Number, y: Number) -> Any:
            return x + y if c.isnan(x) or c.isnan(y) else max(x, y)

        def smaller(x: Number, y: Number) -> Any:
            return x + y if c.isnan(x) or c.isnan(y) else min(x, y)

        def copysign(x: Number, y: Number) -> Any:
            return -abs(x) if y < 0 else abs(x)

        def logaddexp(x: Number, y: Number) -> Any:
            return x if x == y == -c.inf else log(c.exp(x) + c.exp(y))

        def remainder(x: Number, y: Number) -> Any:
            return x - y * c.floor(x / y)

        def fmod(x: Number, y: Number) -> Any:
            quotient = x / y
            return x - y * (c.floor(quotient) if quotient > 0 else c.ceil(quotient))

        def sinc_of(x: Number) -> Any:
            return c.sincpi(x)

        def signed(x: Number) -> Any:
            return x / abs(x) if x else x

        return {
            ew.div: operator.truediv, ew.reciprocal: lambda x: 1 / x, ew.positive: lambda x: x,
            ew.power: power, ew.float_power: power, complex_power: power,
            complex_reciprocal: lambda x: 1 / x,
            ew.sqrt: c.sqrt, ew.sqrt_of_square: c.sqrt, rsqrt: lambda x: 1 / c.sqrt(x), ew.cbrt: cbrt,
            ew.exp: c.exp, ew.exp2: lambda x: c.power(2, x), ew.expm1: c.expm1, ew.log: log,
            ew.log2: lambda x: log(x) / c.log(2), ew.log10: lambda x: log(x) / c.log(ten),
            ew.log1p: lambda x: c.log1p(x) if x != -1 else -c.inf,
            ew.logaddexp: logaddexp,
            ew.logaddexp2: lambda x, y: log(c.power(2, x) + c.power(2, y)) / c.log(2),
            ew.sin: c.sin, ew.cos: c.cos, ew.tan: c.tan, ew.arcsin: c.asin, ew.arccos: c.acos,
            ew.arctan: c.atan, ew.arctan2: c.atan2, ew.hypot: c.hypot, ew.sinh: c.sinh,
            ew.cosh: c.cosh, ew.tanh: c.tanh, ew.arcsinh: c.asinh, ew.arccosh: c.acosh,
            ew.arctanh: c.atanh, ew.deg2rad: lambda x: x * c.pi / 180,
            ew.rad2deg: lambda x: x * 180 / c.pi, ew.sinc: sinc_of,
            ew.sigmoid: lambda x: 1 / (1 + c.exp(-x)), ew.relu: lambda x: larger(x, c.mpf(0)),
            ew.maximum: larger, ew.minimum: smaller, ew.clip_below: larger, ew.clip_above: smaller,
            plain_absolute: abs, plain_power: power,
            ew.fmax: lambda x, y: y if c.isnan(x) else x if c.isnan(y) else max(x, y),
            ew.fmin: lambda x, y: y if c.isnan(x) else x if c.isnan(y) else min(x, y),
            ew.clip: lambda x, low, high: smaller(larger(x, low), high),
            clamp: lambda x, low, high: smaller(larger(x, low), high),
            ew.remainder: remainder, ew.fmod: fmod, ew.copysign: copysign, ew.absolute: abs,
            ew.fabs: abs, ew.conj: c.conj, real: c.re, ew.imag: c.im, ew.angle: c.arg,
            ew.complex_of: lambda x, y: c.mpc(x, y), ew.sign: signed, sgn: signed,
            ew.where: lambda which, x, y: x if which else y, ew.stop_gradient: lambda x: x,
            lerp: lambda x, y, t: x + t * (y - x), convert_p: lambda x, *_: x,
        }  # fmt: skip

    # -- arrays ------------------------------------------------------------------------------------

    def _array_functions(self) -> dict[Primitive, Callable[..., Any]]:
        each, c = self._elementwise, self.context

        def extreme(choose: Primitive) -> Callable[..., Any]:
            def reduced(x: Number, axes: tuple[int, ...]) -> Any:
                for axis in reversed(axes):
                    parts = [np.take(x, n, axis) for n in range(x.shape[axis])]
                    x = functools.reduce(each[choose], parts)
                return x

            return reduced

        def logsumexp(x: Number, axes: tuple[int, ...]) -> Any:
            return each[ew.log](np.add.reduce(each[ew.exp](x), axis=axes) + c.mpf(0))

        def softmax(x: Number, axis: int) -> Any:
            powers = each[ew.exp](x)
            return each[ew.div](powers, np.add.reduce(powers, axis, keepdims=True) + c.mpf(0))

        def variance(x: Number, axes: tuple[int, ...], correction: float) -> Any:
            size = int(np.prod([x.shape[k] for k in axes]))
            centred = x - np.add.reduce(x, axis=axes, keepdims=True) / c.mpf(size)
            total = np.add.reduce(each[real](centred * each[ew.conj](centred)), axis=axes)
            return each[ew.div](total, c.mpf(max(size - correction, 0)))

        def norm(x: Number, axes: tuple[int, ...]) -> Any:
            squares = each[real](x * each[ew.conj](x))
            return each[ew.sqrt](np.add.reduce(squares, axis=axes) + c.mpf(0))

        def first(x: Number, *_rest: Number) -> Any:
            return x

        return {
            reduce_max_p: extreme(ew.maximum),
            reduce_min_p: extreme(ew.minimum),
            logsumexp_p: logsumexp,
            softmax_p: softmax,
            log_softmax_p: lambda x, axis: each[ew.log](softmax(x, axis)),
            variance_p: variance,
            norm_p: norm,
            convert_p: first,
            require_p: first,
            solve_p: _stacked("(n,n),(n,k)->(n,k)", self._solved),
            solve_triangular_p: lambda a, b, lower, unit: _stacked(
                "(n,n),(n,k)->(n,k)",
                functools.partial(self._substituted, lower=lower, unit=unit),
            )(a, b),
            inv_p: _stacked("(n,n)->(n,n)", self._inverse),
            det_p: _stacked("(n,n)->()", self._determinant),
            cholesky_p: _stacked("(n,n)->(n,n)", self._cholesky),
        }

    def _matrix(self, a: Array) -> Any:
        """Return a matrix of mpmath, or ``None`` if an element is not finite."""
        is_finite = all(self.context.isfinite(x) for x in a.flat)
        return self.context.matrix(a.tolist()) if is_finite else None

    def _solved(self, a: Array, b: Array) -> Array:
        """Solve a system with one or several right-hand sides; NaN for a singular matrix."""
        matrix, made = self._matrix(a), np.full(b.shape, self.context.nan, object)
        if matrix is None:
            return made
        for column, given in zip(np.atleast_2d(made.T), np.atleast_2d(b.T), strict=True):
            try:
                column[:] = list(self.context.lu_solve(matrix, list(given)))
            except ZeroDivisionError:  # it is singular
                return made
        return made

    def _inverse(self, a: Array) -> Array:
        return self._solved(a, self.lift(np.eye(len(a))))

    def _determinant(self, a: Array) -> Any:
        matrix = self._matrix(a)
        return self.context.nan if matrix is None else self.context.det(matrix)

    def _substituted(self, a: Array, b: Array, *, lower: bool, unit: bool) -> Array:
        x = b.copy()
        for k in range(len(a)) if lower else reversed(range(len(a))):
            for n in range(k) if lower else range(k + 1, len(a)):
                x[k] = x[k] - a[k, n] * x[n]
            if not unit:
                x[k] = x[k] / a[k, k] if a[k, k] else x[k] * self.context.nan
        return x

    def _cholesky(self, a: Array) -> Array:
        below = np.tril(a, -1)  # NumPy reads no more of the matrix than this and the real diagonal
        whole = below + np.conj(below.T) + np.diag([self.context.re(x) for x in np.diag(a)])
        made, matrix = np.full(a.shape, self.context.nan, object), self._matrix(whole)
        if matrix is not None:
            try:
                made[...] = self.context.cholesky(matrix).tolist()
            except ValueError:  # it is not positive definite
                return made
        return made


def _in(arithmetic: Multiprecision, x: Number, kinds: str) -> Any:
    """Return a value in an arithmetic, if its dtype is of one of some kinds."""
    return arithmetic.lift(x) if np.asarray(x).dtype.kind in kinds else x


def _stacked(signature: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of stacks of matrices; a second operand with one axis is a vector."""

    def call(*operands: Array) -> Any:
        is_vector = len(operands) > 1 and operands[1].ndim == 1
        used = signature.replace("(n,k)", "(n)") if is_vector else signature
        return np.vectorize(function, otypes=[object], signature=used)(*operands)

    return call
