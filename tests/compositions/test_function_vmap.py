"""A Function's own rule for ``vmap`` is what maps it, under every transform, and its derivatives go
through the rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.errors import ArgumentError, ShapeError
from functrace.torch.autograd import Function

CALLS: list[tuple[Any, ...]] = []
X = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
W = np.array([0.5, 2.0, -1.0])


class Scaled(Function):
    """``x * w`` for vectors; its rule adds an axis where only one of the two is mapped."""

    generate_vmap_rule = False

    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        return x * w

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        return grad * w, grad * x

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, w: Any) -> Any:
        CALLS.append((info.batch_size, info.randomness, in_dims, tuple(x.shape), tuple(w.shape)))
        if in_dims[0] is None:
            x = x.unsqueeze(0)
        if in_dims[1] is None:
            w = w.unsqueeze(0)
        return Scaled.apply(x, w).transpose(0, 1), 1


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


def test_the_rule_maps_the_function() -> None:
    np.testing.assert_allclose(ft.vmap(Scaled.apply)(X, X), X * X)
    assert CALLS == [(4, "same", (0, 0), (4, 3), (4, 3))]
    CALLS.clear()
    np.testing.assert_allclose(ft.vmap(Scaled.apply, in_axes=(None, 0))(W, X), W * X)
    assert CALLS == [(4, "same", (None, 0), (3,), (4, 3))]
    CALLS.clear()
    found = torch.func.vmap(Scaled.apply, in_dims=(1, None), randomness="error")(
        torch.tensor(X.T.copy()), torch.tensor(W)
    )
    np.testing.assert_allclose(found.numpy(), X * W)
    assert CALLS == [(4, "error", (0, None), (4, 3), (3,))]


def test_derivatives_use_the_rule() -> None:
    def loss(w: Any) -> Any:
        return np.sum(ft.vmap(Scaled.apply, in_axes=(0, None))(X, w) ** 2)

    np.testing.assert_allclose(ft.grad(loss)(W), np.sum(2 * X * X * W, 0))
    assert CALLS
    np.testing.assert_allclose(ft.hessian(loss)(W), np.diag(np.sum(2 * X * X, 0)), atol=1e-12)
    np.testing.assert_allclose(ft.jvp(loss, (W,), (W,))[1], np.sum(2 * X * X * W * W))
    np.testing.assert_allclose(ft.jit(loss)(W), loss(W))
    per_example = ft.vmap(ft.grad(lambda x: np.sum(Scaled.apply(x, W) ** 2)))(X)
    np.testing.assert_allclose(per_example, 2 * X * W * W)
    np.testing.assert_allclose(
        ft.vmap(ft.vmap(Scaled.apply))(np.stack([X, X]), np.stack([X, -X])),
        np.stack([X * X, -X * X]),
    )
    np.testing.assert_allclose(
        ft.grad(lambda w: np.sum(Scaled.apply(X[0], w) ** 2))(W), 2 * X[0] ** 2 * W
    )


def test_rules_read_the_current_values_of_captures() -> None:
    scale = np.array(1.0)

    class Shared(Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * torch.as_tensor(scale)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * torch.as_tensor(scale)

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent * torch.as_tensor(scale)

    class Mapped(Shared):
        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            return x * torch.as_tensor(scale), 0

    class Nested(Shared):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return Nested.apply(grad)

    for value in (1.0, 2.0, 3.0):
        scale[...] = value
        np.testing.assert_array_equal(ft.vmap(Mapped.apply)(W), value * W)
        np.testing.assert_array_equal(ft.jvp(Shared.apply, (W,), (W,))[1], value * W)
        np.testing.assert_array_equal(
            ft.grad(lambda x: np.sum(Shared.apply(x)))(W), np.full(3, value)
        )
        np.testing.assert_array_equal(
            ft.grad(lambda x: np.sum(Nested.apply(x)))(W), np.full(3, value)
        )


def test_an_output_may_be_the_same_for_all() -> None:
    class Same(Scaled):
        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, w: Any) -> Any:
            return w * 2, None

    np.testing.assert_allclose(ft.vmap(Same.apply, in_axes=(0, None))(X, W), np.tile(2 * W, (4, 1)))


def test_wrong_rules_are_refused_in_pytorchs_words() -> None:
    class Both(Scaled):
        generate_vmap_rule = True

    class Bare(Scaled):
        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, w: Any) -> Any:
            return x * w

    class Three(Scaled):
        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, w: Any) -> Any:
            return x * w, 0, 0

    class Wrong(Scaled):
        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, w: Any) -> Any:
            return (x * w).sum(1), 0

    for function, says in (
        (Both, "both generate_vmap_rule=True"),
        (Bare, "Got a <class .*Tensor'> instead"),
        (Three, "Got 3 returns"),
    ):
        with pytest.raises(RuntimeError, match=says):
            ft.vmap(function.apply)(X, X)
    with pytest.raises(ShapeError, match="vmap_of_Wrong returns"):
        ft.vmap(Wrong.apply)(X, X)
    np.testing.assert_allclose(ft.grad(lambda x: np.sum(Bare.apply(x, W)))(W), W)


def test_a_mapped_closure_is_refused() -> None:
    def f(x: Any, w: Any) -> Any:
        class Closing(Scaled):
            @staticmethod
            def forward(x: Any) -> Any:
                return x * torch.as_tensor(w)

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

            @staticmethod
            def vmap(info: Any, in_dims: Any, x: Any) -> Any:
                return x, 0

        return Closing.apply(x)

    with pytest.raises(ArgumentError, match="closes over"):
        ft.vmap(f)(X, X)
