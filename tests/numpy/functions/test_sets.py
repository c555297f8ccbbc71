"""Functions of one set and of two, on sets of 0, 1, 2 and 3 elements and numbers, plain beside
traced: as NumPy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import FunctraceError
from tests.oracles import attempt

ONE: dict[str, Callable[[Any], Any]] = {
    "unique": np.unique,
    "unique with all": lambda x: np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    ),
    "unique along an axis": lambda x: np.unique(x, axis=0, return_counts=True),
    "unique_all": np.unique_all,
    "unique_counts": np.unique_counts,
    "unique_inverse": np.unique_inverse,
    "unique_values": np.unique_values,
    "trim_zeros": np.trim_zeros,
    "ediff1d": np.ediff1d,
}

TWO: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: getattr(np, name)
        for name in ("union1d", "intersect1d", "setxor1d", "setdiff1d", "isin", "append", "ediff1d")
    },
    **{
        f"{name} of what is unique": lambda x, y, name=name: getattr(np, name)(
            x, y, assume_unique=True
        )
        for name in ("intersect1d", "setxor1d", "setdiff1d", "isin")
    },
    "intersect1d with indices": lambda x, y: np.intersect1d(x, y, return_indices=True),
    "isin not": lambda x, y: np.isin(x, y, invert=True),
    "concatenate": lambda x, y: np.concatenate((x, y), axis=None),
    "concatenate three": lambda x, y: np.concatenate((x, y, 2), axis=None),
    "concatenate to a dtype": lambda x, y: np.concatenate((x, y), axis=None, dtype="f8"),
}

DTYPES = ("float64", "float32", "int64", "uint8", "bool", "complex128")
PAIRS = [
    ("float64", "float64"),
    *(pair for kind in DTYPES[1:] for pair in ((kind, "float64"), ("float64", kind))),
]
ELEMENTS = ([], [9.0], [2.0, 1.0], [3.0, 0.0, 9.0], [2.0, 1.0, 2.0])
MORE = ([2.0], [0.0], [2.0, 2.0], [[2.0, 9.0], [9.0, 1.0]])


def _sets(dtype: str) -> Iterator[Any]:
    """Arrays of 0 to 3 elements with and without ties, of no axes, of two; of float64, an unordered
    one with odd values.
    """
    for elements in (*ELEMENTS, *(MORE if dtype == "float64" else ())):
        yield np.array(elements).astype(dtype)
    yield np.array(9.0).astype(dtype)
    if dtype == "float64":
        yield np.float64(9.0)
        yield np.array([np.nan, np.inf, np.nan])
        yield np.array([np.nan])


NUMBERS = (9.0, True, 300)


def _check(f: Callable[..., Any], *args: Any, what: Any) -> None:
    """Compare values, shapes and dtypes under grad's kind of recording, forward mode, and jit
    (which may need values).
    """
    expected = attempt(lambda: f(*args))
    floats = [isinstance(x, np.generic | np.ndarray) and x.dtype.kind in "fc" for x in args]
    runs: list[tuple[str, Callable[[], Any]]] = [
        ("vjp", lambda: ft.vjp(f, *args)[0]),
        ("jvp", lambda: ft.jvp(f, args, tuple(np.ones_like(x) for x in args))[0]),
    ]
    runs = runs if all(floats) else []
    for name, run in (*runs, ("jit", lambda: ft.jit(f)(*args))):
        got = attempt(run)
        if isinstance(got, ft.errors.ConcretizationError) and name == "jit":
            continue
        if isinstance(expected, Exception):
            assert isinstance(got, FunctraceError) or type(got) is type(expected), (
                what,
                name,
                got,
                expected,
            )
            continue
        assert not isinstance(got, Exception), (what, name, got)
        for p, q in zip(got, expected, strict=True):
            assert (p.shape, p.dtype) == (q.shape, q.dtype), (what, name, p, q)
            np.testing.assert_array_equal(p, q, err_msg=f"{what} {name}")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ONE)
def test_one_set_of_every_size(name: str, dtype: str) -> None:
    for x in _sets(dtype):
        _check(ONE[name], x, what=(name, x))


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtypes", PAIRS, ids="-".join)
@pytest.mark.parametrize("name", TWO)
def test_two_sets_of_every_size_one_of_them_plain(name: str, dtypes: tuple[str, str]) -> None:
    f = TWO[name]
    for x, y in itertools.product(_sets(dtypes[0]), list(_sets(dtypes[1]))):
        _check(lambda x, y=y: f(x, y), x, what=(name, x, y, "plain on the right"))
        _check(lambda y, x=x: f(x, y), y, what=(name, x, y, "plain on the left"))


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", TWO)
def test_a_set_with_a_python_number(name: str, dtype: str) -> None:
    f = TWO[name]
    for x, number in itertools.product(_sets(dtype), NUMBERS):
        _check(lambda x, number=number: f(x, number), x, what=(name, x, number))
        _check(lambda x, number=number: f(number, x), x, what=(name, number, x))
        _check(f, x, number, what=(name, x, number, "both traced"))
        _check(f, number, x, what=(name, number, x, "both traced"))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", TWO)
def test_two_traced_sets(name: str) -> None:
    for x, y in itertools.product(_sets("float64"), _sets("float32")):
        _check(TWO[name], x, y, what=(name, x, y, "both traced"))


@pytest.mark.parametrize("name", ["union1d", "setxor1d", "setdiff1d", "intersect1d"])
def test_a_traced_and_a_plain_element_under_every_transform(name: str) -> None:
    f: Any = getattr(np, name)
    other, step = np.array([1.5]), np.array([1e-6, 0.0])

    def total(x: Any) -> Any:
        return np.sum(f(other, x[:1]) * 2.0) + np.sum(f(x[:1], 7.0))

    for x in (np.array([1.0, 2.0]), np.array([1.5, 2.0])):
        assert ft.value_and_grad(total)(x)[0] == total(x)
        assert ft.jvp(total, (x,), (x,))[0] == total(x)
    x = np.array([1.0, 2.0])
    if name in ("setxor1d", "setdiff1d"):
        np.testing.assert_allclose(
            ft.grad(total)(x), [(total(x + step) - total(x - step)) / 2e-6, 0.0], rtol=1e-6
        )
