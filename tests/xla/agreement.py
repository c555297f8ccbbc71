"""Agreement of programs under XLA with NumPy's results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import functrace as ft
from functrace.errors import ConcretizationError
from functrace.passes import optimized
from functrace.xla.lowering import Options, lower
from functrace.xla.program import BEFORE_LOWERING
from functrace.xla.rows import HOST
from functrace.xla.rows.special import FUNCTIONS

MOST_ROUNDING = 100
"""In units of rounding of the largest element of a result: sums and products add in another order."""
ON_HOST = Options(
    host_callbacks=frozenset([*HOST, *FUNCTIONS, "matrix_function", "frechet"]), most_steps=100
)
"""Options under which primitives without a form run on the host."""


def flattened(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the same arguments that returns a tuple of arrays."""
    return lambda *args: tuple(ft.tree.leaves(f(*args)))


def assert_agrees(f: Callable[..., Any], args: list[Any], most: float) -> None:
    """Assert that XLA computes what NumPy computes: same dtypes, shapes and integers, nan at the same
    places, numbers up to rounding.

    Args:
        f: a function of arrays.
        args: its arguments.
        most: units of rounding.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            program = ft.trace(flattened(f))(*args)
        except ConcretizationError:  # needs values, so no program can hold it
            return
        expected = ft.tree.leaves(ft.evaluate(program, *args))
        function, errors = lower(optimized(program, BEFORE_LOWERING), ON_HOST)
        with jax.enable_x64(True):
            level = {"xla_backend_optimization_level": 0}
            found, numbers = jax.jit(function, compiler_options=level)(*args)
        errors.check(*numbers or (0,))
    assert len(found) == len(expected)
    for place, (x, y) in enumerate(zip(found, expected, strict=True)):
        worst = rounding_between(np.asarray(x), np.asarray(y))
        assert worst <= most, f"result {place}: {worst:.3g} roundings off:\n{x}\nNumPy:\n{y}"


def rounding_between(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> float:
    """Return the largest difference, in units of rounding of the largest element of ``y``."""
    assert (x.dtype, x.shape) == (y.dtype, y.shape)
    if y.dtype.kind not in "fc":
        np.testing.assert_array_equal(x, y)
        return 0.0
    np.testing.assert_array_equal(np.isnan(x), np.isnan(y), "nan at other places")
    is_same = (x == y) | np.isnan(y)
    sizes = np.abs(y[np.isfinite(y)])
    unit = float(np.finfo(y.dtype).eps) * max(float(np.max(sizes, initial=0.0)), 1e-300)
    with np.errstate(all="ignore"):
        off = np.where(is_same, 0.0, np.abs(x - y)).astype(float)
    return float(np.max(off, initial=0.0)) / unit
