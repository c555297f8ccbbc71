"""Convolutions of tensors: values against NumPy, gradients against differences, memory, refusals."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
import functrace.torch.nn.functional as F
from functrace.torch.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return torch.tensor(RNG.normal(size=shape), requires_grad=True)


def test_conv1d_is_a_correlation() -> None:
    x, w, b = RNG.normal(size=9), RNG.normal(size=3), 0.5
    given = torch.tensor(x[None, None]), torch.tensor(w[None, None]), torch.tensor(np.array([b]))
    y = F.conv1d(*given, padding=1)
    np.testing.assert_allclose(y.numpy()[0, 0], np.correlate(x, w, "same") + b)


def test_conv2d_of_a_known_image() -> None:
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    w = torch.tensor([[[[1.0, 0.0], [0.0, -1.0]]]])
    assert F.conv2d(x, w).tolist() == [[[[-5.0] * 3] * 3]]
    assert F.conv2d(x, w, stride=2).tolist() == [[[[-5.0] * 2] * 2]]
    assert F.conv2d(x, w, dilation=2).tolist() == [[[[-10.0] * 2] * 2]]
    assert F.conv2d(x, w, padding=(1, 0)).shape == (1, 1, 5, 3)
    assert F.conv2d(x[0], w).shape == (1, 3, 3)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        (lambda x, w, b: F.conv1d(x, w, b, 2, 1), [(2, 3, 6), (4, 3, 3), (4,)]),
        (lambda x, w, b: F.conv1d(x, w, b, padding="same"), [(2, 2, 5), (2, 2, 4), (2,)]),
        (lambda x, w, b: F.conv2d(x, w, b, 1, 1, 1, 2), [(2, 4, 4, 3), (2, 2, 3, 2), (2,)]),
        (lambda x, w, b: F.conv3d(x, w, b), [(1, 2, 3, 3, 3), (2, 2, 2, 2, 2), (2,)]),
        (lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 1), [(2, 3, 4), (3, 2, 3), (2,)]),
        (lambda x, w, b: F.conv_transpose2d(x, w, b, 1, 1, (1, 0), 2, (2, 1)),
         [(2, 2, 3, 3), (2, 1, 2, 3), (2,)]),
        (lambda x, w, b: F.conv_tbc(x, w, b, 1), [(4, 2, 3), (2, 3, 2), (2,)]),
    ],
)  # fmt: skip
def test_gradients_are_those_of_differences(call: Any, shapes: Any) -> None:
    given = tuple(drawn(*shape) for shape in shapes)
    assert gradcheck(call, given)
    assert gradgradcheck(call, given)


def test_transposed_convolution_is_the_transpose() -> None:
    x, y, w = drawn(2, 3, 7, 6), drawn(2, 4, 3, 3), drawn(4, 3, 2, 3)
    rest: dict[str, Any] = {"stride": 2, "padding": (0, 1)}
    forth = F.conv2d(x, w, **rest)
    assert forth.shape == y.shape
    back = torch.autograd.grad(forth, x, y.detach())[0]
    again = F.conv_transpose2d(y, w, **rest, output_padding=(1, 1))
    np.testing.assert_allclose(again.detach().numpy(), back.numpy(), atol=1e-12)


def test_names_of_nodes() -> None:
    y = F.conv2d(drawn(1, 2, 4, 4), drawn(2, 2, 2, 2), drawn(2))
    assert y.grad_fn.name() == "ConvolutionBackward0"
    assert [edge[0].name() for edge in y.grad_fn.next_functions] == [
        "torch::autograd::AccumulateGrad"
    ] * 3
    assert F.conv2d(drawn(2, 4, 4), drawn(2, 2, 2, 2)).grad_fn.name() == "SqueezeBackward1"


def test_gradients_per_sample_by_vmap() -> None:
    x, w = drawn(3, 2, 5, 5).detach(), drawn(4, 2, 3, 3).detach()

    def loss(w: Any, x: Any) -> Any:
        return F.conv2d(x[None], w).square().sum()

    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(w, x)
    expected = [torch.func.grad(loss)(w, x[k]).numpy() for k in range(3)]
    np.testing.assert_allclose(found.numpy(), np.stack(expected))


def test_half_precision_is_computed_in_single() -> None:
    x = torch.tensor(RNG.normal(size=(1, 8, 6, 6)), dtype=torch.float16)
    w = torch.tensor(RNG.normal(size=(2, 8, 3, 3)), dtype=torch.float16)
    y = F.conv2d(x, w)
    assert y.dtype == torch.float16
    single = F.conv2d(x.float(), w.float()).half()
    assert y.tolist() == single.tolist()


def test_columns_of_large_images_are_made_in_parts() -> None:
    x = torch.tensor(RNG.normal(size=(8, 32, 64, 64)).astype(np.float32), requires_grad=True)
    w = torch.tensor(RNG.normal(size=(8, 32, 3, 3)).astype(np.float32), requires_grad=True)
    F.conv2d(x, w, padding=1).sum().backward()  # makes plans
    tracemalloc.start()
    F.conv2d(x, w, padding=1).sum().backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    all_columns = 9 * x._array.nbytes
    assert peak < 3 * x._array.nbytes + (16 << 20) < all_columns


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.conv2d(torch.ones(1, 2, 4, 4), torch.ones(3, 3, 2, 2)), RuntimeError,
         r"Given groups=1, weight of size \[3, 3, 2, 2\], expected input\[1, 2, 4, 4\] to have 3"),
        (lambda: F.conv2d(torch.ones(1, 2, 2, 2), torch.ones(3, 2, 3, 3)), RuntimeError,
         r"Calculated padded input size per channel: \(2 x 2\). Kernel size: \(3 x 3\)"),
        (lambda: F.conv2d(torch.ones(2, 2), torch.ones(3, 2, 3, 3)), RuntimeError,
         r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d, but got input of size"),
        (lambda: F.conv2d(torch.ones(1, 2, 4, 4), torch.ones(3, 2, 2, 2).double()), RuntimeError,
         r"Input type \(torch.FloatTensor\) and weight type \(torch.DoubleTensor\)"),
        (lambda: F.conv_transpose2d(torch.ones(1, 2, 4, 4), torch.ones(2, 2, 2, 2),
         output_padding=1), RuntimeError, "output padding must be smaller than either stride"),
        (lambda: F.conv2d(torch.ones(1, 2, 4, 4), torch.ones(3, 2, 2, 2), stride=0), RuntimeError,
         "non-positive stride is not supported"),
        (lambda: F.conv2d(torch.ones(1, 2, 4, 4), torch.ones(3, 2, 2, 2),
         stride=1.5),  # pyright: ignore[reportArgumentType]
         TypeError, "must be int, not float"),
    ],
)  # fmt: skip
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
