"""A Function's own ``jvp`` under functrace's transforms: forward mode takes it, reverse mode takes
its ``backward``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch

X = np.array([1.0, 2.0])
T = np.array([0.5, -1.0])


class Marked(torch.autograd.Function):
    """``k x ** 2``, whose rules are wrong in ways that tell them apart: 100 times, and 10 times."""

    @staticmethod
    def forward(x: Any, k: float) -> Any:
        return x * x * k

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0] * 3)
        ctx.save_for_forward(inputs[0])
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return 10 * grad * ctx.saved_tensors[0], None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, k: None) -> Any:
        assert k is None
        return 100 * tangent * ctx.saved_tensors[0] * ctx.k


def marked(x: Any) -> Any:
    return Marked.apply(x, 2.0)


def test_forward_mode_uses_the_function_jvp() -> None:
    value, tangent = ft.jvp(marked, (X,), (T,))
    assert np.allclose(value, 2 * X * X)
    assert np.allclose(tangent, 200 * T * X)
    assert np.allclose(ft.jacfwd(marked)(X), np.diag(200 * X))
    assert np.allclose(ft.jit(lambda x, t: ft.jvp(marked, (x,), (t,))[1])(X, T), 200 * T * X)


def test_function_jvp_leaves_reverse_mode_to_backward() -> None:
    assert np.allclose(ft.grad(lambda x: np.sum(marked(x)))(X), 30 * X)
    assert np.allclose(ft.jacrev(marked)(X), np.diag(30 * X))


def test_function_jvp_is_mapped() -> None:
    xs, ts = np.stack([X, 3 * X]), np.stack([T, 2 * T])
    assert np.allclose(ft.vmap(lambda x, t: ft.jvp(marked, (x,), (t,))[1])(xs, ts), 200 * ts * xs)
    assert np.allclose(ft.jvp(ft.vmap(marked), (xs,), (ts,))[1], 200 * ts * xs)


def test_function_jvp_is_differentiated() -> None:
    assert np.allclose(ft.grad(lambda x: np.sum(ft.jvp(marked, (x,), (T,))[1]))(X), 200 * T)
    assert np.allclose(ft.jvp(lambda x: ft.jvp(marked, (x,), (T,))[1], (X,), (T,))[1], 200 * T * T)


def test_function_jvp_under_torch_func() -> None:
    x, t = torch.from_numpy(X.copy()), torch.from_numpy(T.copy())
    assert torch.func.jvp(marked, (x,), (t,))[1].tolist() == (200 * T * X).tolist()
    assert torch.func.jacfwd(marked)(x).tolist() == np.diag(200 * X).tolist()


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (lambda ctx, t, k: (t, t), "invalid number of forward gradients"),
        (lambda ctx, t, k: None, "Expected both tensor and its forward grad"),
        (lambda ctx, t, k: 1.0, "expected Variable or None"),
        (lambda ctx, t, k: t[0], "has a different size"),
    ],
)
def test_function_jvp_that_does_not_fit_is_refused(returned: Any, told: str) -> None:
    rule = type("Rule", (Marked,), {"jvp": staticmethod(returned)})
    with pytest.raises(RuntimeError, match=told):
        ft.jvp(lambda x: rule.apply(x, 2.0), (X,), (T,))
    assert np.allclose(ft.grad(lambda x: np.sum(rule.apply(x, 2.0)))(X), 30 * X)


def test_function_without_jvp_is_transposed_in_forward_mode() -> None:
    rule = type("Rule", (Marked,), {"jvp": staticmethod(torch.autograd.Function.jvp)})
    assert np.allclose(ft.jvp(lambda x: rule.apply(x, 2.0), (X,), (T,))[1], 30 * X * T)
    assert "custom_vjp" in str(ft.trace(lambda x: rule.apply(x, 2.0))(X))
    assert "custom_derivative" in str(ft.trace(marked)(X))


def test_function_jvp_alone_has_no_reverse_mode() -> None:
    rule = type("Rule", (Marked,), {"backward": staticmethod(torch.autograd.Function.backward)})
    assert np.allclose(ft.jvp(lambda x: rule.apply(x, 2.0), (X,), (T,))[1], 200 * T * X)
    with pytest.raises(NotImplementedError, match="backward"):
        ft.grad(lambda x: np.sum(rule.apply(x, 2.0)))(X)


def test_duals_do_not_get_lost_in_functions_of_traced_values() -> None:
    def pushed(x: torch.Tensor) -> Any:
        with torch.autograd.forward_ad.dual_level():
            return marked(
                torch.autograd.forward_ad.make_dual(x, torch.ones(2, dtype=torch.float64))
            )

    with pytest.raises(NotImplementedError, match="dual tensor among traced values"):
        torch.func.vmap(pushed)(torch.from_numpy(np.stack([X, X])))
