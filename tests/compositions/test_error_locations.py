"""Operations that NumPy rejects because of values raise at the user's line when the values are
concrete, so that a ``try`` around the line catches the error.
"""

from __future__ import annotations

import importlib.util
import math
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.ops import PRIMITIVES
from functrace.ops.indexing import ARRAY, scatter_each

NAN = np.full((3, 3), np.nan)
SINGULAR = np.zeros((2, 2))
KEY = ft.random.key(0)
INDEFINITE = np.array([[1.0, 2.0], [2.0, 1.0]])


def integer(x: Any, k: int) -> Any:
    """A traced integer ``k``, made of a traced array."""
    return np.argmax(x * 0.0) + k


def written(x: Any, index: Any) -> Any:
    y = x + 0.0
    y[index] = 3.0
    return y


def root(x: Any) -> Any:
    """Foreign code that fails on negative numbers."""
    return ft.pure_callback(
        math.sqrt, ft.ShapeDtype((), "float64"), ft.stop_gradient(x[0, 0]) - 5.0
    )


FAILING: dict[str, list[tuple[str, Callable[[Any], Any], type[Exception]]]] = {
    "callback": [("foreign", root, ValueError)],
    "cholesky": [
        ("indefinite", lambda x: np.linalg.cholesky(x * 0.0 + INDEFINITE), np.linalg.LinAlgError)
    ],
    "inv": [
        ("singular", lambda x: np.linalg.inv(x * 0.0 + SINGULAR), np.linalg.LinAlgError),
        ("power", lambda x: np.linalg.matrix_power(x * 0.0 + SINGULAR, -2), np.linalg.LinAlgError),
    ],
    "solve": [
        ("singular", lambda x: np.linalg.solve(x * 0.0 + SINGULAR, x), np.linalg.LinAlgError),
        (
            "tensor",
            lambda x: np.linalg.tensorsolve(x * 0.0 + SINGULAR, x[0]),
            np.linalg.LinAlgError,
        ),
    ],
    "svd": [("nan", lambda x: np.linalg.svd(x[0, 0] * 0.0 + NAN)[1], np.linalg.LinAlgError)],
    "svdvals": [("nan", lambda x: np.linalg.svdvals(x[0, 0] * 0.0 + NAN), np.linalg.LinAlgError)],
    "pinv": [("nan", lambda x: np.linalg.pinv(x[0, 0] * 0.0 + NAN), np.linalg.LinAlgError)],
    "eigh": [("nan", lambda x: np.linalg.eigh(x[0, 0] * 0.0 + NAN)[0], np.linalg.LinAlgError)],
    "eig": [("nan", lambda x: np.linalg.eig(x[0, 0] * 0.0 + NAN + 0j)[0], np.linalg.LinAlgError)],
    "eigvals": [
        ("nan", lambda x: np.linalg.eigvals(x[0, 0] * 0.0 + NAN + 0j), np.linalg.LinAlgError)
    ],
    "lstsq": [
        ("nan", lambda x: np.linalg.lstsq(x[0, 0] * 0.0 + NAN, NAN[0])[0], np.linalg.LinAlgError)
    ],
    "eigvalsh": [("nan", lambda x: np.linalg.eigvalsh(x[0, 0] * 0.0 + NAN), np.linalg.LinAlgError)],
    "power": [
        ("literal", lambda x: integer(x, 3) ** -1, ValueError),
        ("exponent", lambda x: 2 ** integer(x, -1), ValueError),
        ("both", lambda x: np.power(integer(x, 2), integer(x, -1)), ValueError),
    ],
    "gather": [
        ("index", lambda x: x[integer(x, 2)], IndexError),
        ("array", lambda x: x[0, np.array([0, 1]) + integer(x, 1)], IndexError),
        ("known", lambda x: x[:, [0, -3]], IndexError),
        ("take", lambda x: np.take(x, integer(x, 4)), IndexError),
        ("along", lambda x: np.take_along_axis(x, np.array([[0, 2]]), 1), IndexError),
        (
            "traced along",
            lambda x: np.take_along_axis(x, np.array([[0, 2]]) + integer(x, 0), 1),
            IndexError,
        ),
    ],
    "scatter_set": [
        ("index", lambda x: written(x, integer(x, 2)), IndexError),
        ("at", lambda x: x.at[integer(x, -3)].set(0.0), IndexError),
        ("known", lambda x: written(x, ([0, 2],)), IndexError),
    ],
    "scatter_each": [
        (
            "index",
            lambda x: scatter_each(x, (ARRAY,), 0.0, (np.array([0]) + integer(x, 2),)),
            IndexError,
        ),
    ],
    "scatter_add": [("at", lambda x: x.at[integer(x, 2)].add(1.0), IndexError)],
    "random_binomial": [("negative", lambda x: ft.random.binomial(KEY, 3, x[0, 1]), ValueError)],
    "random_integers": [
        ("empty", lambda x: ft.random.randint(KEY, (), 0, integer(x, 0)), ValueError)
    ],
    "random_loggamma": [("negative", lambda x: ft.random.gamma(KEY, x[0, 1]), ValueError)],
    "random_multinomial": [
        ("negative", lambda x: ft.random.multinomial(KEY, integer(x, -3), np.ones(2)), ValueError)
    ],
    "random_poisson": [("negative", lambda x: ft.random.poisson(KEY, x[0, 1]), ValueError)],
    "random_wald": [("negative", lambda x: ft.random.wald(KEY, x[0, 1]), ValueError)],
    "seed_key": [("negative", lambda x: ft.random.key(integer(x, -3)), ValueError)],
    "require": [
        ("average", lambda x: np.average(x, weights=x * 0.0), ZeroDivisionError),
        ("nanargmax", lambda x: np.nanargmax(x * np.nan), ValueError),
        ("choose", lambda x: np.choose(integer(x, 2), [x, x]), ValueError),
        (
            "ravel",
            lambda x: np.ravel_multi_index((integer(x, 0), integer(x, 2)), (2, 2)),
            ValueError,
        ),
        ("negative", lambda x: np.ravel_multi_index((integer(x, -1), 0), (2, 2)), ValueError),
        ("unravel", lambda x: np.unravel_index(integer(x, 4), (2, 2))[0], ValueError),
        ("geomspace", lambda x: np.geomspace(x[0, 0] * 0.0, 1.0, 3), ValueError),
        ("quantile", lambda x: np.quantile(x, x[0, 0] * 0.0 + 1.5), ValueError),
    ],
}
OF_SCIPY: dict[str, list[tuple[str, Callable[[Any], Any], type[Exception]]]] = {
    "lu": [("nan", lambda x: ft.scipy.linalg.lu(x[0, 0] * 0.0 + NAN)[1], ValueError)],
    "matrix_function": [("nan", lambda x: ft.scipy.linalg.logm(x[0, 0] * 0.0 + NAN), ValueError)],
    "draw": [
        ("negative", lambda x: ft.scipy.stats.poisson.rvs(x[0, 1], random_state=0), ValueError)
    ],
    "solve_banded": [
        (
            "singular",
            lambda x: ft.scipy.linalg.solve_banded((0, 0), x[:1] * 0.0, x),
            np.linalg.LinAlgError,
        ),
    ],
    "sylvester": [
        ("nan", lambda x: ft.scipy.linalg.solve_sylvester(x[0, 0] * 0.0 + NAN, x, x), ValueError)
    ],
}
FAILING |= OF_SCIPY if importlib.util.find_spec("scipy") else {name: [] for name in OF_SCIPY}
DERIVATIVES = {
    "cholesky_change",
    "cholesky_pullback",
    "cofactor",
    "cofactor_change",
    "frechet",
    "permutation_of_pivots",
    "required",
    "solve_congruence",
    "solve_triangular",
}
"""Operations that only derivatives use, or that are given what another one has made."""

CASES = [
    pytest.param(run, kind, id=f"{name}/{case}") for name, cases in FAILING.items() for case, run,
    kind in cases
]  # fmt: skip
X = np.array([[0.5, -1.5], [2.0, 0.25]])
TRANSFORMS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "grad": lambda f: ft.grad(f)(X),
    "value_and_grad": lambda f: ft.value_and_grad(f)(X)[1],
    "vjp": lambda f: ft.vjp(f, X)[1](1.0)[0],
    "jvp": lambda f: ft.jvp(f, (X,), (X,)),
    "linearize": lambda f: ft.linearize(f, X)[1](X),
    "jacfwd": lambda f: ft.jacfwd(f)(X),
    "grad of grad": lambda f: ft.grad(lambda x: np.sum(ft.grad(f)(x) * X))(X),
    "jvp of grad": lambda f: ft.hvp(f, (X,), (X,)),
    "checkpoint": lambda f: ft.grad(ft.checkpoint(f))(X),
    "custom": lambda f: ft.grad(custom(f))(X),
    "closure": lambda f: ft.grad(lambda x: np.sum(ft.vmap(lambda s: s * f(x))(np.ones(2))))(X),
    "not mapped": lambda f: ft.vmap(lambda s, x: s * f(x), in_axes=(0, None))(np.ones(2), X),
}


def custom(f: Callable[[Any], Any]) -> Any:
    made = ft.custom_jvp(f)
    made.defjvp(lambda primals, tangents: (np.sum(primals[0]), np.sum(tangents[0])))
    return made


def test_every_operation_that_may_fail_has_a_case() -> None:
    assert {p.name for p in PRIMITIVES.values() if p.fails is not None} == {*FAILING, *DERIVATIVES}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("run, kind", CASES)
def test_a_try_catches_errors_raised_inside_it(
    run: Callable[[Any], Any], kind: type[Exception], transform: str
) -> None:
    caught: list[str] = []

    def f(x: Any) -> Any:
        try:
            run(x)
        except kind as error:
            caught.append(traceback.extract_tb(error.__traceback__)[1].filename)
            x = x * 2.0
        return np.sum(np.sin(x) * x)

    expected = TRANSFORMS[transform](lambda x: np.sum(np.sin(2.0 * x) * (2.0 * x)))
    for _ in range(3):
        caught.clear()
        found = TRANSFORMS[transform](f)
        assert set(caught) == {__file__}
        for a, b in zip(np.atleast_1d(found), np.atleast_1d(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("run, kind", CASES)
def test_plain_numpy_raises_the_same(run: Callable[[Any], Any], kind: type[Exception]) -> None:
    class At(np.ndarray):
        at = property(lambda self: pytest.skip("NumPy has no .at"))

    with np.errstate(all="ignore"), pytest.raises(kind):
        run(X.view(At))


def test_the_retry_has_numpys_result_and_gradient() -> None:
    def log_likelihood(x: Any, jitter: float) -> Any:
        kernel = np.exp(-((x[:, None] - x[None, :]) ** 2))
        while True:
            try:
                lower = np.linalg.cholesky(kernel + jitter * np.eye(len(x)))
                break
            except np.linalg.LinAlgError:
                jitter = max(10 * jitter, 1e-6)
        return np.sum(np.log(np.diag(lower))) + np.sum(np.linalg.solve(lower, x) ** 2)

    x = np.array([0.0, 0.0, 1.0])
    value, gradient = ft.value_and_grad(log_likelihood)(x, 0.0)
    expected, derivative = ft.value_and_grad(log_likelihood)(x, 1e-6)
    assert value == expected == log_likelihood(x, 0.0)
    np.testing.assert_array_equal(gradient, derivative)


def test_a_check_with_a_dead_result_still_runs() -> None:
    def f(x: Any) -> Any:
        np.linalg.cholesky(x)
        return np.sum(x)

    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError):
            ft.grad(f)(INDEFINITE)
        np.testing.assert_array_equal(ft.grad(f)(np.eye(2)), np.ones((2, 2)))


def test_staged_error_raises_at_run_time_and_names_the_line() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.linalg.cholesky(x))

    line = f"{Path(__file__).name}:{f.__code__.co_firstlineno + 1}"
    for run in (ft.jit(f), lambda x: ft.vmap(f)(x[None]), ft.grad(ft.jit(f))):
        for _ in range(3):
            with pytest.raises(np.linalg.LinAlgError) as raised:
                run(INDEFINITE)
            assert f"recorded at {line}" in "".join(raised.value.__notes__)


def test_the_branch_of_a_choice_that_is_not_taken_does_not_fail() -> None:
    def f(x: Any) -> Any:
        inverse = ft.cond(x[0, 0] > 0, lambda x: np.linalg.inv(x), lambda x: x, x)
        return np.sum(inverse)

    np.testing.assert_array_equal(ft.grad(f)(-np.ones((2, 2))), np.ones((2, 2)))
