"""Transforms inside of others are recorded as one call of their program, which nobody can tell from
its operations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.control.call import call_p
from functrace.executor.cache import CACHE
from functrace.executor.inner_calls import CallableProgram
from tests.oracles import assert_bits

X = np.linspace(0.3, 1.1, 4)
DATA = np.asfortranarray(np.arange(12.0).reshape(4, 3) / 7)


def wave(x: Any) -> Any:
    return np.sum(np.tanh(x) ** 2 * np.exp(-x))


def fitted(x: Any) -> Any:
    return np.sum((np.tanh(x @ DATA) - 0.5) ** 2)


def in_part(x: Any) -> Any:
    return np.sum(np.maximum(x, 0.5) * 3.0) + x[0] ** 3


def linear(x: Any) -> Any:
    return np.sum(3.0 * x) + x[1]


def in_matrices(x: Any) -> Any:
    return np.sum(np.sin(np.outer(x, x).T) ** 2)


FUNCTIONS: list[Callable[[Any], Any]] = [wave, fitted, in_part, linear, in_matrices]


def compositions(f: Callable[[Any], Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Transforms of transforms of ``f``, made anew."""
    slope: Any = lambda x: np.sum(ft.grad(f)(x) * X)

    def asks(x: Any) -> Any:
        found = slope(x)
        return found * wave(x) if found > 0.5 else found**2

    def writes(x: Any) -> Any:
        found = ft.grad(f)(x)
        found[1:] *= x[0]
        return np.sum(found.reshape(2, 2).T.ravel("K") * X)

    def pulls(x: Any) -> Any:
        value, pullback = ft.vjp(f, x)
        return np.sum(pullback(value)[0] * x)

    yield "grad of grad", lambda: ft.grad(slope)(X)
    yield (
        "value_and_grad, aux",
        lambda: ft.value_and_grad(lambda x: (slope(x), ft.grad(f)(x)), has_aux=True)(X),
    )
    yield "three", lambda: ft.grad(lambda x: np.sum(ft.grad(slope)(x) * x))(X)
    yield "jvp of grad", lambda: ft.jvp(ft.grad(f), (X,), (X,))
    yield "linearize of grad", lambda: ft.linearize(ft.grad(f), X)[1](X)
    yield "grad of jvp", lambda: ft.grad(lambda x: ft.jvp(f, (x,), (X,))[1])(X)
    yield "grad of pullback", lambda: ft.grad(pulls)(X)
    yield "vmap of grad", lambda: ft.vmap(ft.grad(f))(np.stack([X, -X]))
    yield "vmap that asks", lambda: ft.vmap(asks)(np.stack([X, X * 3.0, -X]))
    yield (
        "grad of vmap that asks",
        lambda: ft.grad(lambda x: np.sum(ft.vmap(asks)(np.stack([x, -x]))))(X),
    )
    yield "grad that asks", lambda: ft.grad(asks)(X)
    yield "grad that writes", lambda: ft.grad(writes)(X)
    yield "hessian", lambda: ft.hessian(f)(X)
    yield "jacrev of grad", lambda: ft.jacrev(ft.grad(f))(X)
    yield "value", lambda: ft.grad(lambda x: f(x) * ft.value(slope(ft.stop_gradient(x))))(X)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_calls_equal_their_operations(
    f: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(run: Callable[[], Any]) -> Any:
        try:
            leaves = ft.tree.leaves(run())
        except ft.errors.LostGradientError as error:  # a gradient that is known is a plain array
            return str(error)
        return leaves

    def check(run: Callable[[], Any], expected: Any, name: str) -> None:
        leaves = shown(run)
        if isinstance(expected, str):
            assert leaves == expected, name
            return
        assert list(map(type, leaves)) == list(map(type, expected)), name
        for x, y in zip(leaves, expected, strict=True):
            assert_bits(x, y, what=name)

    found = {name: [shown(run) for _ in range(3)] for name, run in compositions(f)}
    ft.clear_caches()
    monkeypatch.setattr(CallableProgram, "recorded", lambda *_: None)
    for name, run in compositions(f):
        for expected in found[name]:
            check(run, expected, name)


def test_an_inner_gradient_is_one_cached_call(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    lookup = type(CACHE).lookup

    def looked(self: Any, recording: Any, *rest: Any) -> Any:
        lengths.append(len(recording.ops))
        if recording.inner:
            assert recording.ops[recording.inner[0]][0] is call_p
        return lookup(self, recording, *rest)

    def nested() -> Any:
        f = lambda x: np.sum(np.tanh(x) ** 2 * np.exp(-x))
        return ft.grad(lambda x: np.sum(ft.grad(f)(x) ** 2))(X)

    monkeypatch.setattr(type(CACHE), "lookup", looked)
    nested(), nested()
    count = len(CACHE)
    nested()
    assert len(CACHE) == count
    assert lengths[-2:] == [7, 4]  # the inner function; then input, call, square, sum


def test_constant_gradients_are_concrete_and_others_are_not() -> None:
    seen: list[bool] = []

    def f(x: Any, y: Any) -> Any:
        by_x, by_y = ft.grad(
            lambda a, b: np.sum(a * 2.0) + np.sum(b**2) + np.sum(np.maximum(a, 0.7)), (0, 1)
        )(x, y)
        for found in (by_x, by_y):
            try:
                np.asarray(found)
                seen.append(True)
            except ft.errors.LostGradientError:
                seen.append(False)
        return np.sum(by_y)

    ft.grad(f, (0, 1))(X, X)
    assert seen == [True, False]


def test_warnings_name_the_line_of_each_function() -> None:
    def one(x: Any) -> Any:
        return np.log(x) * x

    def other(x: Any) -> Any:
        return np.log(x) * x

    for f in (one, other, one):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ft.grad(lambda x, f=f: ft.grad(f)(x) * 2.0)(0.0)
        lines = {w.lineno for w in caught}
        assert lines == {f.__code__.co_firstlineno + 1}


def test_prints_run_once_per_example(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        ft.debug.print("x is {}", x)
        return x**2

    for _ in range(2):
        np.testing.assert_array_equal(ft.vmap(ft.grad(f))(np.array([1.0, 2.0])), [2.0, 4.0])
        assert capsys.readouterr().out == "x is 1.0\nx is 2.0\n"


def test_errors_raise_at_the_users_line() -> None:
    def safe(x: Any) -> Any:
        try:
            return np.sum(ft.grad(lambda a: np.sum(np.linalg.cholesky(a) ** 2))(x))
        except np.linalg.LinAlgError:
            return np.sum(x) * 5.0

    np.testing.assert_array_equal(ft.grad(safe)(-np.eye(2)), np.full((2, 2), 5.0))
