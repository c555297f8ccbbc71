"""``functrace.scipy.integrate``: SciPy's values, both gradients, differences, every transform,
events and refusals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate

import functrace as ft
from functrace.errors import (
    ArgumentError,
    ConcretizationError,
    NotDifferentiableError,
    ShapeError,
    UnsupportedFunctionError,
)
from functrace.scipy import integrate
from tests.compositions.functions import jacobian_by_differences
from tests.oracles import assert_same

TIMES = np.array([0.5, 1.0, 2.0])
Z = np.array([0.3, 0.4, 1.1, 0.7])
EXACT: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-9}
both = pytest.mark.parametrize("gradient", ["adjoint", "direct"])


def pendulum(t: Any, y: Any, p: Any) -> Any:
    """A driven pendulum."""
    return np.stack([y[1] * p[0], -np.sin(y[0]) * p[1] + 0.1 * np.cos(t)])


def swung(z: Any, **how: Any) -> Any:
    """Its path: the first two are where it starts, the others its parameters."""
    options = {"t_eval": TIMES, **EXACT, **how}
    return integrate.solve_ivp(pendulum, (0.0, 2.0), z[:2], args=(z[2:],), **options).y


@pytest.mark.sampled(5)
@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853", "LSODA", "BDF", "Radau"])
def test_adjoint_equals_differences(method: str) -> None:
    how = {"method": method} if method != "RK23" else {"method": method, "rtol": 1e-7, "atol": 1e-7}
    expected = jacobian_by_differences(
        lambda z: swung(z, rtol=1e-12, atol=1e-12, method="DOP853"), Z
    )
    np.testing.assert_allclose(
        ft.jacrev(lambda z: swung(z, **how))(Z), expected, rtol=1e-5, atol=2e-6
    )
    np.testing.assert_allclose(
        ft.jacfwd(lambda z: swung(z, **how))(Z), expected, rtol=1e-5, atol=2e-6
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("t_eval", [TIMES, None], ids=["t_eval", "steps"])
@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853"])
def test_direct_has_scipys_values_and_the_derivative_of_its_steps(method: str, t_eval: Any) -> None:
    how = {"method": method, "t_eval": t_eval, "rtol": 1e-4, "atol": 1e-5}
    run = lambda z: swung(z, gradient="direct", **how)
    expected = scipy.integrate.solve_ivp(pendulum, (0.0, 2.0), Z[:2], args=(Z[2:],), **how).y
    assert_same(ft.vjp(run, Z)[0], expected, rtol=1e-14)
    np.testing.assert_allclose(ft.jacfwd(run)(Z), ft.jacrev(run)(Z), rtol=1e-10, atol=1e-13)
    exact = swung(Z, method="DOP853", t_eval=t_eval) if t_eval is not None else None
    near = (
        ft.jacrev(lambda z: swung(z, **{**how, **EXACT}))(Z)
        if exact is not None
        else ft.jacrev(run)(Z)
    )
    np.testing.assert_allclose(ft.jacrev(run)(Z), near, rtol=1e-2, atol=1e-2)


def test_direct_with_fixed_steps_equals_differences() -> None:
    """Where all steps are as long as they may be, differences hold them, too."""
    how: dict[str, Any] = {
        "gradient": "direct",
        "max_step": 0.1,
        "first_step": 0.1,
        "rtol": 1e-2,
        "atol": 1e-2,
    }
    for method in ("RK23", "RK45", "DOP853"):
        run = lambda z, method=method: swung(z, method=method, **how)
        np.testing.assert_allclose(
            ft.jacrev(run)(Z), jacobian_by_differences(run, Z), rtol=1e-7, atol=1e-9
        )


@pytest.mark.full
@both
def test_second_derivatives_and_transforms(gradient: str) -> None:
    loss = lambda z: np.sum(swung(z, gradient=gradient) ** 2)
    found = ft.hessian(loss)(Z)
    np.testing.assert_allclose(
        found, jacobian_by_differences(ft.grad(loss), Z), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(ft.jit(ft.hessian(loss))(Z), found, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ft.jacrev(ft.grad(loss))(Z), found, rtol=1e-6, atol=1e-6)
    batch = np.stack([Z, 1.5 * Z])
    expected = np.stack([ft.grad(loss)(z) for z in batch])
    for transform in (ft.vmap(ft.grad(loss)), ft.jit(ft.vmap(ft.grad(loss)))):
        np.testing.assert_allclose(transform(batch), expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(ft.grad(ft.jit(loss))(Z), expected[0], rtol=1e-9)


@pytest.mark.sampled(3)
@both
@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["eager", "jit"])
def test_derivatives_by_times_and_by_captured_values(gradient: str, wrap: Any) -> None:
    def f(z: Any) -> Any:
        drag = np.exp(-z[3])
        times = np.stack([z[0], z[0] + z[1], z[0] + 2.0 * z[1], z[2]])
        found = integrate.solve_ivp(
            lambda t, y: np.stack([y[1], -drag * y[0] * t]), (z[0], z[2]), np.array([1.0, 0.5]),
            t_eval=times,
            gradient=gradient, method="DOP853", **EXACT,
        )  # fmt: skip
        return found.y

    z = np.array([0.1, 0.4, 1.7, 0.3])
    expected = jacobian_by_differences(f, z)
    np.testing.assert_allclose(wrap(ft.jacrev(f))(z), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(wrap(ft.jacfwd(f))(z), expected, rtol=1e-5, atol=1e-5)


@both
def test_backwards_in_time(gradient: str) -> None:
    def f(z: Any) -> Any:
        found = integrate.solve_ivp(
            pendulum,
            (2.0, z[0]),
            z[:2],
            t_eval=np.array([1.5, 0.7]),
            args=(z[2:],),
            gradient=gradient,
            **EXACT,
        )
        return found.y

    np.testing.assert_allclose(ft.jacrev(f)(Z), jacobian_by_differences(f, Z), rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(3)
@both
def test_dense_output_at_traced_times_in_any_order(gradient: str) -> None:
    def f(z: Any) -> Any:
        found = integrate.solve_ivp(
            pendulum,
            (0.0, 2.0),
            z[:2],
            args=(z[2:],),
            dense_output=True,
            gradient=gradient,
            **EXACT,
        )
        return np.concatenate(
            [found.sol(np.stack([z[2], z[0], z[3]])), found.sol(z[1])[:, None]], 1
        )

    expected = jacobian_by_differences(f, Z)
    np.testing.assert_allclose(ft.jacrev(f)(Z), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ft.jit(ft.jacrev(f))(Z), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ShapeError, match="sol takes a number or a vector"):
        ft.grad(
            lambda z: integrate.solve_ivp(
                pendulum, (0, 1), z[:2], args=(z[2:],), dense_output=True
            ).sol(np.eye(2))
        )(Z)


@pytest.mark.sampled(4)
@both
def test_events(gradient: str) -> None:
    def f(z: Any) -> Any:
        def half(t: Any, y: Any, p: Any) -> Any:
            return y[0] - 0.5 * z[0]

        def turns(t: Any, y: Any, p: Any) -> Any:
            return y[1]

        half.terminal = True  # type: ignore[attr-defined]
        found = integrate.solve_ivp(
            pendulum,
            (0.0, 9.0),
            z[:2],
            events=[half, turns],
            args=(z[2:],),
            gradient=gradient,
            **EXACT,
        )
        whole = [
            found.t_events[0],
            found.t_events[1],
            np.reshape(found.y_events[0], (-1,)),
            found.y[:, -1],
            found.t[-1:],
        ]
        return np.concatenate(whole)

    assert f(Z).shape == (7,)
    found = ft.jacrev(f)(Z)
    np.testing.assert_allclose(found, jacobian_by_differences(f, Z), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ft.vjp(f, Z)[0], f(Z), rtol=1e-12)


def test_linearize_error_suggests_jvp() -> None:
    _, push = ft.linearize(swung, Z)
    with pytest.raises(NotDifferentiableError, match=r"use functrace\.jvp for tangents"):
        push(Z)
    linear = ft.hvp(lambda z: np.sum(swung(z) ** 2), (Z,), (Z,))
    np.testing.assert_allclose(
        linear, ft.hessian(lambda z: np.sum(swung(z) ** 2))(Z) @ Z, rtol=1e-6
    )


def swung_by_odeint(z: Any) -> Any:
    """The same path."""
    return integrate.odeint(lambda y, t: pendulum(t, y, z[2:]), z[:2], TIMES, rtol=1e-9, atol=1e-9)


def test_odeint() -> None:
    def f(z: Any, first: bool = False) -> Any:
        order = pendulum if first else lambda y, t, p: pendulum(t, y, p)
        return integrate.odeint(
            order,
            z[:2],
            np.concatenate([z[:1], TIMES]),
            (z[2:],),
            tfirst=first,
            rtol=1e-9,
            atol=1e-9,
        )

    expected = jacobian_by_differences(
        lambda z: swung(np.concatenate([z[:2], z[2:]]), rtol=1e-12, atol=1e-12), Z
    )
    assert expected.shape == (2, 3, 4)
    np.testing.assert_allclose(ft.vjp(f, Z)[0], f(Z), rtol=1e-12)
    numbers = jacobian_by_differences(f, Z)
    for found in (
        ft.jacrev(f)(Z),
        ft.jacfwd(f)(Z),
        ft.jit(ft.jacrev(f))(Z),
        ft.jacrev(lambda z: f(z, True))(Z),
    ):
        np.testing.assert_allclose(found, numbers, rtol=1e-4, atol=1e-4)
    loss = lambda z: np.sum(f(z) ** 2)
    np.testing.assert_allclose(
        ft.hessian(loss)(Z), ft.jacrev(ft.grad(loss))(Z), rtol=1e-5, atol=1e-5
    )


@both
def test_complex_state(gradient: str) -> None:
    def f(w: Any) -> Any:
        found = integrate.solve_ivp(
            lambda t, y: 1j * w[0] * y - w[1] * y,
            (0.0, 1.0),
            [1.0 + 0.5j],
            gradient=gradient,
            **EXACT,
        )
        end = found.y[0, -1]
        return np.stack([np.real(end), np.imag(end)])

    exact = lambda w: (lambda end: np.stack([np.real(end), np.imag(end)]))(
        (1.0 + 0.5j) * np.exp(1j * w[0] - w[1])
    )
    w = np.array([2.0, 0.3])
    np.testing.assert_allclose(ft.jacrev(f)(w), ft.jacrev(exact)(w), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(ft.jacfwd(f)(w), ft.jacrev(exact)(w), rtol=1e-6, atol=1e-7)


def test_options_of_solve_ivp() -> None:
    z = Z
    expected = ft.jacrev(swung)(z)
    jac = lambda t, y, p: np.array([[0.0, 1.0], [0.0, 0.0]])
    for how in (
        {"vectorized": True}, {"atol": np.array([1e-9, 1e-10])}, {"max_step": 0.3},
        {"first_step": 1e-3},
        {"method": "BDF", "jac": jac, "max_step": 0.05}, {"t_eval": np.concatenate([[0.0], TIMES])},
    ):  # fmt: skip
        found = ft.jacrev(lambda z, how=how: swung(z, **how))(z)
        np.testing.assert_allclose(found[:, -3:], expected, rtol=1e-4, atol=1e-5)


def test_plain_calls_are_scipys_own() -> None:
    plain = scipy.integrate.solve_ivp(pendulum, (0.0, 2.0), Z[:2], args=(Z[2:],), t_eval=TIMES)
    found = []
    ft.grad(
        lambda a: (
            found.append(
                integrate.solve_ivp(pendulum, (0.0, 2.0), Z[:2], args=(Z[2:],), t_eval=TIMES)
            ),
            a,
        )[1]
    )(1.0)
    assert type(found[0]) is type(plain)
    np.testing.assert_array_equal(found[0].y, plain.y)
    np.testing.assert_array_equal(
        integrate.solve_ivp(pendulum, (0, 2), Z[:2], args=(Z[2:],), gradient="direct").y[:, 0],
        Z[:2],
    )


def test_refusals() -> None:
    with pytest.raises(ArgumentError, match="gradient='both'"):
        integrate.solve_ivp(pendulum, (0, 1), Z[:2], args=(Z[2:],), gradient="both")
    with pytest.raises(ArgumentError, match="method='BDF' has no gradient='direct'"):
        ft.grad(lambda z: np.sum(swung(z, method="BDF", gradient="direct")))(Z)
    with pytest.raises(ConcretizationError, match="the number of steps depends on values"):
        ft.jit(lambda z: swung(z, t_eval=None))(Z)
    with pytest.raises(ConcretizationError, match="the number of events depends on values"):
        ft.jit(lambda z: swung(z, events=lambda t, y, p: y[0]))(Z)
    with pytest.raises(ArgumentError, match="rtol= is traced"):
        ft.grad(lambda r: np.sum(swung(Z, rtol=r)))(1e-6)
    with pytest.raises(ShapeError, match="one rate per element"):
        ft.grad(lambda z: np.sum(integrate.solve_ivp(lambda t, y: y[:1], (0, 1), z).y))(Z)
    with pytest.raises(UnsupportedFunctionError, match=r"scipy\.integrate\.tplquad"):
        ft.grad(lambda a: integrate.tplquad(lambda x, y, z: 1.0, 0.0, a, 0, 1, 0, 1)[0])(1.0)
    assert ft.grad(lambda a: a * a)(3.0) == 6.0


def explosion(a: Any, **how: Any) -> Any:
    """The solution of y' = y**2, which does not reach the end."""
    return integrate.solve_ivp(lambda t, y: y**2 * a, (0.0, 2.0), np.array([1.0]), **how)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_solution_that_fails() -> None:
    plain = explosion(1.0)
    results = []

    def f(a: Any) -> Any:
        results.append(explosion(a))
        return results[0].y[0, 2]

    value, slope = ft.value_and_grad(f)(1.0)
    assert not results[0].success and results[0].message == plain.message and value == plain.y[0, 2]
    t = plain.t[2]
    np.testing.assert_allclose(slope, t / (1 - t) ** 2, rtol=1e-3)
    with pytest.raises(
        ArgumentError, match=r"scipy\.integrate\.solve_ivp failed: Required step size"
    ):
        ft.jit(lambda a: explosion(a, t_eval=np.array([1.5])).y)(1.0)
    assert ft.grad(lambda a: a * a)(3.0) == 6.0


def test_an_error_inside_leaves_nothing_behind() -> None:
    def rate(t: Any, y: Any) -> Any:
        raise RuntimeError("not today")

    with pytest.raises(RuntimeError, match="not today"):
        ft.grad(lambda y: np.sum(integrate.solve_ivp(rate, (0, 1), y).y))(Z)
    assert ft.grad(lambda a: a * a)(3.0) == 6.0


@both
def test_a_neural_ode(gradient: str) -> None:
    """Both gradients of a small network's path, against differences along a direction."""
    rng = np.random.default_rng(3)
    weights: Any = {
        "a": rng.normal(size=(8, 2)) / 2,
        "b": rng.normal(size=8) / 3,
        "c": rng.normal(size=(2, 8)) / 3,
    }

    def loss(w: Any) -> Any:
        rate = lambda t, y: w["c"] @ np.tanh(w["a"] @ y + w["b"])
        found = integrate.solve_ivp(rate, (0.0, 1.5), np.array([1.0, -0.5]),
        t_eval=np.linspace(0.1, 1.5, 6),
                                    gradient=gradient, **EXACT)  # fmt: skip
        return np.mean((found.y - np.array([[0.5], [0.2]])) ** 2)

    found = ft.grad(loss)(weights)
    along = ft.tree.tree_map(lambda x: rng.normal(size=x.shape), weights)
    moved = lambda h: loss(ft.tree.tree_map(lambda x, d: x + h * d, weights, along))
    slope = (8 * (moved(1e-3) - moved(-1e-3)) - (moved(2e-3) - moved(-2e-3))) / 12e-3
    dot = sum(
        np.sum(x * y)
        for x, y in zip(ft.tree.tree_leaves(found), ft.tree.tree_leaves(along), strict=True)
    )
    np.testing.assert_allclose(dot, slope, rtol=1e-6)
    np.testing.assert_allclose(
        ft.jit(ft.grad(loss))(weights)["a"], found["a"], rtol=1e-9, atol=1e-12
    )
