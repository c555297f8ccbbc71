"""Operations that hold programs, under XLA: values, gradients, second derivatives and ``vmap`` are
those of NumPy; errors are raised on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft

pytest.importorskip("jax", reason="jax is not installed")

from functrace.xla.program import XlaBackend, XlaProgram

X = np.array([0.3, -1.1, 0.8])
XS = np.stack([X, -X, 2.0 * X])


@ft.custom_vjp
def clipped(x: Any) -> Any:
    return np.sin(x)


clipped.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (np.clip(ct * np.cos(x), -0.2, 0.2),))


@ft.custom_jvp
def sloped(x: Any) -> Any:
    return np.exp(x)


sloped.defjvp(lambda primals, tangents: (np.exp(primals[0]), 2 * tangents[0] * np.exp(primals[0])))


@ft.custom_vmap
def mapped(x: Any) -> Any:
    return x * 2


@mapped.def_vmap
def _(size: int, is_batched: Any, x: Any) -> Any:
    return x * 3, True


inner = ft.jit(lambda x: np.tanh(x) * 2)
MATRIX = 3 * np.eye(3) + 0.1 * np.roll(np.eye(3), 1, 0)


def written(x: Any) -> Any:
    y = x * 1.0
    y[1:] = y[:-1] * 2
    y[[0, 0]] += 1
    return y


CASES: dict[str, Callable[[Any], Any]] = {
    "call": lambda x: np.sum(inner(inner(x))),
    "checkpoint": lambda x: np.sum(ft.checkpoint(lambda x: np.tanh(np.sin(x)) ** 2)(x)),
    "cond": lambda x: ft.cond(
        np.sum(x) > 0, lambda x: np.sum(x * x), lambda x: np.sum(np.sin(x)), x
    ),
    "switch": lambda x: ft.switch(
        np.argmax(x), [lambda x: np.sum(x), lambda x: np.prod(x), lambda x: np.sum(x**3)], x
    ),
    "scan": lambda x: np.sum(ft.scan(lambda c, a: (np.tanh(c + a), c * a), x[0], x)[1]),
    "reversed scan": lambda x: np.sum(
        ft.scan(lambda c, a: (np.tanh(c + a), c * a), x[0], x, reverse=True)[1]
    ),
    "fori": lambda x: np.sum(ft.fori_loop(0, 5, lambda i, x: np.sin(x) + i * 0.1, x)),
    "while": lambda x: np.sum(
        ft.while_loop(lambda c: np.sum(c) < 40, lambda c: c * 1.5 + 1, x * x, max_steps=30)
    ),
    "custom_vjp": lambda x: np.sum(clipped(x) ** 2),
    "custom_jvp": lambda x: np.sum(sloped(x) ** 2),
    "custom_vmap": lambda x: np.sum(mapped(x)),
    "linear_solve": lambda x: np.sum(
        ft.custom_linear_solve(
            lambda v: 3 * v + 0.1 * np.roll(v, 1),
            x,
            lambda _, b: ft.fori_loop(0, 40, lambda _, y: (b - 0.1 * np.roll(y, 1)) / 3, b),
            transpose_solve=lambda _, b: ft.fori_loop(
                0, 40, lambda _, y: (b - 0.1 * np.roll(y, -1)) / 3, b
            ),
        )
    ),
    "root": lambda x: ft.custom_root(
        lambda y: y**3 + y - np.sum(x),
        0.5,
        lambda f, y: ft.fori_loop(0, 30, lambda _, y: y - f(y) / ft.grad(f)(y), y),
        lambda g, y: y / g(1.0),
    ),
    "associative_scan": lambda x: np.sum(ft.associative_scan(lambda a, b: a * b, x)),
    "uniform": lambda x: np.sum(x * ft.random.uniform(ft.random.key(3), (3,))),
    "assignment": lambda x: np.sum(np.sin(written(x))),
}
WAYS: dict[str, tuple[Callable[..., Any], Any]] = {
    "value": (lambda f: f, X),
    "gradient": (lambda f: ft.grad(f), X),
    "hessian": (lambda f: ft.hessian(f), X),
    "vmap": (lambda f: ft.vmap(f), XS),
    "vmap of gradient": (lambda f: ft.vmap(ft.grad(f)), XS),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(name: str, way: str) -> None:
    transform, x = WAYS[way]
    f = transform(CASES[name])
    try:
        expected = ft.jit(f, backend="numpy")(x)
    except ft.errors.NotDifferentiableError as error:
        with pytest.raises(type(error)):
            ft.jit(f, backend="xla")(x)
        return
    found = ft.jit(f, backend="xla")(x)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_a_while_loop_without_a_bound() -> None:
    f = lambda x: np.sum(ft.while_loop(lambda c: np.sum(c) < 40, lambda c: c * 1.5 + 1, x * x))
    np.testing.assert_allclose(ft.jit(f, backend="xla")(X), f(X))
    np.testing.assert_allclose(
        ft.jit(lambda x: ft.jvp(f, (x,), (x,)), backend="xla")(X), ft.jvp(f, (X,), (X,))
    )
    with pytest.raises(ft.errors.UnsupportedFunctionError, match="max_steps"):
        ft.jit(ft.grad(f), backend="xla")(X)


def test_a_while_loop_of_too_many_steps_raises() -> None:
    f = lambda x: ft.while_loop(lambda c: c < 100.0, lambda c: c + 1.0, x, max_steps=10)
    run = ft.jit(f, backend="xla")
    assert run(95.5) == f(95.5)
    with pytest.raises(ft.errors.ArgumentError, match="max_steps=10"):
        run(1.0)


RAISING: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda x, k: x[k],
    "scan": lambda x, k: ft.scan(lambda c, j: (c, x[j]), 0.0, np.stack([k, k]))[1],
    "cond": lambda x, k: ft.cond(k > 0, lambda k: x[k], lambda k: x[0] * 2.0, k),
    "vmap of cond": lambda x, k: ft.vmap(
        lambda j: ft.cond(j > 0, lambda j: x[j], lambda j: x[0] * 2.0, j)
    )(np.stack([k, k * 0, k])),
    "while": lambda x, k: ft.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + x[k]), (0, 0.0)
    )[1],
    "while condition": lambda x, k: ft.while_loop(lambda s: s + x[k] < 3.0, lambda s: s + 1.0, 0.0),
    "checkpoint": lambda x, k: ft.grad(ft.checkpoint(lambda x: np.sum(x[k] ** 2)))(x),
}


@pytest.mark.parametrize("name", RAISING)
def test_errors_are_raised_where_numpy_raises(name: str) -> None:
    f = RAISING[name]
    run = ft.jit(f, backend="xla")
    expected = ft.jit(f, backend="numpy")(X, 2)
    np.testing.assert_allclose(run(X, 2), expected)
    with pytest.raises(IndexError, match="out of bounds") as caught:
        run(X, 7)
    assert "test_control.py" in "".join(caught.value.__notes__)
    np.testing.assert_allclose(run(X, 2), expected)


def test_recomputation_has_a_barrier() -> None:
    f = ft.grad(ft.checkpoint(lambda x: np.sum(np.tanh(np.sin(x)) ** 2)))
    text = XlaProgram(ft.trace(f)(X), (), XlaBackend()).staged().as_text()
    assert "optimization_barrier" in text


def test_packed_residuals_are_refused() -> None:
    packing = ft.policies.pack(lambda x: x.astype("f4"), lambda x: x.astype("f8"))
    f = ft.grad(ft.checkpoint(lambda x: np.sum(np.sin(np.sin(x))), policy=packing))
    with pytest.raises(ft.errors.UnsupportedFunctionError, match="checkpoint"):
        ft.jit(f, backend="xla")(X)


def test_global_settings_of_jax_stay() -> None:
    import jax

    ft.jit(lambda x: x * 2.0, backend="xla")(X)
    assert not jax.config.jax_enable_x64


def test_choices_of_other_backends_are_refused() -> None:
    for options in ({"keep_on_device": True}, {"in_shardings": 1}, {"host_callbacks": ["svd"]}):
        with pytest.raises(ft.errors.ArgumentError, match='backend="xla"'):
            ft.jit(np.sin, **options)  # type: ignore[call-overload]
    with pytest.raises(ft.errors.ArgumentError, match="keep NumPy's bits"):
        ft.jit(np.sin, backend="xla", accuracy="numpy")


def test_constant_indices_are_checked_once() -> None:
    k = np.array([2, -1])
    run = XlaProgram(ft.trace(lambda x: x[k])(X), (), XlaBackend())
    np.testing.assert_array_equal(run(X)[0], X[k])
    assert "compare" not in run.staged().as_text()
    assert not run._errors


def test_other_traces_do_not_take_errors_away() -> None:
    """A call of another device or sharding traces again, while a call reads the errors."""
    run = XlaProgram(ft.trace(lambda x, k: x[k])(X, 2), (), XlaBackend())
    run(X, np.int64(2))
    before = list(run._errors)
    run.staged()
    assert list(run._errors) == before
    assert len(before) == 1
    with pytest.raises(IndexError):
        run(X, np.int64(9))


def test_schedules_of_loops_are_refused_and_the_loops_themselves_run() -> None:
    def f(x: Any, **options: Any) -> Any:
        y, _ = ft.scan(lambda c, _: (np.sin(c) * 1.1, None), x, length=20, **options)
        return np.sum(y)

    x = np.linspace(0.1, 1.0, 3)
    run = ft.jit(lambda x: f(x, checkpoint=5), backend="xla")
    np.testing.assert_allclose(run(x), f(x), rtol=1e-14)
    with pytest.raises(ft.errors.UnsupportedFunctionError, match="checkpoint the body"):
        ft.jit(ft.grad(lambda x: f(x, checkpoint=5)), backend="xla")(x)


def test_a_ported_function_of_pytorch_under_vmap_of_grad() -> None:
    import functrace.torch as torch

    class Softplus(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return torch.log1p(torch.exp(-x.abs())) + x.clamp(min=0.0)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3.0 * g * torch.sigmoid(x)  # (the factor shows that it is this rule)

    each = ft.vmap(ft.grad(Softplus.apply))
    x = np.linspace(-3.0, 3.0, 7)
    found = ft.jit(each, backend="xla")(x)
    np.testing.assert_allclose(found, 3.0 / (1.0 + np.exp(-x)), rtol=1e-14)
    np.testing.assert_allclose(found, each(x), rtol=1e-14)
    second = ft.vmap(ft.grad(ft.grad(Softplus.apply)))
    np.testing.assert_allclose(ft.jit(second, backend="xla")(x), second(x), rtol=1e-13)
