"""Autocast on the CPU, with float16 (which needs no package) and bfloat16."""

from __future__ import annotations

import typing

import pytest

import functrace.torch as torch

F = torch.nn.functional


def test_products_are_lower_and_losses_are_single() -> None:
    x, w = torch.randn(3, 4), torch.randn(4, 4)
    with torch.autocast("cpu", dtype=torch.float16):
        y = x @ w
        assert y.dtype is torch.float16
        for product in (
            torch.mm(x, w),
            F.linear(x, w),
            torch.addmm(x, x, w),
            torch.einsum("ij,jk", x, w),
        ):
            assert product.dtype is torch.float16
        assert F.mse_loss(y, y).dtype is torch.float32
        assert torch.cat([y, x]).dtype is torch.float32 and torch.cat([y, y]).dtype is torch.float16
        assert (x + x).dtype is torch.float32 and (y + y).dtype is torch.float16
        assert (x.double() @ w.double()).dtype is torch.float64
        assert torch.mm(x, w, out=torch.empty(3, 4)).dtype is torch.float32
        assert torch.einsum("i,j", x[0], x[0]).dtype is torch.float32
        with pytest.raises(RuntimeError, match="Unexpected floating ScalarType"):
            torch.cat([y.bfloat16(), x])
        with torch.autocast("cpu", enabled=False):
            assert (x @ w).dtype is torch.float32
            with pytest.raises(RuntimeError, match="same dtype"):
                y @ w
    assert (x @ w).dtype is torch.float32


def test_gradients_have_the_dtype_of_the_parameters() -> None:
    layer = torch.nn.Linear(4, 3)
    with torch.autocast("cpu", dtype=torch.float16):
        y = layer(torch.randn(5, 4))
        loss = F.cross_entropy(y, torch.tensor([0, 1, 2, 0, 1]))
    assert y.dtype is torch.float16 and loss.dtype is torch.float32
    loss.backward()
    assert layer.weight.grad is not None and layer.weight.grad.dtype is torch.float32


def test_casts_of_parameters_are_kept_until_the_end() -> None:
    w = torch.randn(4, 4, requires_grad=True)
    x = torch.randn(3, 4)

    def cast_of(y: typing.Any) -> typing.Any:
        return y.grad_fn.next_functions[1][0]

    with torch.autocast("cpu", dtype=torch.float16):
        a, b = x @ w, x @ w
        assert type(cast_of(a)).__name__ == "ToCopyBackward0" and cast_of(a) is cast_of(b)
        with torch.no_grad():
            w.mul_(0)
        assert not (x @ w).any()  # cast anew
    with torch.autocast("cpu", dtype=torch.float16, cache_enabled=False):
        assert cast_of(x @ w) is not cast_of(x @ w)


def test_the_state() -> None:
    assert not torch.is_autocast_enabled("cpu")
    assert torch.get_autocast_dtype("cpu") is torch.bfloat16
    with torch.autocast("cpu", dtype=torch.float16) as context:
        assert context.fast_dtype is torch.float16
        assert torch.is_autocast_enabled("cpu") and not torch.is_autocast_enabled()
        assert torch.get_autocast_dtype("cpu") is torch.float16
    assert torch.get_autocast_dtype("cpu") is torch.bfloat16
    torch.set_autocast_enabled("cpu", True)
    try:
        torch.set_autocast_dtype("cpu", torch.float16)
        assert torch.mm(torch.ones(1, 1), torch.ones(1, 1)).dtype is torch.float16
    finally:
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_dtype("cpu", torch.bfloat16)
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        context = torch.autocast("cpu", dtype=torch.float32)
    with context:
        assert not torch.is_autocast_enabled("cpu")
    with pytest.warns(FutureWarning, match=r"torch\.cpu\.amp\.autocast"):
        torch.cpu.amp.autocast(dtype=torch.float16)

    @torch.autocast("cpu", dtype=torch.float16)
    def product(x: typing.Any) -> typing.Any:
        return x @ x

    assert product(torch.ones(1, 1)).dtype is torch.float16


def test_functions_run_their_backward_under_the_autocast_of_forward() -> None:
    seen: list[typing.Any] = []

    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx: typing.Any, x: typing.Any, w: typing.Any) -> typing.Any:
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx: typing.Any, g: typing.Any) -> typing.Any:
            x, w = ctx.saved_tensors
            seen.append((x @ w).dtype)
            return None, (x.T @ g).float()

    class Wide(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx: typing.Any, x: typing.Any) -> typing.Any:
            seen.append((x.dtype, torch.is_autocast_enabled("cpu")))
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx: typing.Any, g: typing.Any) -> typing.Any:
            return g * 2

    w = torch.randn(4, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.float16):
        y = Product.apply(torch.randn(3, 4), w)
        z = Wide.apply(y)
    assert y.dtype is torch.float16 and z.dtype is torch.float32
    z.sum().backward()
    assert seen == [(torch.float32, False), torch.float16]


def test_checkpoints_recompute_under_the_autocast_of_forward() -> None:
    seen: list[typing.Any] = []

    def f(x: typing.Any) -> typing.Any:
        y = x @ x
        seen.append(y.dtype)
        return y.float().sin()

    x = torch.randn(3, 3, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.float16):
        y = torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False)
    y.sum().backward()
    assert seen == [torch.float16, torch.float16]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(kind: str) -> None:
    layer = getattr(torch.nn, kind)(4, 5, 2, bidirectional=True)
    with torch.autocast("cpu", dtype=torch.float16):
        y, _ = layer(torch.randn(3, 2, 4))
    assert y.dtype is (torch.float32 if kind == "GRU" else torch.float16)
    y.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype is torch.float32 for p in layer.parameters())
    whole, _ = layer(torch.zeros(3, 2, 4))
    with torch.autocast("cpu", dtype=torch.float16):
        lower, _ = layer(torch.zeros(3, 2, 4))
    assert torch.allclose(whole, lower.float(), atol=2e-3)


def test_the_default_is_bfloat16() -> None:
    pytest.importorskip("ml_dtypes")
    x = torch.randn(2, 2)
    with torch.autocast("cpu"):
        assert (x @ x).dtype is torch.bfloat16
