"""Minimax polynomials of the native kernels, by the exchange algorithm of Remez, with mpmath.

``python -m tests.native.minimax NAME`` fits a polynomial of `POLYNOMIALS` again. The coefficients in
`functrace.native.kernels` were fitted like this; those of some low degrees were rounded to the
format first, and the others fitted again.

Source: E. Remez (1934); N. Brisebarre and J.-M. Muller, "Correctly rounded multiplication by
arbitrary precision constants" (2008), on rounded coefficients.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mpmath
from mpmath import mpf

from functrace.native import kernels
from functrace.native.kernels import DOUBLE, SINGLE

mpmath.mp.prec = 200


def horner(coefficients: Sequence[Any], x: Any) -> Any:
    """Evaluate a polynomial; the coefficients ascend with the powers.

    (mpmath's own function changed its order in version 1.4.)
    """
    total = mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


class Polynomial(NamedTuple):
    """A polynomial p and the function f that it stands for.

    Args:
        coefficients: of p, the constant first.
        function: f.
        interval: where p is used.
        weight: ``(p - f) * weight`` is the relative error of the kernel.
        bits: the largest error is below ``2**-bits``.
    """

    coefficients: Sequence[float]
    function: Callable[[Any], Any]
    interval: tuple[Any, Any]
    weight: Callable[[Any], Any]
    bits: float

    def error(self, points: int = 60) -> Any:
        """Return the largest error at some points, as ``-log2``."""
        errors = [
            abs((horner(self.coefficients, x) - self.function(x)) * self.weight(x))
            for x in _points(*self.interval, points)
        ]
        return -mpmath.log(max(errors), 2)


def _points(a: Any, b: Any, count: int) -> list[Any]:
    """Return Chebyshev points."""
    a, b = mpf(a), mpf(b)
    turn = mpmath.pi / (2 * count)
    return [(a + b + (a - b) * mpmath.cos(turn * (2 * k + 1))) / 2 for k in range(count)]


def remez(
    function: Callable[[Any], Any],
    interval: tuple[Any, Any],
    weight: Callable[[Any], Any],
    count: int,
    steps: int = 10,
) -> list[Any]:
    """Return the coefficients of the polynomial with the smallest weighted error.

    Args:
        function: the function.
        interval: where.
        weight: of the error; not zero at the points.
        count: number of coefficients.
        steps: the most exchanges.
    """
    nodes = _points(*interval, count + 1)
    grid = _points(*interval, 600)
    values, weights = [function(x) for x in grid], [weight(x) for x in grid]
    solution: Any = None
    for _ in range(steps):
        rows = [[*(x**k for k in range(count)), (-1) ** i / weight(x)] for i, x in enumerate(nodes)]
        solution = mpmath.lu_solve(mpmath.matrix(rows), [function(x) for x in nodes])
        coefficients = [solution[k] for k in range(count)]
        errors = [
            (horner(coefficients, x) - y) * w for x, y, w in zip(grid, values, weights, strict=True)
        ]
        extremes = [0]
        for i, error in enumerate(errors):
            if (error > 0) != (errors[extremes[-1]] > 0):
                extremes.append(i)
            elif abs(error) > abs(errors[extremes[-1]]):
                extremes[-1] = i
        while len(extremes) > count + 1:
            extremes.pop(0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1)
        if len(extremes) <= count or (found := [grid[i] for i in extremes]) == nodes:
            break
        nodes = found
    return [solution[k] for k in range(count)]


def _of_square(function: Callable[[Any], Any], first: int) -> Callable[[Any], Any]:
    """Return ``(function(x) / x - 1) / x**(2 first)`` in the variable ``x**2``; 1/3 of x**2 is removed
    for ``first == 2``.
    """
    removed = mpf(1) / 3 if first == 2 else mpf(0)

    def quotient(z: Any) -> Any:
        x = mpmath.sqrt(z)
        return (function(x) / x - 1 - removed * z) / z**first

    return quotient


def _gaussian(center: float) -> Callable[[Any], Any]:
    def scaled(t: Any) -> Any:
        a = center * (1 + t) / (1 - t)
        return (1 + 2 * a) * mpmath.erfc(a) * mpmath.exp(a * a)

    return scaled


_TINY = mpf("1e-6")
_HALF_LN2 = mpmath.log(2) / 2
_SMALL = _HALF_LN2**2
_ATANH = (3 - 2 * mpmath.sqrt(2)) ** 2
_QUARTER = (mpmath.pi / 4) ** 2
_private = vars(kernels)


def _in_two_formats(
    name: str,
    function: Callable[[Any], Any],
    interval: tuple[Any, Any],
    weight: Callable[[Any], Any],
    bits: tuple[float, float],
) -> dict[str, Polynomial]:
    table = _private[f"_{name}"]
    return {
        f"{name} {form.dtype}": Polynomial(table[form], function, interval, weight, limit)
        for form, limit in zip((DOUBLE, SINGLE), bits, strict=True)
    }


def _tail_interval(form: kernels.Format, last: str) -> tuple[Any, Any]:
    center = _private["_ERFC"][form][0]
    return mpf(-1), (mpf(last) - center) / (mpf(last) + center)


POLYNOMIALS: dict[str, Polynomial] = {
    **_in_two_formats(
        "EXPM1", lambda r: (mpmath.expm1(r) - r) / r**2, (-_HALF_LN2, _HALF_LN2),
        lambda r: r**2 / mpmath.exp(r), (63, 27),
    ),
    **_in_two_formats("SINH", _of_square(mpmath.sinh, 1), (_TINY, _SMALL), lambda z: z, (65, 34)),
    **_in_two_formats(
        "COSH", lambda z: (mpmath.cosh(mpmath.sqrt(z)) - 1) / z, (_TINY, _SMALL), lambda z: z,
        (69, 33),
    ),
    **_in_two_formats(
        "LOG", lambda z: 2 * _of_square(mpmath.atanh, 1)(z), (_TINY, _ATANH), lambda z: z / 2,
        (59, 35),
    ),
    "LOG_TAIL": Polynomial(
        _private["_LOG_TAIL"], _of_square(mpmath.atanh, 2), (_TINY, _ATANH), lambda z: z**2, 73
    ),
    "SIN float64": Polynomial(
        _private["_SIN"], _of_square(mpmath.sin, 1), (_TINY, _QUARTER), lambda z: z, 57
    ),
    "SIN float32": Polynomial(
        _private["_SIN_SINGLE"], _of_square(mpmath.sin, 1), (_TINY, _QUARTER), lambda z: z, 32
    ),
    "COS float64": Polynomial(
        _private["_COS"], lambda z: (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2,
        (_TINY, _QUARTER), lambda z: z**2, 63,
    ),
    "COS float32": Polynomial(
        _private["_COS_SINGLE"], lambda z: (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2,
        (_TINY, _QUARTER), lambda z: z**2, 36,
    ),
    **_in_two_formats(
        "ARCSIN", _of_square(mpmath.asin, 1), (_TINY, mpf(1) / 4), lambda z: z, (59, 31)
    ),
    **_in_two_formats("ARCTAN", _of_square(mpmath.atan, 1), (_TINY, 1), lambda z: z, (55, 27)),
    "CBRT": Polynomial(
        _private["_CBRT"], mpmath.cbrt, (mpmath.sqrt(0.5), mpmath.sqrt(2)), lambda m: 1, 19
    ),
    **_in_two_formats(
        "ERF", lambda z: _of_square(mpmath.erf, 1)(z) * z, (_TINY, 1), lambda z: 1, (56, 28)
    ),
    "ERFC float64": Polynomial(
        _private["_ERFC"][DOUBLE][1], _gaussian(3.0), _tail_interval(DOUBLE, "27.3"),
        lambda t: 1, 53,
    ),
    "ERFC float32": Polynomial(
        _private["_ERFC"][SINGLE][1], _gaussian(2.0), _tail_interval(SINGLE, "10.1"),
        lambda t: 1, 25,
    ),
}  # fmt: skip
"""The polynomials of the kernels, by name."""


if __name__ == "__main__":
    chosen = POLYNOMIALS[" ".join(sys.argv[1:])]
    fitted = remez(chosen.function, chosen.interval, chosen.weight, len(chosen.coefficients))
    print(*[float(x) for x in fitted], sep=", ")
    rounded = chosen._replace(coefficients=[float(x) for x in fitted])
    print(f"2**-{float(rounded.error()):.1f}; as in the kernels: 2**-{float(chosen.error()):.1f}")
