"""Triangular systems: every triangle, dtype, stack and memory order; with NumPy's BLAS, with
SciPy's, with none.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.ops.triangular import right_solve, solve_adjoint, solve_triangular
from tests.cases.linear_algebra import draw, regular
from tests.ops.libraries import LIBRARIES, use_library
from tests.oracles import differences

DTYPES = (np.float32, np.float64, np.complex64, np.complex128)
STACKS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()),
    ((2,), (2,)),
    ((), (2,)),
    ((3, 1), (2,)),
)


@pytest.fixture(params=LIBRARIES, autouse=True)
def library(request: Any, monkeypatch: Any) -> None:
    use_library(request.param, monkeypatch)


def triangle(a: Any, lower: bool, unit: bool) -> Any:
    """The matrix that a solve stands for."""
    part = np.tril(a) if lower else np.triu(a)
    n = a.shape[-1]
    return part * (1 - np.eye(n)) + np.eye(n) if unit else part


@pytest.mark.parametrize("lower, unit", list(itertools.product((True, False), repeat=2)))
@pytest.mark.parametrize("dtype", DTYPES)
def test_solutions_equal_numpys(lower: bool, unit: bool, dtype: Any) -> None:
    for left, right in STACKS:
        a, b = regular(*left, 3, 3, dtype=dtype), draw(*right, 3, 2, dtype=dtype)
        expected = np.linalg.solve(triangle(a, lower, unit), b)
        for given in (a, np.asfortranarray(a), np.repeat(a, 2, axis=-1)[..., ::2]):
            found = solve_triangular(given, b, lower=lower, unit=unit)
            assert found.dtype == dtype
            np.testing.assert_allclose(
                found, expected, rtol=1e-4 if np.finfo(dtype).eps > 1e-10 else 1e-12
            )


@pytest.mark.parametrize("shape", [(0, 0, 2), (3, 3, 0), (1, 1, 1)])
def test_empty_and_small(shape: tuple[int, int, int]) -> None:
    n, _, k = shape
    assert solve_triangular(np.eye(n), np.ones((n, k)), lower=True).shape == (n, k)


def test_zero_on_the_diagonal_raises() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        solve_triangular(np.diag([1.0, 0.0]), np.ones((2, 1)), lower=True)
    np.testing.assert_array_equal(
        solve_triangular(np.diag([1.0, 0.0]), np.ones((2, 1)), lower=True, unit=True), 1
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("lower, unit", list(itertools.product((True, False), repeat=2)))
@pytest.mark.parametrize(
    "solver", [solve_triangular, right_solve, solve_adjoint], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_derivatives_equal_differences(lower: bool, unit: bool, solver: Any, dtype: Any) -> None:
    a, b = regular(3, 3, dtype=dtype), draw(3, 3, dtype=dtype)
    first, second = (a, b) if solver is not right_solve else (b, a)

    def f(x: Any, y: Any) -> Any:
        return np.sin(np.abs(solver(x, y, lower=lower, unit=unit))) * np.arange(9.0).reshape(3, 3)

    directions = [draw(3, 3, seed=7, dtype=dtype), draw(3, 3, seed=8, dtype=dtype)]
    (expected,) = differences(f, [first, second], directions)
    _, found = ft.jvp(f, (first, second), tuple(directions))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
    gradients = ft.grad(lambda x, y: np.sum(f(x, y)), argnums=(0, 1))(first, second)
    pulled = sum(np.sum(g * d).real for g, d in zip(gradients, directions, strict=True))
    np.testing.assert_allclose(pulled, np.sum(expected), rtol=1e-7, atol=1e-7)

    def slope(x: Any) -> Any:
        return np.sum(np.abs(ft.grad(lambda x: np.sum(f(x, second)))(x)) ** 2)

    (expected,) = differences(slope, [first], directions[:1])
    np.testing.assert_allclose(
        ft.jvp(slope, (first,), (directions[0],))[1], expected, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("mapped", [(0, None), (None, 0), (0, 0)])
def test_mapped_equals_loop(mapped: tuple[int | None, int | None]) -> None:
    a = regular(4, 3, 3) if mapped[0] == 0 else regular(3, 3)
    b = draw(4, 3, 2) if mapped[1] == 0 else draw(3, 2)

    def f(a: Any, b: Any) -> Any:
        return solve_triangular(a, b, lower=True)

    expected = [f(a[k] if mapped[0] == 0 else a, b[k] if mapped[1] == 0 else b) for k in range(4)]
    np.testing.assert_allclose(ft.jit(ft.vmap(f, in_axes=mapped))(a, b), expected, rtol=1e-12)


def test_cholesky_and_qr_make_no_inverse() -> None:
    def f(x: Any) -> Any:
        lower = np.linalg.cholesky(x @ x.T + np.eye(3))
        return np.sum(np.linalg.qr(lower @ x)[1])

    names = {str(equation.primitive) for equation in ft.trace(ft.grad(f))(regular(3, 3)).equations}
    assert "solve_triangular" in names
    assert not names & {"inv", "solve"}
