"""bfloat16: dtypes, rounding, gradients. Known numbers are those of PyTorch 2.13.0."""

from __future__ import annotations

import copy
import io
import pickle
import sys
import typing

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.errors import DtypeError, UnsupportedFunctionError
from functrace.torch.tensors import dtypes

ml_dtypes = pytest.importorskip("ml_dtypes")
NARROW = np.dtype(ml_dtypes.bfloat16)


def numbers(*shape: int, seed: int = 0) -> typing.Any:
    """Return normal numbers that bfloat16 has."""
    drawn = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return drawn.astype(NARROW).astype(np.float32)


def narrow(array: typing.Any) -> typing.Any:
    return torch.from_numpy(array.copy()).bfloat16()


def rounded(array: typing.Any) -> typing.Any:
    return np.asarray(array, np.float32).astype(NARROW).astype(np.float32)


def test_tensors_are_made_printed_and_read() -> None:
    x = torch.tensor([1.5, 2.0, 3.1415926], dtype=torch.bfloat16)
    assert repr(x) == "tensor([1.5000, 2.0000, 3.1406], dtype=torch.bfloat16)"
    assert x.tolist() == [1.5, 2.0, 3.140625] and x[2].item() == 3.140625
    assert (
        x.dtype is torch.bfloat16 and x.element_size() == 2 and x.type() == "torch.BFloat16Tensor"
    )
    assert isinstance(x, torch.BFloat16Tensor)
    for made in (
        torch.zeros(2, dtype=torch.bfloat16),
        torch.full((2,), 0.1, dtype=torch.bfloat16),
        torch.arange(2, dtype=torch.bfloat16),
        torch.linspace(0, 1, 2, dtype=torch.bfloat16),
        torch.ones(2).bfloat16(),
        torch.ones(2).to(torch.bfloat16),
        torch.ones(2).type("torch.BFloat16Tensor"),
        torch.ones(2).type(torch.BFloat16Tensor),
        torch.ones_like(x)[:2],
    ):
        assert made.dtype is torch.bfloat16 and made.shape == (2,)
    assert torch.finfo(torch.bfloat16).eps == 0.0078125
    assert torch.full((1,), 0.1, dtype=torch.bfloat16).item() == 0.10009765625


def test_the_stream_of_random_numbers() -> None:
    torch.manual_seed(0)
    assert torch.randn(3, dtype=torch.bfloat16).tolist() == [1.5390625, -0.29296875, -2.171875]
    torch.manual_seed(0)
    assert torch.rand(3, dtype=torch.bfloat16).tolist() == [0.49609375, 0.76953125, 0.08837890625]


def test_numpy_is_refused_and_bits_are_shared() -> None:
    x = torch.ones(2, dtype=torch.bfloat16)
    for read in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
            read()
    bits = x.view(torch.int16)
    assert bits.tolist() == [16256, 16256]
    bits[0] = 0
    assert x.tolist() == [0, 1]
    for make in (torch.from_numpy, torch.tensor, torch.as_tensor):
        with pytest.raises(TypeError, match=r"np.ndarray of type ml_dtypes\.bfloat16"):
            make(np.ones(2, NARROW))


def test_capsules_share_memory() -> None:
    x = torch.tensor([[1.5, 2.0], [3.0, 4.0]], dtype=torch.bfloat16)

    class Exporter:
        """Another library's array: x, transposed."""

        def __dlpack_device__(self) -> typing.Any:
            return x.__dlpack_device__()

        def __dlpack__(self, **options: typing.Any) -> typing.Any:
            return x.T.__dlpack__(**options)

    y = torch.from_dlpack(Exporter())
    assert y.dtype is torch.bfloat16 and y.tolist() == [[1.5, 3], [2, 4]]
    y[0, 1] = 9
    assert x.tolist() == [[1.5, 2], [9, 4]]
    assert torch.from_dlpack(x).tolist() == x.tolist()
    with pytest.raises((RuntimeError, BufferError), match="Unsupported dtype in DLTensor"):
        np.from_dlpack(typing.cast("typing.Any", x))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (lambda: torch.ones(2, dtype=torch.float16), "float32"),
        (lambda: torch.ones(()), "bfloat16"),
        (lambda: torch.ones(2), "float32"),
        (lambda: torch.ones(2, dtype=torch.float64), "float64"),
        (lambda: torch.ones(2, dtype=torch.int64), "bfloat16"),
        (lambda: torch.ones(2, dtype=torch.bool), "bfloat16"),
        (lambda: 2.5, "bfloat16"),
        (lambda: 1j, "complex64"),
    ],
)
def test_promotion(other: typing.Callable[[], typing.Any], expected: str) -> None:
    x = torch.ones(2, dtype=torch.bfloat16)
    assert (x * other()).dtype is getattr(torch, expected)
    assert torch.result_type(x, other()) is getattr(torch, expected)


def test_a_scalar_tensor_of_bfloat16_is_weak() -> None:
    scalar = torch.ones((), dtype=torch.bfloat16)
    assert (scalar * torch.ones(2, dtype=torch.float16)).dtype is torch.float16
    assert torch.promote_types(torch.bfloat16, torch.float16) is torch.float32


def test_results_are_rounded_once() -> None:
    a, b = numbers(40, 8), numbers(40, 8, seed=1)
    x, y = narrow(a), narrow(b)
    for found, exact in (
        (x + y, a + b),
        (x * 0.3, a * np.float32(0.3)),
        (x / 0.3, a / np.float32(0.3)),
        (x.sum(1), a.sum(1)),
        (x.mean(0), a.mean(0)),
        (x @ y.T, a @ b.T),
        (x.exp(), np.exp(a)),
        (x.cumsum(1), np.cumsum(a, 1)),
        (torch.addcmul(x, x, y, value=0.3), a + np.float32(0.3) * a * b),
    ):
        assert found.dtype is torch.bfloat16
        np.testing.assert_allclose(found.float().numpy(), rounded(exact), rtol=0.008, atol=1e-6)
        assert np.mean(found.float().numpy() != rounded(exact)) < 0.02


def test_some_steps_and_numbers_are_rounded_too() -> None:
    """PyTorch rounds the numbers beside sums and powers, and the steps of some functions."""
    a, b, step = numbers(64), numbers(64, seed=1), np.float32(rounded(0.3))
    x, y = narrow(a), narrow(b)
    for found, exact in (
        (x + 0.3, a + step),
        (torch.add(x, y, alpha=0.3), a + step * b),
        (x.abs() ** 0.3, np.abs(a) ** step),
        (x**3, rounded(a * a) * a),
        (torch.nn.functional.mse_loss(x, y, reduction="none"), rounded(a - b) ** 2),
        (torch.xlogy(x.abs(), y.abs()), np.abs(a) * rounded(np.log(np.abs(b)))),
    ):
        np.testing.assert_array_equal(found.float().numpy(), rounded(exact))


def test_gradients_have_the_dtype_and_its_precision() -> None:
    a, b = numbers(3, 4), numbers(3, 4, seed=1)
    x, y = narrow(a).requires_grad_(), narrow(b).requires_grad_()
    (x * y.sin()).sum().backward()
    assert x.grad is not None and y.grad is not None and x.grad.dtype is torch.bfloat16
    np.testing.assert_array_equal(x.grad.float().numpy(), rounded(np.sin(b)))
    np.testing.assert_allclose(y.grad.float().numpy(), a * np.cos(b), rtol=0.02, atol=1e-3)
    w = torch.full((3, 4), 0.3, requires_grad=True)
    x.grad = None
    product = x * w
    assert product.dtype is torch.float32 and type(product.grad_fn).__name__ == "MulBackward0"
    product.sum().backward()
    of_x: typing.Any = x.grad
    assert of_x.dtype is torch.bfloat16
    assert w.grad is not None and w.grad.dtype is torch.float32


def test_second_derivatives() -> None:
    x = torch.tensor([1.5, 2.0], dtype=torch.bfloat16, requires_grad=True)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    assert first.dtype is torch.bfloat16 and first.tolist() == [6.75, 12]
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.dtype is torch.bfloat16 and second.tolist() == [9, 12]


def test_writes_in_place() -> None:
    x = torch.ones(3).bfloat16()
    x.add_(0.1)
    x[0] = 7.3
    x[1:] *= 3.3
    x.mul_(torch.ones(3))
    assert x.tolist() == [7.3125, 3.640625, 3.640625]
    leaf = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    y = leaf.clone()
    y[1:] *= 3.3
    (y * y).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [2, 21.75, 21.75]


def test_forward_mode() -> None:
    with torch.autograd.forward_ad.dual_level():
        x = torch.tensor([1.5, 0.5], dtype=torch.bfloat16)
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones(2, dtype=torch.bfloat16))
        tangent = torch.autograd.forward_ad.unpack_dual(dual * dual).tangent
    assert tangent is not None and tangent.dtype is torch.bfloat16 and tangent.tolist() == [3, 1]


def test_transforms_of_functions() -> None:
    x = torch.tensor([1.0, 2.0], dtype=torch.bfloat16)
    cube = lambda v: (v * v * v).sum()
    for found, expected in (
        (torch.func.grad(lambda v: (v * v.sin()).sum())(x), [1.375, 0.078125]),
        (torch.func.hessian(cube)(x), [[6, 0], [0, 12]]),
        (torch.func.vmap(torch.func.grad(cube))(x[None]), [[3, 12]]),
        (torch.func.jvp(torch.exp, (x,), (x,))[1], [2.71875, 14.75]),
        (torch.func.jacrev(lambda v: v * v)(x), [[2, 0], [0, 4]]),
    ):
        assert found.dtype is torch.bfloat16 and found.tolist() == expected
    layer = torch.nn.Linear(2, 2, bias=False).bfloat16()
    found = torch.func.grad(lambda w: (x @ w["weight"]).pow(2).sum())(
        dict(layer.named_parameters())
    )
    found["weight"].float().sum().backward()
    assert layer.weight.grad is not None and layer.weight.grad.dtype is torch.bfloat16


def test_layers_and_files() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 3).bfloat16()
    assert {p.dtype for p in layer.parameters()} == {torch.bfloat16}
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    layer(torch.ones(5, 4).bfloat16()).pow(2).mean().backward()
    before = layer.weight.tolist()
    optimizer.step()
    assert layer.weight.dtype is torch.bfloat16 and layer.weight.tolist() != before
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["weight"].dtype is torch.bfloat16
    assert loaded["weight"].tolist() == layer.weight.tolist()
    for other in (copy.deepcopy(layer.weight), pickle.loads(pickle.dumps(layer.weight))):
        assert other.dtype is torch.bfloat16 and other.tolist() == layer.weight.tolist()


def test_refusals_name_the_dtype() -> None:
    x = torch.eye(2).bfloat16()
    with pytest.raises(RuntimeError, match=r"Low precision dtypes not supported\. Got BFloat16"):
        torch.linalg.inv(x)
    with pytest.raises(RuntimeError, match=r"got: c10::BFloat16 != float"):
        x @ torch.eye(2)
    with pytest.raises(NotImplementedError, match="not implemented for 'BFloat16'"):
        x & 1


def test_the_default_dtype() -> None:
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.ones(2).dtype is torch.bfloat16 and torch.tensor(1.5).dtype is torch.bfloat16
        halves = torch.ones(2, dtype=torch.int64) * 0.5
        assert halves.dtype is torch.bfloat16 and halves.tolist() == [0.5, 0.5]
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_core_refuses_it() -> None:
    with pytest.raises(DtypeError, match="bfloat16"):
        ft.grad(lambda x: (x * x).sum())(np.ones(2, NARROW))


def test_without_the_package_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    missing = dtypes.dtype.of_package("bfloat16", "BFloat16", 2)
    with pytest.raises(UnsupportedFunctionError, match=r"pip install functrace-numpy\[bfloat16\]"):
        torch.zeros(2, dtype=missing)
