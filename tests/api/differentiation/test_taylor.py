"""Taylor mode equals nested forward mode, mpmath's coefficients and traces of Hessians."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import functrace as ft
from functrace.errors import ArgumentError, DtypeError, ShapeError

special = pytest.importorskip("scipy.special")
ORDER = 4


def nested(f: Any, x: Any, derivatives: Sequence[Any]) -> list[list[Any]]:
    """Derivatives of every leaf along a curve, by nested jvps, one list per order."""

    def along(t: Any) -> Any:
        terms = [d * t**k / math.factorial(k) for k, d in enumerate(derivatives, 1)]
        return f(x + sum(terms))

    made, g = [], along
    for _ in derivatives:
        g = _derivative(g)
        made.append(ft.tree.leaves(g(0.0)))
    return made


def _derivative(g: Any) -> Any:
    return lambda t: ft.jvp(g, (t,), (1.0,))[1]


def with_jvp_rule(x: Any) -> Any:
    @ft.custom_jvp
    def f(x: Any) -> Any:
        return np.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), 2.0 * np.cos(primals[0]) * tangents[0]))
    return f(x) * x


def with_vjp_rule(x: Any) -> Any:
    @ft.custom_vjp
    def f(x: Any) -> Any:
        return np.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (2.0 * np.cos(x) * ct,))
    return f(x) * x


def square_of(x: Any) -> Any:
    return np.reshape(x, (2, 2)) + 2.0 * np.eye(2)


NAMES = (
    "sin", "cos", "tan", "exp", "log", "sqrt", "cbrt", "tanh", "sinh", "cosh", "arcsin", "arccos",
    "arctan", "arcsinh", "arctanh", "expm1", "log1p", "log2", "log10", "exp2", "square",
    "reciprocal", "abs", "negative", "floor", "prod",
)  # fmt: skip

FUNCTIONS: dict[str, Any] = {name: getattr(np, name) for name in NAMES} | {
    "cube": lambda x: x**3,
    "power 2.5": lambda x: x**2.5,
    "power -2": lambda x: x**-2,
    "power of itself": lambda x: x**x,
    "exponent": lambda x: 2.0**x,
    "quotient": lambda x: np.sin(x) / (1 + x**2),
    "erf": special.erf,
    "gamma": special.gamma,
    "bessel": lambda x: special.jv(1.5, x),
    "softmax": lambda x: np.exp(x) / np.sum(np.exp(x)),
    "matmul": lambda x: square_of(x) @ square_of(x),
    "einsum": lambda x: np.einsum("i,j,k->ij", x, x, x),
    "convolve": lambda x: np.convolve(x, x),
    "inv": lambda x: np.linalg.inv(square_of(x)),
    "det": lambda x: np.linalg.det(square_of(x)),
    "solve": lambda x: np.linalg.solve(square_of(x), x[:2]),
    "cholesky": lambda x: np.linalg.cholesky(square_of(x) @ square_of(x).T),
    "eigvalsh": lambda x: np.linalg.eigvalsh(square_of(x) @ square_of(x).T),
    "where": lambda x: np.where(x > 0.5, x**2, np.sin(x)),
    "maximum": lambda x: np.maximum(x, 0.5 * x**2) * np.max(x),
    "sort": lambda x: np.sort(x) * x,
    "concatenate": lambda x: np.concatenate([x, np.ones(2), x**2]),
    "norm": np.linalg.norm,
    "logaddexp": lambda x: np.logaddexp(x[0], x),
    "arctan2": lambda x: np.arctan2(x, x[::-1] ** 2),
    "scan": lambda x: ft.scan(lambda c, y: (np.sin(c) * y, c * y), 1.0, x),
    "fori_loop": lambda x: ft.fori_loop(0, 3, lambda i, u: u * np.exp(x), x),
    "while_loop": lambda x: ft.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, np.sin(s[1]) * x), (0, x)
    ),
    "cond": lambda x: ft.cond(x[0] > 0, lambda x: np.sin(x) * x, lambda x: x, x),
    "cond per example": ft.vmap(lambda y: ft.cond(y > 0.5, np.sin, np.cos, y)),
    "jit": ft.jit(lambda x: np.sin(x) * x),
    "checkpoint": ft.checkpoint(lambda x: np.sin(x) * x),
    "grad": ft.grad(lambda x: np.sum(np.sin(x) ** 3)),
    "custom_jvp": with_jvp_rule,
    "custom_vjp": with_vjp_rule,
    "constant": lambda x: np.ones(3),
    "pytree": lambda x: {"b": x[:2] ** 2, "a": [np.sum(x), 3.0]},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jet_equals_nested_forward_mode(name: str) -> None:
    f, rng = FUNCTIONS[name], np.random.default_rng(0)
    x = rng.uniform(0.2, 0.8, 4)
    series = [rng.standard_normal(4) for _ in range(ORDER)]
    value, found = ft.jet(f, (x,), (series,))
    leaves, expected = ft.tree.leaves(f(x)), nested(f, x, series)
    terms = ft.tree.leaves(found)
    assert ft.tree.structure(value) == ft.tree.structure(f(x))
    for n, leaf in enumerate(leaves):
        np.testing.assert_allclose(ft.tree.leaves(value)[n], leaf, rtol=1e-14)
        for k in range(ORDER):
            np.testing.assert_allclose(
                terms[n * ORDER + k], expected[k][n], rtol=1e-9, atol=1e-9, err_msg=f"order {k + 1}"
            )


@pytest.mark.parametrize(
    "name", ["sin", "exp", "tan", "log", "sqrt", "tanh", "atan", "erf", "gamma", "lambertw"]
)
def test_coefficients_are_those_of_mpmath(name: str) -> None:
    mpmath = pytest.importorskip("mpmath")
    mine = {"atan": np.arctan, "lambertw": lambda x: special.lambertw(x).real}
    f = mine.get(name) or getattr(np, name, None) or getattr(special, name)
    found = ft.taylor(f, 8)(0.6)
    expected = [float(c) for c in mpmath.taylor(getattr(mpmath, name), 0.6, 8)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_polynomials_are_their_own_expansion(seed: int, order: int) -> None:
    coefficients = np.random.default_rng(seed).integers(-9, 10, order + 1).astype(float)

    def polynomial(x: Any) -> Any:
        return sum([c * x**k for k, c in enumerate(coefficients)]) + 0.0 * x

    np.testing.assert_allclose(ft.taylor(polynomial, order)(0.0), coefficients, atol=1e-12)


def test_powers_at_zero() -> None:
    np.testing.assert_array_equal(ft.taylor(lambda x: x**3, 4)(0.0), [0, 0, 0, 1, 0])
    found = ft.taylor(lambda x: x**2.5, 3)(0.0)
    np.testing.assert_array_equal(found[:3], 0.0)
    assert not np.isfinite(found[3])


def test_under_other_transforms() -> None:
    def third(x: Any) -> Any:
        return ft.jet(lambda x: np.sin(x) * x, (x,), ((1.0, None, None),))[1][2]

    def expected(x: Any) -> Any:
        return -3 * np.sin(x) - x * np.cos(x)

    x = np.linspace(0.1, 2.0, 5)
    np.testing.assert_allclose(ft.vmap(third)(x), expected(x), rtol=1e-12)
    np.testing.assert_allclose(ft.jit(ft.vmap(third))(x), expected(x), rtol=1e-12)
    fourth = -4 * np.cos(x) + x * np.sin(x)
    np.testing.assert_allclose(ft.vmap(ft.grad(third))(x), fourth, rtol=1e-12)
    np.testing.assert_allclose(ft.jvp(ft.vmap(third), (x,), (np.ones(5),))[1], fourth, rtol=1e-12)
    np.testing.assert_allclose(ft.checkpoint(third)(x[0]), expected(x[0]), rtol=1e-12)
    inner = ft.jet(lambda x: ft.jet(np.sin, (x,), ((1.0,),))[1][0], (0.3,), ((1.0, 0.0),))
    np.testing.assert_allclose(inner[1], [-np.sin(0.3), -np.cos(0.3)], rtol=1e-13)


def test_several_arguments_and_zeros() -> None:
    def f(a: Any, b: Any) -> Any:
        return a["x"] * b

    a, b = {"x": np.array([2.0, 3.0])}, 5.0
    value, terms = ft.jet(f, (a, b), (({"x": np.ones(2)}, None), (1.0, 0.0)))
    np.testing.assert_array_equal(value, [10.0, 15.0])
    np.testing.assert_array_equal(terms, [[7.0, 8.0], [2.0, 2.0]])
    _, terms = ft.jet(f, (a, b), (({"x": np.ones(2)}, None), (1.0, 0.0)), factorial_scaled=False)
    np.testing.assert_array_equal(terms, [[7.0, 8.0], [1.0, 1.0]])
    assert ft.jet(f, (a, b), ((), ()))[1] == []
    single = ft.jet(np.exp, (np.float32(1.0),), ((np.float32(1.0), None),))
    assert [np.asarray(x).dtype for x in (single[0], *single[1])] == [np.float32] * 3


def test_the_number_of_operations_grows_with_the_square_of_the_order() -> None:
    def count(order: int) -> int:
        given = ((1.0, *[None] * (order - 1)),)
        return len(ft.trace(lambda x: ft.jet(lambda x: np.sin(np.exp(x)), (x,), given))(0.5).ops)

    assert count(16) < 6 * count(8)


def test_directions() -> None:
    f, x, v = (lambda x: np.sum(x**3)), np.array([1.0, 2.0]), np.array([1.0, -1.0])
    found = ft.taylor(f, 3, direction=v)(x)
    np.testing.assert_allclose(found, [9.0, 3 - 12, 3 * (1 + 2), 0.0], atol=1e-14)
    pair = ft.taylor(lambda x, y: {"a": x * y}, 1)(x, y=2.0)
    np.testing.assert_array_equal(pair["a"], [2 * x, [2.0, 2.0]])


LAPLACIANS: dict[str, Any] = {
    "products": lambda x: np.sum(np.sin(x) * x[0]),
    "network": lambda x: np.sum(np.tanh(np.reshape(np.arange(12.0), (3, 4)) @ x * 0.1) ** 2),
    "determinant": lambda x: np.linalg.slogdet(square_of(x))[1],
    "loop": lambda x: ft.fori_loop(0, 3, lambda i, u: np.sin(u) * x[1], x[0]),
    "branch": lambda x: ft.cond(x[0] > 0, lambda x: np.sum(x**3), np.sum, x),
    "linear": np.sum,
    "rule": lambda x: np.sum(with_jvp_rule(x)),
}


@pytest.mark.parametrize("name", LAPLACIANS)
def test_laplacians_are_traces_of_hessians(name: str) -> None:
    f, x = LAPLACIANS[name], np.linspace(0.2, 0.8, 4)
    expected = np.trace(ft.hessian(f)(x))
    value, found = ft.laplacian(f, has_value=True)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(value, f(x), rtol=1e-14)
    np.testing.assert_allclose(ft.jit(ft.laplacian(f))(x), expected, rtol=1e-11, atol=1e-11)
    both = ft.vmap(ft.laplacian(f))(np.stack([x, 0.9 * x]))
    np.testing.assert_allclose(both[0], expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(
        ft.grad(ft.laplacian(f))(x),
        ft.grad(lambda x: np.trace(ft.hessian(f)(x)))(x),
        rtol=1e-10,
        atol=1e-10,
    )


def test_laplacians_of_arrays_and_several_arguments() -> None:
    def f(x: Any, y: Any) -> Any:
        return {"a": x**2 * y, "b": x[0] * y**3}

    found = ft.laplacian(f, (0, 1))(np.array([2.0, 3.0]), 5.0)
    np.testing.assert_allclose(found["a"], [10.0, 10.0])
    np.testing.assert_allclose(found["b"], 60.0)
    np.testing.assert_allclose(ft.laplacian(f)(np.array([2.0, 3.0]), 5.0)["b"], 0.0)


def test_mistakes() -> None:
    with pytest.raises(ArgumentError, match="one sequence of derivatives"):
        ft.jet(np.add, (1.0, 2.0), ((1.0,),))
    with pytest.raises(ArgumentError, match="1, 2 derivatives"):
        ft.jet(np.add, (1.0, 2.0), ((1.0,), (1.0, 0.0)))
    with pytest.raises(ArgumentError, match="not a tuple"):
        ft.jet(np.sin, 1.0, ((1.0,),))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="not a sequence"):
        ft.jet(np.sin, (1.0,), (1.0,))  # type: ignore[arg-type]
    with pytest.raises(ShapeError):
        ft.jet(np.sin, (np.ones(2),), ((np.ones(3),),))
    with pytest.raises(ArgumentError, match="order=-1"):
        ft.taylor(np.sin, -1)
    with pytest.raises(DtypeError):
        ft.laplacian(np.sum)(np.arange(3))


@pytest.mark.parametrize("exponent", [np.inf, -np.inf, np.nan])
def test_powers_with_nonfinite_exponents_are_those_of_nested_jvps(exponent: float) -> None:
    def power(x: Any) -> Any:
        return x**exponent

    x, directions = np.array([0.5, 2.0]), [np.ones(2), np.zeros(2)]
    with np.errstate(all="ignore"):
        _, terms = ft.jet(power, (x,), (directions,))
        expected = nested(power, x, directions)
    for term, (wanted,) in zip(terms, expected, strict=True):
        np.testing.assert_array_equal(term, wanted)


def test_orders_are_numpy_integers_or_have_no_finite_factorial() -> None:
    order: Any = np.int64(3)
    np.testing.assert_array_equal(ft.taylor(np.sin, order)(0.3), ft.taylor(np.sin, 3)(0.3))
    terms = [1.0, *[None] * 170]
    with pytest.raises(ArgumentError, match="factorial of order 171"):
        ft.jet(np.exp, (0.0,), (terms,))
    _, last = ft.jet(np.exp, (0.0,), (terms[:170],))
    assert np.isclose(last[-1], 1.0)
    _, coefficients = ft.jet(np.exp, (0.0,), (terms,), factorial_scaled=False)
    assert np.isclose(coefficients[9] * math.factorial(10), 1.0)


def _with_rule(f: Callable[..., Any]) -> Callable[..., Any]:
    made = ft.custom_jvp(f)
    made.defjvp(lambda primals, tangents: (f(*primals), np.cos(primals[0]) * tangents[0]))
    return made


OBSERVED: dict[str, Any] = {
    "plain": lambda f: f,
    "jit": ft.jit,
    "checkpoint": ft.checkpoint,
    "custom_jvp": _with_rule,
    "twice": lambda f: lambda x: ft.jit(f)(x) + ft.jit(f)(x),
    "scan": lambda f: lambda x: ft.scan(lambda c, _: (f(c), None), x, None, length=3)[0],
    "cond": lambda f: lambda x: ft.cond(np.sum(x) > -9.0, f, np.cos, x),
    "while_loop": lambda f: (
        lambda x: ft.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1])), (0, x))[1]
    ),
}


@pytest.mark.parametrize("name", OBSERVED)
@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["unjitted", "jit"])
def test_side_effects_run_as_often_as_in_forward_mode(name: str, wrap: Any) -> None:
    seen: list[float] = []

    def note(v: Any) -> None:
        seen.append(float(v))

    def observed(x: Any) -> Any:
        ft.debug.callback(note, x[0])
        ft.debug.callback(note, x[0])
        ft.debug.callback(note, 7.0)
        ft.debug.callback(note, 7.0)
        return np.sin(x)

    def f(x: Any) -> Any:
        return np.sum(OBSERVED[name](observed)(x) * x)

    def calls(g: Callable[..., Any]) -> list[float]:
        made = wrap(g)
        made(x)
        seen.clear()
        made(x)
        return list(seen)

    x = np.array([0.5, 0.25])
    expected = calls(lambda x: ft.jvp(f, (x,), (x,)))
    assert expected.count(7.0) >= 2
    assert calls(ft.laplacian(f)) == expected
    assert calls(lambda x: ft.jet(f, (x,), ((x, x, x),))) == expected
    assert calls(ft.taylor(f, 3)) == expected


# -- determinants ----------------------------------------------------------------------------------


def determinant_series(terms: list[Any], order: int) -> list[float]:
    """The coefficients of the determinant of a polynomial matrix, exactly, by permutations."""
    n = len(terms[0])
    entries = [[[Fraction(float(t[i, j])) for t in terms] for j in range(n)] for i in range(n)]
    found = [Fraction(0)] * (order + 1)
    for turn in itertools.permutations(range(n)):
        swaps = sum([turn[i] > turn[j] for i in range(n) for j in range(i + 1, n)])
        product = [Fraction((-1) ** swaps)] + [Fraction(0)] * order
        for i, j in enumerate(turn):
            product = [
                sum(
                    [product[k - m] * x for m, x in enumerate(entries[i][j]) if m <= k],
                    start=Fraction(0),
                )
                for k in range(order + 1)
            ]
        found = [a + b for a, b in zip(found, product, strict=True)]
    return [float(x) for x in found]


SINGULAR: dict[str, Any] = {
    "diagonal": lambda n: np.diag([1.0, 2.0, *[0.0] * (n - 2)]),
    "rank 1": lambda n: np.outer(np.arange(1.0, n + 1), np.arange(2.0, n + 2)),
    "zero": lambda n: np.zeros((n, n)),
    "regular": lambda n: np.cos(np.arange(n * n, dtype=float) ** 2).reshape(n, n),
    "small": lambda n: np.full((n, n), 1e-7),
}


@pytest.mark.parametrize("name", SINGULAR)
@pytest.mark.parametrize("n", [4, 5])
def test_determinants_of_singular_matrices(name: str, n: int) -> None:
    order = 5
    rng = np.random.default_rng(n)
    terms = [SINGULAR[name](n), *[rng.standard_normal((n, n)) for _ in range(3)]]
    series = [math.factorial(k) * terms[k] if k < 4 else np.zeros((n, n)) for k in range(1, 6)]
    expected = [math.factorial(k) * c for k, c in enumerate(determinant_series(terms, order)) if k]
    run = lambda m: ft.jet(np.linalg.det, (m,), (series,))[1]
    batch = np.stack([terms[0], terms[0] + np.eye(n)])
    for found in (run(terms[0]), ft.jit(run)(terms[0]), [c[0] for c in ft.vmap(run)(batch)]):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


def test_determinants_of_other_dtypes_and_their_gradients() -> None:
    matrix, step = np.diag([1.0, 2.0, 0.0, 0.0]), np.eye(4)
    series = lambda dtype: [step.astype(dtype), *[np.zeros((4, 4), dtype)] * 3]
    for dtype in (np.float32, np.complex64, np.complex128):
        value, found = ft.jet(np.linalg.det, (matrix.astype(dtype),), (series(dtype),))
        assert value.dtype == found[-1].dtype == dtype
        # (1 + t) (2 + t) t^2
        np.testing.assert_allclose(found, [0.0, 4.0, 18.0, 24.0], atol=1e-4)
    third = lambda m: ft.jet(np.linalg.det, (m,), (series(float),))[1][2]
    np.testing.assert_allclose(ft.grad(third)(matrix), 6.0 * np.diag([1, 1, 1, 1]), atol=1e-12)
    n = 30  # (1 + t)^n
    found = ft.jet(np.linalg.det, (np.eye(n),), ([np.eye(n), *[np.zeros((n, n))] * 5],))[1]
    np.testing.assert_allclose(found, [math.perm(n, k) for k in range(1, 7)], rtol=1e-13)
