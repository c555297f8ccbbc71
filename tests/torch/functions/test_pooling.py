"""Pooling of tensors: known values, gradients against differences, positions, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
import functrace.torch.nn.functional as F
from functrace.torch.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)


def apart(*shape: int) -> Any:
    """Return a tensor of different numbers, so that maxima are differentiable."""
    numbers = RNG.permutation(math.prod(shape)) * 0.1 + 0.05
    return torch.tensor(numbers.reshape(shape), requires_grad=True)


def test_known_values() -> None:
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert F.max_pool2d(x, 2).tolist() == [[[[5, 7], [13, 15]]]]
    assert F.avg_pool2d(x, 2).tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]
    assert F.max_pool2d(x, 3, 2, 1).tolist() == [[[[5, 7], [13, 15]]]]
    assert F.avg_pool2d(x, 3, 2, 1).flatten().tolist() == pytest.approx(
        [10 / 9, 24 / 9, 51 / 9, 90 / 9]
    )
    assert F.avg_pool2d(x, 3, 2, 1, count_include_pad=False).flatten().tolist() == pytest.approx(
        [2.5, 4.0, 8.5, 10.0]
    )
    assert F.avg_pool2d(x, 2, divisor_override=2).tolist() == [[[[5, 9], [21, 25]]]]
    assert F.max_pool1d(torch.arange(5.0)[None], 2, ceil_mode=True).tolist() == [[1, 3, 4]]
    assert F.adaptive_avg_pool2d(x, (1, 2)).tolist() == [[[[6.5, 8.5]]]]
    assert F.adaptive_max_pool2d(x, (None, 1)).tolist() == [[[[3], [7], [11], [15]]]]
    assert F.lp_pool1d(torch.tensor([[3.0, 4.0, 6.0, 8.0]]), 2, 2).tolist() == [[5, 10]]


def test_positions_are_those_of_the_maxima() -> None:
    x = apart(2, 3, 5, 6)
    values, positions = F.max_pool2d(x, (2, 3), (1, 2), (1, 1), return_indices=True)
    assert positions.dtype == torch.int64
    flat = x.detach().numpy().reshape(2, 3, 30)
    taken = np.take_along_axis(flat, positions.numpy().reshape(2, 3, -1), 2)
    np.testing.assert_array_equal(taken.reshape(values.shape), values.detach().numpy())
    maxima, places = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(maxima, places, 2, output_size=(5, 6))
    assert ((back == 0) | (back == x)).all()


def test_nan_is_a_maximum() -> None:
    x = torch.tensor([[1.0, math.nan, 2.0, 3.0]])
    values, positions = F.max_pool1d(x, 2, return_indices=True)
    assert math.isnan(values[0, 0].item())
    assert values[0, 1].item() == 3
    assert positions.tolist() == [[1, 3]]


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda x: F.max_pool1d(x, 3, 2, 1), (2, 2, 7)),
        (lambda x: F.max_pool2d(x, 2, 1, 0, (2, 1)), (1, 2, 4, 4)),
        (lambda x: F.max_pool3d(x, 2), (1, 1, 4, 4, 2)),
        (lambda x: F.avg_pool1d(x, 3, 2, 1, True, False), (2, 6)),
        (lambda x: F.avg_pool2d(x, (2, 3), 2, 1, True), (1, 2, 5, 4)),
        (lambda x: F.avg_pool3d(x, 2, 1, divisor_override=3), (1, 3, 3, 2)),
        (lambda x: F.adaptive_avg_pool1d(x, 3), (2, 5)),
        (lambda x: F.adaptive_avg_pool2d(x, (3, 1)), (1, 2, 4, 3)),
        (lambda x: F.adaptive_avg_pool3d(x, (1, 2, 3)), (1, 2, 3, 4)),
        (lambda x: F.adaptive_max_pool2d(x, (2, 3)), (1, 2, 5, 4)),
        (lambda x: F.lp_pool2d(x, 3, 2), (1, 1, 4, 4)),
        (lambda x: F.fractional_max_pool2d(x, 2, 3, _random_samples=torch.full((1, 2, 2), 0.3,
         dtype=torch.float64)), (1, 2, 6, 5)),
        (lambda x: F.max_unpool2d(x, torch.arange(0, 8, 2).reshape(1, 2, 2), 2), (1, 2, 2)),
    ],
)  # fmt: skip
def test_gradients_are_those_of_differences(call: Any, shape: Any) -> None:
    x = apart(*shape)
    assert gradcheck(call, (x,))
    assert gradgradcheck(call, (x,))


def test_names_of_nodes() -> None:
    x = apart(1, 2, 4, 4)
    names = {
        "MaxPool2DWithIndicesBackward0": F.max_pool2d(x, 2),
        "AvgPool2DBackward0": F.avg_pool2d(x, 2),
        "AdaptiveAvgPool2DBackward0": F.adaptive_avg_pool2d(x, 2),
        "MeanBackward1": F.adaptive_avg_pool2d(x, 1),
        "AdaptiveMaxPool2DBackward0": F.adaptive_max_pool2d(x, 2),
        "SqueezeBackward1": F.max_pool1d(x[0], 2),
    }
    for name, y in names.items():
        assert y.grad_fn.name() == name


def test_fractional_pooling_draws_where_windows_begin() -> None:
    x = apart(1, 1, 9, 9)
    torch.manual_seed(0)
    values, positions = F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.5), return_indices=True)
    assert values.shape == (1, 1, 4, 4)
    assert (x.flatten()[positions.flatten()] == values.flatten()).all()


def test_maps_over_an_axis() -> None:
    x = apart(3, 2, 4, 4).detach()
    for call in (
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.avg_pool2d(x, 3, 1, 1),
        lambda x: F.adaptive_avg_pool2d(x, 3),
    ):
        found = torch.func.vmap(call)(x)
        assert found.tolist() == torch.stack([call(x[k]) for k in range(3)]).tolist()


def test_functions_of_c_and_of_torch() -> None:
    x = apart(1, 2, 4, 4)
    c = torch._C._nn
    assert c.avg_pool2d(x, 2).tolist() == F.avg_pool2d(x, 2).tolist()
    assert len(c.max_pool2d_with_indices(x, 2)) == 2
    assert len(c.adaptive_max_pool2d(x, (2, 2))) == 2
    assert torch.max_pool2d(x, 2).tolist() == F.max_pool2d(x, 2).tolist()
    assert len(torch.adaptive_max_pool1d(x[0], 2)) == 2


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: F.max_pool2d(x[0, 0], 2), RuntimeError, "non-empty 3D or 4D"),
        (lambda x: F.max_pool2d(x, 2, padding=2), RuntimeError, "pad should be at most half"),
        (lambda x: F.max_pool2d(x, 2, 0), RuntimeError, "stride should not be zero"),
        (lambda x: F.max_pool2d(x, 9), RuntimeError, "Output size is too small"),
        (lambda x: F.max_pool2d(x, (1, 2, 3)), RuntimeError, "kernel_size must either be a"),
        (lambda x: F.avg_pool2d(x, 2, divisor_override=0), RuntimeError, "must be not zero"),
        (lambda x: F.avg_pool2d(x > 0, 2), NotImplementedError, "not implemented for 'Bool'"),
        (lambda x: F.adaptive_avg_pool2d(x, (1, 2, 3)), RuntimeError, "output_size must be 2"),
        (lambda x: F.max_unpool2d(x, torch.full(x.shape, 99), 2), RuntimeError,
         "Found an invalid max index: 99"),
        (lambda x: F.fractional_max_pool2d(x, 2), ValueError, "requires specifying either"),
    ],
)  # fmt: skip
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(apart(1, 2, 4, 4).detach())
