"""Functions of layers refuse arguments as PyTorch 2.13.0 does, in its words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import functrace.torch as torch
from functrace.torch.nn import functional as F
from functrace.torch.testing import assert_close

HUGE = 1 << 62
EMPTY = "Expected input to have non-zero size for non-batch dimensions"
CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: F.adaptive_max_pool1d(torch.ones(1, 0, 50), 3), EMPTY),
    (lambda: F.adaptive_max_pool2d(torch.ones(2, 0, 5, 6), 3), EMPTY),
    (lambda: F.adaptive_avg_pool3d(torch.ones(1, 0, 5, 6, 7), 3), EMPTY),
    (lambda: F.fractional_max_pool2d(torch.ones(1, 0, 5, 6), 2, 2), EMPTY),
    (lambda: F.fractional_max_pool3d(torch.ones(1, 0, 5, 6, 7), 2, 2), EMPTY),
    (lambda: F.fractional_max_pool2d(torch.ones(1, 4, 5, 6), (2,), 2), "kernel_size must either"),
    (lambda: F.fractional_max_pool3d(torch.ones(1, 4, 5, 6, 7), 2, [2]), "output_size must either"),
    (lambda: F.adaptive_max_pool1d(torch.ones(3, 4), HUGE), "Storage size calculation overflowed"),
    (lambda: F.adaptive_avg_pool2d(torch.ones(3, 4, 4), (HUGE, 2)), "multiplication overflow"),
    (lambda: F.max_unpool3d(torch.ones(1, 1, 1, 1, 1), torch.zeros(1, 1, 1, 1, 1).long(), [1, 1]),
     "There should be exactly three elements"),
    (lambda: F.linear(torch.tensor(1.0), torch.ones(2, 2)), "they are 0D and 2D"),
    (lambda: F.multilabel_margin_loss(torch.ones(0), torch.zeros(10).long()), "Expected non-empty"),
    (lambda: F.embedding_bag(torch.tensor([[-1, 1]]), torch.ones(10, 2), mode="max"),
     "Expected idx >= 0 && idx < num_embeddings but found idx to be -1"),
    (lambda: torch.embedding_bag(torch.ones(6), torch.zeros(2).long(), torch.zeros(1).long()),
     "weight has to be a 2D Tensor, but got Tensor of dimension 1"),
    (lambda: torch.embedding_bag(torch.ones(2, 6), torch.zeros(1, 1, 1).long(), torch.zeros(1).long()),
     "input has to be a 1D or 2D Tensor, but got Tensor of dimension 3"),
    (lambda: torch.embedding_bag(torch.ones(2, 6), torch.zeros(2).long(), torch.zeros(1, 1).long()),
     "offsets has to be a 1D Tensor, but got Tensor of dimension 2"),
    (lambda: F.embedding_bag(torch.tensor([[1, 11]]), torch.ones(10, 2)), "Index 1 of input takes"),
    (lambda: F.embedding_bag(torch.tensor([[1, 11]]), torch.ones(10, 2).double()), "to be 11"),
    (lambda: F.embedding_bag(torch.tensor([[0, 2]]), torch.ones(10, 3), padding_idx=-11),
     "-10 through 9, but got -11"),
    (lambda: F.embedding_bag(torch.tensor([[0, 2]]), torch.ones(10, 3), mode="sum",
                             per_sample_weights=torch.ones(1, 2).double()),
     "type torch.FloatTensor does not equal torch.DoubleTensor"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), CASES)
def test_refusals(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()


def test_windows_without_elements_have_the_maximum_minus_infinity() -> None:
    one, two = torch.tensor([[1.0]]), torch.tensor([[1.0, 2.0]])
    assert torch.max_pool1d(one, 2, None, 1, 2).tolist() == [[-math.inf]]
    assert torch.max_pool1d(two, 2, 1, 1, 2).tolist() == [[2.0, 1.0]]
    assert torch.max_pool1d(two, 2, 2, 1, 2, True).tolist() == [[2.0, 2.0]]


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding_by_nothing_is_no_view(mode: str) -> None:
    x = torch.zeros(1, 3, 4, 4)
    F.pad(x, (0, 0, 0, 0), mode).fill_(4)
    assert not x.any()


def test_examples_without_steps_have_the_loss_zero_only_without_labels() -> None:
    x = torch.zeros(1, 3, 5).log_softmax(2).detach().requires_grad_()
    labels, steps = torch.ones(3, 2).int(), torch.zeros(3).int()
    losses = [F.ctc_loss(x, labels, steps, steps + n, reduction="none") for n in (0, 1)]
    assert losses[0].tolist() == [0.0] * 3
    assert losses[1].tolist() == [math.inf] * 3
    losses[1].sum().backward()
    grad: Any = x.grad
    assert not grad.any()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.elu_(x, -2.0), lambda x: F.celu_(x, -2.0), lambda x: F.leaky_relu_(x, -1.0),
        lambda x: F.rrelu_(x, -0.5, -0.3),
    ],
)  # fmt: skip
def test_negative_slopes_in_place_have_no_derivative(call: Callable[[Any], Any]) -> None:
    made = call(torch.ones(2, requires_grad=True).clone()).sum()
    with pytest.raises(RuntimeError, match="call out-of-place version"):
        made.backward()


def test_statistics_of_half_precision_are_single_with_single_parameters() -> None:
    x = torch.ones(2, 6, 5, dtype=torch.bfloat16)
    for kind in (torch.bfloat16, torch.float32):
        w = torch.ones(6, dtype=kind)
        found = torch.native_group_norm(x, w, w, 2, 6, 5, 2, 1e-5)
        assert [r.dtype for r in found] == [torch.bfloat16, kind, kind]
        found = torch.native_batch_norm(x, w, w, None, None, True, 0.1, 1e-5)
        assert [r.dtype for r in found] == [torch.bfloat16, kind, kind]


def test_activations_round_half_precision_once() -> None:
    x = torch.linspace(-4, 4, 33).half().requires_grad_()
    wide = x.detach().float().requires_grad_()
    for call in (F.gelu, F.silu, F.mish, F.softplus, F.elu, F.hardswish):
        made, exact = call(x), call(wide)
        assert (made == exact.half()).all()
        slopes = torch.autograd.grad(made.sum(), x)[0], torch.autograd.grad(exact.sum(), wide)[0]
        assert (slopes[0] == slopes[1].half()).all()


def test_parameters_of_batch_norm_have_the_precision_of_the_input() -> None:
    x, ones = torch.ones(2, 3).double(), torch.ones(3)
    with pytest.raises(RuntimeError, match="all inputs must share same datatype"):
        F.batch_norm(x, ones, ones)
    assert F.batch_norm(x[:0], ones, ones).dtype is torch.float64


def test_updated_statistics() -> None:
    x, mean, var = torch.arange(6.0).reshape(2, 3), torch.zeros(3), torch.ones(3)
    found = torch.batch_norm_update_stats(x, mean, var, 0.1)
    assert [r.tolist() for r in found] == [[1.5, 2.5, 3.5], [2.25] * 3]
    assert_close(mean, torch.tensor([0.15, 0.25, 0.35]))
    assert_close(var, torch.full((3,), 1.35))
    with pytest.raises(RuntimeError, match="at least one element"):
        torch.batch_norm_update_stats(x[:0], mean, var, 0.1)


def test_tangents_of_rows_scaled_in_place_are_kept() -> None:
    with torch.autograd.forward_ad.dual_level():
        weight = torch.autograd.forward_ad.make_dual(torch.full((4, 4), 2.0), torch.ones(4, 4))
        found = F.embedding(torch.tensor([0, 2]), weight, max_norm=1.0)
        tangent: Any = torch.autograd.forward_ad.unpack_dual(found).tangent
        assert tangent.tolist() == [[1.0] * 4] * 2


def test_running_statistics_have_no_tangents() -> None:
    x, ones = torch.ones(2, 3), torch.ones(3)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual
        with pytest.raises(RuntimeError, match="not differentiable wrt running_mean"):
            F.batch_norm(dual(x, x), dual(ones, ones), ones)


def test_bytes_are_compared_without_wrapping_around() -> None:
    assert_close(torch.tensor([0, 9]).byte(), torch.tensor([1, 8]).byte(), atol=1, rtol=0)


def test_softmax_of_what_is_not_masked() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    mask = torch.tensor([[True, False, False]])
    found = torch._masked_softmax(x, mask, 1)
    assert_close(found, torch.tensor([[0.0, 0.2689414, 0.7310586]]))
    (slope,) = torch.autograd.grad(found[0, 1], x)
    assert_close(slope, torch.tensor([[0.0, 0.1966119, -0.1966119]]))
    scores = torch.zeros(2, 3, 4, 4)
    for mask_type, shape in ((0, (4, 4)), (1, (2, 4)), (2, (2, 3, 4, 4))):
        mask = torch.zeros(shape).bool()
        mask[..., 0] = True
        found = torch._masked_softmax(scores, mask, 3, mask_type)
        assert_close(found[0, 0, 0], torch.tensor([0.0, 1 / 3, 1 / 3, 1 / 3]))
    for given, mask_type in ((torch.zeros(2, 4).bool(), None), (torch.zeros(2, 5).bool(), 1)):
        with pytest.raises(RuntimeError, match="should be"):
            torch._masked_softmax(scores, given, 3, mask_type)
