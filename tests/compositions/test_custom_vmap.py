"""custom_vmap: its rule under vmap, beside and around every other transform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, ShapeError, TreeError

X = np.array([0.3, -0.7, 1.1])
BATCH = np.stack([X, 2.0 * X])


def right(calls: list[Any]) -> Any:
    """A function whose rule is what vmap would do, and is noted."""

    @ft.custom_vmap
    def f(x: Any, p: Any) -> Any:
        return {"a": np.sin(x) * p["w"], "b": np.sum(x)}

    @f.def_vmap
    def rule(size: int, in_batched: list[Any], x: Any, p: Any) -> Any:
        calls.append((size, in_batched))
        w = p["w"]
        wide = w if in_batched[1]["w"] else w[None]
        both = np.sin(x if in_batched[0] else x[None]) * wide
        total = np.sum(x, axis=-1)
        return {"a": np.broadcast_to(both, (size, *both.shape[1:])), "b": total}, {
            "a": True,
            "b": in_batched[0],
        }

    return f


def plain(x: Any, p: Any) -> Any:
    return {"a": np.sin(x) * p["w"], "b": np.sum(x)}


def total(f: Any) -> Any:
    def g(x: Any, w: Any) -> Any:
        found = f(x, {"w": w})
        return np.sum(found["a"] ** 2) * found["b"]

    return g


TRANSFORMS: dict[str, Any] = {
    "vmap": lambda g: ft.vmap(g)(BATCH, BATCH),
    "vmap of one": lambda g: ft.vmap(g, (0, None))(BATCH, X),
    "vmap of the other": lambda g: ft.vmap(g, (None, 0))(X, BATCH),
    "vmap of an axis": lambda g: ft.vmap(g, (1, 0))(BATCH.T, BATCH),
    "vmap of vmap": lambda g: ft.vmap(ft.vmap(g, (0, None)), (None, 0))(BATCH, BATCH),
    "vmap of vmap of both": lambda g: ft.vmap(ft.vmap(g))(
        np.stack([BATCH] * 3), np.stack([BATCH] * 3)
    ),
    "grad": lambda g: ft.grad(g, (0, 1))(X, X),
    "grad of vmap": lambda g: ft.grad(lambda x, w: np.sum(ft.vmap(g)(x, w)), (0, 1))(BATCH, BATCH),
    "vmap of grad": lambda g: ft.vmap(ft.grad(g, (0, 1)))(BATCH, BATCH),
    "jvp of vmap": lambda g: ft.jvp(ft.vmap(g), (BATCH, BATCH), (BATCH, -BATCH)),
    "vmap of jvp": lambda g: ft.vmap(lambda x: ft.jvp(lambda x: g(x, x), (x,), (x,)))(BATCH),
    "hessian": lambda g: ft.hessian(g)(X, X),
    "vmap of hessian": lambda g: ft.vmap(ft.hessian(g))(BATCH, BATCH),
    "jit of vmap": lambda g: ft.jit(ft.vmap(g))(BATCH, BATCH),
    "vmap of jit": lambda g: ft.vmap(ft.jit(g))(BATCH, BATCH),
    "jit": lambda g: ft.jit(g)(X, X),
    "jit of grad of vmap": lambda g: ft.jit(ft.grad(lambda x: np.sum(ft.vmap(g)(x, x))))(BATCH),
    "vmap of checkpoint": lambda g: ft.vmap(ft.grad(ft.checkpoint(g)))(BATCH, BATCH),
    "scan of vmap": lambda g: ft.scan(
        lambda c, x: (c + np.sum(ft.vmap(g)(x, x)), None), 0.0, np.stack([BATCH] * 2)
    )[0],
    "vmap of scan": lambda g: ft.vmap(
        lambda x: ft.scan(lambda c, _: (c + g(x, x * c), None), 1.0, None, 2)[0]
    )(BATCH),
    "vmap of cond": lambda g: ft.vmap(
        lambda x: ft.cond(x[0] > 0.5, lambda x: g(x, x), lambda x: x[0], x)
    )(BATCH),
    "linearize": lambda g: ft.linearize(ft.vmap(g), BATCH, BATCH)[1](BATCH, BATCH),
    "trace": lambda g: ft.evaluate(ft.trace(ft.vmap(g))(BATCH, BATCH), BATCH, BATCH),
    "disable_jit": lambda g: ft.vmap(g)(BATCH, BATCH),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_right_rule_gives_right_results(transform: str) -> None:
    run = TRANSFORMS[transform]
    calls: list[Any] = []
    found, expected = run(total(right(calls))), run(total(plain))
    for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    derivatives_first = ("vmap of grad", "vmap of jvp", "vmap of hessian", "vmap of checkpoint")
    if "vmap" in transform and transform not in derivatives_first:
        assert calls


def test_rule_receives_batched_flags() -> None:
    calls: list[Any] = []
    f = right(calls)
    ft.vmap(f, (0, None))(BATCH, {"w": X})
    ft.vmap(f, (None, 0))(X, {"w": BATCH})
    ft.vmap(f)(BATCH, {"w": BATCH})
    assert calls == [(2, [True, {"w": False}]), (2, [False, {"w": True}]), (2, [True, {"w": True}])]


def test_the_rule_is_used_and_not_the_function() -> None:
    f = ft.custom_vmap(lambda x, y: x + y)
    f.def_vmap(lambda size, batched, x, y: (x * y, True))
    np.testing.assert_array_equal(ft.vmap(f)(X, X), X * X)
    np.testing.assert_array_equal(f(X, X), 2.0 * X)
    np.testing.assert_array_equal(
        ft.grad(lambda x: np.sum(ft.vmap(f)(x, x)))(X), 2.0 * X
    )  # what was mapped
    np.testing.assert_array_equal(
        ft.vmap(ft.grad(f))(X, X), np.ones(3)
    )  # the derivative of the function, mapped


def test_methods_keywords_defaults_and_results_without_axis() -> None:
    class Scaled:
        @ft.custom_vmap
        def of(self, x: Any, scale: Any = 2.0) -> Any:
            return x * scale, scale

        @of.def_vmap
        def _(size: int, batched: Any, self: Any, x: Any, scale: Any) -> Any:
            return (x * scale, scale), (True, False)

    scaled = Scaled()
    with pytest.raises((TypeError, ValueError)):
        ft.vmap(lambda x: scaled.of(x, scale=object()))(X)

    f = ft.custom_vmap(lambda x, scale=2.0: (x * scale, scale))
    f.def_vmap(lambda size, batched, x, scale: ((x * scale, scale), (batched[0], False)))
    for found in (ft.vmap(f)(X), ft.vmap(lambda x: f(x, scale=2.0))(X)):
        np.testing.assert_array_equal(found[0], 2.0 * X)
        np.testing.assert_array_equal(found[1], np.full(3, 2.0))


def test_errors_of_the_rule_raise_under_vmap() -> None:
    f = ft.custom_vmap(lambda x: x * 2.0)
    np.testing.assert_array_equal(ft.grad(lambda x: np.sum(f(x)))(X), np.full(3, 2.0))
    with pytest.raises(ArgumentError, match="has no rule yet"):
        ft.vmap(f)(X)
    for rule, error, word in (
        (lambda size, batched, x: x * 2.0, TreeError, "not a pair"),
        (lambda size, batched, x: ((x, x), True), TreeError, "structure"),
        (lambda size, batched, x: (x[0], True), ShapeError, "return shape"),
        (lambda size, batched, x: (x, False), ShapeError, "return shape"),
        (lambda size, batched, x: (x, [True, True]), TreeError, "out_batched"),
    ):
        f.def_vmap(rule)
        with pytest.raises(error, match=word):
            ft.vmap(f)(X)


def test_closing_over_traced_values() -> None:
    def mapped(x: Any) -> Any:
        f = ft.custom_vmap(lambda y: x * y)
        f.def_vmap(lambda size, batched, y: (y * 2.0, True))
        return f(1.0 * np.max(x) if False else X)

    with pytest.raises(ArgumentError, match="closes over a mapped value"):
        ft.vmap(mapped)(X)

    def inner(x: Any) -> Any:
        f = ft.custom_vmap(lambda y: x * y)
        f.def_vmap(lambda size, batched, y: (x * y, True))
        return np.sum(ft.vmap(f)(X))

    with pytest.raises(ArgumentError, match="closes over a traced value"):
        ft.grad(inner)(2.0)

    def outside(x: Any) -> Any:  # the function may, where the rule does not
        f = ft.custom_vmap(lambda y: x * y)
        f.def_vmap(lambda size, batched, y: (3.0 * y, True))
        return np.sum(f(X))

    np.testing.assert_allclose(ft.grad(outside)(2.0), np.sum(X))


def test_under_custom_vjp() -> None:
    inner = ft.custom_vmap(lambda x: np.sin(x))
    inner.def_vmap(lambda size, batched, x: (np.sin(x), True))
    f = ft.custom_vjp(lambda x: inner(x))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * np.cos(x),))
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(X), np.cos(X))
    np.testing.assert_allclose(ft.vmap(f)(X), np.sin(X))
