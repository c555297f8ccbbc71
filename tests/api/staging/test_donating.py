"""Donated arguments: results may take their memory, and nobody can use them unawares."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError
from tests import oracles

rng = np.random.default_rng(0)


def sgd(p: Any, g: Any) -> Any:
    return p - 0.1 * g


def momentum(state: Any, g: Any) -> Any:
    m = 0.9 * state["m"] + g
    return {"p": state["p"] - 0.1 * m, "m": m}


def returned(p: Any, g: Any) -> Any:
    return p, g * 2.0


def twice(p: Any, g: Any) -> Any:
    return p * 1.0, p, p


def read_later(p: Any, g: Any) -> Any:
    q = p + 1.0
    return q, p * q, np.sum(p)


def viewed(p: Any, g: Any) -> Any:
    return p.reshape(-1), p.T, p[:1]


def transposed(p: Any, g: Any) -> Any:
    return p.T * 2.0 + p.T


def reduced(p: Any, g: Any) -> Any:
    return np.sum(p * g)


def written(p: Any, g: Any) -> Any:
    p[0] = 5.0
    p += g
    return p


def looped(p: Any, g: Any) -> Any:
    return ft.scan(lambda c, _: (c * 0.5 + g, c), p, None, 3)


def chosen(p: Any, g: Any) -> Any:
    return ft.cond(np.sum(p) > 0, lambda p: p * 2.0, lambda p: p, p)


FUNCTIONS = [sgd, returned, twice, read_later, viewed, transposed, reduced, written, looped, chosen]


def copied(tree: Any, order: Any = "K") -> Any:
    return ft.tree.map(lambda x: x.copy(order), tree)


def assert_same(found: Any, expected: Any) -> None:
    assert ft.tree.structure(found) == ft.tree.structure(expected)
    for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
        oracles.assert_same(a, b)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(6,), (3, 4), (1, 5), (0, 2), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("both", [False, True], ids=["one", "both"])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_results_are_those_without_donation(
    f: Callable[..., Any], both: bool, shape: Any, order: Any
) -> None:
    if f is written and 0 in shape:
        shape = tuple([n or 1 for n in shape])  # so that there is something to write to
    p, g = (np.asarray(rng.normal(size=shape), order=order) for _ in "pg")
    plain, donating = ft.jit(f), ft.jit(f, donate_argnums=(0, 1) if both else 0)
    for _ in range(3):
        given = p.copy("K"), g.copy("K")
        found, expected = donating(*given), plain(p, g)
        assert_same(found, expected)
        assert given[0].dtype.kind == "V" and (given[1].dtype.kind == "V") is both
        if not both:
            np.testing.assert_array_equal(given[1], g)
        leaves = [x for x in ft.tree.leaves(found) if isinstance(x, np.ndarray)]
        for k, x in enumerate(leaves):  # results share memory with nothing that can be used
            assert x.flags.writeable and (both or not np.shares_memory(x, given[1]))
            assert not any(np.shares_memory(x, y) for y in leaves[k + 1 :])


def test_the_memory_is_taken() -> None:
    step = ft.jit(sgd, donate_argnums=0)
    p, g = np.ones(1000), np.ones(1000)
    step(p.copy(), g)
    where = p.__array_interface__["data"][0]
    for _ in range(4):
        p = step(p, g)
        assert p.__array_interface__["data"][0] == where
    np.testing.assert_allclose(p, 0.6)


def test_pytrees_and_keywords() -> None:
    step = ft.jit(momentum, donate_argnames="state")
    state, g = {"p": np.ones((4, 5)), "m": np.zeros((4, 5))}, np.ones((4, 5))
    expected = copied(state)
    places = None
    for k in range(4):
        state, expected = step(state=state, g=g) if k % 2 else step(state, g), momentum(expected, g)
        assert_same(state, expected)
        found = sorted(x.__array_interface__["data"][0] for x in state.values())
        assert places is None or k == 1 or found == places  # the first calls are recorded
        places = found


def test_uses_of_a_donated_array_raise() -> None:
    p, g = np.ones(3), np.ones(3)
    view = p[:]
    step = ft.jit(sgd, donate_argnums=0)
    q = step(p, g)
    uses: list[Callable[[], Any]] = [
        lambda: p + 1.0, lambda: np.sum(p), lambda: p @ g, lambda: np.exp(p), lambda: p > 0,
        lambda: float(p[0]),
        lambda: np.asarray(p, float), lambda: np.linalg.norm(p), lambda: g.__iadd__(p),
        lambda: ft.grad(np.sum)(p),
        lambda: ft.jit(np.sum)(p), lambda: step(p, g), lambda: p.sum(), lambda: np.concatenate([p,
        g]) + 1,
    ]  # fmt: skip
    for use in uses:
        with pytest.raises((TypeError, ValueError)):
            use()
    assert "donated to functrace.jit" in repr(p)
    assert view.dtype == float  # which cannot be found out: documented
    np.testing.assert_allclose(q, 0.9)


def test_donating_views_and_read_only_arrays_raises() -> None:
    step = ft.jit(sgd, donate_argnums=0)
    memory, g = np.ones(6), np.ones(3)
    locked = np.ones(3)
    locked.flags.writeable = False
    for p, word in (
        (memory[:3], "view"), (memory.reshape(2, 3)[0], "view"), (locked, "read-only"),
        (np.frombuffer(bytearray(24)), "view"),
    ):  # fmt: skip
        for _ in range(2):
            with pytest.raises(ArgumentError, match=word):
                step(p, g)
    both = ft.jit(lambda p, g, h: (p + g, h), donate_argnums=(0, 2))
    p = np.ones(3)
    for args in ((p, p, g), (p, g, p), (p, p[:], g), (p, np.frombuffer(p), g), (p, memory[:3], p)):
        with pytest.raises(ArgumentError, match="shares memory"):
            both(*args)
    np.testing.assert_array_equal(p, np.ones(3))  # nothing was taken


def test_an_error_takes_it_too() -> None:
    f = ft.jit(lambda p: np.linalg.inv(p * 2.0) + p, donate_argnums=0)
    f(np.eye(2))
    p = np.zeros((2, 2))
    with pytest.raises(np.linalg.LinAlgError):
        f(p)
    assert p.dtype.kind == "V"


def test_numbers_and_scalars_have_nothing_to_give() -> None:
    f = ft.jit(lambda p, n: p * n, donate_argnums=(0, 1))
    assert f(2.0, 3) == 6.0
    assert f(np.float64(2.0), np.array(3.0)) == 6.0
    x = np.array(3.0)
    f(2.0, x), f(2.0, x := np.array(3.0))
    assert x.dtype.kind == "V"


def test_inside_of_transforms_nothing_is_donated() -> None:
    step = ft.jit(sgd, donate_argnums=0)
    p, g = np.ones(3), np.ones(3)
    np.testing.assert_array_equal(ft.grad(lambda p: np.sum(step(p, g)))(p), np.ones(3))
    np.testing.assert_array_equal(ft.grad(lambda g: np.sum(step(p, g)))(g), np.full(3, -0.1))
    np.testing.assert_array_equal(
        ft.vmap(step)(np.ones((2, 3)), np.ones((2, 3))), np.full((2, 3), 0.9)
    )
    with ft.disable_jit():
        np.testing.assert_array_equal(step(p, g), np.full(3, 0.9))
    np.testing.assert_array_equal(p, np.ones(3))


def test_donated_and_captured() -> None:
    w = np.ones(3)
    f = ft.jit(lambda p: p * w, donate_argnums=0)
    np.testing.assert_array_equal(f(np.ones(3)), np.ones(3))
    np.testing.assert_array_equal(f(w), np.ones(3))  # as it was
    with pytest.raises((TypeError, ValueError)):
        f(np.ones(3))  # it reads what has been given away


def test_names_of_parameters() -> None:
    with pytest.raises(ArgumentError, match="donate_argnums"):
        ft.jit(sgd, donate_argnums=2)
    with pytest.raises(ArgumentError, match="no parameter x"):
        ft.jit(sgd, donate_argnames="x")
    with pytest.raises(ArgumentError, match="static"):
        ft.jit(sgd, donate_argnums=0, static_argnames="p")
    with pytest.raises(ArgumentError, match="guards"):
        ft.jit(sgd, donate_argnums=0, guards=True)
    decorated = ft.jit(donate_argnums=(-1,))(sgd)
    g = np.ones(3)
    decorated(np.ones(3), g)
    assert g.dtype.kind == "V"


def test_array_that_another_thread_has_donated_is_refused() -> None:
    entered, leave = threading.Event(), threading.Event()

    def wait(x: Any) -> Any:
        entered.set()
        assert leave.wait(60)
        return x

    f = ft.jit(
        lambda x: ft.pure_callback(wait, ft.ShapeDtype((3,), float), x) + x, donate_argnums=0
    )
    g = ft.jit(lambda x, y: x * y, donate_argnums=(0, 1))
    leave.set()
    f(np.ones(3))
    g(np.ones(3), np.ones(3))
    for fresh in (False, True):  # a call that runs, and one that is recorded
        run = (
            ft.jit(
                lambda x: ft.pure_callback(wait, ft.ShapeDtype((3,), float), x) + x,
                donate_argnums=0,
            )
            if fresh
            else f
        )
        entered.clear()
        leave.clear()
        x, y, found = np.ones(3), np.ones(3), list[Any]()
        thread = threading.Thread(target=lambda run=run, x=x, found=found: found.append(run(x)))
        thread.start()
        assert entered.wait(60)
        for other in (
            lambda x=x: f(x),
            lambda x=x, y=y: g(y, x),
            lambda x=x: ft.jit(lambda x: x + 1.0, donate_argnums=0)(x),
        ):
            with pytest.raises(ArgumentError, match="donated by another thread"):
                other()
        leave.set()
        thread.join()
        np.testing.assert_array_equal(found[0], [2.0, 2.0, 2.0])
        np.testing.assert_array_equal(
            g(y, np.full(3, 5.0)), [5.0, 5.0, 5.0]
        )  # a refused call has let it go
        with pytest.raises((TypeError, ArgumentError)):
            f(x)
