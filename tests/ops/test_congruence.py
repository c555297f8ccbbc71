"""The congruence product of Cholesky's rule: every dtype, stack and memory order; with NumPy's
BLAS, with SciPy's, with none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.ops import cholesky
from functrace.ops.congruence import multiply_triangular, solve_congruence
from functrace.ops.triangular import solve_triangular
from functrace.tracing.binding import bind
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
FORMS: dict[str, Any] = {
    "lower product": lambda a, b: multiply_triangular(a, b, lower=True),
    "upper product": lambda a, b: multiply_triangular(a, b, lower=False),
    "congruence": lambda a, b: solve_congruence(a, b),
    "adjoint congruence": lambda a, b: solve_congruence(a, b, adjoint=True),
    "change of a factor": lambda a, b: bind(cholesky.cholesky_change_p, (a, b)),
    "pullback to a matrix": lambda a, b: bind(cholesky.cholesky_pullback_p, (a, b)),
}


@pytest.fixture(params=LIBRARIES, autouse=True)
def library(request: Any, monkeypatch: Any) -> None:
    use_library(request.param, monkeypatch)


def halved(x: Any) -> Any:
    return np.tril(x) - np.eye(x.shape[-1]) * x / 2


def hermitian(x: Any) -> Any:
    return (x + np.conj(x.swapaxes(-1, -2))) / 2


def expected_of(form: str, a: Any, b: Any) -> Any:
    lower, half = np.tril(a), hermitian(b)
    if form.endswith("product"):
        return (lower if form == "lower product" else np.triu(a)) @ b
    inverse = np.linalg.inv(lower)
    adjoint = np.conj(inverse.swapaxes(-1, -2))
    if form == "change of a factor":
        return lower @ halved(inverse @ half @ adjoint)
    if form == "pullback to a matrix":
        return adjoint @ hermitian(halved(np.conj(lower.swapaxes(-1, -2)) @ np.tril(b))) @ inverse
    return inverse @ half @ adjoint if form == "congruence" else adjoint @ half @ inverse


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values(form: str, dtype: Any) -> None:
    for left, right in STACKS:
        a, b = regular(*left, 4, 4, dtype=dtype), draw(*right, 4, 4, dtype=dtype)
        expected = expected_of(form, a, b)
        for given in (
            a,
            np.asfortranarray(a),
            np.repeat(a, 2, axis=-1)[..., ::2],
            a[..., ::-1, ::-1].copy()[..., ::-1, ::-1],
        ):
            found = FORMS[form](given, b)
            assert found.dtype == dtype
            np.testing.assert_allclose(
                found, expected, rtol=1e-4 if np.finfo(dtype).eps > 1e-10 else 1e-11, atol=1e-5
            )
            if not form.endswith(("product", "factor")):
                np.testing.assert_allclose(
                    found, np.conj(found.swapaxes(-1, -2)), rtol=1e-5, atol=1e-6
                )


def test_the_other_triangle_is_not_read() -> None:
    a, b = regular(3, 3), draw(3, 3)
    a[np.triu_indices(3, 1)] = np.nan
    for form in FORMS.keys() - {"upper product"}:
        assert np.isfinite(FORMS[form](a, b)).all()
    assert np.isfinite(multiply_triangular(a.T, b, lower=False)).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [0, 1])
def test_empty_and_small(form: str, n: int) -> None:
    expected = np.full((n, n), 0.5 if form.endswith(("factor", "matrix")) else 1.0)
    np.testing.assert_array_equal(FORMS[form](np.eye(n), np.ones((n, n))), expected)


def test_zero_on_the_diagonal_raises() -> None:
    for form in FORMS.keys() - {"lower product", "upper product"}:
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            FORMS[form](np.diag([1.0, 0.0]), np.ones((2, 2)))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("n", [cholesky.BLOCK, cholesky.BLOCK + 1, 2 * cholesky.BLOCK + 5])
def test_several_blocks(n: int, dtype: Any) -> None:
    form = "pullback to a matrix"
    a, b = np.eye(n, dtype=dtype) * 9 + draw(n, n, dtype=dtype), draw(2, n, n, dtype=dtype)
    kept = b.copy()
    found, expected = FORMS[form](a, b), expected_of(form, a.astype(np.complex128), b)
    assert found.dtype == dtype
    assert (
        np.abs(found - expected).max()
        < (1e-4 if dtype is np.float32 else 1e-12) * np.abs(expected).max()
    )
    np.testing.assert_array_equal(b, kept)


@pytest.mark.parametrize("dtype", [np.dtype(dtype) for dtype in DTYPES], ids=str)
def test_triangles_in_any_layout_and_stacks_of_any_shape(dtype: Any) -> None:
    whole = regular(2, 8, 8, dtype=dtype)
    corner = whole[:, 1:5, 1:5]
    for a in (
        corner,
        corner.swapaxes(-1, -2),
        whole[:, ::2, ::2],
        corner[:, ::-1, ::-1],
        corner[0].astype(dtype.newbyteorder()),
    ):
        for b in (
            draw(4, 2, dtype=dtype),
            draw(2, 4, dtype=dtype).T,
            draw(3, 1, 4, 1, dtype=dtype),
            draw(0, 1, 4, 2, dtype=dtype),
        ):
            for lower, unit in ((True, False), (False, True)):
                triangle = np.tril(a, -1 if unit else 0) if lower else np.triu(a, 1 if unit else 0)
                x = solve_triangular(a, b, lower=lower, unit=unit)
                made = (triangle + np.eye(4) if unit else triangle) @ x
                np.testing.assert_allclose(
                    made, np.broadcast_to(b, made.shape), rtol=1e-3, atol=1e-3
                )
                assert x.dtype == dtype


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_derivatives_equal_differences(form: str, dtype: Any) -> None:
    a, b = regular(3, 3, dtype=dtype), draw(3, 3, dtype=dtype)

    def f(x: Any, y: Any) -> Any:
        return np.sin(np.abs(FORMS[form](x, y))) * np.arange(9.0).reshape(3, 3)

    directions = [draw(3, 3, seed=7, dtype=dtype), draw(3, 3, seed=8, dtype=dtype)]
    (expected,) = differences(f, [a, b], directions)
    np.testing.assert_allclose(
        ft.jvp(f, (a, b), tuple(directions))[1], expected, rtol=1e-7, atol=1e-7
    )
    gradients = ft.grad(lambda x, y: np.sum(f(x, y)), argnums=(0, 1))(a, b)
    pulled = sum(np.sum(g * d).real for g, d in zip(gradients, directions, strict=True))
    np.testing.assert_allclose(pulled, np.sum(expected), rtol=1e-7, atol=1e-7)

    def slope(x: Any) -> Any:
        return np.sum(np.abs(ft.grad(lambda x: np.sum(f(x, b)))(x)) ** 2)

    (expected,) = differences(slope, [a], directions[:1])
    np.testing.assert_allclose(
        ft.jvp(slope, (a,), (directions[0],))[1], expected, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mapped", [(0, None), (None, 0), (0, 0)])
def test_mapped_equals_loop(form: str, mapped: tuple[int | None, int | None]) -> None:
    a = regular(4, 3, 3) if mapped[0] == 0 else regular(3, 3)
    b = draw(4, 3, 3) if mapped[1] == 0 else draw(3, 3)
    f = FORMS[form]
    expected = [f(a[k] if mapped[0] == 0 else a, b[k] if mapped[1] == 0 else b) for k in range(4)]
    np.testing.assert_allclose(
        ft.jit(ft.vmap(f, in_axes=mapped))(a, b), expected, rtol=1e-11, atol=1e-13
    )
