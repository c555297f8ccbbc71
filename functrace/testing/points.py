"""A function at a point, for checks: from differentiable leaves to differentiable leaves.

Layer: 8 (api).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from functrace.api.capture.arguments import ARRAYS, NUMERIC, check_function, function_name
from functrace.errors import ArgumentError
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.tracing.tracer import Tracer, as_array
from functrace.tree import flatten, paths, unflatten
from functrace.typing import Array, PyTree

Values = Sequence[Array | float]
Flat = Callable[..., list[Any]]
OPERANDS: tuple[type[Any], ...] = ARRAYS
"""Types of operands, for `isinstance` of anything: narrows to `Any` for a type checker."""


@final
class CheckedCall:
    """A function, and the arguments of its check.

    Args:
        f: the function.
        args: the arguments: a tuple of pytrees.
        transform: the checking function, for messages.
    """

    def __init__(self, f: Callable[..., object], args: Sequence[object], transform: str) -> None:
        check_function(f, transform, "{0}(f, (x,)), {0} of f at x")
        if not isinstance(args, tuple | list):
            raise ArgumentError(
                f"{transform}: args is a {type(args).__name__}, not a tuple with one entry per "
                "argument",
                fix=f"{transform}(f, (x,))",
            )
        self.f, self.name = f, function_name(f)
        self.leaves, self.tree = flatten(tuple(args))
        self.places = [
            k
            for k, leaf in enumerate(self.leaves)
            if isinstance(leaf, NUMERIC) and is_inexact(leaf)
        ]
        for k in self.places:
            if isinstance(self.leaves[k], Tracer):
                raise ArgumentError(
                    f"{transform}: an argument is traced",
                    fix="check outside of transforms, on arrays",
                )
        names = paths(tuple(args))
        self.names = [f"args{names[k]}" for k in self.places]
        self.values = [np.asarray(self.leaves[k]).copy()[()] for k in self.places]

    def flat(self, *values: object) -> list[Any]:
        """Call the function with other values; return the differentiable leaves of its result."""
        leaves = list(self.leaves)
        for place, value in zip(self.places, values, strict=True):
            leaves[place] = value
        result = self.f(
            *unflatten(self.tree, [x.copy() if isinstance(x, np.ndarray) else x for x in leaves])
        )
        return [
            leaf for leaf in flatten(result)[0] if isinstance(leaf, NUMERIC) and is_inexact(leaf)
        ]

    def result_names(self) -> list[str]:
        """Return the access paths of the results of `flat`."""
        result = self.f(
            *unflatten(
                self.tree, [x.copy() if isinstance(x, np.ndarray) else x for x in self.leaves]
            )
        )
        leaves = flatten(result)[0]
        return [
            f"result{path}"
            for path, leaf in zip(paths(result), leaves, strict=True)
            if isinstance(leaf, NUMERIC) and is_inexact(leaf)
        ]


def aval(value: PyTree) -> ShapeDtype:
    """Return the aval of an array, a number or a traced value."""
    return aval_of(value if isinstance(value, OPERANDS) else as_array(value))


def is_inexact(value: PyTree) -> bool:
    """Return True if a value can have a derivative."""
    return aval(value).dtype.kind in "fc"


def plain(values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Convert values to arrays."""
    return [np.asarray(value) for value in values]


def directions(rng: np.random.Generator, values: Values) -> list[Any]:
    """Draw a direction for every value, with elements of size about 1."""
    drawn: list[Any] = []
    for value in values:
        one = aval(value)
        made = rng.uniform(0.5, 1.0, one.shape) * rng.choice([-1.0, 1.0], one.shape)
        if one.dtype.kind == "c":
            made = made + 1j * rng.uniform(0.5, 1.0, one.shape) * rng.choice([-1.0, 1.0], one.shape)
        drawn.append(np.asarray(made, one.dtype)[()])
    return drawn


def product(left: Sequence[Any], right: Sequence[Any]) -> float:
    """Return the real part of the product of two lists of arrays, without conjugation."""
    total = 0.0
    for a, b in zip(left, right, strict=True):
        kind = np.result_type(aval(a).dtype, aval(b).dtype, np.float64)
        total += float(np.sum(np.asarray(a, kind) * np.asarray(b, kind)).real)
    return total


def size_of(left: Sequence[Any], right: Sequence[Any]) -> float:
    """Return the sum of the absolute terms of a `product`, which bounds its rounding."""
    return sum(
        float(np.sum(np.abs(np.asarray(a) * np.asarray(b))))
        for a, b in zip(left, right, strict=True)
    )


# -- numerical derivatives -------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Settings:
    """Steps and tolerances of the comparisons.

    Args:
        eps: step of differences.
        atol, rtol: tolerances of comparisons with differences.
        exact: tolerance of comparisons up to rounding.
        complex_step: whether to use complex steps; ``None`` where they agree with differences.
    """

    eps: float
    atol: float
    rtol: float
    exact: float
    complex_step: bool | None
    is_given: bool


def settings(
    values: Values,
    eps: float | None,
    complex_step: bool | None,
    atol: float | None,
    rtol: float | None,
) -> Settings:
    """Choose defaults from the coarsest precision."""
    coarsest = max(float(np.finfo(aval(value).dtype).eps) for value in values)
    step, tolerance, exact = next(row[1:] for row in _BY_PRECISION if coarsest <= row[0])
    return Settings(
        eps=step if eps is None else eps,
        atol=tolerance if atol is None else atol,
        rtol=tolerance if rtol is None else rtol,
        exact=exact,
        complex_step=complex_step,
        is_given=atol is not None or rtol is not None,
    )


_BY_PRECISION = ((1e-10, 1e-4, 1e-5, 1e-8), (1e-6, 2e-2, 5e-3, 1e-3), (1.0, 1e-1, 1e-1, 3e-2))
"""Rows of machine epsilon, step, tolerance of differences, and tolerance of exact routes."""


def differences(flat: Flat, values: Values, along: Values, eps: float) -> list[Any]:
    """Differentiate along a direction by central differences with one step of Richardson's: the
    error is O(eps**4).
    """

    def at(step: float) -> list[np.ndarray[Any, Any]]:
        moved = [
            np.asarray(x + step * np.asarray(d), aval(x).dtype)[()]
            for x, d in zip(plain(values), along, strict=True)
        ]
        return plain(flat(*moved))

    def central(step: float) -> list[Any]:
        return [(np.subtract(a, b)) / (2 * step) for a, b in zip(at(step), at(-step), strict=True)]

    with np.errstate(all="ignore"):
        return [
            (4 * fine - coarse) / 3
            for coarse, fine in zip(central(eps), central(eps / 2), strict=True)
        ]


def complex_steps(flat: Flat, values: Values, along: Values) -> list[Any] | None:
    """Differentiate by a step in the imaginary direction, which is exact; ``None`` if the function
    does not support it."""
    if any(aval(value).dtype.kind == "c" for value in values):
        return None
    step = 1e-30
    moved = [np.asarray(x) + 1j * step * np.asarray(d) for x, d in zip(values, along, strict=True)]
    try:
        with np.errstate(all="ignore"):
            found = plain(flat(*moved))
    except (
        TypeError,
        ValueError,
        ArithmeticError,
        np.linalg.LinAlgError,
        np.exceptions.ComplexWarning,
    ):
        return None
    if any(y.dtype.kind != "c" for y in found):
        return None
    return [y.imag / step for y in found]


def errors(
    found: Sequence[Any], expected: Sequence[Any], atol: float, rtol: float
) -> list[np.ndarray[Any, Any]]:
    """Return the errors by element, in units of the tolerance; infinite where only one of both is
    NaN."""
    result: list[np.ndarray[Any, Any]] = []
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        with np.errstate(all="ignore"):
            off = np.abs(np.subtract(a, b, dtype=np.result_type(a, b, np.float64))) / (
                atol + rtol * np.abs(b)
            )
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        result.append(np.where(same, 0.0, np.where(np.isnan(off), np.inf, off)))
    return result


def worst(found: Sequence[np.ndarray[Any, Any]]) -> float:
    """Return the largest of errors by element."""
    return max((float(error.max()) for error in found if error.size), default=0.0)
