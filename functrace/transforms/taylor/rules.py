"""Recurrences for Taylor coefficients, one row per primitive.

Products are convolutions of coefficients; a quotient, a root or a solution of a linear system is
the series that solves its equation. For other primitives see Note [Taylor coefficients from jvp rules].

Source: A. Griewank, A. Walther, Evaluating Derivatives (2008), table 13.1.

Layer: 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Params, Primitive
from functrace.ops.contraction import dot_p, einsum_p, matmul, matmul_in_parts_p, matmul_p
from functrace.ops.convolution import correlate_filters_p, correlate_input_p, correlate_p
from functrace.ops.elementwise import (
    div,
    equal,
    mul,
    neg,
    power,
    reciprocal,
    sqrt,
    square,
    sub,
    where,
)
from functrace.ops.grids import convolve_grids_p
from functrace.ops.joining import convolve_p
from functrace.ops.linalg import solve, solve_p
from functrace.ops.sparse import sparse_matmul_p
from functrace.tracing.binding import bind
from functrace.transforms.taylor.determinants import DETERMINANTS
from functrace.transforms.taylor.series import Recurrence, Rule, Series, TaylorWalk, total

Operands = Sequence[Series]
Avals = tuple[ShapeDtype, ...]

MOST_POWER = 64
"""Largest integer exponent whose power is computed by products, which hold at 0, too."""


def product_of(primitive: Primitive) -> Rule:
    """Return the rule of a product: a primitive that is linear in each operand that moves."""

    def rule(walk: TaylorWalk, operands: Operands, params: Params, avals: Avals) -> Any:
        moving = [k for k, series in enumerate(operands) if not series.is_constant]
        if len(moving) != 2:
            return None  # linear in the one that moves

        (a, b), values = moving, list(operands)

        def term(i: int, j: int) -> Any:
            x, y = values[a].coefficient(i), values[b].coefficient(j)
            if x is None or y is None:
                return None
            given = [s.coefficient(0) for s in values]
            given[a], given[b] = x, y
            return bind(primitive, tuple(given), params)

        if primitive is mul and values[a] is values[b]:
            return [squared(values[a], avals[0])]
        return [Recurrence(avals[0], lambda k: total([term(i, k - i) for i in range(k + 1)]))]

    return rule


def squared(x: Series, aval: ShapeDtype) -> Series:
    """Return the square of a series: each mixed product once."""

    def compute(k: int) -> Any:
        if k == 0:
            return square(x.coefficient(0))
        mixed = total(
            [_product(x.coefficient(i), x.coefficient(k - i)) for i in range((k + 1) // 2)]
        )
        mixed = None if mixed is None else mul(mixed, 2.0)
        middle = x.coefficient(k // 2) if k % 2 == 0 else None
        return total([mixed, None if middle is None else square(middle)])

    return Recurrence(aval, compute)


def _product(x: Any, y: Any) -> Any:
    return None if x is None or y is None else mul(x, y)


def _less(x: Any, y: Any) -> Any:
    return x if y is None else neg(y) if x is None else sub(x, y)


def quotient(x: Series, y: Series, aval: ShapeDtype) -> Series:
    """Return the series z with z y = x."""

    def compute(k: int) -> Any:
        if k == 0:
            return div(x.coefficient(0), y.coefficient(0))
        known = total([_product(y.coefficient(j), z.coefficient(k - j)) for j in range(1, k + 1)])
        left = _less(x.coefficient(k), known)
        return None if left is None else div(left, y.coefficient(0))

    z = Recurrence(aval, compute)
    return z


def _quotient(walk: TaylorWalk, operands: Operands, _params: Params, avals: Avals) -> Any:
    x, y = operands
    return None if y.is_constant else [quotient(x, y, avals[0])]


def _reciprocal(walk: TaylorWalk, operands: Operands, _params: Params, avals: Avals) -> Any:
    (x,) = operands

    def compute(k: int) -> Any:
        if k == 0:
            return reciprocal(x.coefficient(0))
        known = total([_product(x.coefficient(j), z.coefficient(k - j)) for j in range(1, k + 1)])
        return None if known is None else neg(mul(known, z.coefficient(0)))

    z = Recurrence(avals[0], compute)
    return [z]


def _root(walk: TaylorWalk, operands: Operands, _params: Params, avals: Avals) -> Any:
    (x,) = operands

    def compute(k: int) -> Any:
        if k == 0:
            return sqrt(x.coefficient(0))
        known = total([_product(z.coefficient(j), z.coefficient(k - j)) for j in range(1, k)])
        left = _less(x.coefficient(k), known)
        return None if left is None else div(mul(left, 0.5), z.coefficient(0))

    z = Recurrence(avals[0], compute)
    return [z]


def _square(walk: TaylorWalk, operands: Operands, _params: Params, avals: Avals) -> Any:
    return [squared(operands[0], avals[0])]


def _power(walk: TaylorWalk, operands: Operands, _params: Params, avals: Avals) -> Any:
    x, exponent = operands
    if exponent.aval is not None or x.aval is None:
        return None  # by the jvp rule, which knows the kinks of other exponents
    n = exponent.coefficient(0)
    if isinstance(n, complex | bool) or not math.isfinite(n):
        return None
    if n == int(n) and 0 < n <= MOST_POWER:
        return [_integer_power(walk, operands, int(n), avals[0])]
    if n == 0:
        return None

    def compute(k: int) -> Any:
        first = x.coefficient(0)
        if k == 0:
            return power(first, n)
        terms = [
            None if (c := _product(x.coefficient(j), z.coefficient(k - j))) is None
            else mul(c, n * j - (k - j))
            for j in range(1, k + 1)
        ]  # fmt: skip
        found = total(terms)
        if found is None:
            return None
        at_zero = equal(first, 0)
        made = div(found, mul(where(at_zero, 1.0, first), float(k)))
        # At 0, derivatives of lower order than n are 0, and others do not exist.
        return where(at_zero, 0.0 if 0 < k < n else float("nan"), made)

    z = Recurrence(avals[0], compute)
    return [z]


def _integer_power(walk: TaylorWalk, operands: Operands, n: int, aval: ShapeDtype) -> Series:
    """Return a power by repeated squaring; coefficient 0 is NumPy's power."""
    base, found = operands[0], None
    first, left = base, n
    while left:
        if left % 2:
            found = base if found is None else walk.apply(mul, [found, base], ())[0]
        left //= 2
        if left:
            base = walk.apply(square, [base], ())[0]
    made = found
    assert made is not None
    return Recurrence(
        aval, lambda k: power(first.coefficient(0), n) if k == 0 else made.coefficient(k)
    )


def _solve(walk: TaylorWalk, operands: Operands, _params: Params, avals: Avals) -> Any:
    a, b = operands
    if a.is_constant:
        return None

    def compute(k: int) -> Any:
        if k == 0:
            return solve(a.coefficient(0), b.coefficient(0))
        known = total([
            None if (m := a.coefficient(j)) is None or (x := z.coefficient(k - j)) is None
            else matmul(m, x)
            for j in range(1, k + 1)
        ])  # fmt: skip
        left = _less(b.coefficient(k), known)
        return None if left is None else solve(a.coefficient(0), left)

    z = Recurrence(avals[0], compute)
    return [z]


BILINEAR: tuple[Primitive, ...] = (
    convolve_grids_p, convolve_p, correlate_filters_p, correlate_input_p, correlate_p, dot_p, einsum_p,
    matmul_in_parts_p, matmul_p, mul, sparse_matmul_p,
)  # fmt: skip

RULES: Mapping[Primitive, Rule] = {
    **{primitive: product_of(primitive) for primitive in BILINEAR},
    div: _quotient,
    reciprocal: _reciprocal,
    sqrt: _root,
    square: _square,
    power: _power,
    solve_p: _solve,
    **DETERMINANTS,
}
"""Recurrences by primitive."""
