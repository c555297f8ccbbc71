"""Differential tests against JAX in double precision: cond, scan, and the transforms nested in and
around them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import functrace as ft

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
pytest.importorskip("jax.ad_checkpoint")

TOL = {"rtol": 1e-9, "atol": 1e-10}
X = np.array([0.3, -0.7, 1.1])
V = np.array([0.9, 0.2, -0.4])
W = np.array([[0.5, -1.0, 0.25], [1.5, 0.75, -0.5], [-0.25, 0.5, 1.0]])
XS = np.stack([X, -X, V, X * V, V + 1.0])
BATCH = np.stack([X, X + 0.15, X[::-1] - 0.5, -X, V])


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


OURS = SimpleNamespace(
    np=np, scan=ft.scan, cond=ft.cond, while_loop=ft.while_loop, fori_loop=ft.fori_loop,
    switch=ft.switch, map=ft.map,
    checkpoint=ft.checkpoint, grad=ft.grad, vmap=ft.vmap, jit=ft.jit, hessian=ft.hessian,
    jvp=ft.jvp,
    vjp=ft.vjp, jacfwd=ft.jacfwd, jacrev=ft.jacrev, linearize=ft.linearize,
)  # fmt: skip


MOST = 9
"""Steps that any loop below takes at most: JAX has no reverse derivative of a while loop, but of a
scan that stays.
"""


def _bounded_while(jax: Any) -> Any:
    def while_loop(cond: Any, body: Any, init: Any) -> Any:
        step = lambda c, _: (jax.lax.cond(cond(c), body, lambda c: c, c), None)
        return jax.lax.scan(step, init, None, MOST)[0]

    return while_loop


def _bounded_fori(jax: Any) -> Any:
    def fori_loop(lower: Any, upper: Any, body: Any, init: Any) -> Any:
        start = (jax.numpy.asarray(lower), init)
        return _bounded_while(jax)(
            lambda s: s[0] < upper, lambda s: (s[0] + 1, body(s[0], s[1])), start
        )[1]

    return fori_loop


@pytest.fixture(scope="module")
def theirs() -> Any:
    return SimpleNamespace(
        np=jnp, scan=jax.lax.scan, cond=jax.lax.cond, while_loop=_bounded_while(jax),
        fori_loop=_bounded_fori(jax),
        switch=jax.lax.switch, map=jax.lax.map, checkpoint=jax.checkpoint, grad=jax.grad,
        vmap=jax.vmap, jit=jax.jit,
        hessian=jax.hessian, jvp=jax.jvp, vjp=jax.vjp, jacfwd=jax.jacfwd, jacrev=jax.jacrev,
        linearize=jax.linearize,
    )  # fmt: skip


def assert_close(found: Any, expected: Any) -> None:
    found, expected = ft.tree.tree_leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, **TOL)
        assert np.asarray(a).dtype == np.asarray(b).dtype


# Each takes a library and returns a function of a vector to a number.


def rnn(lib: Any) -> Any:
    def f(x: Any) -> Any:
        def step(h: Any, s: Any) -> Any:
            h = lib.np.tanh(lib.np.asarray(W) @ h + s * x)
            return h, lib.np.sum(h * s)

        h, ys = lib.scan(step, x, lib.np.asarray(XS))
        return lib.np.sum(h**2) + lib.np.sum(lib.np.sin(ys))

    return f


def rnn_with_checkpoint(lib: Any) -> Any:
    def f(x: Any) -> Any:
        step = lib.checkpoint(
            lambda h, s: (lib.np.tanh(lib.np.asarray(W) @ h + s * x), lib.np.sum(h * s))
        )
        h, ys = lib.scan(step, x, lib.np.asarray(XS), reverse=True)
        return lib.np.sum(h**2) + lib.np.sum(lib.np.sin(ys))

    return f


def choice(lib: Any) -> Any:
    def f(x: Any) -> Any:
        scale = lib.np.exp(x)
        return lib.cond(
            x[0] > 0.0, lambda x: lib.np.sum(lib.np.sin(x) * scale), lambda x: lib.np.sum(x**3), x
        )

    return f


def choice_in_scan_in_choice(lib: Any) -> Any:
    def f(x: Any) -> Any:
        def step(c: Any, s: Any) -> Any:
            n, v = c
            v = lib.cond(v > s, lambda v: lib.np.sin(v) * s + x[0], lambda v: v * v - x[1], v)
            return (n + 1, v), v * n

        def looped(x: Any) -> Any:
            (n, v), ys = lib.scan(step, (0, x[2]), x)
            return v * n + lib.np.sum(ys)

        return lib.cond(lib.np.sum(x) > 0.3, looped, lambda x: lib.np.prod(x), x)

    return f


def scan_in_scan(lib: Any) -> Any:
    def f(x: Any) -> Any:
        def outer(c: Any, row: Any) -> Any:
            d, ys = lib.scan(
                lambda d, s: (lib.np.cos(d * s) + c["a"], d * x[1]), c["b"], row, reverse=True
            )
            return {"a": c["a"] * 0.5 + d, "b": d}, lib.np.sum(ys)

        c, ys = lib.scan(outer, {"a": x[0], "b": x[2]}, lib.np.asarray(W))
        return c["a"] * c["b"] + lib.np.sum(ys**2)

    return f


def growing_activity(lib: Any) -> Any:
    def f(x: Any) -> Any:
        step = lambda c, s: ((c[0] + s, c[1] + c[0] ** 2, c[1] * c[2]), c[2])
        (a, b, c), ys = lib.scan(step, (0.0, 1.0, 0.5), x)
        return a * b + c + lib.np.sum(ys)

    return f


def until(lib: Any) -> Any:
    def f(x: Any) -> Any:
        def step(state: Any) -> Any:
            n, v = state
            return n + 1, lib.np.sin(v) * 1.7 + x * 0.4

        n, v = lib.while_loop(
            lambda s: (lib.np.sum(s[1] ** 2) < 3.0) & (s[0] < 7), step, (lib.np.asarray(0), x)
        )
        return lib.np.sum(v**2) * (n + 1)

    return f


def while_in_scan_in_while(lib: Any) -> Any:
    def f(x: Any) -> Any:
        def inner(v: Any) -> Any:
            return lib.while_loop(lambda v: v < 1.0, lambda v: v * 0.5 + 0.1 * x[1] + 0.8, v)

        def outer(state: Any) -> Any:
            c, ys = lib.scan(lambda c, s: (inner(c * s), lib.np.cos(c * s)), state[1], x)
            return state[0] + 1, lib.np.sin(c) + lib.np.sum(ys)

        n, c = lib.while_loop(lambda s: s[0] < 2, outer, (lib.np.asarray(0), x[0]))
        return c * n

    return f


def counted(lib: Any) -> Any:
    def f(x: Any) -> Any:
        n = (x[0] > 0.0) * 3 + 1
        table = lib.np.asarray(XS)
        v = lib.fori_loop(
            0, n, lambda i, v: lib.np.sin(v) * 1.3 + lib.np.sum(table[0] * x) + x * i, x
        )
        return lib.np.sum(lib.fori_loop(1, 4, lambda i, v: v * lib.np.cos(x) + i, v))

    return f


def switched(lib: Any) -> Any:
    def f(x: Any) -> Any:
        branches = [
            lambda v: lib.np.sin(v) * x[0],
            lambda v: v * v,
            lambda v: lib.np.exp(-v * v) + x[2],
            lambda v: -v,
        ]
        number = lambda v: (v[1] > 0.2) * 2 + (v[0] > 0.0) * 3 - 1
        return lib.np.sum(
            lib.fori_loop(0, 3, lambda _, v: lib.switch(number(v), branches, v) + 0.1 * v, x)
        )

    return f


def mapped(lib: Any) -> Any:
    def f(x: Any) -> Any:
        one = lambda s: lib.while_loop(
            lambda v: lib.np.sum(v) < 2.0, lambda v: v * 0.7 + 0.9, s * x
        )
        return lib.np.sum(
            lib.np.sin(lib.map(one, lib.np.asarray(XS)))
            * lib.map(lib.np.cos, lib.np.asarray(XS), batch_size=2)
        )

    return f


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    f.__name__: f
    for f in (
        rnn,
        rnn_with_checkpoint,
        choice,
        choice_in_scan_in_choice,
        scan_in_scan,
        growing_activity,
        until,
        while_in_scan_in_while,
        counted,
        switched,
        mapped,
    )
}
functions = pytest.mark.parametrize("make", FUNCTIONS.values(), ids=FUNCTIONS)

# Each takes a library and a function, and returns a function of a batch.
COMPOSITIONS: dict[str, Callable[[Any, Any], Any]] = {
    "value": lambda lib, f: lambda b: f(b[0]),
    "jit": lambda lib, f: lambda b: lib.jit(f)(b[1]),
    "grad": lambda lib, f: lambda b: lib.grad(f)(b[0]),
    "jvp": lambda lib, f: lambda b: lib.jvp(f, (b[0],), (b[1],)),
    "linearize": lambda lib, f: lambda b: lib.linearize(f, b[0])[1](b[1]),
    "vmap": lambda lib, f: lib.vmap(f),
    "vmap of grad": lambda lib, f: lib.vmap(lib.grad(f)),
    "grad of vmap": lambda lib, f: lib.grad(lambda b: lib.np.sum(lib.np.sin(lib.vmap(f)(b)))),
    "hessian": lambda lib, f: lambda b: lib.hessian(f)(b[0]),
    "vmap of hessian": lambda lib, f: lib.vmap(lib.hessian(f)),
    "jacrev of jacrev": lambda lib, f: lambda b: lib.jacrev(lib.jacrev(f))(b[0]),
    "jacrev of jacfwd": lambda lib, f: lambda b: lib.jacrev(lib.jacfwd(f))(b[0]),
    "jit of vmap of grad": lambda lib, f: lib.jit(lib.vmap(lib.grad(f))),
    "vmap of grad of checkpoint": lambda lib, f: lib.vmap(lib.grad(lib.checkpoint(f))),
    "hessian of checkpoint": lambda lib, f: lambda b: lib.hessian(lib.checkpoint(f))(b[0]),
    "grad of jit of vmap": lambda lib, f: lib.grad(
        lambda b: lib.np.sum(lib.jit(lib.vmap(f))(b) ** 2)
    ),
    "pullback of vmap": lambda lib, f: (
        lambda b: lib.vjp(lib.vmap(f), b)[1](lib.np.asarray(np.arange(5.0)))[0]
    ),
}


@pytest.mark.sampled(12)
@functions
@pytest.mark.parametrize("composition", COMPOSITIONS.values(), ids=COMPOSITIONS)
def test_composition_equals_jax(make: Any, composition: Any, theirs: Any) -> None:
    found = composition(OURS, make(OURS))(BATCH)
    assert_close(found, theirs.jit(composition(theirs, make(theirs)))(jnp.asarray(BATCH)))


# -- NaN in the branch that is not taken -----------------------------------------------------------


def root_or_square(lib: Any) -> Any:
    return lambda x: lib.cond(x > 0.0, lambda x: lib.np.sqrt(x) * lib.np.log(x), lambda x: x**2, x)


POINTS = np.array([4.0, -1.0, -0.5, 0.25])


def test_nan_in_the_branch_not_taken_under_vmap_of_grad(theirs: Any) -> None:
    f, g = root_or_square(OURS), root_or_square(theirs)
    # JAX picks per example after differentiating, so in this order it is free of NaN, too.
    assert_close(ft.vmap(ft.grad(f))(POINTS), jax.vmap(jax.grad(g))(POINTS))
    assert_close(ft.vmap(ft.grad(ft.grad(f)))(POINTS), jax.vmap(jax.grad(jax.grad(g)))(POINTS))
    assert_close(ft.jit(ft.vmap(ft.grad(f)))(POINTS), jax.jit(jax.vmap(jax.grad(g)))(POINTS))
    assert_close(ft.vmap(ft.grad(ft.checkpoint(f)))(POINTS), jax.vmap(jax.grad(g))(POINTS))


def test_nan_in_the_branch_not_taken_under_grad_of_vmap(theirs: Any) -> None:
    f, g = root_or_square(OURS), root_or_square(theirs)
    expected = jax.vmap(jax.grad(g))(POINTS)  # in the other order, the two are the same
    assert_close(ft.grad(lambda xs: np.sum(ft.vmap(f)(xs)))(POINTS), expected)
    assert_close(ft.jit(ft.grad(lambda xs: np.sum(ft.vmap(f)(xs))))(POINTS), expected)
    second = np.diag(jax.vmap(jax.grad(jax.grad(g)))(POINTS))
    assert_close(ft.hessian(lambda xs: np.sum(ft.vmap(f)(xs)))(POINTS), second)


# -- values and types ------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 4])
def test_scan_equals_jaxs(theirs: Any, length: int, reverse: bool) -> None:
    def f(lib: Any) -> Any:
        def step(c: Any, s: Any) -> Any:
            return {"n": c["n"] + 1, "v": c["v"] * 0.5 + s["a"]}, (
                c["n"] * 2,
                s["b"][0] > c["v"][0],
                None,
            )

        xs = {"a": lib.np.asarray(XS[:length]), "b": [lib.np.asarray(XS[:length, 0])]}
        return lib.scan(step, {"n": 3, "v": lib.np.asarray(X)}, xs, reverse=reverse)

    assert_close(f(OURS), f(theirs))


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.int32])
def test_python_numbers_of_a_carry_take_the_same_dtype(theirs: Any, dtype: Any) -> None:
    for start in (0, 0.0) if dtype is not np.int32 else (0,):

        def f(lib: Any) -> Any:
            return lib.scan(
                lambda c, s: (c * 2 + s, c), start, lib.np.asarray(np.arange(4).astype(dtype))
            )

        found, expected = f(OURS), f(theirs)
        assert [np.asarray(v).dtype for v in found] == [np.asarray(v).dtype for v in expected]
        np.testing.assert_allclose(found[1], expected[1])


def test_vmap_of_some_operands(theirs: Any) -> None:
    def f(lib: Any) -> Any:
        def loss(w: Any, h: Any, xs: Any) -> Any:
            h, ys = lib.scan(lambda h, s: (lib.np.tanh(w @ h + s), lib.np.sum(h)), h, xs)
            return lib.np.sum(h * ys[0]) + lib.np.sum(ys)

        return loss

    many = [np.stack([v, v * 0.5, v - 0.3]) for v in (W, X, XS)]
    for axes in ((0, None, None), (None, 0, None), (None, None, 0), (0, 0, None), (0, 0, 0)):
        arguments = [m if axis == 0 else m[0] for m, axis in zip(many, axes, strict=True)]
        found = ft.vmap(ft.grad(f(OURS), argnums=(0, 1, 2)), in_axes=axes)(*arguments)
        assert_close(
            found,
            jax.jit(jax.vmap(jax.grad(f(theirs), argnums=(0, 1, 2)), in_axes=axes))(*arguments),
        )
