"""``functrace.scipy.optimize``: SciPy's values, derivatives against differences, every transform,
and refusals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import functrace as ft
from functrace.errors import NotDifferentiableError, UnsupportedFunctionError
from functrace.scipy import optimize
from tests.compositions.functions import jacobian_by_differences

A = np.array([0.4, 0.9, 0.6])
LINE = np.linspace(0.0, 1.0, 7)


def bowl(x: Any, a: Any) -> Any:
    """An objective with one minimum, which is no parabola."""
    return np.sum((x - np.sin(a)) ** 4 + (x - a) ** 2) + x[0] * x[1] * a[2]


def minimum(**how: Any) -> Callable[[Any], Any]:
    """The minimum of `bowl` as a function of its parameters."""
    return lambda a: optimize.minimize(bowl, np.zeros(3), args=(a,), **{"tol": 1e-10, **how}).x


def constrained(method: str) -> Callable[[Any], Any]:
    """A minimum where an equation, an inequality and a limit hold."""

    def f(a: Any) -> Any:
        constraints = [
            {"type": "eq", "fun": lambda x: np.sum(x) - 3.0 * a[0]},
            {"type": "ineq", "fun": lambda x, a: x[1] - 0.4 - a[1] ** 2 / 2, "args": (a,)},
        ]
        return optimize.minimize(
            lambda x: np.sum((x - a) ** 2 * np.arange(1.0, 4.0)), np.ones(3), bounds=[(0.05,
            2.0)] * 3, method=method,
            constraints=constraints, tol=1e-10,
        ).x  # fmt: skip

    return f


def of_forms(a: Any) -> Any:
    """A minimum under SciPy's objects for constraints."""
    ring = scipy.optimize.NonlinearConstraint(lambda x: np.sum(x**2) - a[0], -np.inf, 0.5)
    plane = scipy.optimize.LinearConstraint(np.array([[1.0, 1.0, 0.0]]), 0.1, 0.1)
    found = optimize.minimize(
        lambda x: np.sum((x - 2.0 * a) ** 2), np.zeros(3), constraints=[ring, plane], tol=1e-12
    )
    return found.x


def curve(t: Any, b: Any, c: Any) -> Any:
    """A model to be fitted."""
    return b * np.exp(-c * t)


def fitted(a: Any, **how: Any) -> Any:
    """Its parameters and their covariance."""
    y = 2.0 * np.exp(-0.7 * LINE) + 0.1 * np.sin(9.0 * LINE * a[0])
    p, covariance = optimize.curve_fit(
        curve, LINE, y + 0.1 * a[1] * LINE, [1.0, 1.0], ftol=1e-13, xtol=1e-13, **how
    )
    return np.concatenate([p, 100.0 * np.reshape(covariance, (-1,))])


def squares(**how: Any) -> Callable[[Any], Any]:
    """A fit by least squares."""

    def f(a: Any) -> Any:
        options = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14, **how}
        made = lambda x, a: np.stack([x[0] - a[0], x[1] * x[0] - a[1], x[0] + x[1] - a[2] - 1.0])
        found = optimize.least_squares(made, np.full(2, 0.4), args=(a,), **options)
        return np.concatenate([found.x, found.fun, np.reshape(found.cost, (1,))])

    return f


def quiet(a: Any) -> Callable[[Any], Any]:
    """Equations that every method solves."""
    return lambda x: x + 0.2 * np.sin(x) - a


MATRIX = np.array([[1.0, 0.3, -0.4], [0.2, 1.5, 0.1], [0.5, -0.2, 2.0], [0.1, 0.6, 0.3]])
RIGHT = np.array([1.0, -2.0, 3.0, 0.3])


def by_hand_minimum(a: Any) -> Any:
    """A minimum by a gradient that is given, so that SciPy finds the same numbers on plain values."""
    scale = np.array([1.0, 2.0, 3.0])
    return optimize.minimize(
        lambda x: np.sum(scale * (x - a) ** 2),
        np.zeros(3),
        jac=lambda x: 2.0 * scale * (x - a),
        tol=1e-12,
    ).x


def by_hand_squares(a: Any) -> Any:
    """A fit with its Jacobian."""
    return optimize.least_squares(
        lambda x: MATRIX @ x - RIGHT * a[0], a, jac=lambda x: MATRIX, gtol=1e-13
    ).x


def by_hand_fit(a: Any) -> Any:
    """A line through points."""
    slope = lambda t, b, c: np.stack([t, np.ones_like(t)], 1)
    return optimize.curve_fit(
        lambda t, b, c: b * t + c, LINE, np.sin(LINE * a[0]) * a[1], [0.5, 0.5], jac=slope
    )[0]


CASES: dict[str, Callable[[Any], Any]] = {
    "minimize": minimum(),
    "minimize, gradient given": minimum(jac=lambda x, a: ft.grad(bowl)(x, a)),
    "minimize, complex steps": minimum(jac="cs"),
    "minimize, both": lambda a: (
        optimize.minimize(lambda x: ft.value_and_grad(bowl)(x, a), np.zeros(3), jac=True,
        tol=1e-10).x
    ),
    "minimize, limits": lambda a: optimize.minimize(
        lambda x: np.sum((x - a) ** 2) + x[0] * x[1] / 4, np.zeros(3), bounds=[(None, None), (None,
        a[2] ** 2), (0, 0.5)],
        tol=1e-14,
    ).x,
    "minimize, Bounds": lambda a: optimize.minimize(
        lambda x: np.sum((x - a) ** 4 + x**2), np.ones(3), bounds=scipy.optimize.Bounds(0.3, 1.0),
        tol=1e-14
    ).x,
    "minimize, SLSQP": constrained("SLSQP"),
    "minimize, forms of constraints": of_forms,
    "minimize, value": lambda a: np.reshape(optimize.minimize(bowl, np.zeros(3), args=(a,),
    tol=1e-10).fun, (1,)),
    "minimize_scalar": lambda a: np.reshape(optimize.minimize_scalar(lambda x: (x - a[0]) ** 2 + x**4 * a[1]).x, (1,)),
    "minimize_scalar, bracket": lambda a: np.reshape(
        optimize.minimize_scalar(lambda x, b: (x - b) ** 2 + x**4, (-1.0, 0.1, 2.0),
        args=(a[1],)).x, (1,)
    ),
    "minimize_scalar, bounded": lambda a: np.reshape(
        optimize.minimize_scalar(lambda x: (x - a[0]) ** 2, bounds=(-1, 2.0), method="bounded",
        options={"xatol": 1e-9}).x,
        (1,),
    ),
    "root": lambda a: optimize.root(lambda x, a: x + 0.2 * np.sin(x[::-1] * a) - a, np.zeros(3),
    args=(a,)).x,
    "root, lm": lambda a: optimize.root(lambda x: x**3 + x - a, np.zeros(3), method="lm",
    tol=1e-13).x,
    "root, more equations": lambda a: optimize.root(
        lambda x: np.concatenate([x - a, x * a - 1.0]), np.ones(3), method="lm", tol=1e-13
    ).x,
    "root, broyden1": lambda a: optimize.root(quiet(a), np.zeros(3), method="broyden1",
    tol=1e-11).x,
    "root, krylov": lambda a: optimize.root(quiet(a), np.zeros(3), method="krylov", tol=1e-11).x,
    "root, df-sane": lambda a: optimize.root(quiet(a), np.zeros(3), method="df-sane", tol=1e-11).x,
    "root, jacobian": lambda a: optimize.root(lambda x: x**3 + x - a, np.zeros(3),
    jac=lambda x: np.diag(3 * x**2 + 1)).x,
    "fsolve": lambda a: optimize.fsolve(lambda x, a, b: x**3 + b * x - a, np.zeros(3), (a, a[1])),
    "root_scalar": lambda a: np.reshape(optimize.root_scalar(lambda x: x**3 - a[0], bracket=(0,
    2)).root, (1,)),
    "root_scalar, newton": lambda a: np.reshape(
        optimize.root_scalar(lambda x, b: x**3 - b, (a[1],), "newton", x0=1.0).root, (1,)
    ),
    "root_scalar, halley": lambda a: np.reshape(
        optimize.root_scalar(
            lambda x: x**3 - a[1], (), "halley", fprime=lambda x: 3 * x**2,
            fprime2=lambda x: 6 * x, x0=1.0
        ).root, (1,)
    ),
    "root_scalar, secant": lambda a: np.reshape(optimize.root_scalar(lambda x: x**3 - a[1], x0=1.0,
    x1=1.1).root, (1,)),
    "root_scalar, derivative": lambda a: np.reshape(
        optimize.root_scalar(lambda x: (x**3 - a[1], 3 * x**2), fprime=True, x0=1.0).root, (1,)
    ),
    **{
        name: lambda a, name=name: np.reshape(
            getattr(optimize, name)(lambda x, b: np.exp(x) - b - a[0], 0.0, 2.0, (a[1],)), (1,)
        )
        for name in ("brentq", "brenth", "bisect", "ridder", "toms748")
    },
    "brentq, all of it": lambda a: np.reshape(optimize.brentq(lambda x: x**3 - a[0], 0.0, 2.0,
    full_output=True)[0], (1,)),
    "newton": lambda a: optimize.newton(lambda x, a: x**3 - a, np.ones(3), args=(a,), tol=1e-13),
    "newton, derivative": lambda a: np.reshape(
        optimize.newton(lambda x: x**3 - a[0], 1.0, lambda x: 3 * x**2, fprime2=lambda x: 6 * x),
        (1,)
    ),
    "fixed_point": lambda a: optimize.fixed_point(lambda x, a: np.cos(x * a) / 2, np.ones(3), (a,),
    xtol=1e-12),
    "fixed_point, iteration": lambda a: np.reshape(
        optimize.fixed_point(lambda x: np.cos(x * a[1]) / 2, 1.0, xtol=1e-13, method="iteration"),
        (1,)
    ),
    "least_squares": squares(),
    "least_squares, lm": squares(method="lm"),
    "least_squares, dogbox within limits": squares(method="dogbox", bounds=([0.0, 0.0], [0.5,
    3.0])),
    "least_squares, trf within limits": squares(bounds=([0.0, 0.0], [0.5, 3.0])),
    **{f"least_squares, {loss}": squares(loss=loss, f_scale=0.3) for loss in ("soft_l1", "huber",
    "cauchy", "arctan")},
    "curve_fit": fitted,
    "curve_fit, weights": lambda a: fitted(a, sigma=0.2 + LINE, absolute_sigma=True),
    "curve_fit, covariance": lambda a: fitted(a, sigma=np.eye(7) + 0.2),
    "curve_fit, limits": lambda a: fitted(a, bounds=([0.0, 0.0], [9.0, 9.0]), gtol=1e-13)[:2],
    "nnls": lambda a: optimize.nnls(MATRIX + 0.1 * np.sin(a), RIGHT)[0],
    "nnls, the norm": lambda a: np.reshape(optimize.nnls(MATRIX, RIGHT + np.cos(a[0]))[1], (1,)),
    "lsq_linear": lambda a: optimize.lsq_linear(MATRIX * np.cos(a / 3), RIGHT, (-0.5, a[1]),
    method="bvls").x,
}  # fmt: skip
cases = pytest.mark.parametrize("f", CASES.values(), ids=CASES)
quick = pytest.mark.parametrize(
    "name", ["minimize", "minimize, SLSQP", "root", "brentq", "least_squares", "nnls", "curve_fit"]
)


@pytest.mark.sampled(8)
@cases
def test_derivatives_equal_differences(f: Any) -> None:
    value, found = f(A), ft.jacrev(f)(A)
    expected = jacobian_by_differences(f, A)
    np.testing.assert_allclose(
        found, expected, rtol=1e-3, atol=3e-4 * (1.0 + np.max(np.abs(value)))
    )
    np.testing.assert_allclose(ft.jacfwd(f)(A), found, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ft.vjp(f, A)[0], value, rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(8)
@cases
def test_staged_is_eager(f: Any) -> None:
    np.testing.assert_allclose(ft.jit(ft.jacrev(f))(A), ft.jacrev(f)(A), rtol=1e-10, atol=1e-12)
    batch = np.stack([A, A / 1.1])
    np.testing.assert_allclose(
        ft.vmap(f)(batch), np.stack([f(row) for row in batch]), rtol=1e-5, atol=1e-6
    )


@pytest.mark.sampled(8)
@quick
def test_second_derivatives_and_nested_transforms(name: str) -> None:
    f = CASES[name]
    loss = lambda a: np.sum(f(a) ** 2)
    found = ft.hessian(loss)(A)
    np.testing.assert_allclose(
        found, jacobian_by_differences(ft.grad(loss), A), rtol=1e-3, atol=1e-3
    )
    np.testing.assert_allclose(ft.jit(ft.hessian(loss))(A), found, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ft.jacrev(ft.grad(loss))(A), found, rtol=1e-6, atol=1e-8)
    batch = np.stack([A, A / 1.1])
    expected = np.stack([ft.grad(loss)(row) for row in batch])
    for both in (ft.vmap(ft.grad(loss)), ft.jit(ft.vmap(ft.grad(loss)))):
        np.testing.assert_allclose(both(batch), expected, rtol=1e-7, atol=1e-9)


METHODS = ["Nelder-Mead", "Powell", "CG", "BFGS", "Newton-CG", "L-BFGS-B", "TNC", "COBYLA",
"COBYQA", "SLSQP",
           "trust-constr", "dogleg", "trust-ncg", "trust-exact", "trust-krylov"]  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:delta_grad:UserWarning")
@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_minimize(method: str) -> None:
    how = {
        "method": method,
        "tol": None if method in ("dogleg", "trust-exact", "trust-krylov") else 1e-9,
    }
    expected = ft.jacrev(minimum())(A)
    np.testing.assert_allclose(ft.jacrev(minimum(**how))(A), expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(ft.jit(ft.jacfwd(minimum(**how)))(A), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore:delta_grad:UserWarning", "ignore:Singular Jacobian:UserWarning")
@pytest.mark.parametrize("method", ["trust-constr", "COBYQA"])
def test_other_methods_under_constraints(method: str) -> None:
    np.testing.assert_allclose(
        ft.jacrev(constrained(method))(A), ft.jacrev(constrained("SLSQP"))(A), rtol=1e-4, atol=1e-4
    )


SIGMAS = {
    "none": None,
    "number": 0.5,
    "0-d": np.array(0.5),
    "one element": np.array([0.5]),
    "vector": 0.2 + LINE,
    "matrix": 0.1 * np.eye(7) + 0.05,
}
JACOBIANS = {
    "none": None,
    "2-point": "2-point",
    "3-point": "3-point",
    "complex steps": "cs",
    "function": lambda t, b, c: np.stack([np.exp(-c * t), -b * t * np.exp(-c * t)], 1),
}
"""Strings are for "trf" and "dogbox"; SciPy has no Jacobian for "lm" but a function."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("jac", JACOBIANS)
@pytest.mark.parametrize("sigma", SIGMAS)
def test_curve_fit_with_each_form_of_weights_and_jacobian(
    sigma: str, jac: str, absolute: bool
) -> None:
    y = 2.0 * np.exp(-0.7 * LINE) + 0.1 * np.sin(9.0 * LINE)
    given, slope = SIGMAS[sigma], JACOBIANS[jac]
    # SciPy's own Jacobian function fails for one number, where a vector of equal ones does not.
    full = np.full(7, 0.5) if given is not None and np.size(given) == 1 else given
    for method in ["trf", "dogbox"] if isinstance(slope, str) else ["lm", "trf", "dogbox"]:
        how = {"absolute_sigma": absolute, "method": method, "ftol": 1e-13, "xtol": 1e-13}
        expected = scipy.optimize.curve_fit(curve, LINE, y, [1.0, 1.0], full, jac=slope, **how)

        def f(y: Any, given: Any = given, how: Any = how) -> Any:
            return optimize.curve_fit(curve, LINE, y, [1.0, 1.0], given, jac=slope, **how)

        for found in (ft.vjp(f, y)[0], ft.jit(f)(y)):
            np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
            np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)
        if given is None:
            continue
        # The derivative by sigma is that of a fit with as many numbers as observations.
        by_sigma = ft.jacrev(lambda x, f=f: f(y, x))(np.asarray(given))
        by_full = ft.jacrev(lambda x, f=f: f(y, x))(full)
        for one, other in zip(by_sigma, by_full, strict=True):
            many = other if np.shape(one) == np.shape(other) else np.sum(other, -1)
            np.testing.assert_allclose(one.reshape(many.shape), many, rtol=1e-4, atol=1e-6)


def test_solutions_depend_on_captured_values_and_not_on_starts() -> None:
    def f(a: Any, start: Any) -> Any:
        scale = np.sin(a)
        return np.sum(optimize.root(lambda x: x**3 + x - scale, start).x)

    by_a, by_start = ft.grad(f, (0, 1))(A, np.ones(3))
    np.testing.assert_allclose(
        by_a, jacobian_by_differences(lambda a: np.asarray(f(a, np.ones(3))), A), rtol=1e-6
    )
    assert not by_start.any()
    assert ft.grad(lambda b: optimize.brentq(lambda x: x - 1.0, 0.0, b))(3.0) == 0.0


def test_an_optimizers_solution_against_unrolling() -> None:
    def unrolled(a: Any) -> Any:
        return ft.scan(lambda x, _: (x - 0.05 * ft.grad(bowl)(x, a), None), np.zeros(3), None, 400)[
            0
        ]

    np.testing.assert_allclose(
        ft.jacrev(minimum())(A), ft.jacrev(unrolled)(A), rtol=1e-6, atol=1e-7
    )


def test_python_control_flow_in_the_objective() -> None:
    def f(a: Any) -> Any:
        def fun(x: Any) -> Any:
            return np.sum((x - a) ** 2) * (2.0 if x[0] > a[0] else 1.0)

        return optimize.minimize(fun, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-8}).x

    np.testing.assert_allclose(ft.jacrev(f)(A), np.eye(3), atol=1e-6)


def test_plain_calls_are_scipys_own() -> None:
    for plain in (True, False):
        found = []

        def f(a: Any, found: Any = found) -> Any:
            found.append(optimize.minimize(bowl, np.zeros(3), args=(A,)))
            return np.sum(a)

        f(A) if plain else ft.grad(f)(A)
        expected = scipy.optimize.minimize(bowl, np.zeros(3), args=(A,))
        np.testing.assert_array_equal(found[0].x, expected.x)
        assert found[0].nfev == expected.nfev and type(found[0]) is scipy.optimize.OptimizeResult


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["eager", "jit"])
def test_a_result_that_did_not_converge_has_no_derivative(wrap: Any) -> None:
    def f(a: Any) -> Any:
        return np.sum(optimize.minimize(bowl, np.ones(3), args=(a,), options={"maxiter": 1}).x)

    assert np.isfinite(wrap(f)(A))
    for transform in (ft.grad, ft.jacfwd, ft.hessian):
        with pytest.raises(
            NotDifferentiableError, match=r"what scipy\.optimize\.minimize returned is no solution"
        ) as caught:
            wrap(transform(f))(A)
        assert "test_optimize.py" in str(caught.value)
    assert ft.grad(lambda a: a * a)(3.0) == 6.0


def test_the_error_contains_the_solvers_message() -> None:
    with pytest.raises(NotDifferentiableError, match="Maximum number of iterations"):
        ft.grad(
            lambda a: np.sum(
                optimize.minimize(bowl, np.ones(3), args=(a,), options={"maxiter": 1}).x
            )
        )(A)


def test_fields_without_derivative() -> None:
    def inverse(a: Any) -> Any:
        return np.sum(optimize.minimize(bowl, np.zeros(3), args=(a,)).hess_inv)

    assert not ft.grad(lambda a: ft.stop_gradient(inverse(a)))(A).any()
    with pytest.raises(
        NotDifferentiableError, match=r"hess_inv of scipy\.optimize\.minimize has no derivative"
    ):
        ft.grad(inverse)(A)
    results = []
    ft.grad(
        lambda a: (results.append(r := optimize.root(lambda x: x - a, np.zeros(3))), np.sum(r.x))[1]
    )(A)
    assert (
        results[0].success is True and isinstance(results[0].message, str) and results[0].nfev > 0
    )
    with pytest.raises(
        AttributeError, match=r"hess_inv of scipy\.optimize\.minimize is not there on traced values"
    ):
        ft.jit(inverse)(A)


def test_singular_equations_and_errors_of_scipys() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        ft.jacrev(lambda a: optimize.root(lambda x: np.sum(x - a) * np.ones(3), A).x)(A)
    for wrap in (lambda f: f, ft.jit):
        with pytest.raises(ValueError, match="must have different signs"):
            wrap(ft.grad(lambda a: optimize.brentq(lambda x: x**2 + a, 0.0, 1.0)))(1.0)
        assert ft.grad(lambda a: a * a)(3.0) == 6.0


def test_a_name_that_is_scipys_refuses_traced_values() -> None:
    assert optimize.linprog([1.0], bounds=[(0, 1)]).success
    with pytest.raises(
        UnsupportedFunctionError, match=r"scipy\.optimize\.linprog does not take traced values"
    ):
        ft.grad(lambda c: optimize.linprog(c, bounds=[(0, 1)] * 3).fun)(A)
    with pytest.raises(AttributeError):
        optimize.nothing_of_the_sort


def test_solvers_that_compute_in_float64_return_the_dtype_of_the_problem() -> None:
    a, start = np.full(2, 2.0, np.float32), np.ones(2, np.float32)
    for solve in (
        lambda a: optimize.root(lambda x: x**2 - a, start).x,
        lambda a: optimize.minimize(lambda x: np.sum((x**2 - a) ** 2), start).x,
    ):
        found = ft.jit(solve)(a)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, np.sqrt(2.0), rtol=1e-3)
