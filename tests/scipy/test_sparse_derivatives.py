"""Sparse Jacobians and Hessians equal dense ones, and miss no element for any values."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import functrace as ft
from functrace.errors import ArgumentError, DtypeError, ShapeError

scipy_sparse = pytest.importorskip("scipy.sparse")

POSITIONS = np.array([3, 1, 1, 0, -1])
MATRIX = scipy_sparse.random(8, 10, density=0.2, random_state=0, format="csr")


def product(x: Any) -> Any:
    return (ft.scipy.sparse.csr_array(MATRIX) @ x) ** 2


def added(x: Any) -> Any:
    y = x * 1.0
    np.add.at(y, POSITIONS, x[:5] ** 2)
    return y


def ruled(x: Any) -> Any:
    @ft.custom_jvp
    def f(x: Any) -> Any:
        return x * 2.0

    f.defjvp(lambda primals, tangents: (f(*primals), np.roll(tangents[0], 1) * primals[0]))
    return f(x) * x


def pulled(x: Any) -> Any:
    @ft.custom_vjp
    def f(x: Any) -> Any:
        return x * 2.0

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (np.roll(ct, 1) * x,))
    return f(x) * x


FUNCTIONS: dict[str, Any] = {
    "neighbours": lambda x: x[1:] * np.exp(x[:-1]),
    "dense row and column": lambda x: np.concatenate([x[1:] * x[0], [np.sum(x**2)]]),
    "gathered": lambda x: x[POSITIONS] ** 2 * x[1],
    "added": added,
    "scan": lambda x: ft.scan(lambda c, y: (c * y, c + y), 1.0, x)[1],
    "time steps": lambda x: ft.fori_loop(
        0, 3, lambda i, u: u + 0.1 * (np.roll(u, 1) - 2 * u + np.roll(u, -1)) * u, x
    ),
    "positions of a counter": lambda x: ft.scan(
        lambda c, i: (c, x[i] * x[i + 1]), 0.0, np.arange(9)
    )[1],
    "while loop": lambda x: ft.while_loop(
        lambda s: s[0] < 2, lambda s: (s[0] + 1, np.roll(s[1], 1) * x), (0, x)
    )[1],
    "cond": lambda x: ft.cond(x[0] > 0, lambda x: x**2, lambda x: x * np.roll(x, 3), x),
    "product": product,
    "convolved": lambda x: np.convolve(x, np.array([1.0, 2.0, 1.0])) ** 2,
    "stack of products": lambda x: np.reshape(x, (5, 1, 2)) @ np.arange(20.0).reshape(5, 2, 2),
    "einsum": lambda x: np.einsum(
        "ij,ik,k->ij", np.reshape(x, (5, 2)), np.ones((5, 3)), np.arange(3.0)
    ),
    "sorted": lambda x: np.sort(x) * x,
    "positions of values": lambda x: x[np.argsort(x)] * x,
    "cumulative": lambda x: np.cumsum(np.reshape(x, (5, 2)), axis=1),
    "solve": lambda x: np.linalg.solve(np.eye(2) + 1.0, np.reshape(x, (2, 5))),
    "of everything": lambda x: x / np.sum(x**2),
    "nothing": lambda x: np.zeros(3) + 0 * np.floor(x[:3]),
    "elementwise pair": lambda x: np.modf(x)[0],
    "custom_jvp": ruled,
    "pytree": lambda x: {"b": x[:2] * x[2:4], "a": [x[5], np.reshape(x, (2, 5)) ** 2]},
}


def dense_jacobian(f: Any, x: Any) -> Any:
    """By one jvp per element."""
    columns = []
    for k in range(x.size):
        unit = np.zeros(x.size)
        unit[k] = 1.0
        leaves = ft.tree.leaves(ft.jvp(f, (x,), (unit.reshape(x.shape),))[1])
        columns.append(np.concatenate([np.ravel(leaf) for leaf in leaves]))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("mode", ["forward", "reverse", "both", "auto"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_equal_dense_ones(name: str, mode: Any) -> None:
    if name == "while loop" and mode != "forward":
        pytest.skip("no reverse mode through a loop of unknown length")
    x = np.linspace(0.3, 1.4, 10)[::-1].copy()
    f = FUNCTIONS[name]
    jacobian = ft.sparse_jacobian(f, mode=mode)
    found = jacobian(x)
    expected = dense_jacobian(f, x)
    assert found.format == "csr"
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-12, atol=1e-14)
    plan = jacobian.plan(x)
    assert plan.shape == found.shape == expected.shape
    assert not expected[~plan.pattern.toarray()].any()
    assert plan.sweeps == plan.forward + plan.reverse
    if mode in ("forward", "reverse"):
        assert plan.sweeps == getattr(plan, mode)


def test_reverse_rules_and_their_patterns() -> None:
    x = np.linspace(0.3, 1.4, 10)
    jacobian = ft.sparse_jacobian(pulled, mode="reverse")
    np.testing.assert_allclose(jacobian(x).toarray(), ft.jacrev(pulled)(x), rtol=1e-13)
    assert jacobian.plan(x).nnz == 20


EXACT = {
    "neighbours": 18, "gathered": 8, "time steps": 70, "positions of a counter": 18,
    "stack of products": 20, "convolved": 30, "cumulative": 15,
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_patterns_are_exact_where_positions_are_constant(name: str) -> None:
    x = np.linspace(0.3, 1.4, 10)
    assert ft.sparse_jacobian(FUNCTIONS[name]).plan(x).nnz == EXACT[name]


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


SCALARS: dict[str, Any] = {
    "rosenbrock": rosenbrock,
    "arrow": lambda x: np.sum(x[0] * x[1:] ** 3),
    "separable": lambda x: np.sum(np.sin(x)),
    "linear": lambda x: np.sum(3.0 * x),
    "dense": lambda x: np.log(np.sum(np.exp(x))),
    "grid": lambda x: np.sum(np.diff(np.reshape(x, (2, 5)), axis=0) ** 2) + np.sum(x**4),
    "branch": lambda x: ft.cond(x[0] > 0, lambda x: np.sum(x**3), lambda x: x[1] * x[2], x),
    "rule": lambda x: np.sum(ruled(x) ** 2),
}


@pytest.mark.parametrize("name", SCALARS)
def test_hessians_equal_dense_ones(name: str) -> None:
    x, f = np.linspace(0.3, 1.4, 10), SCALARS[name]
    hessian = ft.sparse_hessian(f)
    np.testing.assert_allclose(
        hessian(x).toarray(), dense_jacobian(ft.grad(f), x), rtol=1e-11, atol=1e-12
    )
    assert hessian.plan(x).is_symmetric == (name != "rule")


def test_numbers_of_sweeps() -> None:
    x = np.ones(1000)
    assert ft.sparse_hessian(rosenbrock).plan(x).sweeps == 3
    assert ft.sparse_hessian(SCALARS["arrow"]).plan(x).sweeps == 2
    assert ft.sparse_hessian(SCALARS["separable"]).plan(x).sweeps == 1
    assert ft.sparse_hessian(SCALARS["linear"]).plan(x).nnz == 0
    plan = ft.sparse_jacobian(FUNCTIONS["dense row and column"]).plan(x)
    assert (plan.forward, plan.reverse) == (2, 1)


@given(st.integers(0, 10**6))
def test_random_couplings(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    left, right = rng.integers(0, n, (2, int(rng.integers(1, 12))))

    def f(x: Any) -> Any:
        return np.sum(np.sin(x[left]) * x[right] ** 2)

    x = rng.standard_normal(n)
    np.testing.assert_allclose(
        ft.sparse_hessian(f)(x).toarray(), dense_jacobian(ft.grad(f), x), rtol=1e-10, atol=1e-12
    )


def test_several_arguments_and_formats() -> None:
    def f(a: Any, b: Any, scale: Any) -> Any:
        return a["x"] * b[:, None] * scale, {"kept": np.sum(b)}

    a, b = {"x": np.arange(6.0).reshape(2, 3)}, np.array([2.0, 3.0])
    dense_a, dense_b = ft.jacfwd(lambda a, b: f(a, b, 2.0)[0], (0, 1))(a, b)
    expected = np.hstack([dense_a["x"].reshape(6, 6), dense_b.reshape(6, 2)])
    for form in ("csr", "csc", "coo", "dia"):
        jacobian = ft.sparse_jacobian(f, (0, 1), format=form, has_aux=True)
        found, aux = jacobian(a, b, scale=2.0)
        assert found.format == form
        assert aux == {"kept": 5.0}
        np.testing.assert_array_equal(found.toarray(), expected)
    for mode in ("reverse", "both"):
        found, aux = ft.sparse_jacobian(f, (0, 1), mode=mode, has_aux=True)(a, b, 2.0)
        np.testing.assert_array_equal(found.toarray(), expected)
        assert aux == {"kept": 5.0}
    value = ft.sparse_hessian(lambda a, b: (np.sum(f(a, b, 2.0)[0] ** 2), b), (0, 1), has_aux=True)
    found, aux = value(a, b)
    assert found.shape == (8, 8)
    np.testing.assert_array_equal(aux, b)
    np.testing.assert_allclose(found.toarray(), found.toarray().T)


def test_captured_positions_may_change_between_calls() -> None:
    x = np.arange(1.0, 5.0)
    for positions in (np.array([0, 1]), np.array([2, 2]), np.array([3, 0])):
        jacobian = ft.sparse_jacobian(lambda x, p=positions: x[p] ** 2)(x)
        np.testing.assert_array_equal(jacobian.toarray(), np.eye(4)[positions] * 2 * x)


def test_under_other_transforms() -> None:
    f, x = FUNCTIONS["neighbours"], np.linspace(0.3, 1.4, 10)
    jacobian = ft.sparse_jacobian(f)
    data = jacobian(x).data
    np.testing.assert_allclose(ft.jit(lambda x: jacobian(x).data)(x), data, rtol=1e-14)
    both = ft.vmap(lambda x: jacobian(x).data)(np.stack([x, 2 * x]))
    np.testing.assert_allclose(both[1], jacobian(2 * x).data, rtol=1e-14)
    v = np.linspace(-1.0, 1.0, 10)
    found = ft.grad(lambda x: np.sum((jacobian(x) @ v) ** 2))(x)
    expected = ft.grad(lambda x: np.sum((ft.jacfwd(f)(x) @ v) ** 2))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    traced = ft.jit(lambda x: ft.sparse_jacobian(f, format="csc")(x).toarray())(x)
    np.testing.assert_allclose(traced, jacobian(x).toarray(), rtol=1e-14)


LINEAR: dict[str, Any] = {
    "scaled": lambda x: 2.0 * x[1:],
    "extended": lambda x: np.concatenate([x, np.ones(2)]),
    "constant": lambda x: np.ones(2),
    "empty": lambda x: x[:0],
}


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("format", ["csr", "csc"])
def test_constant_jacobians_under_other_transforms(name: str, format: Any) -> None:
    f, x = LINEAR[name], np.linspace(0.3, 1.4, 5)
    jacobian, expected = ft.sparse_jacobian(f, format=format), ft.jacfwd(f)(x)
    jitted = ft.jit(jacobian)(x)
    assert scipy_sparse.issparse(jitted)
    assert jitted.format == format
    np.testing.assert_array_equal(jitted.toarray(), expected)
    mapped = ft.vmap(jacobian)(np.stack([x, 2 * x]))
    assert mapped.data.shape == (2, jitted.nnz)
    np.testing.assert_array_equal(mapped.with_data(mapped.data[1]).toarray(), expected)
    carried = ft.scan(
        lambda c, _: (c + jacobian(x * np.sum(c)) @ x, None), f(x) * 0.0, None, length=2
    )[0]
    np.testing.assert_allclose(carried, 2.0 * (expected @ x), rtol=1e-14)


def custom_jvp(f: Any) -> Any:
    made = ft.custom_jvp(f)
    made.defjvp(lambda primals, tangents: (f(*primals), np.cos(primals[0]) * tangents[0]))
    return made


def custom_vjp(f: Any) -> Any:
    made = ft.custom_vjp(f)
    made.defvjp(lambda x: (f(x), x), lambda x, ct: (np.cos(x) * ct,))
    return made


WRAPPERS: dict[str, Any] = {
    "jit": ft.jit,
    "checkpoint": ft.checkpoint,
    "custom_jvp": custom_jvp,
    "scan": lambda f: lambda x: ft.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
    "cond": lambda f: lambda x: ft.cond(np.sum(x) > -9.0, f, np.cos, x),
    "fori_loop": lambda f: lambda x: ft.fori_loop(0, 1, lambda i, c: f(c), x),
}


@pytest.mark.parametrize("name", [*WRAPPERS, "custom_vjp"])
def test_second_derivatives_of_values_that_were_read(name: str) -> None:
    """A value that Python reads is not recomputed, but its derivatives are."""
    inner = {**WRAPPERS, "custom_vjp": custom_vjp}[name](np.sin)

    def energy(x: Any) -> Any:
        z = inner(x)
        return np.sum((z if z[0] > 0.0 else -z) * x[::-1] ** 2 * 2.0)

    def slope(x: Any) -> Any:
        return 2.0 * (np.cos(x) * x[::-1] ** 2 + 2.0 * np.sin(x[::-1]) * x)

    x = np.array([0.4, 0.7, 1.1])
    expected = np.stack([
        (slope(x + h) - slope(x - h)) / 2e-6 for h in np.eye(3) * 1e-6
    ])  # fmt: skip
    np.testing.assert_allclose(ft.grad(energy)(x), slope(x), rtol=1e-13)
    np.testing.assert_allclose(ft.sparse_hessian(energy)(x).toarray(), expected, atol=1e-7)
    np.testing.assert_allclose(ft.hessian(energy)(x), expected, atol=1e-7)
    found = ft.sparse_jacobian(ft.grad(energy), mode="reverse")(x)
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-7)
    if name != "custom_vjp":  # which has no forward mode
        np.testing.assert_allclose(ft.laplacian(energy)(x), np.trace(expected), rtol=1e-6)


def test_large_problems_take_memory_of_their_elements() -> None:
    n = 20_000  # a dense pattern would take 400 MB

    def residual(u: Any) -> Any:
        return u[2:] - 2.0 * u[1:-1] + u[:-2] - np.exp(u[1:-1])

    u = np.linspace(0.0, 1.0, n)
    jacobian = ft.sparse_jacobian(residual)(u)
    assert jacobian.nnz == 3 * (n - 2)
    np.testing.assert_allclose(jacobian.diagonal(1), -2.0 - np.exp(u[1:-1]))
    assert ft.sparse_hessian(rosenbrock)(u).nnz == 3 * n - 2


def test_mistakes() -> None:
    x = np.ones(3)
    with pytest.raises(ArgumentError, match="fix: pass one of auto, forward"):
        ft.sparse_jacobian(np.sin, mode="sideways")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="csr, csc"):
        ft.sparse_hessian(np.sum, format="dense")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="only a scalar"):
        ft.sparse_hessian(lambda x: x)(x)
    with pytest.raises(DtypeError):
        ft.sparse_jacobian(np.sin)(np.arange(3))
    with pytest.raises(DtypeError):
        ft.sparse_jacobian(np.sin)(x * 1j)
    with pytest.raises(ShapeError, match="is dense"):
        ft.sparse_jacobian(lambda x: x / np.sum(x))(np.ones(6000))


def test_empty_arrays() -> None:
    assert ft.sparse_jacobian(lambda x: x[:0])(np.ones(3)).shape == (0, 3)
    assert ft.sparse_jacobian(lambda x: x * 2.0)(np.zeros(0)).shape == (0, 0)
    assert ft.sparse_hessian(lambda x: np.sum(x))(np.zeros(0)).shape == (0, 0)


@pytest.mark.parametrize("mode", ["forward", "reverse", "both", "auto"])
@pytest.mark.parametrize("empty", [(), None, {"a": []}])
def test_pytrees_without_leaves_have_no_rows_or_columns(mode: Any, empty: Any) -> None:
    assert ft.sparse_jacobian(lambda x: empty, mode=mode)(np.ones(3)).shape == (0, 3)
    found = ft.sparse_jacobian(lambda e, x: x**2, mode=mode)(empty, np.ones(3))
    assert found.shape == (3, 0)
