"""Transforms in many threads at once, and what stays alive after a call: nothing of the trace."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import functrace as ft


def test_eight_threads_with_different_gradients() -> None:
    barrier = threading.Barrier(8)

    def work(k: int) -> bool:
        barrier.wait()
        for step in range(30):
            x = np.linspace(0.1, 1.0, 3 + (k + step) % 4)
            power = k + 2
            found = ft.grad(lambda x: np.sum(x**power) * (1.0 + step))(x)
            if not np.allclose(found, power * x ** (power - 1) * (1.0 + step)):
                return False
            nested = ft.grad(lambda x: np.sum(ft.grad(lambda y: np.sum(np.sin(y) * x))(x)))(x)
            if not np.allclose(nested, np.cos(x) - x * np.sin(x)):
                return False
            mapped = ft.vmap(ft.grad(lambda x: np.sin(x) * power))(x)
            if not np.allclose(mapped, power * np.cos(x)):
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_eight_threads_with_the_same_gradient() -> None:
    gradient = ft.grad(lambda x: np.sum(np.tanh(x) ** 2))
    barrier = threading.Barrier(8)

    def work(k: int) -> bool:
        barrier.wait()
        x = np.full(5, 0.1 * (k + 1))
        expected = 2 * np.tanh(x) / np.cosh(x) ** 2
        return all(np.allclose(gradient(x), expected) for _ in range(50))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_threads_capturing_the_same_large_array() -> None:
    big = np.ones(1 << 18)
    barrier = threading.Barrier(4)

    def work(k: int) -> bool:
        barrier.wait()
        return all(ft.grad(lambda x: np.sum(x * big))(1.0 + k) == big.size for _ in range(5))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert big.flags.writeable


def test_threads_inside_a_function_share_its_tracers() -> None:
    def f(x: Any) -> Any:
        with ThreadPoolExecutor(2) as pool:
            parts = list(pool.map(lambda k: np.sin(x[k]) * x[k], range(2)))
        return parts[0] + parts[1]

    x = np.array([0.3, 0.8])
    np.testing.assert_allclose(ft.grad(f)(x), np.cos(x) * x + np.sin(x), rtol=1e-13)


def _call_grad(big: Any) -> None:
    ft.grad(lambda x: np.sum(np.sin(x * big)))(2.0)


def _call_grad_of_grad(big: Any) -> None:
    ft.grad(lambda y: ft.grad(lambda x: np.sum(np.sin(x * big) * y))(2.0))(1.0)


def _call_vmap(big: Any) -> None:
    ft.vmap(lambda x: np.sum(x * big))(np.ones(2))


def _call_jvp(big: Any) -> None:
    ft.jvp(lambda x: x * big, (2.0,), (1.0,))


def _call_vjp(big: Any) -> None:
    _, pullback = ft.vjp(lambda x: x * np.sin(x * big), 2.0)
    pullback(big)


def _call_trace(big: Any) -> None:
    ft.trace(lambda x: x * big)(2.0)


def _call_argument(big: Any) -> None:
    ft.grad(lambda x: np.sum(np.sin(x)))(big)


def _call_branch(big: Any) -> None:
    ft.grad(lambda x: np.sum(x * big) if x > 0 else x)(2.0)


def _call_hessian(big: Any) -> None:
    ft.hvp(lambda x: np.sum(np.sin(x) * big), (big,), (big,))


CALLS: list[Callable[[Any], None]] = [
    _call_grad, _call_grad_of_grad, _call_vmap, _call_jvp, _call_vjp, _call_trace, _call_argument,
    _call_branch,
    _call_hessian,
]  # fmt: skip


@contextlib.contextmanager
def without_gc() -> Any:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("call", CALLS, ids=lambda f: f.__name__.removeprefix("_call_"))
@pytest.mark.parametrize("size", [1 << 18, 100], ids=["locked", "copied"])
def test_nothing_of_a_trace_stays_alive(call: Callable[[Any], None], size: int) -> None:
    for _ in range(3):  # the first call fills the cache, the second compiles
        big = np.ones(size)
        watched = weakref.ref(big)
        with without_gc():
            call(big)
            assert big.flags.writeable
            del big
            assert watched() is None, "the captured array is still alive after the call"


def test_nothing_stays_alive_after_an_exception() -> None:
    class OwnError(Exception):
        pass

    def run(big: Any) -> None:
        def f(x: Any) -> Any:
            np.sum(x * big)
            raise OwnError

        with contextlib.suppress(OwnError):
            ft.grad(f)(2.0)

    big = np.ones(1 << 18)
    watched = weakref.ref(big)
    run(big)
    assert big.flags.writeable
    del big
    gc.collect()
    assert watched() is None


def test_deleting_a_pullback_frees_its_residuals() -> None:
    big = np.ones(1 << 18)
    watched = weakref.ref(big)
    with without_gc():
        value, pullback = ft.vjp(lambda x: np.sum(x * big), 2.0)
        assert pullback(1.0)[0] == big.size
        del pullback, value, big
        assert watched() is None


def test_tracers_do_not_stay_alive() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        y = x * 2.0
        kept.append(weakref.ref(y))
        return np.sum(y[1:] * y[:-1])

    with without_gc():
        ft.grad(f)(np.arange(4.0))
        assert all(r() is None for r in kept)
