"""``disable_jit``: jitted functions and loops run as plain Python, with the same results."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ShapeError, TreeError

X = np.array([1.2, 0.7, 0.3])


def scanned(x: Any) -> Any:
    carry, ys = ft.scan(lambda c, a: (c * a + np.sum(x), (c, {"a": a * 2.0})), 1.0, x)
    return carry + np.sum(ys[0]) + np.sum(ys[1]["a"])


def backwards(x: Any) -> Any:
    carry, ys = ft.scan(
        lambda c, a: (c + a, c * a), x[0], np.stack([x, x * 2.0]).T[0], reverse=True
    )
    return np.sum(ys) * carry


def without_inputs(x: Any) -> Any:
    return ft.scan(lambda c, _: (np.sin(c), None), x, None, 4)[0].sum()


def counted(x: Any) -> Any:
    return ft.fori_loop(0, 4, lambda i, v: v * x[1] + i, x[0])


def to_a_traced_bound(x: Any) -> Any:
    return ft.fori_loop(0, np.floor(x[0] * 3.0).astype(int), lambda i, v: v * x[1] + i, x[0])


def halved(x: Any) -> Any:
    return ft.while_loop(lambda v: v[0] < 50.0, lambda v: (v[0] * 2.0 + x[0], v[1] + 1), (x[1], 0))[
        0
    ]


def not_at_all(x: Any) -> Any:
    return ft.while_loop(lambda v: v < 0.0, lambda v: v * 2.0, x[0])


def mapped(x: Any) -> Any:
    return np.sum(ft.map(lambda a: np.sin(a) * x[0], x)) + np.sum(ft.map(np.cos, x, batch_size=2))


def chosen(x: Any) -> Any:
    return ft.switch(1, [np.sum, np.prod], x) + ft.cond(x[0] > 1.0, np.sum, np.prod, x)


def associative(x: Any) -> Any:
    return np.sum(ft.associative_scan(np.multiply, x))


def jitted(x: Any) -> Any:
    return np.sum(ft.jit(lambda x, n: x**n, static_argnums=1)(x, 3)) + ft.jit(np.sum, guards=True)(
        x
    )


def numbers(x: Any) -> Any:
    return ft.scan(lambda c, a: (c + a, None), 0, x.astype(np.float32))[0] + np.sum(x)


PROGRAMS = [
    scanned, backwards, without_inputs, counted, to_a_traced_bound, halved, not_at_all, mapped,
    chosen, associative, jitted,
    numbers,
]  # fmt: skip
TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "": lambda f: f(X),
    "grad": lambda f: ft.grad(f)(X),
    "hessian": lambda f: ft.hessian(f)(X),
    "jvp": lambda f: ft.jvp(f, (X,), (X,)),
    "jit": lambda f: ft.jit(f)(X),
    "jit of grad": lambda f: ft.jit(ft.grad(f))(X),
    "vmap": lambda f: ft.vmap(f)(np.stack([X, X * 1.3])),
    "vmap of grad": lambda f: ft.vmap(ft.grad(f))(np.stack([X, X * 1.3])),
    "jacfwd": lambda f: ft.jacfwd(f)(X),
    "checkpoint": lambda f: ft.grad(ft.checkpoint(f))(X),
    "trace": lambda f: ft.evaluate(ft.trace(f)(X), X),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_results_are_the_same(f: Callable[..., Any], transform: str) -> None:
    expected = TRANSFORMS[transform](f)
    with ft.disable_jit():
        found = TRANSFORMS[transform](f)
    assert ft.tree.structure(found) == ft.tree.structure(expected)
    for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
        assert (type(a), a.dtype, np.shape(a)) == (type(b), b.dtype, np.shape(b))


def test_functions_and_bodies_run_at_every_step() -> None:
    seen: list[float] = []

    @ft.jit
    def f(x: Any) -> Any:
        if x[0] > 0:  # which jit would refuse
            seen.append(float(ft.value(x[0])))
        return ft.scan(lambda c, a: (c + a, seen.append(float(ft.value(c)))), x[0], x)[0]

    with ft.disable_jit():
        assert f(X) == X[0] + X.sum()
        ft.grad(f)(X)
    np.testing.assert_allclose(seen, 2 * [1.2, 1.2, 2.4, 3.1])
    assert f.cache_info().currsize == 0
    with pytest.raises(ft.errors.ConcretizationError):
        f(X)


def test_arguments_are_copies_and_results_fresh() -> None:
    held = np.ones(3)

    @ft.jit
    def f(x: Any, y: Any) -> Any:
        x[0] = 5.0
        return x, y, held, 2.0

    x, y = X.copy(), X.copy()
    with ft.disable_jit():
        results = f(x, y)
    np.testing.assert_array_equal(x, X)
    assert not any(np.shares_memory(r, z) for r in results[:3] for z in (x, y, held))
    assert type(results[3]) is np.float64


def test_disable_jit_can_be_nested_and_ends_on_errors() -> None:
    calls: list[int] = []
    f = ft.jit(lambda x: (calls.append(1), x * 2.0)[1])
    f(X), f(X)
    assert len(calls) == 1
    with pytest.raises(KeyError), ft.disable_jit():
        f(X)
        with ft.disable_jit(False):
            f(X)
        f(X)
        raise KeyError
    assert len(calls) == 3
    f(X)
    assert len(calls) == 3


def test_other_threads_are_not_concerned() -> None:
    calls: list[int] = []
    f = ft.jit(lambda x: (calls.append(1), x * 2.0)[1])
    f(X)
    with ft.disable_jit():
        thread = threading.Thread(target=f, args=(X,))
        thread.start()
        thread.join()
    assert len(calls) == 1


def test_errors_of_loop_bodies_raise() -> None:
    def loop(body: Callable[..., Any]) -> Any:
        return ft.grad(lambda x: np.sum(ft.scan(body, x, x)[0]))(X)

    with ft.disable_jit():
        for body, error in (
            (lambda c, a: (c[:2], None), ShapeError),
            (lambda c, a: ((c, c), None), TreeError),
            (lambda c, a: c, TreeError),
            (lambda c, a: (c, np.ones(2 if a > 1.0 else 3)), ShapeError),
            (lambda c, a: (c, (a,) if a > 1.0 else [a]), TreeError),
        ):
            with pytest.raises(error):
                loop(body)
        with pytest.raises(ft.errors.ArgumentError, match="max_steps"):
            ft.grad(lambda x: ft.while_loop(lambda v: v > 0.0, lambda v: v + x, x, max_steps=5))(
                1.0
            )


def test_tensors() -> None:
    import functrace.torch as torch

    f = ft.jit(lambda t: (t * 2.0).sum())
    with ft.disable_jit():
        assert f(torch.tensor([1.0, 2.0])).item() == 6.0
