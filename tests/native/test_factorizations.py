"""Linear algebra as machine code: results within rounding times the condition number of NumPy's, and
LAPACK decides what is singular.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import functrace as ft

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

from functrace.native import engine
from tests.native.test_programs import native
from tests.oracles import scale
from tests.sampling import scaled

UNITS = 8
"""Units in the last place, times the number of rows and the condition number, by which results may
differ.
"""

FUNCTIONS = {
    "solve": np.linalg.solve,
    "solve for a vector": lambda a, b: np.linalg.solve(a, b[..., 0]) if b.ndim == 2 else a,
    "inv": lambda a, b: np.linalg.inv(a),
    "det": lambda a, b: np.linalg.det(a),
    "slogdet": lambda a, b: tuple(np.linalg.slogdet(a)),
    "cholesky": lambda a, b: np.linalg.cholesky(a @ np.conj(np.swapaxes(a, -1, -2))),
}
SHAPES = [(1, 1), (2, 2), (3, 3), (6, 6), (7, 7), (20, 20), (3, 2, 2), (2, 5, 9, 9)]
DTYPES = ["f8", "f4", "c16", "c8"]


def drawn(shape: tuple[int, ...], dtype: str, condition: float, seed: int = 0) -> tuple[Any, Any]:
    """Return matrices of a condition number, and right-hand sides."""
    rng = np.random.default_rng(seed)

    def normal(shape: tuple[int, ...]) -> Any:
        x = rng.normal(size=shape)
        return x + 1j * rng.normal(size=shape) if dtype[0] == "c" else x

    n = shape[-1]
    left, right = (np.linalg.qr(normal(shape))[0] for _ in range(2))
    values = np.geomspace(1.0, 1.0 / condition, n)
    return (left * values @ right).astype(dtype), normal((*shape[:-1], 3)).astype(dtype)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("condition", [1.0, 1e3])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_equal_numpy_up_to_the_condition_number(
    name: str, shape: tuple[int, ...], dtype: str, condition: float
) -> None:
    f = FUNCTIONS[name]
    if name == "cholesky":
        condition = np.sqrt(condition)
    a, b = drawn(shape, dtype, condition)
    made = native(ft.trace(f)(a, b))
    for _ in range(2):
        found, expected = made.call(a, b), ft.tree.leaves(f(a, b))
        for x, y in zip(found, expected, strict=True):
            x, y = np.asarray(x), np.asarray(y)
            assert x.dtype == y.dtype
            power = 2 if name == "cholesky" else 1
            bound = UNITS * shape[-1] * condition**power * np.finfo(y.dtype).eps
            limit = bound * (1.0 if name == "slogdet" else scale(y))
            np.testing.assert_allclose(x, y, rtol=bound, atol=limit)
    assert made.fallbacks == 0


def rank_deficient(rng: np.random.Generator, n: int, dtype: str, *, is_definite: bool) -> Any:
    """Return a singular matrix that may be regular after rounding."""
    unit = rng.choice([1.0, 0.1, 1 / 3])
    left, right = (rng.integers(-4, 5, size).astype(float) for size in ((n, n - 1), (n - 1, n)))
    if dtype[0] == "c":
        left, right = left + 1j * rng.integers(-4, 5, (n, n - 1)), right * (1.0 - 0.5j)
    left = left * unit
    return (left @ (np.conj(left.T) if is_definite else right)).astype(dtype)


def outcome(f: Any, *args: Any) -> Any:
    """Return the results as arrays, or the first line of the error."""
    try:
        return [np.asarray(x) for x in ft.tree.leaves(f(*args))]
    except np.linalg.LinAlgError as error:
        return str(error).splitlines()[0]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("n", [2, 3, 4, 6, 8, 16])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["solve", "inv", "slogdet", "cholesky"])
def test_lapack_decides_what_is_singular(
    name: str, dtype: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "PATIENCE", 10**9)
    f: Any = np.linalg.cholesky if name == "cholesky" else lambda a: FUNCTIONS[name](a, a[..., :1])
    rng = np.random.default_rng(n)
    compiled = ft.jit(f, backend="native")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(100):
            a = rank_deficient(rng, n, dtype, is_definite=name == "cholesky")
            found, expected = outcome(compiled, a), outcome(f, a)
            assert isinstance(found, str) == isinstance(expected, str)
            if name == "slogdet":  # (what is left of a singular matrix is rounding)
                np.testing.assert_array_equal(np.isinf(found[1]), np.isinf(expected[1]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 8])
@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "cholesky"])
def test_numbers_that_are_not_finite(name: str, number: float, n: int, dtype: str) -> None:
    f = FUNCTIONS[name]
    compiled = ft.jit(f, backend="native")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for place in ((0, 0), (1, 0), (0, 1), (1, 1)):
            a, b = drawn((n, n), dtype, 2.0)
            a[place] = number
            found, expected = outcome(compiled, a, b), outcome(f, a, b)
            np.testing.assert_equal(
                [np.isfinite(x) for x in found], list(map(np.isfinite, expected))
            )


@pytest.mark.parametrize("n", [3, 9])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_one_singular_matrix_of_a_stack(dtype: str, n: int) -> None:
    a, b = drawn((4, n, n), dtype, 2.0)
    a[2] = 1.0
    for name in ("solve", "inv"):
        made = native(ft.trace(FUNCTIONS[name])(a, b))
        with pytest.raises(np.linalg.LinAlgError, match=r"[Ss]ingular"):
            made.call(a, b)
    sign, logarithm = ft.jit(lambda a: tuple(np.linalg.slogdet(a)), backend="native")(a)
    assert sign[2] == 0 and logarithm[2] == -np.inf and np.isfinite(logarithm).sum() == 3


@pytest.mark.parametrize("n", [1, 2, 3, 5, 12])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_gradients_are_whole(dtype: str, n: int) -> None:
    a, b = drawn((n, n), dtype, 10.0)

    def slog(a: Any) -> Any:
        return np.linalg.slogdet(a)[1]

    def solved(a: Any, b: Any) -> Any:
        return np.sum(np.abs(np.linalg.solve(a, b)) ** 2)

    def determined(a: Any) -> Any:
        return np.real(np.linalg.det(a))

    functions: list[tuple[Any, tuple[Any, ...]]] = [
        (slog, (a,)), (solved, (a, b)), (determined, (a,)),
    ]  # fmt: skip
    for f, args in functions:
        if f is determined and (n > 3 or dtype[0] == "c"):
            continue  # (cofactors of larger matrices are NumPy's)
        gradient = ft.grad(f)
        made = native(ft.trace(gradient)(*args))
        expected = gradient(*args)
        (found,) = made.call(*args)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * scale(expected))
        assert made.fallbacks == 0


QR_SHAPES = [(1, 1), (2, 2), (3, 2), (2, 3), (1, 4), (4, 1), (6, 6), (20, 7), (7, 20), (2, 3, 5, 2)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("shape", QR_SHAPES, ids=str)
def test_factors_of_reflectors_equal_numpy(shape: tuple[int, ...], dtype: str, mode: Any) -> None:
    def f(x: Any) -> Any:
        return tuple(np.linalg.qr(x, mode))

    rng = np.random.default_rng(0)
    run = ft.jit(f, backend="native")
    assert ft.debug.explain(f)(np.ones(shape, dtype)).is_whole
    for _ in range(20):
        x = rng.normal(size=shape).astype(dtype)
        condition = np.max(np.linalg.cond(x))
        for found, expected in zip(run(x), f(x), strict=True):
            assert found.dtype == expected.dtype
            assert found.shape == expected.shape
            most = UNITS * max(shape[-2:]) * condition * np.finfo(dtype).eps
            assert np.max(np.abs(found - expected)) <= most * scale(expected)


NEAR = {
    "zero": np.zeros((4, 3)),
    "identity": np.eye(4),
    "triangular": np.triu(np.ones((5, 5))),
    "of one rank": np.outer(np.arange(1.0, 5.0), np.ones(3)),
    "rounding below the diagonal": np.array([[1.0, 1.0, 0.1], [1.0, 1.0, 0.3], [1.0, 1.0, 0.7]])
    / 3,
    "signs": np.diag([1.0, -1.0, 1.0]),
    "tiny": 1e-200 * np.vander(np.arange(1.0, 4.0)),
    "huge": 1e200 * np.vander(np.arange(1.0, 4.0)),
    "tiny below": np.array([[1.0, 2.0], [1e-170, 3.0]]),
    "negative zero": np.array([[-0.0, 1.0], [1.0, -0.0]]),
    "nan": np.full((3, 2), np.nan),
}


@pytest.mark.parametrize("name", NEAR)
def test_factors_near_rank_deficient_matrices_are_those_of_lapack(name: str) -> None:
    x = NEAR[name]
    run = ft.jit(lambda x: tuple(np.linalg.qr(x)), backend="native")
    with np.errstate(all="ignore"):
        for found, expected in zip(run(x), np.linalg.qr(x), strict=True):
            np.testing.assert_allclose(
                found, expected, rtol=1e-13, atol=1e-13 * scale(expected), equal_nan=True
            )
            assert np.array_equal(np.signbit(np.diag(found)), np.signbit(np.diag(expected)))


@pytest.mark.draws
def test_factors_of_small_integers_are_those_of_lapack() -> None:
    # many are rank-deficient, or have columns that cancel exactly
    rng = np.random.default_rng(0)
    run = ft.jit(lambda x: tuple(np.linalg.qr(x)), backend="native")
    for _ in range(scaled(400)):
        x = rng.integers(-1, 2, size=(4, 4)).astype(float)
        for found, expected in zip(run(x), np.linalg.qr(x), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-12)
