"""Independent routes to expected values: differences, complex steps, loops. None of them uses
functrace's transforms.

A function under test takes arrays and returns one array (or a pytree of them); `outputs_of`
flattens what it returns to a list of arrays, so that every property is stated once for any number
of results.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import functrace as ft
from functrace.executor.config import NATIVE
from functrace.tree import leaves

Function = Callable[..., Any]
Arrays = Sequence[Any]


def outputs_of(result: Any) -> list[Any]:
    """Flatten what a function returned to a list of arrays."""
    return leaves(result)


def attempt(run: Callable[[], Any]) -> Any:
    """The leaves of what is returned, as arrays, or the exception; without warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return [np.asarray(leaf) for leaf in leaves(run())]
        except Exception as error:
            return error


def is_inexact(x: Any) -> bool:
    """Return True if an array can carry derivatives."""
    return np.asarray(x).dtype.kind in "fc"


def assert_same(
    found: Any, expected: Any, *, rtol: float = 0.0, atol: float = 0.0, what: str = ""
) -> None:
    """Assert equal dtype, shape and values (NaN equals NaN); exact by default, with machine code up
    to rounding, relative to the largest element.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    if NATIVE[0]:
        rounding = precision(expected)
        with np.errstate(all="ignore"):
            atol = min(max(atol, rounding * scale(expected)), np.finfo(np.float64).max)
        rtol = max(rtol, rounding)
    assert found.dtype == expected.dtype, f"{what}: dtype {found.dtype}, expected {expected.dtype}"
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            found, expected, rtol=rtol, atol=atol, equal_nan=True, err_msg=what
        )


def assert_bits(found: Any, expected: Any, *, what: str = "") -> None:
    """Assert equal bits; with machine code, what `assert_same` does."""
    assert_same(found, expected, what=what)
    if not NATIVE[0]:
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes(), f"{what}: other bits"


def precision(*values: Any) -> float:
    """Rounding that two routes to the same values may differ by: a few hundred ulps of the coarsest
    dtype.
    """
    kinds = [np.asarray(v).dtype for v in values]
    return max([200 * float(np.finfo(d).eps) for d in kinds if d.kind in "fc"], default=0.0)


def is_same(found: Any, expected: Any) -> bool:
    """Return True for equal dtypes, shapes, numbers and signs; signs of NaNs do not count. With
    machine code, numbers are equal up to rounding.
    """
    a, b = np.asarray(found), np.asarray(expected)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "c":
        return is_same(np.real(a), np.real(b)) and is_same(np.imag(a), np.imag(b))
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    rounding = precision(b) if NATIVE[0] else 0.0
    has_sign = np.isnan(b) | (np.signbit(a) == np.signbit(b))
    return bool(np.all(has_sign & np.isclose(a, b, rounding, 0.0, equal_nan=True)))


def assert_same_layout(found: Any, expected: Any) -> None:
    """Assert equal strides; with machine code, whose results are in C order, either these or C
    order.
    """
    assert found.strides == expected.strides or (NATIVE[0] and found.flags.c_contiguous)


def comparable(x: Any) -> Any:
    """Return an array whose bytes and signs may be compared: machine code promises no particular
    nan, so there all are the same one.
    """
    if not (NATIVE[0] and is_inexact(x)):
        return np.asarray(x)
    made: Any = np.array(x)
    for part in (made.real, made.imag) if made.dtype.kind == "c" else (made,):
        part[np.isnan(part)] = np.nan
    return made


def scale(x: Any) -> float:
    """Return the size of the largest finite element; 0 for an array without one."""
    sizes = np.abs(np.asarray(x)).ravel()
    return float(np.max(sizes[np.isfinite(sizes)], initial=0.0)) if is_inexact(x) else 0.0


def random_like(rng: np.random.Generator, x: Any) -> Any:
    """Draw a direction of the shape and dtype of ``x``, with elements of size at most 1."""
    x = np.asarray(x)
    drawn = rng.uniform(-1.0, 1.0, x.shape)
    if x.dtype.kind == "c":
        drawn = drawn + 1j * rng.uniform(-1.0, 1.0, x.shape)
    return np.asarray(drawn, x.dtype)[()]


def replaced(args: Arrays, positions: Sequence[int], values: Arrays) -> list[Any]:
    """Return ``args`` with the values at ``positions`` exchanged."""
    made = list(args)
    for k, value in zip(positions, values, strict=True):
        made[k] = value
    return made


def restricted(f: Function, args: Arrays, positions: Sequence[int]) -> Function:
    """Return ``f`` as a function of the arguments at ``positions`` only."""
    return lambda *values: f(*replaced(args, positions, values))


def differences(f: Function, args: Arrays, directions: Arrays) -> list[np.ndarray[Any, Any]]:
    """Derivative of ``f`` along ``directions`` by central differences with one Richardson step
    (error O(h^4)).
    """
    arrays = [np.asarray(a) for a in args]
    coarsest = max([np.finfo(a.dtype).eps for a in arrays if a.dtype.kind in "fc"], default=1.0)
    h = 1e-4 if coarsest < 1e-10 else 2e-2

    def at(step: float) -> list[Any]:
        moved = [np.asarray(a + step * d, a.dtype) for a, d in zip(arrays, directions, strict=True)]
        return [np.asarray(y) for y in outputs_of(f(*moved))]

    def central(step: float) -> list[Any]:
        return [(a - b) / (2 * step) for a, b in zip(at(step), at(-step), strict=True)]

    coarse, fine = central(h), central(h / 2)
    return [(4 * b - a) / 3 for a, b in zip(coarse, fine, strict=True)]


def complex_step(f: Function, args: Arrays, directions: Arrays) -> list[Any] | None:
    """Derivative by a complex step (no cancellation: exact to rounding), or ``None`` if ``f`` does
    not extend to it.
    """
    h = 1e-30
    try:
        with np.errstate(all="ignore"):
            moved = outputs_of(
                f(
                    *(
                        np.asarray(a) + 1j * h * np.asarray(d)
                        for a, d in zip(args, directions, strict=True)
                    )
                )
            )
    except (TypeError, ValueError, np.linalg.LinAlgError, np.exceptions.ComplexWarning):
        return None
    if not all(np.asarray(y).dtype.kind == "c" for y in moved):
        return None
    return [np.asarray(y).imag / h for y in moved]


def inner(left: Arrays, right: Arrays) -> complex:
    """Unconjugated inner product of two lists of arrays."""
    total = 0.0 + 0.0j
    for a, b in zip(left, right, strict=True):
        if a is not None and b is not None and is_inexact(b):
            total += complex(np.sum(np.asarray(a, np.complex128) * np.asarray(b, np.complex128)))
    return total


def scalar_of(f: Function, weights: Arrays) -> Function:
    """Return the function that sums the outputs of ``f`` with fixed weights (real part): a scalar
    to take gradients of.
    """

    def weighted(*args: Any) -> Any:
        total: Any = 0.0
        for y, w in zip(outputs_of(f(*args)), weights, strict=True):
            if w is not None:
                total = total + np.real(np.sum(y * w))
        return total

    return weighted


def stacked(f: Function, batch: Arrays) -> list[Any]:
    """Apply ``f`` to each example of a batch in a Python loop and stack the results."""
    rows = [outputs_of(f(*(b[k] for b in batch))) for k in range(len(batch[0]))]
    return [np.stack([np.asarray(r[k]) for r in rows]) for k in range(len(rows[0]))]


def emitted(program: ft.Program) -> Function:
    """Run a program's NumPy source in an empty module and return the function that it defines."""
    source = program.as_python("emitted")
    namespace: dict[str, Any] = {}
    exec(compile(source, "<emitted>", "exec"), namespace)
    return namespace["emitted"]
