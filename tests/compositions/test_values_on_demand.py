"""On-demand evaluation while tracing: every value is computed once and freed after its last use."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.ir.primitive import LINEAR, Primitive, ReplacingJvp, absent
from functrace.ops.elementwise import cos, mul, sin
from functrace.tracing import values
from functrace.tracing.binding import bind
from tests.compositions.functions import jacobian_by_differences

X = np.array([0.5, 1.5])
COUNT = {"all": 0, "primals": 0}


def _counted(run: Callable[..., Any]) -> Callable[..., Any]:
    def eval_(*operands: Any) -> Any:
        COUNT["all"] += 1
        COUNT["primals"] += np.array_equal(operands[0], X * 2.0)
        return run(*operands)

    return eval_


def _primitive(name: str, run: Callable[..., Any], jvp: Any, many: bool = False) -> Primitive:
    return Primitive(
        name,
        eval=_counted(run),
        aval=lambda x: (x, x) if many else x,
        jvp=jvp,
        transpose=(lambda ct, x: (mul(ct, 2.0),))
        if jvp is LINEAR
        else absent(because="a test", instead="do not"),
        batch=lambda operands, _: bind(KINDS[name], operands),
        many=many,
    )


def _joint(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return (mul(x, x), cos(x)), (mul(mul(x, 2.0), t), mul(mul(sin(x), -1.0), t))


KINDS = {
    "rule": _primitive(
        "rule", np.sin, lambda primals, _, tangents: mul(tangents[0], cos(primals[0]))
    ),
    "output": _primitive(
        "output", np.exp, lambda _, outputs, tangents: mul(tangents[0], outputs[0])
    ),
    "linear": _primitive("linear", lambda x: x * 2.0, LINEAR),
    "many": _primitive(
        "many",
        lambda x: (x * x, x + 1.0),
        lambda p, _, t: (mul(mul(p[0], 2.0), t[0]), t[0]),
        many=True,
    ),
    "joint": _primitive(
        "joint", lambda x: (x * x, np.cos(x)), ReplacingJvp(_joint, _joint), many=True
    ),
}

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value_and_grad": lambda f: ft.value_and_grad(f)(X),
    "vjp": lambda f: (lambda y, pullback: (y, *pullback(1.0)))(*ft.vjp(f, X)),
    "jvp": lambda f: ft.jvp(f, (X,), (X * 3.0,)),
    "linearize": lambda f: (lambda y, push: (y, push(X * 3.0)))(*ft.linearize(f, X)),
    "grad of grad": lambda f: (1.0, ft.grad(lambda x: np.sum(ft.grad(f)(x) * X))(X)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_evaluated_twice(kind: str, transform: str) -> None:
    primitive = KINDS[kind]

    def f(x: Any, asks: bool) -> Any:
        y = bind(primitive, (x * 2.0,))
        y = y[0] + y[1] if primitive.many else y
        if asks and not y[0] < 100.0:
            return np.sum(x)
        return np.sum(y * y)

    expected = TRANSFORMS[transform](lambda x: f(x, False))
    for _ in range(4):
        COUNT["primals"] = 0
        found = TRANSFORMS[transform](lambda x: f(x, True))
        assert COUNT["primals"] == 1
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-14 if kind == "joint" else 0.0)


def loop(step: Callable[[Any], Any], asks: str) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        y = x * 1.0
        for _ in range(200):
            y = step(y)
            if asks == "each" and y[0] > 1e9:
                break
        return np.sum(y) * 2.0 if asks == "end" and y[0] > 1e9 else np.sum(y)

    return f


def peak(run: Callable[[], Any]) -> int:
    """The most bytes that Python and NumPy had allocated. What other tests have left in caches is
    no part.
    """
    ft.clear_caches()
    run()
    gc.collect()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("asks", ["end", "each"])
def test_concretization_in_a_loop_needs_no_more_memory(
    asks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "MOST_HELD", 1 << 20)
    x = np.linspace(0.0, 1.0, 1 << 14)  # 128 KiB
    kept = 200 * x.nbytes  # what a derivative needs that reads every value
    for run in (
        lambda f: ft.grad(f)(x),
        lambda f: ft.jvp(f, (x,), (x,)),
    ):  # 1.7 MB; up to 11 where many tests went before
        assert peak(lambda run=run: run(loop(lambda y: y + 1e-3, asks))) < 0.6 * kept
    assert peak(lambda: ft.grad(loop(np.tanh, asks))(x)) < 1.2 * kept


def test_freed_values_are_recomputed_at_most_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(values, "MOST_HELD", 1 << 10)
    primitive = KINDS["linear"]

    def f(x: Any) -> Any:
        made = []
        y = x
        for _ in range(100):
            y = bind(primitive, (y,)) * 0.5
            made.append((y.ft_recording, y.ft_variable - 1))
            if y[0] > 1e9:
                break
        for where, variable in [*made, *reversed(made)]:  # past every handle
            assert where.value(variable).shape == x.shape
        return np.sum(y)

    COUNT["all"] = 0
    ft.grad(f)(np.ones(256))
    assert 100 < COUNT["all"] <= 200


def test_concretization_works_with_changing_numbers() -> None:
    """A number that has become an argument moves every variable of the program, also those that are
    known.
    """

    def f(x: Any, k: float, m: float) -> Any:
        y = np.sin(x * k)
        if np.sum(y) > -100.0:
            y = y * m + ft.checkpoint(np.cos)(y)
        if y[0] > -100.0:
            y = y[np.argsort(y)] * k
        return np.sum(y * y)

    x = np.array([0.3, -0.8, 1.1])
    for k, m in ((2.0, 3.0), (2.0, 3.0), (1.5, 3.0), (0.5, 2.0), (0.25, -1.0), (1.5, 3.0)):
        expected = jacobian_by_differences(lambda v: f(v, k, m), x)
        np.testing.assert_allclose(ft.grad(f)(x, k, m), expected, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(ft.jacfwd(f)(x, k, m), expected, rtol=1e-7, atol=1e-9)
        value, pullback = ft.vjp(lambda v: f(v, k, m), x)
        np.testing.assert_allclose(pullback(1.0)[0], expected, rtol=1e-7, atol=1e-9)
        assert value == f(x, k, m)
        second = jacobian_by_differences(lambda v: ft.grad(f)(v, k, m), x)
        np.testing.assert_allclose(ft.hessian(f)(x, k, m), second, rtol=1e-6, atol=1e-7)
