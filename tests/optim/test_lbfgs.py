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
from functrace.errors import ArgumentError, DtypeError, ShapeError, TreeError

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


def test_complex_parameters_are_pairs_of_real_ones() -> None:
    """With the conjugate of the gradient, as optax takes it; eagerly, scanned and jitted."""
    z0: Any = np.array([-1.2 - 1j, 1.0 + 0.5j])

    def f(z: Any) -> Any:
        return np.abs(1 + 1j - z[0]) ** 2 + 10.0 * np.abs(z[1] - z[0] ** 2) ** 2

    def g(pair: Any) -> Any:
        return f(pair[0] + 1j * pair[1])

    tx = optim.lbfgs()

    def run(z: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            z, state = carry
            value, grad = optim.value_and_grad_from_state(f)(z, state=state)
            grad = np.conj(grad)
            updates, state = tx.update(grad, state, z, value=value, grad=grad, value_fn=f)
            return (optim.apply_updates(z, updates), state), value

        return ft.scan(step, (z, tx.init(z)), length=30)

    (z, state), values = run(z0)
    pair, state_there = minimized(g, np.stack([z0.real, z0.imag]), 30)
    np.testing.assert_allclose(z, pair[0] + 1j * pair[1], rtol=1e-6)
    np.testing.assert_allclose(state[-1].grad, ft.grad(f)(z), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state[-1].value, state_there[-1].value, rtol=1e-9)
    assert np.all(np.diff(values) <= 0) and values[-1] < 0.1
    np.testing.assert_allclose(ft.jit(run)(z0)[0][0], z, rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_leaves_the_memory(bad: float) -> None:
    tx, x = optim.lbfgs(memory_size=3, linesearch=None), np.array([1.0, -2.0])
    state = tx.init(x)
    for k in range(6):
        grad = np.full(2, bad) if k == 2 else 2 * x
        updates, state = tx.update(grad, state, x)
        x = x + (updates if k != 2 else 0.1)
    assert np.all(np.isfinite(ft.tree.leaves(state)[-1])) and np.all(np.abs(x) < 1e-8)


@pytest.mark.parametrize("scale", [1e-10, 1e-18, 1e-19, 3e-20, 1e-20, 1e-21, 1e-23])
def test_curvatures_whose_inverse_overflows(scale: float) -> None:
    """Changes near the smallest numbers of float32."""
    tx, x = optim.scale_by_lbfgs(), np.full(2, scale, np.float32)
    state = tx.init(x)
    for k in range(4):
        updates, state = tx.update(x * (k + 1), state, x / np.float32(k + 1))
        assert np.all(np.isfinite(updates)) and updates.dtype == np.float32


def test_a_search_that_keeps_the_step_starts_again_after_a_step_of_zero() -> None:
    """A minibatch whose loss is NaN does not stop the training."""
    tx = optim.chain(optim.sgd(0.3), optim.scale_by_zoom_linesearch(10))
    f = lambda x: np.sum((x - 3.0) ** 4)
    x: Any = np.zeros(2)
    state = tx.init(x)
    for k in range(40):
        value, grad = ft.value_and_grad(f)(x)
        shown = (lambda x: np.sum(x) * np.nan) if k == 1 else f
        before = x
        updates, state = tx.update(grad, state, x, value=value, grad=grad, value_fn=shown)
        x = x + updates
        if k == 1:
            np.testing.assert_array_equal(x, before)
            assert state[-1].info.decrease_error > 0
    np.testing.assert_allclose(x, 3.0, atol=0.1)


def test_pytrees_without_parameters_and_without_elements() -> None:
    tx = optim.scale_by_lbfgs()
    assert tx.update({}, tx.init({}), {})[0] == {}
    found, _ = minimized(
        lambda p: np.sum((p["a"] - 2.0) ** 2) + np.sum(p["b"]),
        {"a": np.zeros(2), "b": np.zeros((0, 3)), "c": None}, 3,
    )  # fmt: skip
    np.testing.assert_allclose(found["a"], 2.0)
    assert found["b"].shape == (0, 3) and found["c"] is None


def test_other_structures_and_shapes_are_refused() -> None:
    p = {"a": np.ones(2), "b": np.zeros(2)}
    f = lambda p: np.sum(p["a"] ** 2) + np.sum(p["b"] ** 2)
    grad = ft.grad(f)(p)
    wide = {"a": np.ones((2, 1)), "b": np.ones((1, 2))}
    search, lbfgs = optim.scale_by_zoom_linesearch(5), optim.scale_by_lbfgs()
    options: Any = {"value": 2.0, "grad": grad, "value_fn": f}
    cases: list[tuple[type[Exception], Callable[[], object]]] = [
        (TreeError, lambda: search.update(grad, search.init(p), p,
                                          **{**options, "grad": {"c": p["b"], "d": p["a"]}})),
        (TreeError, lambda: search.update(grad, search.init(p), p, **{**options, "grad": [p["a"]]})),
        (TreeError, lambda: search.update({"c": p["a"]}, search.init(p), p, **options)),
        (ShapeError, lambda: search.update(grad, search.init(p), p, **{**options, "grad": wide})),
        (ShapeError, lambda: search.update(wide, search.init(p), p, **options)),
        (ShapeError, lambda: search.update(grad, search.init(p), p,
                                           **{**options, "value": np.ones(2)})),
        (ShapeError, lambda: lbfgs.update(wide, lbfgs.init(p), p)),
        (ShapeError, lambda: lbfgs.update(grad, lbfgs.init(wide), p)),
        (TreeError, lambda: lbfgs.update(grad, lbfgs.init({"a": p["a"]}), p)),
        (DtypeError, lambda: lbfgs.init(np.arange(3))),
        (ArgumentError, lambda: optim.lbfgs(memory_size=2.5)),  # type: ignore[arg-type]
    ]  # fmt: skip
    for kind, call in cases:
        with pytest.raises(kind) as raised:
            call()
        assert "fix:" in str(raised.value)


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
