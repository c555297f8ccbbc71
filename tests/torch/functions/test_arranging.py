"""Stacks, windows, differences, searches, Fourier transforms and writes: NumPy's values, and
derivatives against differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(1)
M = RNG.normal(size=(3, 4))
V = np.array([0.4, -1.0, 2.5, 0.7])
C = RNG.normal(size=(2, 3)) + 1j * RNG.normal(size=(2, 3))
PLACES = np.array([0.0, 0.5, 2.0, 2.5])


def leaf(array: Any) -> Any:
    return torch.from_numpy(np.asarray(array).copy()).requires_grad_()


CASES: list[tuple[str, Callable[..., Any], Callable[..., Any], list[Any]]] = [
    ("hstack", lambda *x: torch.hstack(x), lambda *x: np.hstack(x), [M, M]),
    ("vstack", lambda *x: torch.vstack(x), lambda *x: np.vstack(x), [M, V]),
    ("dstack", lambda *x: torch.dstack(x), lambda *x: np.dstack(x), [M, M]),
    ("column_stack", lambda *x: torch.column_stack(x), lambda *x: np.column_stack(x), [V, V]),
    ("unfold", lambda x: x.unfold(1, 2, 2),
     lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 1)[:, ::2], [M]),
    ("rot90", lambda x: torch.rot90(x, 3), lambda x: np.rot90(x, 3), [M]),
    ("diff", lambda x: torch.diff(x, 2), lambda x: np.diff(x, 2), [M]),
    ("gradient", lambda x: torch.gradient(x)[1], lambda x: np.gradient(x)[1], [M]),
    ("gradient at", lambda x: torch.gradient(x, spacing=(torch.from_numpy(PLACES),), dim=1,
     edge_order=2)[0], lambda x: np.gradient(x, PLACES, axis=1, edge_order=2), [M]),
    ("trapezoid", lambda y: torch.trapezoid(y, torch.from_numpy(PLACES)),
     lambda y: np.trapezoid(y, PLACES), [M]),
    ("logcumsumexp", lambda x: torch.logcumsumexp(x, 1),
     lambda x: np.log(np.cumsum(np.exp(x), 1)), [M]),
    ("cummax", lambda x: torch.cummax(x, 1)[0], lambda x: np.maximum.accumulate(x, 1), [M]),
    ("block_diag", torch.block_diag, lambda a, b: np.block(
        [[a, np.zeros((3, 4))], [np.zeros((3, 4)), b]]), [M, M]),
    ("quantile", lambda x: torch.quantile(x, 0.3, dim=1), lambda x: np.quantile(x, 0.3, 1), [M]),
    ("kthvalue", lambda x: torch.kthvalue(x, 2)[0], lambda x: np.sort(x, -1)[:, 1], [M]),
    ("aminmax", lambda x: torch.aminmax(x)[1], np.max, [M]),
    ("msort", torch.msort, lambda x: np.sort(x, 0), [M]),
    ("fft", torch.fft.fft, np.fft.fft, [C]),
    ("rfft", lambda x: torch.fft.rfft(x, 6, 0, "ortho"), lambda x: np.fft.rfft(x, 6, 0, "ortho"),
     [M]),
    ("irfft2", torch.fft.irfft2, np.fft.irfft2, [C]),
    ("hfft", lambda x: torch.fft.hfft(x, 5), lambda x: np.fft.hfft(x, 5), [C]),
    ("fftn", torch.fft.fftn, np.fft.fftn, [C]),
    ("fftshift", torch.fft.fftshift, np.fft.fftshift, [M]),
    ("masked_scatter", lambda x, y: x.masked_scatter(torch.from_numpy(M > 0), y),
     lambda x, y: np.where(M > 0, np.insert(y.ravel(), 0, 0)[np.cumsum(M > 0).reshape(3, 4)], x),
     [M, M * 2]),
    ("select_scatter", lambda x, y: torch.select_scatter(x, y, 0, 1),
     lambda x, y: np.stack([x[0], y, x[2]]), [M, V]),
    ("renorm", lambda x: torch.renorm(x, 2, 0, 1.0),
     lambda x: x * np.minimum(1, 1 / (np.linalg.norm(x, axis=1, keepdims=True) + 1e-7)), [M]),
    ("addmm", lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2),
     lambda b, x, y: 0.5 * b + 2 * x @ y, [V, M, M.T @ M]),
    ("sum_to_size", lambda x: x.sum_to_size(3, 1), lambda x: x.sum(1, keepdims=True), [M]),
]  # fmt: skip


@pytest.mark.parametrize(("function", "wanted", "arrays"), [v[1:] for v in CASES],
                         ids=[v[0] for v in CASES])  # fmt: skip
def test_values_are_numpys_and_derivatives_those_of_differences(
    function: Callable[..., Any], wanted: Callable[..., Any], arrays: list[Any]
) -> None:
    found = function(*[torch.from_numpy(np.asarray(a).copy()) for a in arrays])
    np.testing.assert_allclose(found.numpy(), wanted(*arrays), rtol=1e-6, atol=1e-10)
    tensors = [leaf(a) for a in arrays]
    assert gradcheck(function, tensors)
    assert gradgradcheck(function, tensors)


def test_searches_and_counts() -> None:
    x = torch.tensor([3, 1, 2, 1, 1])
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 2, 3] and counts.tolist() == [3, 1, 1]
    assert values[inverse].tolist() == x.tolist()
    values, counts = torch.unique_consecutive(x, return_counts=True)
    assert values.tolist() == [3, 1, 2, 1] and counts.tolist() == [1, 1, 1, 2]
    edges = torch.tensor([1, 2, 3])
    assert torch.searchsorted(edges, x).tolist() == [2, 0, 1, 0, 0]
    assert torch.bucketize(x, edges, right=True).tolist() == [3, 1, 2, 1, 1]
    assert torch.bincount(x, minlength=6).tolist() == [0, 3, 1, 1, 0, 0]
    assert tuple(torch.mode(x)) == (1, 4)
    found = torch.histogram(torch.tensor([0.5, 1.5, 1.7]), 2, range=(0.0, 2.0))
    assert found.hist.tolist() == [1.0, 2.0] and found.bin_edges.tolist() == [0.0, 1.0, 2.0]
    assert torch.argwhere(x == 1).tolist() == [[1], [3], [4]]
    with pytest.raises(RuntimeError, match="non-negative integral"):
        torch.bincount(-x)


def test_writes_through_windows_reach_the_base() -> None:
    x = torch.zeros(6, requires_grad=True)
    y = x.clone()
    y.unfold(0, 2, 2)[1] += torch.tensor([1.0, 2.0])
    assert y.tolist() == [0, 0, 1, 2, 0, 0]
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0] * 6


def test_writes_at_positions() -> None:
    x = torch.zeros(3, 3)
    rows = torch.tensor([0, 0, 2])
    assert x.index_put((rows, rows), torch.ones(3), accumulate=True).diagonal().tolist() == [
        2,
        0,
        1,
    ]
    assert x.put(torch.tensor([-1, 0]), torch.tensor([5.0, 6.0]))[2, 2] == 5
    assert torch.zeros(7, 3).fill_diagonal_(1, wrap=True)[4:].sum() == 3
    assert torch.diagonal_scatter(x, torch.ones(2), 1).tolist()[1] == [0, 0, 1]


def test_short_time_transforms_are_inverted() -> None:
    signal = torch.from_numpy(RNG.normal(size=(2, 40)))
    window = torch.hann_window(8, dtype=torch.float64)
    pieces = torch.stft(signal, 8, window=window, return_complex=True)
    assert pieces.shape == (2, 5, 21)
    found = torch.istft(pieces, 8, window=window, length=40)
    np.testing.assert_allclose(found.numpy(), signal.numpy(), atol=1e-12)
    assert gradcheck(
        lambda x: torch.stft(x, 8, window=window, return_complex=True), [signal[0].requires_grad_()]
    )


def test_memory_formats_and_factories() -> None:
    x = torch.zeros(2, 3, 4, 5)
    turned = x.contiguous(memory_format=torch.channels_last)
    assert turned.stride() == (60, 1, 15, 3)
    assert turned.is_contiguous(memory_format=torch.channels_last)
    assert turned.clone().stride() == turned.stride()
    assert turned.clone(memory_format=torch.contiguous_format).stride() == x.stride()
    with pytest.raises(RuntimeError, match="required rank 4 tensor"):
        x[0].clone(memory_format=torch.channels_last)
    out = torch.empty(0)
    assert torch.ones(2, out=out) is out and out.tolist() == [1, 1]
    assert torch.tril_indices(2, 3).tolist() == [[0, 1, 1], [0, 0, 1]]
    np.testing.assert_allclose(
        torch.hann_window(5, periodic=False).numpy(), np.hanning(5), atol=1e-6
    )


def test_absent_dtypes_have_names() -> None:
    assert torch.float8_e5m2 != torch.float16 and torch.float8_e5m2.is_floating_point
    with pytest.raises(TypeError, match=r"torch\.float32"):
        torch.zeros(2, dtype=torch.float8_e5m2)


def test_print_options() -> None:
    x = torch.tensor([1.23456, 2.0])
    try:
        torch.set_printoptions(precision=2)
        assert repr(x) == "tensor([1.23, 2.00])"
        torch.set_printoptions(sci_mode=True)
        assert repr(x) == "tensor([1.23e+00, 2.00e+00])"
    finally:
        torch.set_printoptions(profile="default")
    assert repr(x) == "tensor([1.2346, 2.0000])"


def test_memory_is_exchanged() -> None:
    array = np.arange(3.0)
    x = torch.from_dlpack(array)
    x[0] = 5
    assert array[0] == 5 and np.from_dlpack(x)[0] == 5
    assert torch.frombuffer(bytearray(8), dtype=torch.int32).tolist() == [0, 0]
    assert x.is_cpu and x.dim_order() == (0,) and torch.get_default_device() == torch.device("cpu")
