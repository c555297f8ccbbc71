"""SciPy's own function beside ours: the same call, with its arrays traced, without values."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

import functrace as ft
from functrace.errors import FunctraceError
from functrace.tree import leaves


def found_and_expected(
    ours: ModuleType, theirs: ModuleType, name: str, *args: Any, **options: Any
) -> Any:
    """The results, or exceptions, of both functions."""
    places = [k for k, x in enumerate(args) if isinstance(x, np.ndarray) and x.dtype.kind in "fc"]

    def call(*traced: Any) -> Any:
        given = list(args)
        for k, x in zip(places, traced, strict=True):
            given[k] = x
        return getattr(ours, name)(*given, **options)

    def attempt(function: Any, *given: Any, **more: Any) -> Any:
        try:
            return function(*given, **more)
        except (ValueError, TypeError, RuntimeError, IndexError) as error:
            return error

    expected = attempt(getattr(theirs, name), *args, **options)
    return attempt(ft.jit(call), *[args[k] for k in places]), expected


def assert_as_scipy(
    ours: ModuleType, theirs: ModuleType, name: str, *args: Any, rtol: float = 1e-12, **options: Any
) -> None:
    """Equal values, shapes and dtypes; or an error of ours, that names the function, where SciPy
    has one.

    Args:
        rtol: relative to the largest element.
    """
    found, expected = found_and_expected(ours, theirs, name, *args, **options)
    what = f"{name} of {[np.shape(x) for x in args]} with {options}"
    if isinstance(expected, Exception):
        assert isinstance(found, FunctraceError), (
            f"{what}: {found!r}, but SciPy raises {expected!r}"
        )
        assert "fix:" in str(found)
        return
    if isinstance(found, Exception):
        raise AssertionError(what) from found
    assert len(leaves(found)) == len(leaves(expected)), what
    for y, z in zip(leaves(found), leaves(expected), strict=True):
        y, z = np.asarray(y), np.asarray(z)
        assert (y.shape, y.dtype) == (z.shape, z.dtype), (
            f"{what}: {y.dtype}{y.shape}, expected {z.dtype}{z.shape}"
        )
        single = z.dtype in (np.float32, np.complex64)
        tol = max(rtol, 2e-6 if single else 0.0)
        np.testing.assert_allclose(
            y, z, rtol=tol, atol=tol * np.max(np.abs(z), initial=1e-300), err_msg=what
        )
