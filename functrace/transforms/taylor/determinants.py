"""Taylor coefficients of determinants, also at singular matrices.

The jvp rule of a determinant's second derivative inverts the matrix. Coefficients from 3 on are
those of the polynomial ``det(X(t))`` instead, by its values on a circle around 0, whose radius
balances its coefficients.

Source: D. A. Bini, V. Y. Pan, Polynomial and matrix computations (1994), section 1.2 (evaluation and
interpolation at roots of unity).

Layer: 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import Params
from functrace.ops.elementwise import (
    absolute,
    add,
    div,
    equal,
    log,
    logaddexp,
    maximum,
    mul,
    power,
    real,
    stop_gradient,
    sub,
    where,
)
from functrace.ops.linalg import cofactor_change_p, cofactor_p, det, det_p
from functrace.ops.matrices import last_two
from functrace.ops.reductions import reduce_max, reduce_min, reduce_sum
from functrace.ops.shaping import convert, reshape
from functrace.tracing.binding import bind
from functrace.transforms.taylor.series import Recurrence, Series, TaylorWalk, total

POINTS = 4, 18
"""Points on the circle, per order and per degree of the matrix: coefficients that alias are less than
1e-17 of it."""

RADII = 2.0 ** np.arange(-40, 41)
"""Radii of circles; one within a factor of sqrt(2) of the best loses no digits."""


def determinant(
    walk: TaylorWalk, operands: Sequence[Series], _params: Params, avals: tuple[ShapeDtype, ...]
) -> Any:
    """Return the series of a determinant, of matrices of size 4 on."""
    (x,) = operands
    assert x.aval is not None
    size = x.aval.shape[-1]
    if size < 4 or walk.order < 3:
        return None  # by the jvp rules, which hold for singular matrices

    def compute(k: int) -> Any:
        first = x.coefficient(0)
        if k == 0:
            return det(first)
        if k > 2:
            return _by_values([x.coefficient(i) for i in range(k + 1)], k, size, avals[0])
        axes = (x.aval.ndim - 2, x.aval.ndim - 1)  # type: ignore[union-attr]
        one, two = x.coefficient(1), x.coefficient(k)
        linear = None if two is None else reduce_sum(mul(two, bind(cofactor_p, (first,))), axes)
        if k == 1 or one is None:
            return linear
        bent = reduce_sum(mul(one, bind(cofactor_change_p, (first, one))), axes)
        return total([linear, mul(bent, 0.5)])

    return [Recurrence(avals[0], compute)]


def _by_values(terms: Sequence[Any], k: int, size: int, aval: ShapeDtype) -> Any:
    """Return coefficient k of a determinant, by its values on a circle."""
    moving = [i for i, term in enumerate(terms) if i and term is not None]
    if not moving:
        return None
    if size * moving[-1] < k:
        return None  # of lower degree
    wide = np.dtype(np.complex128 if aval.dtype.kind == "c" else np.float64)
    terms = [term if term is None else convert(term, wide) for term in terms]
    radius = stop_gradient(_radius(terms, moving, k, size))  # any one gives the same
    shape = shape_of(radius)
    is_real = aval.dtype.kind != "c"
    count = min(size * moving[-1], POINTS[0] * k + POINTS[1] * moving[-1]) + 1
    count += count % 2
    kept = np.arange(count // 2 + 1 if is_real else count)  # others are conjugate
    turns = np.exp(2j * math.pi * kept / count)
    weights = np.where((kept % (count // 2) == 0) | (not is_real), 1.0, 2.0) / count
    turned = turns.reshape((-1, *[1] * len(shape), 1, 1))
    at: Any = terms[0]
    for i in moving:
        scale = reshape(power(radius, float(i)), (*shape, 1, 1))
        at = add(at, mul(mul(terms[i], scale), turned**i))
    values = det(at)
    back = (weights * turns ** (-k)).reshape((-1, *[1] * len(shape)))
    found = reduce_sum(mul(values, back), (0,))
    found = div(real(found) if is_real else found, power(radius, float(k)))
    return convert(found, aval.dtype)


def _radius(terms: Sequence[Any], moving: Sequence[int], k: int, size: int) -> Any:
    """Return the radius at which a bound of the determinant is least, relative to the term of
    degree ``k``."""
    logs: list[Any] = []
    for i in (0, *moving):
        largest = reduce_max(absolute(terms[i]), last_two(terms[i]))
        logs.append((i, log(maximum(largest, 1e-300))))
    log_radii = np.log(RADII).reshape((-1, *[1] * len(shape_of(logs[0][1]))))
    bound: Any = None
    for i, one in logs:
        other = add(one, log_radii * i)
        bound = other if bound is None else logaddexp(bound, other)
    excess = sub(bound, log_radii * (k / size))
    is_best = equal(excess, reduce_min(excess, (0,)))
    return reduce_max(where(is_best, RADII.reshape(log_radii.shape), 0.0), (0,))


DETERMINANTS = {det_p: determinant}
"""Recurrences by primitive."""
