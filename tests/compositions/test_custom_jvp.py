"""``custom_jvp``: the user's rule is the derivative in both modes, under every composition, and is
checked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import functrace as ft
from functrace.errors import (
    ArgumentError,
    DtypeError,
    NotDifferentiableError,
    ShapeError,
    TreeError,
)
from functrace.executor.cache import CACHE
from tests.compositions.functions import BATCH, V, X
from tests.compositions.test_checkpoint import TRANSFORMS, assert_equal

everywhere = pytest.mark.parametrize("transform", TRANSFORMS)


def plain(x: Any) -> Any:
    return np.log1p(np.exp(x)) * x


@ft.custom_jvp
def custom(x: Any) -> Any:
    return np.log1p(np.exp(x)) * x


@custom.defjvp
def _rule(primals: Any, tangents: Any) -> Any:
    (x,), (x_dot,) = primals, tangents
    y = custom(x)
    return y, x_dot * (x / (1.0 + np.exp(-x)) + np.log1p(np.exp(x)))


def scaled(factor: Any = 10.0) -> Any:
    """sin, with a derivative that shows whether the rule was used: cos times a factor."""

    @ft.custom_jvp
    def sine(x: Any) -> Any:
        return np.sin(x)

    sine.defjvp(
        lambda primals, tangents: (np.sin(primals[0]), tangents[0] * np.cos(primals[0]) * factor)
    )
    return sine


# -- under every composition -----------------------------------------------------------------------


@everywhere
def test_a_right_rule_gives_right_derivatives(transform: str) -> None:
    apply = TRANSFORMS[transform]
    for _ in range(2):
        assert_equal(apply(custom), apply(plain), 1e-11)


@pytest.mark.sampled(4)
@everywhere
def test_a_right_rule_inside_checkpoint_and_jit(transform: str) -> None:
    apply = TRANSFORMS[transform]
    assert_equal(apply(ft.checkpoint(custom)), apply(plain), 1e-11)
    assert_equal(apply(ft.jit(custom)), apply(plain), 1e-11)
    assert_equal(
        apply(ft.checkpoint(lambda x: np.tanh(custom(x)))),
        apply(lambda x: np.tanh(plain(x))),
        1e-11,
    )


DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: ft.grad(lambda x: np.sum(f(x)))(X),
    "pullback": lambda f: ft.vjp(f, X)[1](np.ones(3))[0],
    "jvp": lambda f: ft.jvp(f, (X,), (np.ones(3),))[1],
    "linearize": lambda f: ft.linearize(f, X)[1](np.ones(3)),
    "jacfwd": lambda f: np.diag(ft.jacfwd(f)(X)),
    "jacrev": lambda f: np.diag(ft.jacrev(f)(X)),
    "vmap of grad": lambda f: ft.vmap(ft.grad(f))(X),
    "grad of vmap": lambda f: ft.grad(lambda x: np.sum(ft.vmap(f)(x)))(X),
    "jvp of vmap": lambda f: ft.jvp(ft.vmap(f), (X,), (np.ones(3),))[1],
    "jit of grad": lambda f: ft.jit(ft.grad(lambda x: np.sum(f(x))))(X),
    "grad of jit": lambda f: ft.grad(lambda x: np.sum(ft.jit(f)(x)))(X),
    "scan": lambda f: ft.grad(lambda x: np.sum(ft.scan(lambda c, y: (c, f(y)), 0.0, x)[1]))(X),
    "cond": lambda f: ft.grad(lambda x: np.sum(ft.cond(x[0] > 0, f, np.cos, x)))(X),
    "checkpoint": lambda f: ft.grad(lambda x: np.sum(ft.checkpoint(f)(x)))(X),
    "elementwise_grad": lambda f: ft.elementwise_grad(f)(X),
}


@pytest.mark.parametrize("transform", DERIVATIVES)
def test_the_rule_is_used_and_not_the_function(transform: str) -> None:
    np.testing.assert_allclose(DERIVATIVES[transform](scaled()), 10.0 * np.cos(X), rtol=1e-15)


@pytest.mark.parametrize("in_axes", [(0, 0), (0, None), (None, 0), (1, 0), (0, 1), (-1, None)])
def test_mapping_with_operands_without_batch_axis(in_axes: tuple[Any, ...]) -> None:
    @ft.custom_jvp
    def f(x: Any, w: Any) -> Any:
        return np.sin(x) @ w

    f.defjvps(lambda t, y, x, w: (np.cos(x) * t) @ w, lambda t, y, x, w: np.sin(x) @ t)
    g = lambda x, w: np.sin(x) @ w
    args = [V if a is None else (BATCH if a == 0 else BATCH.T) for a in in_axes]
    weights = np.arange(1.0, 5.0)
    loss = lambda f, x, w: np.sum(ft.vmap(f, in_axes)(x, w) * weights)
    for h in (f, ft.checkpoint(f), ft.jit(f)):
        assert_equal(
            ft.grad(partial(loss, h), (0, 1))(*args),
            ft.grad(partial(loss, g), (0, 1))(*args),
            1e-13,
        )
        assert_equal(
            ft.vmap(ft.grad(h, (0, 1)), in_axes)(*args),
            ft.vmap(ft.grad(g, (0, 1)), in_axes)(*args),
            1e-13,
        )
        assert_equal(
            ft.jvp(ft.vmap(h, in_axes), args, args), ft.jvp(ft.vmap(g, in_axes), args, args), 1e-13
        )


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_function_that_its_own_rule_calls_to_any_order(order: int) -> None:
    @ft.custom_jvp
    def exp(x: Any) -> Any:
        return np.exp(x)

    exp.defjvps(lambda x_dot, y, x: x_dot * y)
    f: Any = exp
    g: Any = exp
    for _ in range(order):
        f = ft.grad(f)
        g = (lambda g: lambda x: ft.jvp(g, (x,), (1.0,))[1])(g)
    np.testing.assert_allclose(f(0.3), np.exp(0.3), rtol=1e-14)
    np.testing.assert_allclose(g(0.3), np.exp(0.3), rtol=1e-14)
    np.testing.assert_allclose(ft.vmap(f)(X), np.exp(X), rtol=1e-14)


# -- arguments and results -------------------------------------------------------------------------


class Pair(NamedTuple):
    a: Any
    b: Any


def test_pytrees_in_arguments_and_results() -> None:
    @ft.custom_jvp
    def f(p: Any, table: Any) -> Any:
        return {"sum": p.a + p.b, "rest": [p.a * table["w"], None]}

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (p, table), (p_dot, table_dot) = primals, tangents
        assert type(p_dot) is Pair and set(table_dot) == {"w"}
        rest = p_dot.a * table["w"] + p.a * table_dot["w"]
        return f(p, table), {"sum": p_dot.a + p_dot.b, "rest": [rest, None]}

    p, table = Pair(X, V), {"w": np.array([2.0, 3.0, 4.0])}
    loss = lambda p, t: np.sum(np.sin(f(p, t)["sum"])) + np.sum(f(p, t)["rest"][0] ** 2)
    direct = lambda p, t: np.sum(np.sin(p.a + p.b)) + np.sum((p.a * t["w"]) ** 2)
    assert_equal(ft.grad(loss, (0, 1))(p, table), ft.grad(direct, (0, 1))(p, table), 1e-14)
    assert_equal(
        ft.jvp(loss, (p, table), (p, table)), ft.jvp(direct, (p, table), (p, table)), 1e-14
    )


def test_integers_and_numbers() -> None:
    @ft.custom_jvp
    def f(x: Any, k: Any, power: Any) -> Any:
        return np.take(x, k) ** power, k

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x, k, power), (x_dot, k_dot, power_dot) = primals, tangents
        assert (
            k_dot.dtype == np.int64
            and not np.any(k_dot)
            and power_dot == 0
            and type(power_dot) is int
        )
        return f(x, k, power), (
            np.take(x_dot, k) * power * np.take(x, k) ** (power - 1),
            np.zeros_like(k),
        )

    k = np.array([2, 0])
    np.testing.assert_allclose(
        ft.grad(lambda x: np.sum(f(x, k, 2)[0]))(X), [2 * X[0], 0.0, 2 * X[2]], rtol=1e-15
    )
    tangents = ft.jvp(lambda x: f(x, k, 2), (X,), (V,))[1]
    np.testing.assert_allclose(tangents[0], V[k] * 2 * X[k], rtol=1e-15)


def test_keywords_defaults_and_arguments_without_derivative() -> None:
    @partial(ft.custom_jvp, nondiff_argnums=(2,))
    def f(x: Any, w: Any = 3.0, kind: str = "a") -> Any:
        return x * w

    @f.defjvp
    def rule(kind: str, primals: Any, tangents: Any) -> Any:
        assert kind in "ab"
        return f(*primals, kind), tangents[0] * primals[1] * {"a": 10.0, "b": 100.0}[kind]

    np.testing.assert_array_equal(ft.grad(lambda x: np.sum(f(x)))(X), np.full(3, 30.0))
    np.testing.assert_array_equal(
        ft.grad(lambda x: np.sum(f(kind="b", w=2.0, x=x)))(X), np.full(3, 200.0)
    )
    with pytest.raises(ArgumentError, match="defjvps of f does not go with nondiff_argnums"):
        f.defjvps(None, None)


def test_rules_per_argument_may_be_none_and_must_be_as_many() -> None:
    f = ft.custom_jvp(lambda x, w: x * w)
    f.defjvps(lambda t, y, x, w: t * w * 10.0, None)
    np.testing.assert_array_equal(ft.grad(lambda x, w: np.sum(f(x, w)), (0, 1))(X, V)[0], V * 10.0)
    np.testing.assert_array_equal(
        ft.grad(lambda x, w: np.sum(f(x, w)), (0, 1))(X, V)[1], np.zeros(3)
    )
    np.testing.assert_array_equal(ft.jvp(lambda w: f(X, w), (V,), (V,))[1], np.zeros(3))
    f.defjvps(None)
    with pytest.raises(ArgumentError, match="1 rules for 2 arguments"):
        ft.grad(lambda x: np.sum(f(x, V)))(X)


def test_methods() -> None:
    class Layer:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @ft.custom_jvp
        def apply(self, x: Any) -> Any:
            return np.sin(x) * self.scale

        @apply.defjvp
        def rule(primals: Any, tangents: Any) -> Any:
            self, x = primals
            return self.apply(x), tangents[1] * np.cos(x) * self.scale * 10.0

    np.testing.assert_allclose(
        ft.grad(lambda x: np.sum(Layer(2.0).apply(x)))(X), 20 * np.cos(X), rtol=1e-15
    )
    np.testing.assert_allclose(
        ft.jvp(Layer(3.0).apply, (X,), (V,))[1], 30 * np.cos(X) * V, rtol=1e-15
    )


def test_plain_arrays_call_the_function_alone() -> None:
    calls: list[str] = []
    f = ft.custom_jvp(lambda x: (calls.append("f"), x + 1)[1])
    f.defjvp(lambda primals, tangents: calls.append("rule"))
    assert f(2) == 3 and calls == ["f"]


# -- what rules close over -------------------------------------------------------------------------


def test_rules_that_close_over_outer_values() -> None:
    def loss(x: Any, w: Any) -> Any:
        inner = ft.custom_jvp(lambda x: x * 2.0)
        inner.defjvps(lambda t, y, x: t * w)
        return np.sum(inner(x))

    np.testing.assert_array_equal(ft.grad(loss)(X, V), V)
    np.testing.assert_array_equal(ft.grad(lambda w: np.sum(ft.grad(loss)(X, w) * X))(V), X)
    np.testing.assert_array_equal(ft.vmap(ft.grad(loss), (None, 0))(X, BATCH), BATCH)


def test_function_that_closes_over_a_value_which_is_differentiated_is_refused() -> None:
    def loss(x: Any, w: Any) -> Any:
        inner = ft.custom_jvp(lambda x: x * w)
        inner.defjvps(lambda t, y, x: t * w)
        return np.sum(inner(x))

    np.testing.assert_array_equal(ft.grad(loss)(X, V), V)
    with pytest.raises(NotDifferentiableError, match="closes over"):
        ft.grad(loss, (0, 1))(X, V)


def test_rule_follows_python_values_that_change_between_calls() -> None:
    state: dict[str, Any] = {"factor": 1.0, "flip": False, "table": V}

    @ft.custom_jvp
    def f(x: Any) -> Any:
        return np.sin(x)

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        t = tangents[0] * np.cos(primals[0]) * state["factor"] * state["table"]
        return np.sin(primals[0]), -t if state["flip"] else t

    gradient = ft.grad(lambda x: np.sum(f(x)))
    for factor, flip, table in (
        (1.0, False, V),
        (2.0, False, V),
        (2.0, True, V),
        (2.0, True, X),
        (-1.0, False, X),
    ):
        state.update(factor=factor, flip=flip, table=table)
        expected = np.cos(X) * factor * table * (-1 if flip else 1)
        np.testing.assert_allclose(gradient(X), expected, rtol=1e-15)
        np.testing.assert_allclose(ft.jvp(f, (X,), (np.ones(3),))[1], expected, rtol=1e-15)


@pytest.mark.parametrize("make", [lambda: custom, scaled], ids=["own rule called", "closed over"])
def test_second_call_adds_nothing_to_the_cache(make: Any) -> None:
    gradient = lambda x: ft.vmap(ft.grad(lambda x: np.sum(make()(x))))(x)
    gradient(BATCH)
    before = len(CACHE)
    for k in range(3):
        gradient(BATCH + k)
    assert len(CACHE) == before


def test_threads() -> None:
    results: dict[int, Any] = {}

    def work(k: int) -> None:
        f = scaled(float(k))
        results[k] = [ft.grad(lambda x: np.sum(f(f(x))))(X) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(6):
        for found in results[k]:
            np.testing.assert_allclose(found, np.cos(np.sin(X)) * np.cos(X) * k * k, rtol=1e-14)


# -- checks ----------------------------------------------------------------------------------------


def rule_with(rule: Any) -> Any:
    @ft.custom_jvp
    def f(x: Any) -> Any:
        return {"y": x * V}

    f.defjvp(rule)
    return f


BAD = {
    "no pair": (lambda p, t: t[0], TreeError,
    ("the jvp rule of f returned a TracedArray, not a pair",)),
    "result of another nest": (lambda p, t: (p[0], {"y": t[0]}), TreeError,
    ("the result of the jvp rule of f has",)),
    "tangent of another nest": (lambda p, t: ({"y": p[0]}, t[0]), TreeError,
    ("the tangent of the jvp rule of f has",)),
    "result of another shape": (
        lambda p, t: ({"y": p[0][:2]}, {"y": t[0]}), ShapeError,
        ("the jvp rule of f['y'] is f64[2]", "f['y'] is f64[3]")),
    "tangent of another shape": (
        lambda p, t: ({"y": p[0]}, {"y": t[0][:2]}), ShapeError,
        ("tangent of the jvp rule of f['y'] is f64[2]",)),
    "tangent of another dtype": (
        lambda p, t: ({"y": p[0]}, {"y": t[0] * 1j}), DtypeError,
        ("tangent of the jvp rule of f['y'] is c128[3]",)),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "error", "words"), BAD.values(), ids=BAD)
def test_wrong_rules_raise_at_differentiation(
    rule: Any, error: type[Exception], words: tuple[str, ...]
) -> None:
    f = rule_with(rule)
    for apply in (
        lambda: ft.grad(lambda x: np.sum(f(x)["y"]))(X),
        lambda: ft.jvp(f, (X,), (V,)),
        lambda: ft.vmap(ft.grad(lambda x: np.sum(f(x)["y"])))(BATCH),
        lambda: ft.jit(ft.grad(lambda x: np.sum(f(x)["y"])))(X),
    ):
        with pytest.raises(error) as caught:
            apply()
        for word in (*words, "fix: ", "test_custom_jvp.py"):
            assert word in str(caught.value), caught.value
    np.testing.assert_array_equal(ft.vmap(f)(BATCH)["y"], BATCH * V)
    np.testing.assert_array_equal(ft.jit(f)(X)["y"], X * V)


def test_rule_that_is_not_linear_in_tangents() -> None:
    f = rule_with(lambda p, t: ({"y": p[0] * V}, {"y": t[0] * t[0]}))
    with pytest.raises(NotDifferentiableError) as caught:
        ft.grad(lambda x: np.sum(f(x)["y"]))(X)
    assert "linear" in str(caught.value) and "fix: " in str(caught.value), caught.value


def test_missing_rule() -> None:
    f = ft.custom_jvp(np.sin)
    np.testing.assert_array_equal(f(X), np.sin(X))
    with pytest.raises(ArgumentError, match="sin has no rule yet") as caught:
        ft.grad(lambda x: np.sum(f(x)))(X)
    assert "defjvp" in str(caught.value)


@pytest.mark.parametrize(
    "error", [KeyError("mine"), NotImplementedError("no derivative")], ids=["own", "missing"]
)
def test_exceptions_of_rules_raise_at_differentiation_only(
    error: Exception,
) -> None:
    def fail(*_: Any) -> Any:
        raise error

    f = rule_with(fail)
    for _ in range(2):
        np.testing.assert_array_equal(ft.jit(f)(X)["y"], X * V)
        np.testing.assert_array_equal(ft.vmap(f)(BATCH)["y"], BATCH * V)
        np.testing.assert_array_equal(
            ft.grad(lambda x: np.sum(x * f(ft.stop_gradient(x))["y"]))(X), X * V
        )
        for apply in (
            lambda: ft.grad(lambda x: np.sum(f(x)["y"]))(X),
            lambda: ft.jvp(f, (X,), (V,)),
        ):
            with pytest.raises(type(error)) as caught:
                apply()
            assert caught.value is error
    assert ft.grad(lambda x: x * x)(1.0) == 2.0


HOLDING: dict[str, Any] = {
    "jit": lambda f: ft.jit(f),
    "checkpoint": lambda f: ft.checkpoint(f),
    "cond": lambda f: lambda x: ft.cond(np.sum(x) > 0.0, f, lambda x: f(x) * 2.0, x),
    "scan": lambda f: (
        lambda x: ft.scan(lambda c, v: (c + f(x * v), None), x, np.array([0.5, 1.0]))[0]
    ),
}


@pytest.mark.parametrize("hold", HOLDING.values(), ids=HOLDING)
def test_rules_that_call_jvp_of_operations_with_sub_programs(hold: Any) -> None:
    """Such an operation computes primals and tangents together; the rule is linear in the tangents
    all the same.
    """
    f = lambda x: np.tanh(x) * hold(lambda v: np.sin(v) * np.sign(v))(x)
    x, v = np.array([0.3, -0.7, 1.1]), np.array([1.0, 2.0, -1.0])
    g = ft.custom_jvp(lambda x: f(x))
    g.defjvp(lambda primals, tangents: ft.jvp(f, primals, tangents))
    close = {"rtol": 1e-12, "atol": 1e-13}
    for _ in range(2):
        np.testing.assert_allclose(ft.vjp(g, x)[1](v)[0], ft.vjp(f, x)[1](v)[0], **close)
        np.testing.assert_allclose(ft.linearize(g, x)[1](v), ft.jvp(f, (x,), (v,))[1], **close)
        np.testing.assert_allclose(ft.jit(ft.jacrev(g))(x), ft.jacfwd(f)(x), **close)
        np.testing.assert_allclose(
            ft.hessian(lambda x: np.sum(g(x)))(x), ft.hessian(lambda x: np.sum(f(x)))(x), **close
        )
        np.testing.assert_allclose(
            ft.vmap(ft.jacrev(g))(np.stack([x, v])),
            ft.vmap(ft.jacrev(f))(np.stack([x, v])),
            **close,
        )


@pytest.mark.parametrize("hold", HOLDING.values(), ids=HOLDING)
@pytest.mark.parametrize("crooked", [np.tanh, np.square, lambda t: t * np.sum(t), np.abs])
def test_nonlinear_rules_raise_within_any_sub_program(hold: Any, crooked: Any) -> None:
    g = ft.custom_jvp(lambda x: np.sin(x))
    g.defjvp(lambda xs, ts: (np.sin(xs[0]), hold(lambda t: crooked(t))(ts[0]) * np.cos(xs[0])))
    with pytest.raises(NotDifferentiableError, match="not linear"):
        ft.grad(lambda x: np.sum(g(x)))(np.array([0.3, -0.7, 1.1]))
