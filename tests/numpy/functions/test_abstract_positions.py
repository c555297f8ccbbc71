"""`insert` and `delete` at abstract positions: NumPy's results, and its errors when the program
runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ConcretizationError, UnsupportedFunctionError

ARRAYS = [
    ((4,), 0),
    ((3, 4), 0),
    ((3, 4), -1),
    ((2, 3, 2), 1),
    ((3, 4), None),
    ((0, 2), 0),
    ((0,), 0),
]
rng = np.random.default_rng(9)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("shape", "axis"), ARRAYS, ids=str)
def test_insert(shape: Any, axis: int | None) -> None:
    a = rng.normal(size=shape)
    n = a.size if axis is None else shape[axis]
    for place in (0, n, -n, [n], [0, n], [n, 0, n], [-n, 0, 0], np.zeros(0, int)):
        for value in (9.0, np.arange(np.size(place)) if axis is None or a.ndim == 1 else 1):
            f = lambda a, k, v: np.insert(a, k, v, axis)
            expected = f(a, place, value)
            for found in (
                ft.jit(f)(a, np.asarray(place), value),
                ft.jit(lambda a, k: f(a, k, value))(
                    a, place if isinstance(place, int) else np.asarray(place)
                ),
                ft.jit(lambda k: f(a, k, value))(np.asarray(place)),
                ft.vmap(lambda a, k: f(a, k, value), max_paths=0)(
                    np.stack([a, a]), np.stack([place, place])
                )[1],
            ):
                assert found.shape == expected.shape and found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)
            found = ft.jit(ft.grad(lambda a, k: np.sum(f(a, k, value) ** 2)))(a, np.asarray(place))
            np.testing.assert_array_equal(found, 2 * a)
            found = ft.jit(ft.jacrev(lambda v, k: f(a, k, v)))(
                np.asarray(value, float), np.asarray(place)
            )
            np.testing.assert_array_equal(
                found, ft.jacfwd(lambda v: f(a, place, v))(np.asarray(value, float))
            )


@pytest.mark.parametrize(("shape", "axis"), ARRAYS, ids=str)
def test_delete(shape: Any, axis: int | None) -> None:
    a = rng.normal(size=shape)
    n = a.size if axis is None else shape[axis]
    f = lambda a, k: np.delete(a, k, axis)
    for place in (0, n - 1, -1, -n) if n else ():
        for k in (place, np.int64(place)):
            found = ft.jit(f)(a, k)
            np.testing.assert_array_equal(found, f(a, place))
        expected = ft.grad(lambda a: np.sum(f(a, place) ** 2))(a)
        np.testing.assert_array_equal(
            ft.jit(ft.grad(lambda a, k: np.sum(f(a, k) ** 2)))(a, place), expected
        )


@pytest.mark.parametrize(
    "function", [lambda a, k: np.insert(a, k, 1.0), np.delete], ids=["insert", "delete"]
)
def test_a_place_out_of_bounds_raises_when_the_program_runs(function: Any) -> None:
    a = np.arange(3.0)
    jitted = ft.jit(function)
    for place in (-4, 4):
        for call in (function, jitted):
            with pytest.raises(IndexError, match="out of bounds for axis 0 with size 3"):
                call(a, place)
    np.testing.assert_array_equal(jitted(a, 1), function(a, 1))


def test_an_abstract_number_of_positions_raises() -> None:
    a = np.arange(3.0)
    for call in (
        lambda: ft.jit(np.delete)(a, np.array([0, 0])),
        lambda: ft.jit(np.delete)(a, a > 1),
        lambda: ft.jit(lambda a, k: np.insert(a, k, 1.0))(a, a > 1),
    ):
        with pytest.raises(ConcretizationError, match=r"test_abstract_positions\.py"):
            call()


@pytest.mark.parametrize(
    "operation", ["p * p", "p + q", "p - q", "p // q", "p % q", "p / 2.0", "divmod(p, q)"]
)
@pytest.mark.parametrize("kind", ["Polynomial", "Chebyshev", "HermiteE"])
def test_operators_of_abstract_polynomials_suggest_a_fix(kind: str, operation: str) -> None:
    make = getattr(np.polynomial, kind)

    @ft.numpy.lift
    def f(c: Any) -> Any:
        found = eval(operation, {"p": make(c), "q": make([1.0, 2.0])})
        return (found[0] if isinstance(found, tuple) else found).coef

    c = np.array([1.0, 2.0, 3.0])
    with pytest.raises(
        UnsupportedFunctionError,
        match=r"with traced coefficients(.|\n)*np\.convolve(.|\n)*guards=True",
    ):
        ft.jit(f)(c)
    found, expected = (eval(operation, {"p": make(c), "q": make([1.0, 2.0])}) for _ in range(2))
    expected = expected[0] if isinstance(found, tuple) else expected
    if operation in ("p + q", "p - q") or (kind == "Polynomial" and operation == "p * p"):
        np.testing.assert_allclose(ft.jit(f, guards=True)(c), expected.coef)


def test_errors_of_the_users_own_about_polynomials_stay() -> None:
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        ft.jit(lambda x: np.polynomial.Polynomial([1.0]) * {} * x)(1.0)
    assert "traced" not in str(caught.value)
