"""Scan: what it takes and returns, under every transform, beside the same loop in plain Python."""

from __future__ import annotations

import gc
import linecache
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import (
    ArgumentError,
    CapturedArrayError,
    ConcretizationError,
    DtypeError,
    NotDifferentiableError,
    ShapeError,
    TreeError,
)
from functrace.tracing.capture import SMALL
from functrace.tree import leaves, map_leaves, structure, unflatten
from tests.compositions.functions import BATCH, V, X, jacobian_by_differences
from tests.oracles import assert_same, differences, stacked

CLOSE = {"rtol": 1e-11, "atol": 1e-13}


def python_scan(
    f: Any, init: Any, xs: Any, length: int | None = None, reverse: bool = False
) -> Any:
    """The same loop in plain Python: what scan means."""
    steps = length if xs is None else len(leaves(xs)[0])
    carry, found = init, [None] * steps
    for t in reversed(range(steps)) if reverse else range(steps):
        carry, found[t] = f(carry, map_leaves(lambda a: a[t], xs))
    rows = [leaves(y) for y in found]
    return carry, unflatten(
        structure(found[0]), [np.stack(column) for column in zip(*rows, strict=True)]
    )


def both(f: Any, init: Any, xs: Any, **kwargs: Any) -> None:
    """Compare with the Python loop: structure, dtypes, values."""
    found, expected = ft.scan(f, init, xs, **kwargs), python_scan(f, init, xs, **kwargs)
    assert structure(found) == structure(expected)
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        assert_same(a, b, rtol=1e-14)


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_means_the_python_loop(reverse: bool) -> None:
    both(lambda c, x: (np.sin(c) + x, c * x), np.float64(0.3), X, reverse=reverse)
    both(lambda c, x: (c @ c * 0.1 + x, c[0]), np.eye(3), np.ones((4, 3, 3)), reverse=reverse)


def test_pytrees_of_carries_and_slices() -> None:
    def f(carry: Any, x: Any) -> Any:
        h = np.tanh(carry["h"] + x["a"] @ x["b"][0])
        return {"h": h, "n": (carry["n"][0] + 1,)}, [h, {"s": h.sum() > 0.0}]

    xs = {"a": np.linspace(-1, 1, 24).reshape(4, 2, 3), "b": (np.ones((4, 3)),)}
    both(f, {"h": np.zeros(2), "n": (np.int64(0),)}, xs)


def test_python_numbers_and_lists() -> None:
    carry, ys = ft.scan(lambda c, x: (c + x, c), 0, np.arange(4))
    assert_same(carry, np.int64(6))
    assert_same(ys, np.array([0, 0, 1, 3]))
    carry, ys = ft.scan(lambda c, x: (c + x[0] * x[1], x[0]), 0.0, [np.arange(3.0), np.ones(3)])
    assert_same(carry, np.float64(3.0))
    assert_same(ys, np.arange(3.0))


def test_python_numbers_take_the_dtype_of_the_body() -> None:
    carry, _ = ft.scan(lambda c, x: (c + x, None), 0.0, np.ones(3, np.float32))
    assert carry.dtype == np.float32
    carry, _ = ft.scan(lambda c, x: (c * 2 + x, None), 0, np.ones(3, np.float32))
    assert carry.dtype == np.float32
    carry, _ = ft.scan(lambda c, x: (c * x, None), 1.0, np.ones(3, np.complex64))
    assert carry.dtype == np.complex64
    carry, ys = ft.scan(
        lambda c, x: (c * 0.5, c + x), 1, np.ones(3, np.float32)
    )  # a number throughout
    assert (carry.dtype, ys.dtype) == (np.float64, np.float32)
    carry, ys = ft.scan(lambda c, x: (0, c + x), np.float32(2.0), np.ones(3, np.float32))
    assert (carry.dtype, ys.dtype) == (np.float32, np.float32)


def test_a_number_may_be_followed_by_an_array_of_wider_dtype_only() -> None:
    with pytest.raises(DtypeError, match=r"carry is f64\[\] before and i64\[\] after"):
        ft.scan(lambda c, x: (x, c), 0.0, np.arange(3))
    for run in (ft.scan, lambda f, c, x: ft.jit(lambda x: ft.scan(f, c, x))(x)):
        (n, total), ys = run(
            lambda c, x: ((c[0] + 1, c[1] + x * c[0]), c[0]), (0, 0.0), np.ones(3, np.float32)
        )
        assert_same(n, np.int64(3))
        assert_same(total, np.float32(3.0))
        assert_same(ys, np.arange(3))


def test_a_body_without_slices_needs_a_length() -> None:
    carry, ys = ft.scan(lambda c, _: (c * 2.0, c), 1.0, None, length=4)
    assert_same(carry, np.float64(16.0))
    assert_same(ys, np.array([1.0, 2.0, 4.0, 8.0]))
    assert ft.scan(lambda c, _: (c, None), 1.0, None, length=3) == (np.float64(1.0), None)
    with pytest.raises(ArgumentError, match="length=-1 is negative"):
        ft.scan(lambda c, _: (c, None), 1.0, None, length=-1)


@pytest.mark.parametrize("length", [0, 1, 2])
def test_short_loops(length: int) -> None:
    xs = X[:length]
    f = lambda c, x: (c * x + 1.0, (c, x > 0.0))
    c, s = ft.scan(f, np.float64(0.5), xs)[1]
    if length:
        both(f, np.float64(0.5), xs)
    assert (c.shape, c.dtype, s.shape, s.dtype) == ((length,), np.float64, (length,), np.bool_)
    gradient = ft.grad(lambda c, x: ft.scan(f, c, x)[0], argnums=(0, 1))(np.float64(0.5), xs)
    expected = ft.grad(lambda c, x: python_carry(f, c, x), argnums=(0, 1))(np.float64(0.5), xs)
    for a, b in zip(gradient, expected, strict=True):
        np.testing.assert_allclose(a, b, **CLOSE)
    mapped = ft.vmap(lambda c: ft.scan(f, c, xs)[1][0])(X)
    assert mapped.shape == (3, length)


def python_carry(f: Any, c: Any, xs: Any) -> Any:
    for t in range(len(xs)):
        c, _ = f(c, xs[t])
    return c


def test_length_must_agree_with_xs() -> None:
    assert ft.scan(lambda c, x: (c + x, None), 0.0, X, length=3)[0] == X.sum()
    with pytest.raises(ShapeError, match="first axes differ in size: xs has 3, length has 4"):
        ft.scan(lambda c, x: (c + x, None), 0.0, X, length=4)
    with pytest.raises(ShapeError, match=r"xs\['a'\] has 3, xs\['b'\] has 2"):
        ft.scan(lambda c, x: (c, None), 0.0, {"a": X, "b": X[:2]})
    with pytest.raises(ArgumentError, match="number of steps is undefined without xs"):
        ft.scan(lambda c, x: (c, None), 0.0)
    with pytest.raises(ShapeError, match="a scalar, which has no axis"):
        ft.scan(lambda c, x: (c, None), 0.0, 1.0)


def test_results_are_fresh_arrays() -> None:
    start = np.zeros(3)
    for f in (lambda c, x: (c, c), lambda c, x: (c + x, c), lambda c, x: (x * np.ones(3), start)):
        for run in (ft.scan, lambda *a: ft.jit(lambda i, x: ft.scan(a[0], i, x))(*a[1:])):
            for _ in range(3):
                carry, ys = run(f, start, np.ones(4))
                assert not np.shares_memory(carry, start) and not np.shares_memory(carry, ys)
                carry[:] = 7.0
                ys[:] = 7.0
                assert (start == 0.0).all()


def test_the_body_runs_once_per_recording() -> None:
    calls = []

    def f(c: Any, x: Any) -> Any:
        calls.append(c)
        return c + x, c

    ft.jit(lambda x: ft.scan(f, np.float64(0.0), x))(np.ones(100))
    assert len(calls) == 1


# -- derivatives -----------------------------------------------------------------------------------


def rnn(w: Any, h: Any, xs: Any) -> Any:
    """A recurrent network: weights closed over, a vector carried."""

    def step(h: Any, x: Any) -> Any:
        h = np.tanh(w @ h + x)
        return h, np.sum(h * x)

    h, ys = ft.scan(step, h, xs)
    return np.sum(h**2) + np.sum(np.sin(ys))


def rnn_in_python(w: Any, h: Any, xs: Any) -> Any:
    total: Any = 0.0
    for t in range(len(xs)):
        h = np.tanh(w @ h + xs[t])
        total = total + np.sin(np.sum(h * xs[t]))
    return np.sum(h**2) + total


RNN = (
    np.array([[0.5, -1.0, 0.25], [1.5, 0.75, -0.5], [-0.25, 0.5, 1.0]]),
    V,
    np.stack([X, -X, V, X * V, V + 1.0]),
)


def test_gradients_by_all_operands() -> None:
    found = ft.grad(rnn, argnums=(0, 1, 2))(*RNN)
    for a, b in zip(found, ft.grad(rnn_in_python, argnums=(0, 1, 2))(*RNN), strict=True):
        np.testing.assert_allclose(a, b, **CLOSE)


@pytest.mark.parametrize("active", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
def test_mixed_activity(active: tuple[int, ...]) -> None:
    for a, b in zip(ft.grad(rnn, active)(*RNN), ft.grad(rnn_in_python, active)(*RNN), strict=True):
        np.testing.assert_allclose(a, b, **CLOSE)

    def partial(*values: Any) -> Any:
        arguments = list(RNN)
        for k, value in zip(active, values, strict=True):
            arguments[k] = value
        return rnn(*arguments)

    values = [RNN[k] for k in active]
    directions = [np.cos(v) for v in values]
    np.testing.assert_allclose(
        ft.jvp(partial, values, directions)[1],
        differences(partial, values, directions)[0],
        rtol=1e-8,
    )


def test_hessian_by_weights() -> None:
    found = ft.hessian(lambda w: rnn(w, *RNN[1:]))(RNN[0])
    np.testing.assert_allclose(
        found, ft.hessian(lambda w: rnn_in_python(w, *RNN[1:]))(RNN[0]), rtol=1e-9, atol=1e-11
    )


@pytest.mark.parametrize("outer", [ft.jacfwd, ft.jacrev], ids=["jacfwd", "jacrev"])
@pytest.mark.parametrize("inner", [ft.jacfwd, ft.jacrev], ids=["jacfwd", "jacrev"])
@pytest.mark.parametrize("reverse", [False, True])
def test_second_order(inner: Any, outer: Any, reverse: bool) -> None:
    def f(x: Any) -> Any:
        c, ys = ft.scan(lambda c, xt: (np.sin(c) * xt + c, c**2), x[0], x, reverse=reverse)
        return c * ys[1]

    np.testing.assert_allclose(
        outer(inner(f))(X), jacobian_by_differences(ft.grad(f), X), rtol=1e-7, atol=1e-9
    )


def test_a_carry_that_becomes_active_in_the_loop() -> None:
    def f(x: Any) -> Any:
        # a is active from the second step on, b from the third
        (a, b), ys = ft.scan(lambda c, xt: ((c[0] + xt, c[1] + c[0] ** 2), c[1]), (0.0, 1.0), x)
        return b * np.sum(ys) + a

    for of in (ft.grad, ft.jacfwd):
        np.testing.assert_allclose(of(f)(X), jacobian_by_differences(f, X), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        ft.hessian(f)(X), jacobian_by_differences(ft.grad(f), X), rtol=1e-7, atol=1e-8
    )


def test_carries_that_swap_places() -> None:
    def f(x: Any) -> Any:
        (a, b, c), _ = ft.scan(
            lambda s, _: ((s[1], s[2], s[0] * 1.5), None), (x[0], x[1] ** 2, 3.0), None, length=5
        )
        return a * 2.0 + b * 3.0 + c * 5.0

    np.testing.assert_allclose(ft.grad(f)(X), jacobian_by_differences(f, X), rtol=1e-9, atol=1e-10)


def test_integer_and_bool_carries_and_results() -> None:
    def f(x: Any) -> Any:
        def step(carry: Any, xt: Any) -> Any:
            n, seen, v = carry
            return (n + 1, seen | (xt < 0.0), v * xt + n), (n * 2, xt > 0.0, v)

        (n, seen, v), (ns, signs, vs) = ft.scan(step, (0, False, 1.0), x)
        return v * n + np.sum(vs * ns) + np.where(seen, v, 0.0) + np.sum(signs)

    np.testing.assert_allclose(ft.grad(f)(X), jacobian_by_differences(f, X), rtol=1e-8)
    np.testing.assert_allclose(
        ft.hessian(f)(X), jacobian_by_differences(ft.grad(f), X), rtol=1e-7, atol=1e-8
    )
    last = lambda x: ft.scan(lambda c, xt: ((c[0] + 1, xt > 0, xt), None), (0, False, 0.0), x)[0]
    (n, seen, _), tangents = ft.jvp(last, (X,), (V,))
    assert (n, seen) == (3, True)
    assert_same(tangents[2], V[2])
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(BATCH), stacked(ft.grad(f), [BATCH])[0], **CLOSE)


def test_results_that_are_not_used_and_cotangents_that_are_zero() -> None:
    def f(x: Any) -> Any:
        return ft.scan(lambda c, xt: (np.sin(c * xt), (c, xt**2)), x[0], x)

    _, pullback = ft.vjp(f, X)
    zeros = (np.float64(0.0), (np.zeros(3), V))
    np.testing.assert_allclose(pullback(zeros)[0], 2.0 * X * V, **CLOSE)
    np.testing.assert_allclose(ft.grad(lambda x: f(x)[1][1][1])(X), [0.0, 2.0 * X[1], 0.0], **CLOSE)
    assert_same(
        ft.grad(lambda x: np.sum(ft.scan(lambda c, xt: (c, 1.0), x[0], x)[1]))(X), np.zeros(3)
    )


def test_stop_gradient_in_the_body() -> None:
    def f(x: Any) -> Any:
        return ft.scan(lambda c, xt: (ft.stop_gradient(c) * xt, None), x[0], x)[0]

    assert_same(ft.grad(f)(X), np.array([0.0, 0.0, X[0] * X[0] * X[1]]), rtol=1e-15)


def test_linear_transpose_of_a_loop_with_a_counter() -> None:
    weights = np.array([2.0, -1.0, 0.5])

    def f(x: Any) -> Any:
        (_, total), ys = ft.scan(
            lambda c, xt: ((c[0] + 1, c[1] + c[0] * xt), xt * ft.numpy.take(weights, c[0])),
            (0, 0.0),
            x,
        )
        return total, ys

    matrix = np.concatenate([np.arange(3.0)[None], np.diag(weights)])
    np.testing.assert_allclose(
        np.concatenate([np.atleast_1d(v) for v in f(X)]), matrix @ X, **CLOSE
    )
    bars = (np.float64(0.7), V)
    (found,) = ft.linear_transpose(f, X)(bars)
    np.testing.assert_allclose(found, np.concatenate([[0.7], V]) @ matrix, **CLOSE)
    (found,) = ft.vmap(ft.linear_transpose(f, X))((np.ones(2), np.stack([V, X])))
    np.testing.assert_allclose(
        found, np.stack([np.concatenate([[1.0], v]) @ matrix for v in (V, X)]), **CLOSE
    )


def test_complex_carries() -> None:
    def f(z: Any) -> Any:
        return ft.scan(lambda c, zt: (c * zt + 1.0, None), z[0], z)[0]

    z = X + 1j * V
    found = ft.grad(f, holomorphic=True)(z)
    a, b, c = z
    # f = ((a*a + 1) b + 1) c + 1
    np.testing.assert_allclose(
        found, [2 * a * b * c, (a * a + 1) * c, (a * a + 1) * b + 1], **CLOSE
    )


# -- vmap ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "in_axes", [(0, None, None), (None, 0, None), (None, None, 0), (0, None, 0), (0, 0, 0)]
)
def test_vmap_of_some_operands(in_axes: Any) -> None:
    many = [np.stack([v, v * 0.5, v - 0.3]) for v in RNN]
    arguments = [m if axis == 0 else v for m, v, axis in zip(many, RNN, in_axes, strict=True)]
    for f, g in ((rnn, rnn_in_python), (ft.grad(rnn, 1), ft.grad(rnn_in_python, 1))):
        found = ft.vmap(f, in_axes=in_axes)(*arguments)
        rows = [
            g(*[m[k] if axis == 0 else v for m, v, axis in zip(many, RNN, in_axes, strict=True)])
            for k in range(3)
        ]
        np.testing.assert_allclose(found, np.stack(rows), **CLOSE)


def test_a_carry_that_becomes_batched_in_the_loop() -> None:
    def f(x: Any, shared: Any) -> Any:
        # a is batched from the second step on, b from the third, c never
        def step(carry: Any, st: Any) -> Any:
            a, b, c = carry
            return (a + x * st, b + a, c * st), (b, c)

        (a, b, c), (bs, cs) = ft.scan(step, (0.0, 1.0, 2.0), shared)
        return a, b, c, bs, cs

    for found, expected in zip(
        ft.vmap(f, in_axes=(0, None))(X, V), stacked(lambda x: f(x, V), [X]), strict=True
    ):
        assert_same(found, expected, rtol=1e-14)
    gradient = ft.grad(lambda x: np.sum(ft.vmap(f, in_axes=(0, None))(x, V)[1]))(X)
    np.testing.assert_allclose(gradient, [ft.grad(lambda x: f(x, V)[1])(v) for v in X], **CLOSE)


def test_vmap_of_a_loop_that_is_not_mapped() -> None:
    found = ft.vmap(lambda x: x + ft.scan(lambda c, s: (c + s, None), 0.0, V)[0])(X)
    assert_same(found, X + V.sum(), rtol=1e-15)


def test_mapped_axes_elsewhere() -> None:
    xs = np.arange(12.0).reshape(3, 4) / 10
    f = lambda x: ft.scan(lambda c, xt: (c + xt, c), 0.0, x)
    carry, ys = ft.vmap(f, in_axes=1, out_axes=(0, 1))(xs)
    assert_same(carry, xs.sum(0), rtol=1e-15)
    assert_same(ys, np.concatenate([np.zeros((1, 4)), np.cumsum(xs, 0)[:-1]]), rtol=1e-15)


# -- closures --------------------------------------------------------------------------------------


def test_closures_over_traced_values_of_two_levels() -> None:
    def f(x: Any) -> Any:
        def g(y: Any) -> Any:
            return ft.scan(lambda c, s: (c * y + x[0] * s, None), x[1], np.ones(3))[0]

        return ft.grad(g)(x[2])

    np.testing.assert_allclose(ft.grad(f)(X), jacobian_by_differences(f, X), rtol=1e-8)


@pytest.mark.parametrize("size", [3, SMALL // 8 + 1])
def test_a_body_that_writes_into_an_array_that_it_closes_over_raises(size: int) -> None:
    table = np.ones(size)

    def overwritten(x: Any) -> Any:
        def step(c: Any, xt: Any) -> Any:
            c = c + np.sum(xt * table)
            table[0] += 5.0
            return c, None

        return ft.scan(step, 0.0, x)[0]

    for run, x in (
        (ft.grad(overwritten), X),
        (ft.vmap(overwritten), BATCH),
        (ft.jit(overwritten), X),
    ):
        with pytest.raises(
            CapturedArrayError, match="scan of step writes into an array that it also reads"
        ):
            run(x)
        assert table.flags.writeable


def test_a_small_captured_array_is_copied() -> None:
    table = np.array([1.0, 2.0, 3.0])

    def f(x: Any) -> Any:
        def step(c: Any, xt: Any) -> Any:
            return c + np.sum(xt * table), None

        out = ft.scan(step, 0.0, x)[0]
        table[:] = 0.0
        return out

    gradient = ft.grad(f)(X)
    np.testing.assert_allclose(gradient, np.full(3, 6.0))


# -- errors ----------------------------------------------------------------------------------------


def test_a_carry_that_changes_names_the_leaf_and_both_types() -> None:
    with pytest.raises(
        ShapeError, match=r"carry\['h'\]\[1\] is f64\[3\] before and f64\[2\] after a step"
    ):
        ft.scan(lambda c, _: ({"h": [c["h"][0], c["h"][1][1:]]}, None), {"h": [X, X]}, None, 2)
    with pytest.raises(
        DtypeError, match=r"carry\[0\] is f32\[3\] before and f64\[3\] after a step"
    ) as caught:
        ft.scan(lambda c, x: ((c[0] * x,), None), (X.astype(np.float32),), X)
    assert "astype(np.float32)" in str(caught.value)
    with pytest.raises(DtypeError, match=r"carry is i64\[\] before and f64\[\] after"):
        ft.scan(lambda c, x: (c + x, None), np.int64(0), X)
    with pytest.raises(
        DtypeError,
        match=r"carry is f64\[\] before and i64\[\] after|carry is f64\[\] before and bool",
    ):
        ft.scan(lambda c, x: (x > 0.0, None), 0.0, X)


def test_wrong_structures() -> None:
    with pytest.raises(TreeError, match="not a pair"):
        ft.scan(lambda c, x: c + x, 0.0, X)
    with pytest.raises(TreeError, match="not a pair"):
        ft.scan(lambda c, x: (c, x, x), 0.0, X)
    with pytest.raises(TreeError, match=r"before and .* after a step"):
        ft.scan(lambda c, x: ((c, c), None), 0.0, X)
    with pytest.raises(TreeError, match=r"before and .* after a step"):
        ft.scan(lambda c, x: ({"b": c["a"]}, None), {"a": 0.0}, X)
    with pytest.raises(DtypeError):
        ft.scan(lambda c, x: (c, "text"), 0.0, X)
    with pytest.raises(DtypeError, match="xs"):
        ft.scan(lambda c, x: (c, None), 0.0, np.array(["a"]))
    with pytest.raises(DtypeError, match="carry is a str"):
        ft.scan(lambda c, x: (c, None), "a", X)


def test_a_concretization_error_names_the_loop_and_the_line() -> None:
    def step(c: Any, x: Any) -> Any:
        if c > 0:  # the line
            return c, None
        return c + x, None

    with pytest.raises(ConcretizationError, match="scan of step records without values") as caught:
        ft.jit(lambda x: ft.scan(step, 0.0, x))(X)
    assert "if c > 0" in str(caught.value)
    assert ft.scan(step, 0.0, X)[0] == X[0]  # nothing is traced: the values are there


def test_an_exception_in_the_body_leaves_nothing_behind() -> None:
    table = np.ones(SMALL // 8 + 1)

    def step(c: Any, x: Any) -> Any:
        c = c + np.sum(table) * x
        raise KeyError("mine")

    alive = []

    def f(x: Any) -> Any:
        alive.append(weakref.ref(x))
        return ft.scan(step, 0.0, x)[0]

    for run, x in ((ft.grad(f), X), (ft.vmap(f), BATCH), (ft.jit(f), X), (ft.trace(f), X)):
        with pytest.raises(KeyError, match="mine"):
            run(x)
        assert table.flags.writeable
    gc.collect()
    assert all(ref() is None for ref in alive)
    assert ft.scan(lambda c, x: (c + x, None), 0.0, X)[0] == X.sum()


def test_an_error_while_a_loop_runs_names_the_line() -> None:
    def f(x: Any) -> Any:
        return ft.scan(lambda c, m: (c + np.sum(np.linalg.inv(m)), None), 0.0, x)[0]

    singular = np.zeros((2, 2, 2))
    for run, x in ((ft.jit(f), singular), (ft.grad(f), singular), (ft.vmap(f), singular[None])):
        for _ in range(3):  # interpreted, then compiled
            with pytest.raises(np.linalg.LinAlgError) as caught:
                run(x)
            assert any("test_scan.py" in note for note in caught.value.__notes__)


def test_a_warning_while_a_loop_runs_names_the_line() -> None:
    f = ft.jit(lambda x: ft.scan(lambda c, xt: (c + np.log(xt), None), 0.0, x)[0])
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="invalid value") as caught:
            f(-np.ones(2))
        assert all(
            "test_scan.py" in linecache.getline(w.filename, w.lineno) or w.filename == __file__
            for w in caught
        )


def test_a_body_may_not_write_into_values_traced_outside() -> None:
    def f(x: Any) -> Any:
        count = x * 0.0

        def step(c: Any, xt: Any) -> Any:
            count[0] += 1.0
            return c + xt, None

        return ft.scan(step, 0.0, x)[0] + count[0]

    def f_of_view(x: Any) -> Any:
        count = x * 0.0
        view = count[1:]

        def step(c: Any, xt: Any) -> Any:
            view[0] += c
            return c + xt, None

        return ft.scan(step, 0.0, x)[0] + count[1]

    for g in (f, f_of_view):
        for run in (ft.grad(g), ft.jit(g), ft.jit(ft.grad(g))):
            with pytest.raises(
                CapturedArrayError, match="scan of step writes into a value that was traced outside"
            ) as caught:
                run(X)
            assert "count[0] +=" in str(caught.value) or "view[0] +=" in str(caught.value)


def test_a_body_may_write_into_its_own_values() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, n: Any) -> Any:
            c = c.copy()
            c[n] *= c[0] + 2.0
            part = c[1:]
            part += n
            return c, c[n]

        c, ys = ft.scan(step, x * 1.0, np.arange(3))
        c *= ys
        return np.sum(c)

    start = X.copy()
    np.testing.assert_allclose(ft.grad(f)(start), jacobian_by_differences(f, start), rtol=1e-8)
    assert_same(start, X)


def test_a_body_that_leaks_its_values_raises() -> None:
    from functrace.errors import LeakedTracerError

    leaked = []

    def step(c: Any, x: Any) -> Any:
        leaked.append(c)
        return c + x, None

    ft.jit(lambda x: ft.scan(step, 0.0, x))(X)
    with pytest.raises(LeakedTracerError, match="scan of step had ended"):
        leaked[0] + 1.0


def test_a_rule_that_cannot_exist_raises_at_the_derivative() -> None:
    f = ft.custom_jvp(lambda x: x * 2.0)

    def broken(primals: Any, tangents: Any) -> Any:
        raise NotDifferentiableError("no rule today", fix="wait")

    f.defjvp(broken)
    loop = lambda x: ft.scan(lambda c, xt: (f(c) + xt, None), 0.0, x)[0]
    assert_same(loop(X), python_carry(lambda c, x: (2.0 * c + x, None), 0.0, X), rtol=1e-15)
    with pytest.raises(NotDifferentiableError, match="no rule today"):
        ft.grad(loop)(X)


def test_threads_do_not_disturb_each_other() -> None:
    expected = ft.grad(rnn)(*RNN)
    found: list[Any] = []

    def work() -> None:
        for k in range(10):
            found.append(ft.grad(rnn)(RNN[0], RNN[1], RNN[2]))
            ft.vmap(lambda x: ft.scan(lambda c, s: (c * s, c), x, V)[0])(X + k)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 40
    for value in found:
        assert_same(value, expected)


# -- memory ----------------------------------------------------------------------------------------


def test_loop_invariant_residuals_are_saved_once() -> None:
    w = np.ones((50, 50)) / 50

    def f(w: Any) -> Any:
        return np.sum(
            ft.scan(lambda h, _: (np.tanh(np.exp(w) @ h), None), np.ones(50), None, 100)[0]
        )

    kept = ft.saved_residuals(f)(w)
    assert kept.nbytes < 4 * w.nbytes + 2 * 100 * 50 * 8

    def recomputed(w: Any) -> Any:
        step = ft.checkpoint(lambda h, _: (np.tanh(np.exp(w) @ h), None))
        return np.sum(ft.scan(step, np.ones(50), None, 100)[0])

    assert ft.saved_residuals(recomputed)(w).nbytes <= 2 * w.nbytes + 100 * 50 * 8
    assert_same(ft.grad(recomputed)(w), ft.grad(f)(w))
