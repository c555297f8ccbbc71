"""``custom_root``, ``custom_linear_solve`` and ``closure_convert``: derivatives, transforms around
them, and refusals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ConcretizationError, NotDifferentiableError, ShapeError, TreeError
from tests.compositions.functions import jacobian_by_differences

A = np.array([[4.0, 1.0, 0.3], [0.5, 3.0, 0.2], [0.1, 0.2, 5.0]])
B = np.array([1.0, -2.0, 3.0])
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def dense(linear: Any, right: Any) -> Any:
    """Solve linear equations by their matrix."""
    return np.linalg.solve(ft.jacfwd(linear, holomorphic=np.iscomplexobj(right))(right), right)


def newton_loop(f: Any, x: Any) -> Any:
    """Newton's method in a loop of programs."""
    return ft.scan(
        lambda x, _: (x - dense(lambda v: ft.jvp(f, (x,), (v,))[1], f(x)), None), x, None, 12
    )[0]


def newton_python(f: Any, x: Any) -> Any:
    """Newton's method in Python, which reads concrete values."""
    for _ in range(60):
        if np.max(np.abs(f(x))) < 1e-13:
            break
        x = x - dense(lambda v, x=x: ft.jvp(f, (x,), (v,))[1], f(x))
    return x


def equations(a: Any) -> Callable[[Any], Any]:
    """Equations of a vector, with one root for every parameter."""
    return lambda x: x + 0.3 * x**3 + 0.2 * np.sin(A @ x) - a


def root(a: Any, way: Any = newton_loop) -> Any:
    """The root by a way of finding it."""
    return ft.custom_root(equations(a), np.zeros(3), way, dense)


def unrolled(a: Any) -> Any:
    """The same root, differentiated through the loop that finds it."""
    return newton_loop(equations(a), np.zeros(3))


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "jacrev": ft.jacrev,
    "jacfwd": ft.jacfwd,
    "hessian": lambda f: ft.hessian(lambda a: np.sum(np.tanh(f(a)))),
    "reverse twice": lambda f: ft.jacrev(ft.grad(lambda a: np.sum(np.tanh(f(a))))),
    "third": lambda f: ft.jacfwd(ft.hessian(lambda a: np.sum(np.tanh(f(a))))),
    "jit": lambda f: ft.jit(ft.jacrev(f)),
    "jit of hessian": lambda f: ft.jit(ft.hessian(lambda a: np.sum(np.tanh(f(a))))),
    "gradient of jit": lambda f: ft.grad(lambda a: np.sum(ft.jit(f)(a) ** 2)),
    "vmap": lambda f: lambda a: ft.vmap(ft.jacrev(f))(np.stack([a, a / 2, -a])),
    "gradient of vmap": lambda f: ft.grad(
        lambda a: np.sum(ft.vmap(lambda s: f(a * s))(np.array([1.0, 0.5])) ** 2)
    ),
    "vmap twice": lambda f: (
        lambda a: ft.vmap(lambda s: ft.vmap(lambda t: f(a * s + t))(B / 9))(B / 3)
    ),
    "scan": lambda f: ft.grad(lambda a: np.sum(ft.scan(lambda c, s: (f(c * s), c), a, B / 2)[0])),
    "checkpoint": lambda f: ft.jacrev(ft.checkpoint(f)),
    "linearize": lambda f: lambda a: ft.vmap(ft.linearize(f, a)[1])(np.eye(3)),
}
transforms = pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)


@transforms
def test_root_equals_unrolling(transform: Any) -> None:
    np.testing.assert_allclose(transform(root)(B / 3), transform(unrolled)(B / 3), **CLOSE)


@pytest.mark.parametrize("name", ["jacrev", "jacfwd", "hessian", "reverse twice", "third"])
def test_root_found_by_pythons_own_loop(name: str) -> None:
    found = TRANSFORMS[name](lambda a: root(a, newton_python))(B / 3)
    np.testing.assert_allclose(found, TRANSFORMS[name](unrolled)(B / 3), **CLOSE)


def test_root_of_a_pytree_with_auxiliary_results() -> None:
    def f(a: Any) -> Any:
        def zero(p: Any) -> Any:
            return {"u": p["u"] ** 3 - a[0], "v": (p["v"][0] - p["u"] * a[1],)}

        def solve(zero: Any, guess: Any) -> Any:
            u = np.cbrt(a[0])
            return {"u": u, "v": (u * a[1],)}, guess["u"] * 2.0

        def tangent(push: Any, right: Any) -> Any:
            slope = push({"u": 1.0, "v": (0.0,)})
            u = right["u"] / slope["u"]
            return {"u": u, "v": (right["v"][0] - slope["v"][0] * u,)}

        found, aux = ft.custom_root(zero, {"u": 1.0, "v": (0.0,)}, solve, tangent, has_aux=True)
        assert float(ft.value(aux) if ft.is_traced(aux) else aux) == 2.0
        return np.stack([found["u"], found["v"][0]])

    at = np.array([2.0, 3.0])
    expected = jacobian_by_differences(
        lambda a: np.stack([np.cbrt(a[0]), np.cbrt(a[0]) * a[1]]), at
    )
    np.testing.assert_allclose(ft.jacrev(f)(at), expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ft.jacfwd(f)(at), expected, rtol=1e-6, atol=1e-8)


def test_root_on_plain_values_is_the_result_of_solve() -> None:
    assert ft.custom_root(lambda x: x - 1.0, 0.0, lambda f, x: f(x) + 4.0, lambda g, y: y) == 3.0
    assert ft.custom_linear_solve(lambda x: 2.0 * x, 3.0, lambda f, b: b / f(1.0)) == 1.5


def test_a_solution_does_not_depend_on_the_guess_nor_on_values_of_solve() -> None:
    def f(guess: Any, tolerance: Any) -> Any:
        return ft.custom_root(
            lambda x: x**2 - 2.0,
            guess,
            lambda f, x: np.sqrt(2.0) + 0.0 * tolerance * x,
            dense_scalar,
        )

    assert ft.grad(f, (0, 1))(1.0, 1e-3) == (0.0, 0.0)


def dense_scalar(linear: Any, right: Any) -> Any:
    """Solve one linear equation."""
    return right / linear(1.0)


def solved(a: Any, b: Any, **ways: Any) -> Any:
    """A linear solve by `dense`."""
    return ft.custom_linear_solve(lambda x: a @ x, b, dense, **ways)


@pytest.mark.sampled(4)
@transforms
@pytest.mark.parametrize("symmetric", [False, True])
def test_linear_solve_equals_numpys(transform: Any, symmetric: bool) -> None:
    ways = {"symmetric": True} if symmetric else {"transpose_solve": dense}

    def matrix(a: Any) -> Any:
        made = A + np.sin(a)[:, None] * a
        return made + made.T if symmetric else made

    found = transform(lambda a: solved(matrix(a), np.cos(a), **ways))(B / 3)
    np.testing.assert_allclose(
        found, transform(lambda a: np.linalg.solve(matrix(a), np.cos(a)))(B / 3), **CLOSE
    )


def conjugate_gradients(matvec: Any, b: Any) -> Any:
    """CG in a loop whose steps nobody could transpose."""

    def step(state: Any, _: Any) -> Any:
        x, r, p = state
        q = matvec(p)
        rr = np.vdot(r, r)
        alpha = rr / np.maximum(np.vdot(p, q), 1e-300)
        r_next = r - alpha * q
        beta = np.vdot(r_next, r_next) / np.maximum(rr, 1e-300)
        return (x + alpha * p, r_next, r_next + beta * p), None

    return ft.scan(step, (np.zeros_like(b), b, b), None, 5)[0][0]


def test_conjugate_gradients_against_unrolling() -> None:
    def matrix(a: Any) -> Any:
        return A @ A.T + a[:, None] * a

    def implicit(a: Any) -> Any:
        return np.sum(
            ft.custom_linear_solve(
                lambda x: matrix(a) @ x, a**2, conjugate_gradients, symmetric=True
            )
            ** 2
        )

    def direct(a: Any) -> Any:
        return np.sum(np.linalg.solve(matrix(a), a**2) ** 2)

    for transform in (ft.grad, ft.hessian, lambda f: ft.jit(ft.hessian(f))):
        np.testing.assert_allclose(
            transform(implicit)(B), transform(direct)(B), rtol=1e-7, atol=1e-10
        )
    unroll = ft.grad(lambda a: np.sum(conjugate_gradients(lambda x: matrix(a) @ x, a**2) ** 2))(B)
    np.testing.assert_allclose(ft.grad(implicit)(B), unroll, rtol=1e-6)


def test_linear_solve_of_a_pytree_with_auxiliary_results() -> None:
    def f(a: Any) -> Any:
        def matvec(p: Any) -> Any:
            return {"u": a * p["u"], "v": p["v"] + p["u"]}

        def solve(matvec: Any, b: Any) -> Any:
            u = b["u"] / a
            return {"u": u, "v": b["v"] - u}, 3

        def back(vecmat: Any, b: Any) -> Any:
            return {"u": (b["u"] - b["v"]) / a, "v": b["v"]}, 4

        x, aux = ft.custom_linear_solve(matvec, {"u": 2.0, "v": a**2}, solve, back, has_aux=True)
        assert int(aux) == 3
        return x["u"] * x["v"]

    expected = ft.grad(lambda a: 2.0 / a * (a**2 - 2.0 / a))(1.5)
    np.testing.assert_allclose([ft.grad(f)(1.5), ft.jvp(f, (1.5,), (1.0,))[1]], expected)


def test_complex_linear_equations() -> None:
    a = A + 1j * A[::-1] / 3

    def loss(solve: Any) -> Any:
        return lambda b: np.sum(np.abs(solve(a * b[0], b)) ** 2)

    b = B + 0.3j
    found = ft.grad(loss(lambda a, b: solved(a, b, transpose_solve=dense)))(b)
    np.testing.assert_allclose(found, ft.grad(loss(np.linalg.solve))(b))


def test_errors_name_the_cause() -> None:
    with pytest.raises(NotDifferentiableError, match="no transpose_solve"):
        ft.grad(lambda b: np.sum(solved(A, b)))(B)
    assert ft.jvp(lambda b: solved(A, b), (B,), (B,))[1].shape == (3,)
    with pytest.raises(NotDifferentiableError):
        ft.grad(lambda b: np.sum(ft.custom_linear_solve(lambda x: x**2 * b, b, dense, dense)))(B)
    with pytest.raises(ShapeError, match="the result of matvec of custom_linear_solve"):
        ft.grad(lambda b: np.sum(ft.custom_linear_solve(lambda x: x[:2], b, dense, dense)))(B)
    with pytest.raises(TreeError, match="solve with has_aux=True returned"):
        ft.grad(lambda b: ft.custom_linear_solve(lambda x: x, b, lambda f, b: b, has_aux=True)[0])(
            1.0
        )
    with pytest.raises(TreeError, match="the solution of custom_root has the structure"):
        ft.grad(lambda a: ft.custom_root(lambda x: x - a, 1.0, lambda f, x: (x, x), dense_scalar))(
            1.0
        )
    with pytest.raises(ShapeError, match="the result of <lambda>"):
        ft.grad(
            lambda a: ft.custom_root(lambda x: np.stack([x, a]), 1.0, lambda f, x: x, dense_scalar)
        )(1.0)
    with pytest.raises(ConcretizationError):
        ft.jit(lambda a: root(a, newton_python))(B)


def test_an_error_in_a_solve_leaves_nothing_behind() -> None:
    def failing(f: Any, x: Any) -> Any:
        raise RuntimeError("not today")

    for transform in (ft.grad, lambda f: ft.jit(ft.grad(f))):
        with pytest.raises(RuntimeError, match="not today"):
            transform(lambda a: ft.custom_root(lambda x: x - a, 1.0, failing, dense_scalar))(1.0)
        assert ft.grad(lambda a: a * a)(2.0) == 4.0


def test_closure_convert_returns_captured_tracers() -> None:
    table = np.arange(3.0)

    def f(a: Any) -> Any:
        b = np.sin(a)
        converted, captured = ft.closure_convert(
            lambda x, y: {"z": x * b + y["w"] * a + table}, a, {"w": 1.0}
        )
        assert len(captured) == 2 and all(map(ft.is_traced, captured))
        return np.sum(converted(a, {"w": 2.0}, *captured)["z"])

    np.testing.assert_allclose(ft.grad(f)(B), ft.grad(lambda a: np.sum(a * np.sin(a) + 2.0 * a))(B))
    np.testing.assert_allclose(
        ft.jit(ft.vmap(ft.grad(f)))(A), np.stack([ft.grad(f)(row) for row in A])
    )
    with pytest.raises(TreeError, match="takes 1 arguments and 1 captured values, not 1"):
        ft.grad(lambda a: ft.closure_convert(lambda x: x * a, 1.0)[0](1.0))(1.0)
