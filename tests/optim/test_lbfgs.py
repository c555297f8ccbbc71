"""L-BFGS and its line search: minima against SciPy's, the Wolfe conditions, transforms, errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace.errors import ArgumentError

optim = ft.optim


def minimized(f: Callable[[Any], Any], x: Any, count: int, **options: Any) -> tuple[Any, Any]:
    """Run L-BFGS; read value and gradient from the state."""
    tx = optim.lbfgs(**options)
    state, value_and_grad = tx.init(x), optim.value_and_grad_from_state(f)
    for _ in range(count):
        value, grad = value_and_grad(x, state=state)
        updates, state = tx.update(grad, state, x, value=value, grad=grad, value_fn=f)
        x = optim.apply_updates(x, updates)
    return x, state


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def quadratic(x: Any) -> Any:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(6, 6))
    return 0.5 * np.dot(x, (a @ a.T + 0.1 * np.eye(6)) @ x) - np.dot(rng.normal(size=6), x)


def logistic(x: Any) -> Any:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(50, 5))
    labels = np.sign(features @ np.arange(-2.0, 3.0) + 0.5 * rng.normal(size=50))
    return np.mean(np.logaddexp(0.0, -labels * (features @ x))) + 0.01 * np.sum(x**2)


PROBLEMS: dict[str, tuple[Callable[[Any], Any], Any, int]] = {
    "rosenbrock 2": (rosenbrock, np.array([-1.2, 1.0]), 60),
    "rosenbrock 5": (rosenbrock, np.array([-1.0, 1.0, 0.5, -0.5, 1.2]), 120),
    "quadratic": (quadratic, np.ones(6), 60),
    "logistic": (logistic, np.zeros(5), 40),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_minima_are_scipys(name: str) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    f, x, count = PROBLEMS[name]
    options = {"ftol": 0.0, "gtol": 1e-10, "maxiter": 1000}
    wanted = optimize.minimize(f, x, jac=ft.grad(f), method="L-BFGS-B", options=options)
    found, state = minimized(f, x, count)
    np.testing.assert_allclose(found, wanted.x, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(f(found), wanted.fun, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(state[-1].value, f(found), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(state[-1].grad, ft.grad(f)(found), atol=1e-6)


def test_all_steps_in_one_program() -> None:
    """A scan of steps, jitted, mapped over starts, equals the loop of Python."""
    tx = optim.lbfgs(memory_size=4)

    def run(x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            x, state = carry
            value, grad = ft.value_and_grad(rosenbrock)(x)
            updates, state = tx.update(grad, state, x, value=value, grad=grad, value_fn=rosenbrock)
            return (x + updates, state), value

        return ft.scan(step, (x, tx.init(x)), length=15)[1]

    starts = np.array([[-1.2, 1.0], [0.3, 2.0], [3.0, -1.0]])
    wanted = np.stack([run(x) for x in starts])
    for f in (ft.vmap(run), ft.jit(ft.vmap(run))):
        np.testing.assert_allclose(f(starts), wanted, rtol=1e-6)
    for backend in ("numpy", "native", "xla"):
        pytest.importorskip({"native": "llvmlite", "xla": "jax"}.get(backend, "numpy"))
        jitted = ft.jit(run, backend=backend)  # type: ignore[arg-type]
        np.testing.assert_allclose(jitted(starts[0]), wanted[0], rtol=1e-6)


def test_pytrees_of_float32() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(20, 3)).astype("f4"), rng.normal(size=20).astype("f4")

    def loss(p: Any) -> Any:
        return np.mean((x @ p["w"] + p["b"] - y) ** 2)

    start = {"w": np.zeros(3, "f4"), "b": np.float32(0.0)}
    found, state = minimized(loss, start, 15)
    assert all(np.asarray(leaf).dtype == np.float32 for leaf in ft.tree.leaves(found))
    assert {np.asarray(leaf).dtype for leaf in ft.tree.leaves(state)} == {
        np.dtype("f4"), np.dtype("i4"),
    }  # fmt: skip
    design = np.column_stack([x, np.ones(20)]).astype(float)
    wanted = np.linalg.lstsq(design, y.astype(float), rcond=None)[0]
    np.testing.assert_allclose([*found["w"], found["b"]], wanted, atol=1e-4)


def test_the_derivative_through_the_search() -> None:
    """The result of two steps by a parameter of the objective, by central differences."""

    def after(a: Any) -> Any:
        return minimized(lambda x: np.sum((x[0] - a) ** 4 + a * x[1] ** 2 + x[0] * x[1]),
                         np.array([0.3, 0.8]), 2)[0].sum()  # fmt: skip

    h = 1e-6
    wanted = (after(1.3 + h) - after(1.3 - h)) / (2 * h)
    np.testing.assert_allclose(ft.grad(after)(1.3), wanted, rtol=1e-5)
    np.testing.assert_allclose(ft.jvp(after, (1.3,), (1.0,))[1], wanted, rtol=1e-5)


@given(
    st.floats(-3.0, 3.0),
    st.floats(0.05, 20.0),
    st.floats(0.0, 5.0),
    st.sampled_from(["one", "keep"]),
)
def test_steps_satisfy_the_strong_wolfe_conditions(
    x0: float, stretch: float, wiggle: float, strategy: Any
) -> None:
    def f(x: Any) -> Any:
        return np.sqrt(1.0 + (stretch * x) ** 2) + 0.1 * wiggle * np.cos(x)

    value, slope = ft.value_and_grad(f)(x0)
    tx = optim.scale_by_zoom_linesearch(
        60, approx_dec_rtol=None, stepsize_precision=0.0, initial_guess_strategy=strategy
    )
    updates, state = tx.update(-slope, tx.init(x0), x0, value=value, grad=slope, value_fn=f)
    if abs(slope) < 1e-8:
        return
    new, turned = ft.value_and_grad(f)(x0 + updates)
    assert state.info.num_linesearch_steps <= 60
    assert new <= value - 1e-4 * state.learning_rate * slope**2 + 1e-12
    assert abs(turned * slope) <= 0.9 * slope**2 + 1e-9
    np.testing.assert_allclose([state.value, state.grad], [new, turned], rtol=1e-12)


def test_points_outside_of_the_domain_are_left() -> None:
    """A logarithm's objective, NaN and infinite behind its border; NumPy's warnings are its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        f = lambda x: np.sum(x) - np.sum(np.log(x))
        found, state = minimized(f, np.array([30.0, 0.01]), 40)
    np.testing.assert_allclose(found, [1.0, 1.0], rtol=1e-6)
    assert np.isfinite(state[-1].value)


def test_a_search_without_success_reports_it() -> None:
    f = lambda x: np.sum(x**2)
    tx = optim.scale_by_zoom_linesearch(5)
    x = np.array([1.0])  # (the direction ascends)
    _, state = tx.update(x, tx.init(x), x, value=f(x), grad=2 * x, value_fn=f)
    assert state.info.num_linesearch_steps == 5 and state.info.decrease_error > 0


def test_at_a_minimum_nothing_moves() -> None:
    f = lambda x: np.sum(x**2)
    found, _ = minimized(f, np.zeros(3), 4)
    np.testing.assert_array_equal(found, 0.0)


def test_arrays_that_the_caller_changes_afterwards() -> None:
    tx, x = optim.lbfgs(), np.array([-1.2, 1.0])
    wanted, _ = minimized(rosenbrock, x, 12)
    state, found = tx.init(x), x.copy()
    for _ in range(12):
        value, grad = ft.value_and_grad(rosenbrock)(found)
        updates, state = tx.update(grad, state, found, value=value, grad=grad, value_fn=rosenbrock)
        found += updates
        grad[...] = updates[...] = np.nan
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_further_arguments_of_the_objective() -> None:
    tx, x = optim.lbfgs(), np.zeros(2)
    f = lambda x, *, center: np.sum((x - center) ** 2)
    state = tx.init(x)
    for _ in range(3):
        value, grad = ft.value_and_grad(f)(x, center=2.0)
        updates, state = tx.update(grad, state, x, value=value, grad=grad, value_fn=f, center=2.0)
        x = x + updates
    np.testing.assert_allclose(x, 2.0, rtol=1e-12)


def test_mistakes_are_reported() -> None:
    x = np.ones(2)
    tx = optim.lbfgs()
    for words, f in {
        "value": lambda: tx.update(x, tx.init(x), x),
        "parameters": lambda: tx.update(x, tx.init(x)),
        "memory": lambda: optim.lbfgs(memory_size=0),
        "strategy": lambda: optim.scale_by_zoom_linesearch(3, initial_guess_strategy="last"),  # type: ignore[arg-type]
        "0 steps": lambda: optim.scale_by_zoom_linesearch(0),
        "0 line searches": lambda: optim.value_and_grad_from_state(rosenbrock)(
            x, state=optim.sgd(0.1).init(x)
        ),
        "no parameters": lambda: optim.scale_by_zoom_linesearch(3).init({}),
    }.items():
        with pytest.raises(ArgumentError, match=words) as raised:
            f()
        assert "fix:" in str(raised.value)
