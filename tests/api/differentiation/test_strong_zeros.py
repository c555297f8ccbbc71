"""`strong_zero`: zero cotangents times infinite derivatives are zero, to every order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace.control.strong_products import strong_contraction_p
from functrace.ops.contraction import einsum_p, matmul_p
from tests.diagnostics.programs import compiled, straight_lines, vectors

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SINGULAR: dict[str, Any] = {  # function, its first and second derivative where x > 0
    "sqrt": (np.sqrt, lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 * x**-1.5),
    "log": (np.log, lambda x: 1 / x, lambda x: -1 / x**2),
    "power": (lambda x: x**1.5, lambda x: 1.5 * x**0.5, lambda x: 0.75 * x**-0.5),
    "quotient": (lambda x: 1.0 / x, lambda x: -1 / x**2, lambda x: 2 / x**3),
    "log of sqrt": (lambda x: np.log(np.sqrt(x)), lambda x: 0.5 / x, lambda x: -0.5 / x**2),
    "ratio": (lambda x: np.sin(x) / x, None, None),
}
X = np.array([0.25, 0.0, 4.0])


def masked(f: Any) -> Any:
    return lambda x: np.sum(np.where(x > 0, f(x), 0.0))


@pytest.mark.parametrize("name", SINGULAR)
@pytest.mark.parametrize(
    "wrap", [lambda f: f, ft.jit, ft.checkpoint], ids=["", "jit", "checkpoint"]
)
@pytest.mark.parametrize("order", [ft.grad, ft.jacfwd, ft.jacrev])
def test_first_derivatives_are_those_of_the_selected_side(name: str, wrap: Any, order: Any) -> None:
    f, first, _ = SINGULAR[name]
    if first is None:
        first = lambda x: np.cos(x) / x - np.sin(x) / x**2
    found = order(ft.strong_zero(wrap(masked(f))))(X)
    expected = np.where(X > 0, first(np.where(X > 0, X, 1.0)), 0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
    if order is not ft.jacfwd and name != "power":  # (np.where selects tangents; x**1.5 is smooth)
        assert np.isnan(order(masked(f))(X)).any()


@pytest.mark.parametrize("name", [name for name in SINGULAR if SINGULAR[name][2] is not None])
@pytest.mark.parametrize(
    "second",
    [
        ft.hessian,
        lambda f: ft.jacrev(ft.jacrev(f)),
        lambda f: ft.jacfwd(ft.jacfwd(f)),
        lambda f: ft.jacrev(ft.jacfwd(f)),
        lambda f: ft.jit(ft.hessian(f)),
    ],
    ids=["hessian", "rr", "ff", "rf", "jit"],
)
def test_second_derivatives(name: str, second: Any) -> None:
    f, _, expected = SINGULAR[name]
    found = second(ft.strong_zero(masked(f)))(X)
    wanted = np.diag(np.where(X > 0, expected(np.where(X > 0, X, 1.0)), 0.0))
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("backend", ["numpy", "native", "xla"])
def test_backends(backend: str) -> None:
    pytest.importorskip({"native": "llvmlite", "xla": "jax"}.get(backend, "numpy"))
    f = ft.strong_zero(masked(np.sqrt))
    found = ft.jit(ft.grad(f), backend=backend)(X)  # type: ignore[call-overload]
    np.testing.assert_allclose(found, [1.0, 0.0, 0.25], rtol=1e-14)


def test_under_vmap_and_through_it() -> None:
    f = ft.strong_zero(masked(np.sqrt))
    xs = np.stack([X, X[::-1]])
    expected = np.stack([ft.grad(f)(x) for x in xs])
    np.testing.assert_array_equal(ft.vmap(ft.grad(f))(xs), expected)
    inner = ft.strong_zero(lambda xs: np.sum(ft.vmap(masked(np.sqrt))(xs)))
    np.testing.assert_array_equal(ft.grad(inner)(xs), expected)


def test_values_do_not_change() -> None:
    np.testing.assert_array_equal(ft.strong_zero(np.sqrt)(X), np.sqrt(X))
    assert ft.strong_zero(lambda x: {"a": (x, 2)})(1.0) == {"a": (1.0, 2)}


# -- loops and branches ------------------------------------------------------------------------------


def by_scan(x: Any) -> Any:
    def step(c: Any, t: Any) -> Any:
        return c + np.where(t > 0, np.sqrt(x * t), 0.0), None

    return ft.scan(step, 0.0 * x, np.arange(3.0))[0]


def by_while(x: Any) -> Any:
    def step(s: Any) -> Any:
        i, c = s
        return i + 1.0, c + np.where(i > 0, np.sqrt(x * i), 0.0)

    return ft.while_loop(lambda s: s[0] < 3.0, step, (np.float64(0.0), 0.0 * x))[1]


def by_cond(x: Any) -> Any:
    def root(x: Any) -> Any:
        return np.sqrt(x * 0.0) * 0.0 + np.sqrt(x) * (1 + np.sqrt(2.0))

    return ft.cond(x > 0, lambda x: np.where(x > 5, np.sqrt(x - x), root(x)), lambda x: x, x)


@pytest.mark.parametrize("f", [by_scan, by_while])
@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["", "jit"])
def test_bodies_of_loops(f: Any, wrap: Any) -> None:
    strong = ft.strong_zero(wrap(f))
    expected = (1 + np.sqrt(2.0)) * 0.5 / np.sqrt(2.0)
    np.testing.assert_allclose(ft.grad(strong)(2.0), expected, rtol=1e-14)
    np.testing.assert_allclose(ft.jvp(strong, (2.0,), (1.0,))[1], expected, rtol=1e-14)
    second = -(1 + np.sqrt(2.0)) * 0.25 * 2.0**-1.5
    np.testing.assert_allclose(ft.grad(ft.grad(strong))(2.0), second, rtol=1e-13)
    assert not np.isfinite(ft.grad(wrap(f))(2.0))


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["", "jit"])
def test_branches(wrap: Any) -> None:
    found = ft.grad(ft.strong_zero(wrap(by_cond)))(2.0)
    np.testing.assert_allclose(found, (1 + np.sqrt(2.0)) * 0.5 / np.sqrt(2.0), rtol=1e-14)


# -- where nothing is infinite, and where infinities are due -----------------------------------------


@pytest.mark.draws
@given(straight_lines(), vectors())
def test_finite_derivatives_are_the_same_to_the_bit(lines: list[str], x: Any) -> None:
    f = compiled(lines)
    plain, strong = ft.grad(f)(x), ft.grad(ft.strong_zero(f))(x)
    finite = np.isfinite(plain)
    np.testing.assert_array_equal(strong[finite], plain[finite])


def test_an_infinity_that_reaches_the_result_stays() -> None:
    found = ft.grad(ft.strong_zero(lambda x: np.sum(np.sqrt(x))))(np.array([1.0, 0.0]))
    np.testing.assert_array_equal(found, [0.5, np.inf])


def strong_sum(subscripts: str, t: Any, a: Any, both: bool) -> Any:
    """The sum of products, in a loop, without terms that have a zero factor."""
    left, right = subscripts.split("->")[0].split(",")
    out = subscripts.split("->")[1]
    sizes = {**dict(zip(left, t.shape, strict=True)), **dict(zip(right, a.shape, strict=True))}
    letters = sorted(sizes)
    made = np.zeros([sizes[c] for c in out])
    for index in np.ndindex(*[sizes[c] for c in letters]):
        at = dict(zip(letters, index, strict=True))
        x, y = t[tuple(at[c] for c in left)], a[tuple(at[c] for c in right)]
        if x == 0 or (both and y == 0):
            continue
        made[tuple(at[c] for c in out)] += x * y
    return made


ELEMENTS = st.sampled_from([0.0, 1.0, -2.0, np.inf, -np.inf, np.nan])


@pytest.mark.draws
@given(st.data())
def test_sums_of_products_are_those_of_a_loop(data: st.DataObject) -> None:
    both = data.draw(st.booleans())
    finite = st.sampled_from([0.0, 0.0, 1.0, -2.0])
    t = np.array(data.draw(st.lists(finite, min_size=6, max_size=6))).reshape(2, 3)
    a = np.array(data.draw(st.lists(ELEMENTS, min_size=6, max_size=6))).reshape(3, 2)
    places = (0, 1) if both else (0,)
    expected = strong_sum("ij,jk->ik", t, a, both)
    found = strong_contraction_p.eval(t, a, matmul_p, (), places)
    np.testing.assert_array_equal(found, expected)
    found = strong_contraction_p.eval(t, a, einsum_p, ("ij,jk->ik", "greedy"), places)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("product", [np.matmul, lambda a, b: np.einsum("ij,jk->ik", a, b)])
def test_products_of_matrices(product: Any) -> None:
    """The cotangent of the product is zero in the rows that a mask drops."""

    def f(x: Any) -> Any:
        table = 1.0 / x
        rows = product(np.ones((2, 2)), np.stack([x, table]))
        return np.sum(np.where(np.isfinite(rows), rows, 0.0))

    x = np.array([2.0, 0.0])
    found = ft.grad(ft.strong_zero(f))(x)
    np.testing.assert_allclose(found, [2.0 - 2.0 / 4.0, 0.0], rtol=1e-14)
    assert not np.isfinite(ft.grad(f)(x)).all()
    second = ft.hessian(ft.strong_zero(f))(x)
    np.testing.assert_allclose(second, [[2.0 * 2.0 / 8.0, 0.0], [0.0, 0.0]], rtol=1e-14)


def test_batched_products_of_matrices() -> None:
    def f(x: Any) -> Any:
        rows = np.stack([x, 1.0 / x]) @ np.ones(2)
        return np.sum(np.where(np.isfinite(rows), rows, 0.0))

    xs = np.array([[2.0, 0.0], [1.0, 4.0]])
    strong = ft.strong_zero(f)
    expected = np.stack([ft.grad(strong)(x) for x in xs])
    np.testing.assert_allclose(ft.vmap(ft.grad(strong))(xs), expected, rtol=1e-14)
    assert np.isfinite(expected).all()


def test_listings_and_source() -> None:
    program = ft.trace(ft.grad(ft.strong_zero(masked(np.sqrt))))(X)
    again = ft.Program.parse(program.text(full=True))
    np.testing.assert_array_equal(ft.evaluate(again, X), [1.0, 0.0, 0.25])
    space: dict[str, Any] = {}
    exec(program.as_python(), space)
    np.testing.assert_array_equal(space[program.name](X), [1.0, 0.0, 0.25])
