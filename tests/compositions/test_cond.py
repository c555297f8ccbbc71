"""Cond: what it takes and returns, and a choice per example under vmap, whose other branch reaches
nothing.
"""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import (
    CapturedArrayError,
    DtypeError,
    LeakedTracerError,
    ShapeError,
    TreeError,
)
from functrace.tracing.capture import SMALL
from functrace.tree import leaves
from tests.compositions.functions import BATCH, V, X, jacobian_by_differences
from tests.oracles import assert_same, stacked

CLOSE = {"rtol": 1e-11, "atol": 1e-13}


def python_cond(pred: Any, true_fun: Any, false_fun: Any, *operands: Any) -> Any:
    """The same choice in plain Python: what cond means."""
    return true_fun(*operands) if pred else false_fun(*operands)


def staged(true_fun: Any, false_fun: Any, *operands: Any, pred: Any = True) -> Any:
    """Cond as a program holds it: the value of the predicate is not known, both branches are
    recorded.
    """
    return ft.jit(lambda p: ft.cond(p, true_fun, false_fun, *operands))(pred)


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pred",
    [
        True,
        False,
        1,
        0,
        0.0,
        2.5,
        -0.0,
        np.True_,
        np.int8(3),
        np.array(0.0),
        np.array(True),
        1j,
        float("nan"),
    ],
)
def test_cond_means_the_python_choice(pred: Any) -> None:
    for args in ((X,), (X, {"a": [V, 2.0]})):
        f = lambda x, t=None: {"r": (np.sin(x), x.sum() if t is None else t["a"][1] * t["a"][0])}
        g = lambda x, t=None: {"r": (x * 2.0, np.float64(1.0) if t is None else np.ones(3))}
        found, expected = ft.cond(pred, f, g, *args), python_cond(pred, f, g, *args)
        for a, b in zip(leaves(found), leaves(expected), strict=True):
            assert_same(a, b)


def test_traced_predicates_of_every_kind() -> None:
    def f(p: Any, x: Any) -> Any:
        return ft.cond(p, np.sin, np.cos, x)

    for kind in (np.bool_, np.int32, np.uint8, np.float32, np.complex128):
        for value in (0, 1):
            assert_same(ft.jit(f)(kind(value), X), python_cond(value, np.sin, np.cos, X))
            assert_same(
                ft.vmap(f, in_axes=(None, 0))(kind(value), BATCH),
                python_cond(value, np.sin, np.cos, BATCH),
            )
    for number in (True, False, 0, 3, 0.5):
        assert_same(ft.jit(f)(number, X), python_cond(number, np.sin, np.cos, X))


def test_branches_without_operands() -> None:
    def f(x: Any) -> Any:
        return ft.cond(x[0] > 0.0, lambda: x * 2.0, lambda: V)

    assert_same(f(X), X * 2.0)
    assert_same(f(-X), V)
    assert_same(ft.jacrev(f)(X), 2.0 * np.eye(3))
    assert_same(ft.jacrev(f)(-X), np.zeros((3, 3)))
    assert_same(ft.cond(True, lambda: 1.0, lambda: 2.0), np.float64(1.0))
    assert ft.cond(True, lambda: (), lambda: ()) == ()
    assert ft.grad(lambda x: ft.cond(x > 0.0, lambda: None, lambda: None) or x)(2.0) == 1.0


def test_python_numbers_stay_weak() -> None:
    x = np.float32(2.0)
    assert_same(staged(lambda v: v * 1.5, lambda v: v + 1, x), np.float32(3.0))
    assert_same(staged(lambda v: v, lambda v: 0.0, x, pred=False), np.float32(0.0))
    assert_same(staged(lambda v: 1, lambda v: v, x), np.float32(1.0))
    assert_same(staged(lambda: 1, lambda: 0.5), np.float64(1.0))
    assert_same(staged(lambda v, k: v * k, lambda v, k: v, x, 0.5), np.float32(1.0))
    assert_same(x * ft.cond(True, lambda: 2.0, lambda: x), np.float32(4.0))
    assert_same(
        ft.jit(lambda k, v: ft.cond(k > 0, lambda: v * k, lambda: v))(2.0, x), np.float32(4.0)
    )


def test_only_the_branch_that_is_taken_runs() -> None:
    def f(x: Any) -> Any:
        return ft.cond(
            x[0] > 0.0, lambda x: np.sum(x), lambda x: np.sum(np.linalg.inv(np.outer(x, x))), x
        )

    for run in (f, ft.jit(f), ft.grad(f), ft.jit(ft.grad(f))):
        for _ in range(3):
            run(X)
            with pytest.raises(np.linalg.LinAlgError) as caught:
                run(np.zeros(3))
            notes = getattr(caught.value, "__notes__", [])
            assert (
                any("test_cond.py" in note for note in notes)
                or run is f
                or "test_cond.py" in str(caught.traceback)
            )


def test_results_are_fresh_arrays() -> None:
    f = lambda x: ft.cond(x[0] > 0.0, lambda x: (x, x), lambda x: (x, V), x)
    before = V.copy()
    for run, x in ((ft.jit(f), X), (ft.jit(f), -X), (ft.vmap(f), np.stack([X, -X]))):
        kept = x.copy()
        for _ in range(3):
            a, b = run(x)
            a[...] = 5.0
            assert not (b == 5.0).any()
            b[...] = 6.0
            np.testing.assert_array_equal(x, kept)
            np.testing.assert_array_equal(V, before)


def test_branches_may_read_concrete_values() -> None:
    def f(x: Any) -> Any:
        return ft.cond(True, lambda x: x * 2.0 if x > 1.0 else x, lambda x: x, x)

    assert ft.grad(f)(2.0) == 2.0
    assert ft.grad(f)(0.5) == 1.0


# -- derivatives -----------------------------------------------------------------------------------


def pieces(x: Any) -> Any:
    """Branches with residuals of their own, common ones, and captured values."""
    shared = np.exp(x)
    return ft.cond(
        x[0] > 0.0,
        lambda v: (np.sum(np.sin(v) * shared), v**2),
        lambda v: (np.sum(v * v[::-1]) * shared[1], np.tanh(v) * shared),
        x,
    )


def scalar(x: Any) -> Any:
    a, b = pieces(x)
    return a * np.sum(b)


@pytest.mark.parametrize("x", [X, -X], ids=["true", "false"])
def test_derivatives_of_either_branch(x: Any) -> None:
    np.testing.assert_allclose(ft.grad(scalar)(x), jacobian_by_differences(scalar, x), rtol=1e-8)
    for inner in (ft.jacfwd, ft.jacrev):
        for outer in (ft.jacfwd, ft.jacrev):
            expected = jacobian_by_differences(ft.grad(scalar), x)
            np.testing.assert_allclose(outer(inner(scalar))(x), expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("p", [True, False])
def test_mixed_activity_of_branches(p: bool) -> None:
    def f(x: Any, y: Any) -> Any:
        a, b, n = ft.cond(p, lambda x, y: (x * 2.0, V, 1), lambda x, y: (y**2, x * y, 2), x, y)
        return np.sum(a * b) * n

    for argnums in (0, 1):
        found = ft.grad(f, argnums)(X, V)
        expected = jacobian_by_differences(
            lambda z: f(*((z, V) if argnums == 0 else (X, z))), (X, V)[argnums]
        )
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)
    value, tangent = ft.jvp(lambda x: ft.cond(p, lambda x: (x, 1), lambda x: (V, 2), x), (X,), (V,))
    assert_same(value[1], np.int64(1 if p else 2))
    assert_same(tangent[0], V if p else np.zeros(3))


def test_linear_transpose() -> None:
    def f(x: Any, p: Any) -> Any:
        return ft.cond(p, lambda x: (x * 3.0, x[0]), lambda x: (x[::-1], x[1] + x[2]), x)

    for p, matrix in (
        (True, np.vstack([3 * np.eye(3), [1, 0, 0]])),
        (False, np.vstack([np.eye(3)[::-1], [0, 1, 1]])),
    ):
        (found,) = ft.linear_transpose(lambda x: f(x, p), X)((V, np.float64(2.0)))
        np.testing.assert_allclose(found, np.append(V, 2.0) @ matrix, **CLOSE)


def test_closures_over_traced_values_of_two_levels() -> None:
    def f(x: Any) -> Any:
        inner = ft.grad(lambda y: ft.cond(y > x[0], lambda: y**2 * x[1], lambda: y * x[2]))
        return inner(x[0] * 2.0) + inner(x[0] * 0.5)

    np.testing.assert_allclose(ft.grad(f)(X), jacobian_by_differences(f, X), rtol=1e-8)


# -- a choice per example --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f", [scalar, ft.grad(scalar), ft.hessian(scalar)], ids=["value", "grad", "hessian"]
)
def test_vmap_of_a_choice_equals_a_loop(f: Any) -> None:
    batch = np.concatenate([BATCH, -BATCH])
    np.testing.assert_allclose(ft.vmap(f)(batch), stacked(f, [batch])[0], **CLOSE)
    np.testing.assert_allclose(ft.jit(ft.vmap(f))(batch), stacked(f, [batch])[0], **CLOSE)
    grid = np.stack([batch, batch[::-1] * 0.7])
    np.testing.assert_allclose(
        ft.vmap(ft.vmap(f))(grid), [stacked(f, [b])[0] for b in grid], **CLOSE
    )


@pytest.mark.parametrize(
    "in_axes",
    [(0, None, None), (0, 0, None), (0, None, 0), (None, 0, 0), (None, None, 0), (0, 0, 0)],
)
def test_vmap_of_some_operands(in_axes: Any) -> None:
    def f(p: Any, x: Any, y: Any) -> Any:
        return ft.cond(p > 0.0, lambda x, y: x * np.sin(y), lambda x, y: y**2 + x, x, y)

    full = (np.array([1.0, -1.0, 2.0]), X, V)
    arguments = [v if axis == 0 else v[1] for v, axis in zip(full, in_axes, strict=True)]
    rows = [
        [v[k] if axis == 0 else v[1] for v, axis in zip(full, in_axes, strict=True)]
        for k in range(3)
    ]
    np.testing.assert_allclose(ft.vmap(f, in_axes)(*arguments), [f(*row) for row in rows], **CLOSE)
    df = ft.grad(f, (1, 2))
    for k, found in enumerate(ft.vmap(df, in_axes)(*arguments)):
        np.testing.assert_allclose(found, [df(*row)[k] for row in rows], **CLOSE)
    total = ft.grad(lambda *a: np.sum(ft.vmap(f, in_axes)(*a)), (1, 2))(*arguments)
    for k, found in enumerate(total):
        per_example = np.array([df(*row)[k] for row in rows])
        expected = per_example if in_axes[k + 1] == 0 else per_example.sum()
        np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.parametrize(
    "order", [((0, None), (None, 0)), ((0, 0), (None, 0)), ((None, 0), (0, 0)), ((0, 0), (0, None))]
)
def test_mapped_twice_with_predicate_and_operand_on_different_axes(order: Any) -> None:
    p, x = (
        np.array([[True, False, True], [False, False, True]]),
        np.arange(6.0).reshape(2, 3) / 10 + 0.2,
    )
    outer, inner = order

    def f(p: Any, x: Any) -> Any:
        return ft.cond(p, lambda x: np.sin(x) * x, lambda x: np.exp(x), x)

    def pick(v: Any, axes: tuple[Any, Any]) -> Any:
        v = v if axes[0] == 0 else v[0]
        return v if axes[1] == 0 else v[..., 0]

    ps, xs = (pick(v, (outer[k], inner[k])) for k, v in enumerate((p, x)))
    for g in (f, ft.grad(f, 1)):
        found = ft.vmap(ft.vmap(g, inner), outer)(ps, xs)
        for i in range(2):
            for j in range(3):
                at = [
                    v[
                        tuple(
                            n
                            for n, axis in zip((i, j), (outer[k], inner[k]), strict=True)
                            if axis == 0
                        )
                    ]
                    for k, v in enumerate((ps, xs))
                ]
                np.testing.assert_allclose(found[i, j], g(*at), **CLOSE)


def safe_sqrt(x: Any) -> Any:
    """Its other branch gives NaN, and a derivative that is NaN or infinite."""
    return ft.cond(x > 0.0, lambda x: np.sqrt(x) * np.log(x), lambda x: x**2, x)


XS = np.array([4.0, -1.0, 0.0, 0.25])


def test_nan_in_the_branch_not_taken_does_not_propagate_at_any_order() -> None:
    values = [python_cond(x > 0.0, lambda x: np.sqrt(x) * np.log(x), lambda x: x**2, x) for x in XS]
    slopes = [
        python_cond(x > 0.0, lambda x: (np.log(x) / 2 + 1) / np.sqrt(x), lambda x: 2 * x, x)
        for x in XS
    ]
    second = [
        python_cond(x > 0.0, lambda x: -np.log(x) / (4 * x**1.5), lambda x: 2.0, x) for x in XS
    ]
    np.testing.assert_allclose(ft.vmap(safe_sqrt)(XS), values, **CLOSE)
    per_example = [
        ft.vmap(ft.grad(safe_sqrt)),
        ft.grad(lambda xs: np.sum(ft.vmap(safe_sqrt)(xs))),
        lambda xs: ft.jvp(ft.vmap(safe_sqrt), (xs,), (np.ones(4),))[1],
        ft.vmap(lambda x: ft.jvp(safe_sqrt, (x,), (1.0,))[1]),
        lambda xs: ft.linearize(ft.vmap(safe_sqrt), xs)[1](np.ones(4)),
        lambda xs: np.diagonal(ft.jacrev(ft.vmap(safe_sqrt))(xs)),
        lambda xs: np.diagonal(ft.jacfwd(ft.vmap(safe_sqrt))(xs)),
        ft.vmap(ft.grad(ft.checkpoint(safe_sqrt))),
        ft.grad(lambda xs: np.sum(ft.checkpoint(ft.vmap(safe_sqrt))(xs))),
        ft.jit(ft.vmap(ft.grad(safe_sqrt))),
        ft.jit(ft.grad(lambda xs: np.sum(ft.vmap(safe_sqrt)(xs)))),
    ]
    for gradient in per_example:
        for _ in range(3):
            np.testing.assert_allclose(gradient(XS), slopes, **CLOSE)
    twice = [
        ft.vmap(ft.grad(ft.grad(safe_sqrt))),
        ft.grad(lambda xs: np.sum(ft.vmap(ft.grad(safe_sqrt))(xs))),
        ft.grad(lambda xs: np.sum(ft.grad(lambda xs: np.sum(ft.vmap(safe_sqrt)(xs)))(xs))),
        lambda xs: np.diagonal(ft.hessian(lambda xs: np.sum(ft.vmap(safe_sqrt)(xs)))(xs)),
        ft.vmap(ft.hessian(safe_sqrt)),
    ]
    for hessian in twice:
        np.testing.assert_allclose(hessian(XS), second, rtol=1e-9, atol=1e-12)


def test_nan_in_the_branch_not_taken_in_a_loop() -> None:
    def f(x: Any) -> Any:
        return ft.scan(
            lambda c, s: (ft.cond(c > s, lambda c: np.sqrt(c - s), lambda c: c * 2.0 + s, c), c),
            x,
            V,
        )[0]

    def plain(x: Any) -> Any:
        for s in V:
            x = np.sqrt(x - s) if x > s else x * 2.0 + s
        return x

    for found, expected in (
        (ft.vmap(f)(XS), [plain(x) for x in XS]),
        (ft.vmap(ft.grad(f))(XS), [ft.grad(plain)(x) for x in XS]),
        (ft.grad(lambda xs: np.sum(ft.vmap(f)(xs)))(XS), [ft.grad(plain)(x) for x in XS]),
    ):
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, expected, **CLOSE)


def test_a_batch_that_takes_one_branch_runs_one_branch() -> None:
    ran: list[str] = []

    def branch(word: str) -> Any:
        policy = ft.policies.pack(lambda a: (ran.append(word), a)[1], lambda a: a)
        return ft.checkpoint(lambda x: np.sin(x) * np.exp(x), policy=policy)

    f = ft.vmap(ft.grad(lambda x: ft.cond(x > 0.0, branch("true"), branch("false"), x)))
    f(np.array([1.0, 2.0]))
    assert ran and set(ran) == {"true"}


def test_warnings_of_examples_that_do_not_take_the_branch_are_dropped() -> None:
    f = ft.vmap(lambda x: ft.cond(x > 0.0, np.log, lambda x: x, x))
    for run in (f, ft.jit(f)):
        for _ in range(3):
            run(np.array([1.0, -1.0, 0.0]))  # warnings are errors here


def test_bool_and_integer_results_per_example() -> None:
    def f(x: Any) -> Any:
        return ft.cond(x > 0.0, lambda x: (x > 1.0, 3, x), lambda x: (True, -1, x * 2.0), x)

    flags, numbers, values = ft.vmap(f)(np.array([0.5, -1.0, 2.0]))
    assert_same(flags, np.array([False, True, True]))
    assert_same(numbers, np.array([3, -1, 3]))
    assert_same(values, np.array([0.5, -2.0, 2.0]))
    found = ft.vmap(ft.grad(lambda x: f(x)[2] * f(x)[1]))(np.array([0.5, -1.0, 2.0]))
    assert_same(found, np.array([3.0, -2.0, 3.0]))


# -- closures and errors ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3, SMALL // 8 + 1])
def test_an_array_that_a_branch_has_read_may_be_overwritten(size: int) -> None:
    table = np.ones(size)

    def f(x: Any) -> Any:
        out = ft.cond(x > 0.0, lambda x: x * np.sum(table * x), lambda x: x, x)
        table[0] += 5.0
        return out

    assert ft.grad(f)(1.0) == 2 * size
    assert f(1.0) == size + 5.0
    for run, x in (
        (ft.vmap(f), X),
        (ft.jit(f), 1.0),
    ):  # here f runs once, and the next example or call would read another
        with pytest.raises(CapturedArrayError, match="writes into an array that it also reads"):
            run(x)


def test_predicates_that_are_not_scalars() -> None:
    with pytest.raises(
        ShapeError, match=r"the predicate of cond is f64\[3\], not a scalar"
    ) as caught:
        ft.cond(X, np.sin, np.cos, X)
    assert "np.where" in str(caught.value) and "vmap" in str(caught.value)
    with pytest.raises(ShapeError, match=r"the predicate of cond is bool\[3\], not a scalar"):
        ft.grad(lambda x: np.sum(ft.cond(x > 0.0, np.sin, np.cos, x)))(X)
    with pytest.raises(DtypeError, match="the predicate of cond is a str"):
        ft.cond("yes", np.sin, np.cos, X)


def test_branches_that_differ() -> None:
    with pytest.raises(
        ShapeError,
        match=r"result\['a'\]\[1\] is f64\[3\] in the true branch and f64\[2\] in the false",
    ):
        staged(lambda x: {"a": (x, x)}, lambda x: {"a": (x, x[1:])}, X)
    with pytest.raises(
        DtypeError, match=r"result is f64\[3\] in the true branch and f32\[3\] in the false"
    ):
        staged(lambda x: x, lambda x: x.astype(np.float32), X)
    with pytest.raises(
        DtypeError, match=r"result is i64\[\] in the true branch and f64\[\] in the false"
    ):
        staged(lambda: np.int64(1), lambda: 0.5)
    with pytest.raises(TreeError, match="the true branch returns"):
        staged(lambda x: (x, x), lambda x: [x, x], X)
    with pytest.raises(TreeError, match="the true branch returns"):
        staged(lambda x: None, lambda x: x, X)
    with pytest.raises(DtypeError, match="returned a str"):
        staged(lambda x: "text", lambda x: x, X)


def test_an_exception_in_a_branch_leaves_nothing_behind() -> None:
    table = np.ones(SMALL // 8 + 1)
    alive = []

    def branch(x: Any) -> Any:
        x = x + np.sum(table)
        raise KeyError("mine")

    def f(x: Any) -> Any:
        alive.append(weakref.ref(x))
        return np.sum(ft.cond(np.sum(x) > 1e9, lambda x: x, branch, x))

    for run, x in ((ft.grad(f), X), (ft.vmap(f), BATCH), (ft.jit(f), X), (ft.trace(f), X)):
        with pytest.raises(KeyError, match="mine"):
            run(x)
        assert table.flags.writeable
    gc.collect()
    assert all(ref() is None for ref in alive)


def test_a_branch_may_not_write_into_values_traced_outside() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0

        def branch(z: Any) -> Any:
            y[0] = 5.0
            return z

        return np.sum(ft.cond(np.sum(x) > 1e9, branch, lambda z: z * y, x) * y)

    for run, x in ((ft.jit(ft.grad(f)), X), (ft.vmap(f), BATCH), (ft.jit(f), X)):
        with pytest.raises(
            CapturedArrayError, match=r"cond \(true branch branch\) writes into a value .* outside"
        ):
            run(x)


def test_a_branch_may_write_into_its_own_values() -> None:
    def f(x: Any) -> Any:
        def branch(z: Any) -> Any:
            z = z.copy()
            z[0] *= z[1]
            return z

        return np.sum(ft.cond(x[0] > 0.0, branch, lambda z: z * 2.0, x) * x)

    for x in (X, -X):
        kept = x.copy()
        np.testing.assert_allclose(ft.grad(f)(x), jacobian_by_differences(f, x), rtol=1e-8)
        assert_same(x, kept)


def test_a_branch_that_leaks_its_values_raises() -> None:
    leaked = []
    staged(lambda x: (leaked.append(x), x)[1], lambda x: x, X)
    with pytest.raises(LeakedTracerError, match=r"cond \(true branch <lambda>\) had ended"):
        leaked[0] + 1.0


def test_threads_do_not_disturb_each_other() -> None:
    batch = np.concatenate([BATCH, -BATCH])
    expected = ft.vmap(ft.grad(scalar))(batch)
    found: list[Any] = []

    def work() -> None:
        for k in range(10):
            found.append(ft.vmap(ft.grad(scalar))(batch))
            ft.grad(lambda x: scalar(x) * k)(X)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 40
    for value in found:
        assert_same(value, expected)


@pytest.mark.parametrize("made", ["cond", "checkpoint", "jit"])
def test_results_without_a_derivative_have_no_tangent(made: str) -> None:
    """A tangent of zeros would become nan where it meets an infinity; NumPy's own floor has none."""

    def f(x: Any) -> Any:
        if made == "cond":
            y, z = ft.cond(x > 0, lambda x: (np.floor(x), x * x), lambda x: (np.ceil(x), x**3), x)
        else:
            y, z = getattr(ft, made)(lambda x: (np.floor(x), x * x))(x)
        return y * np.float64(np.inf) * 0.5, z

    for run in (
        lambda x: ft.jvp(f, (x,), (1.0,))[1],
        lambda x: ft.jit(lambda x: ft.jvp(f, (x,), (1.0,))[1])(x),
        lambda x: ft.jacrev(f)(x),
        lambda x: tuple(
            t[0] for t in ft.vmap(lambda x: ft.jvp(f, (x,), (1.0,))[1])(np.array([x, x]))
        ),
    ):
        assert run(1.5) == (0.0, 3.0)
        assert ft.jvp(lambda x: ft.jvp(f, (x,), (1.0,))[1][1], (1.5,), (1.0,))[1] == 2.0
