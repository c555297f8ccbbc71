"""Zeros in custom rules: None and float0 for subtrees of pytrees, symbolic zeros, numbers that
`jit` traces.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.custom_derivatives import SymbolicZero
from functrace.errors import ArgumentError, TreeError

X = np.array([0.3, -0.7, 1.1])
P = {"a": X, "b": {"c": X * 2.0, "d": X - 1.0}, "n": np.array([1, 2, 3])}
FLOAT0 = np.zeros(3, np.dtype("V0"))


def f(p: Any) -> Any:
    return p["a"] * p["b"]["c"] + p["b"]["d"] * p["n"]


def gradient(backward: Any, wrap: Any = lambda g: g) -> Any:
    g = ft.custom_vjp(f)
    g.defvjp(lambda p: (g(p), p), backward)
    return wrap(ft.vjp(g, P)[1])(np.ones(3))[0]


PARTS: dict[str, tuple[Any, tuple[bool, bool, bool]]] = {
    "all": (
        lambda p, ct: ({"a": ct * 2.0, "b": {"c": ct * 3.0, "d": ct * 4.0}, "n": None},),
        (True, True, True),
    ),
    "leaf": (
        lambda p, ct: ({"a": ct * 2.0, "b": {"c": None, "d": ct * 4.0}, "n": FLOAT0},),
        (True, False, True),
    ),
    "subtree": (lambda p, ct: ({"a": ct * 2.0, "b": None, "n": FLOAT0},), (True, False, False)),
    "whole": (lambda p, ct: (None,), (False, False, False)),
    "symbolic": (
        lambda p, ct: (
            {
                "a": SymbolicZero(ft.ShapeDtype((3,), "f8")),
                "b": {"c": ct * 3.0, "d": None},
                "n": ct,
            },
        ),
        (False, True, False),
    ),
    "integers as arrays": (
        lambda p, ct: ({"a": None, "b": None, "n": np.zeros(3, int)},),
        (False, False, False),
    ),
}


@pytest.mark.parametrize("wrap", [lambda g: g, ft.jit], ids=["", "jit"])
@pytest.mark.parametrize("name", PARTS)
def test_parts_of_a_cotangent_may_be_left_out(name: str, wrap: Any) -> None:
    backward, there = PARTS[name]
    found = gradient(backward, wrap)
    for value, number, flag in zip(
        (found["a"], found["b"]["c"], found["b"]["d"]), (2.0, 3.0, 4.0), there, strict=True
    ):
        np.testing.assert_array_equal(value, np.full(3, number * flag))
    assert found["n"] is None


@pytest.mark.parametrize("backward", [
    lambda p, ct: ({"a": ct, "b": None},),
    lambda p, ct: ({"a": ct, "b": (None, None), "n": None},),
    lambda p, ct: ([None],),
])  # fmt: skip
def test_other_pytree_structures_raise(backward: Any) -> None:
    with pytest.raises(TreeError, match="structure"):
        gradient(backward)


def test_parts_of_a_tangent_may_be_left_out() -> None:
    g = ft.custom_jvp(lambda x, n: {"y": x * n, "i": n + 1})
    g.defjvp(lambda p, t: (g(*p), {"y": t[0] * p[1], "i": None}))
    _, moved = ft.jvp(lambda x: g(x, np.array(3)), (2.0,), (1.0,))
    assert moved["y"] == 3.0
    g.defjvp(lambda p, t: (g(*p), {"y": None, "i": np.zeros((), "V0")}))
    assert ft.jvp(lambda x: g(x, np.array(3)), (2.0,), (1.0,))[1]["y"] == 0.0
    g.defjvp(lambda p, t: (g(*p), None))
    with pytest.raises(TreeError):
        ft.jvp(lambda x: g(x, np.array(3)), (2.0,), (1.0,))


# -- numbers of Python's under jit -----------------------------------------------------------------


@pytest.mark.parametrize("number", [3.0, 3, True], ids=str)
def test_numbers_that_jit_traces_have_no_tangent(number: Any) -> None:
    by_jvp = ft.custom_jvp(lambda x, y: x * y)
    by_jvp.defjvp(lambda p, t: (by_jvp(*p), t[0] * p[1] + p[0] * t[1]))
    by_vjp = ft.custom_vjp(lambda x, y: x * y)
    by_vjp.defvjp(
        lambda x, y: (by_vjp(x, y), (x, y)), lambda kept, ct: (ct * kept[1], ct * kept[0])
    )
    for g in (by_jvp, by_vjp):
        pushed = lambda x, y, g=g: ft.jvp(lambda x: g(x, y), (x,), (np.ones_like(x),))
        for transform in (lambda h: h, ft.jit):
            out, moved = transform(pushed)(X, number)
            np.testing.assert_array_equal(out, X * number)
            np.testing.assert_array_equal(moved, np.full(3, float(number)))
            found = transform(ft.grad(lambda x, y, g=g: np.sum(g(x, y))))(X, number)
            np.testing.assert_array_equal(found, np.full(3, float(number)))


# -- symbolic zeros --------------------------------------------------------------------------------


def pushing(seen: list[Any]) -> Any:
    @ft.custom_jvp
    def g(x: Any, y: Any, n: Any) -> Any:
        return x * np.sin(y) + n

    def rule(primals: Any, tangents: Any) -> Any:
        x, y, _ = primals
        seen.append(tuple(type(t) is SymbolicZero for t in tangents))
        terms = [
            t * c
            for t, c in zip(tangents[:2], (np.sin(y), x * np.cos(y)), strict=True)
            if type(t) is not SymbolicZero
        ]
        out = g(*primals)
        return out, sum(terms) if terms else SymbolicZero(ft.ShapeDtype(out.shape, out.dtype))

    g.defjvp(rule, symbolic_zeros=True)
    return g


def pulling(seen: list[Any]) -> Any:
    @ft.custom_vjp
    def g(x: Any, y: Any, n: Any) -> Any:
        return x * np.sin(y) + n

    def forward(x: Any, y: Any, n: Any) -> Any:
        seen.append(tuple(not p.perturbed for p in (x, y, n)))
        return g(x.value, y.value, n.value), (x.value, y.value)

    g.defvjp(
        forward,
        lambda kept, ct: (ct * np.sin(kept[1]), ct * kept[0] * np.cos(kept[1]), None),
        symbolic_zeros=True,
    )
    return g


def both_plain(x: Any, y: Any, n: Any) -> Any:
    return x * np.sin(y) + n


N = np.array(2)
USES: dict[str, tuple[Any, Any]] = {
    "by x": (lambda g: ft.grad(lambda x: np.sum(g(x, X, N)))(X), (False, True, True)),
    "by y": (lambda g: ft.grad(lambda y: np.sum(g(X, y, N)))(X), (True, False, True)),
    "by both": (
        lambda g: ft.grad(lambda x, y: np.sum(g(x, y, N)), (0, 1))(X, X),
        (False, False, True),
    ),
    "jvp": (lambda g: ft.jvp(lambda x: g(x, X, N), (X,), (X,)), (False, True, True)),
    "jit of grad": (
        lambda g: ft.jit(ft.grad(lambda x, y: np.sum(g(x, y, N))))(X, X),
        (False, True, True),
    ),
    "grad of jit": (
        lambda g: ft.grad(ft.jit(lambda x, y: np.sum(g(x, y, N))))(X, X),
        (False, True, True),
    ),
    "vmap of grad": (
        lambda g: ft.vmap(ft.grad(lambda x, y: g(x, y, N)))(X, X),
        (False, True, True),
    ),
    "grad of vmap": (
        lambda g: ft.grad(lambda x: np.sum(ft.vmap(lambda x: g(x, x[::-1] * 0 + 1.0, N))(x)))(
            np.stack([X, X])
        ),
        None,
    ),
    "scan": (
        lambda g: ft.grad(
            lambda x: np.sum(ft.scan(lambda c, a: (g(c, a, N), None), x, np.stack([X, X]))[0])
        )(X),
        None,
    ),
    "hessian": (lambda g: ft.hessian(lambda x: np.sum(g(x, x, N)))(X), None),
    "checkpoint": (
        lambda g: ft.grad(lambda x: np.sum(ft.checkpoint(lambda x: g(x, X, N))(x)))(X),
        (False, True, True),
    ),
}


@pytest.mark.parametrize("make", [pushing, pulling])
@pytest.mark.parametrize("name", USES)
def test_rules_can_detect_inactive_arguments(name: str, make: Any) -> None:
    use, told = USES[name]
    seen: list[Any] = []
    for _ in range(2):
        found, expected = use(make(seen)), use(both_plain)
        for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    assert seen and (told is None or told in seen)


def test_cotangents_of_integers_are_symbolic() -> None:
    g = ft.custom_vjp(lambda x: (x * 2.0, np.array(3)))
    seen: list[Any] = []

    def backward(_: Any, cts: Any) -> Any:
        seen.append([type(ct) is SymbolicZero for ct in cts])
        return (cts[0] * 2.0,)

    g.defvjp(lambda x: (g(x.value), None), backward, symbolic_zeros=True)
    np.testing.assert_array_equal(ft.grad(lambda x: np.sum(g(x)[0]))(X), np.full(3, 2.0))
    assert seen == [[False, True]]


def test_symbolic_rules_that_close_over_traced_values_are_refused() -> None:
    def outer(a: Any) -> Any:
        g = ft.custom_jvp(lambda x: x * 2.0)
        g.defjvp(lambda p, t: (p[0] * 2.0, t[0] * a), symbolic_zeros=True)
        return ft.grad(g)(1.0)

    with pytest.raises(ArgumentError, match="closes over a traced value"):
        ft.grad(outer)(3.0)


def test_names_of_parameters_without_derivative() -> None:
    g = ft.custom_vjp(lambda x, power: x**power, nondiff_argnames="power")
    g.defvjp(
        lambda x, power: (g(x, power), x), lambda power, x, ct: (ct * power * x ** (power - 1),)
    )
    np.testing.assert_allclose(ft.grad(lambda x: np.sum(g(x, power=3)))(X), 3 * X**2)
    h = ft.custom_jvp(lambda way, x: way(x), nondiff_argnames=["way"])
    h.defjvp(lambda way, p, t: (h(way, *p), np.cos(p[0]) * t[0]))
    np.testing.assert_allclose(ft.grad(lambda x: np.sum(h(np.sin, x)))(X), np.cos(X))
    with pytest.raises(ArgumentError, match="no parameter n"):
        ft.custom_vjp(lambda x: x, nondiff_argnames="n")
    for transform in (ft.grad, ft.jit, ft.vmap):
        with pytest.raises(ArgumentError, match="is traced"):
            transform(lambda n: np.sum(g(X[0], n)))(
                np.full(2, 3.0) if transform is ft.vmap else np.float64(3.0)
            )
