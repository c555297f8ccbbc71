"""Padding of tensors: values against NumPy's pad, gradients against differences, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
import functrace.torch.nn.functional as F
from functrace.torch.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)
NAMES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", NAMES)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_borders_are_those_of_numpy(mode: str, axes: int) -> None:
    for lead in (1, 2):
        x = RNG.normal(size=(2, 3, 4, 5, 4)[-axes - lead :])
        pad = tuple(int(n) for n in RNG.integers(0, 3, 2 * axes))
        pairs = [(0, 0)] * lead + [(pad[2 * k], pad[2 * k + 1]) for k in reversed(range(axes))]
        found = F.pad(torch.tensor(x), pad, mode)
        numpy_mode: Any = NAMES[mode]
        np.testing.assert_array_equal(found.numpy(), np.pad(x, pairs, numpy_mode))


def test_constant_borders() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert F.pad(x, (1, 0)).tolist() == [[0, 0, 1, 2], [0, 3, 4, 5]]
    assert F.pad(x, (0, -1, 1, 0), value=9).tolist() == [[9, 9], [0, 1], [3, 4]]
    assert F.pad(x, (-1, 1), value=-0.0)[0].tolist() == [1, 2, 0]
    assert torch.constant_pad_nd(x > 2, (1, 1), 1)[0].tolist() == [True, False, False, False, True]
    assert F.pad(x, ()).tolist() == x.tolist()


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda x: F.pad(x, (1, 2, -1, 1), value=3.0), (3, 4)),
        (lambda x: F.pad(x, (2, 1, 1, 0), "reflect"), (2, 3, 4)),
        (lambda x: F.pad(x, (3, 1), "replicate"), (2, 4)),
        (lambda x: F.pad(x, (2, 1, 0, 3), "circular"), (1, 3, 4)),
    ],
)
def test_gradients_are_those_of_differences(call: Any, shape: Any) -> None:
    x = torch.tensor(RNG.normal(size=shape), requires_grad=True)
    assert gradcheck(call, (x,))
    assert gradgradcheck(call, (x,))


def test_constant_borders_under_transforms() -> None:
    x = torch.tensor(RNG.normal(size=(3, 2, 4)))

    def padded(x: Any) -> Any:
        return F.pad(x, (1, -1, 0, 2), value=2.5)

    assert torch.func.vmap(padded)(x).tolist() == padded(x).tolist()
    value, tangent = torch.func.jvp(padded, (x,), (torch.ones_like(x),))
    assert value.tolist() == padded(x).tolist()
    assert tangent.tolist() == F.pad(torch.ones_like(x), (1, -1, 0, 2)).tolist()


def test_names_of_nodes() -> None:
    x = torch.ones(1, 2, 3, requires_grad=True)
    for mode, name in {
        "constant": "ConstantPadNdBackward0",
        "reflect": "ReflectionPad1DBackward0",
        "replicate": "ReplicationPad1DBackward0",
    }.items():
        assert F.pad(x, (1, 1), mode).grad_fn.name() == name


@pytest.mark.parametrize(
    ("pad", "mode", "value", "error", "message"),
    [
        ((1, 1, 1), "constant", None, RuntimeError, "must be divisible by 2"),
        ((1,) * 8, "constant", None, RuntimeError, "Padding length should be less than"),
        ((-3, -3), "constant", None, RuntimeError, "length must be non-negative"),
        ((4, 0), "reflect", None, RuntimeError, "Padding size should be less than the"),
        ((5, 0), "circular", None, RuntimeError, "wrapping around more than once"),
        ((1, 1), "reflect", 1.0, RuntimeError, "doesn't take in value argument"),
        ((1, 1), "unknown", None, NotImplementedError, "Unrecognised padding mode unknown"),
        ((1, 1, 1, 1, 1, 1), "reflect", None, NotImplementedError, "Padding size 6 is not"),
        (1, "constant", None, TypeError, "must be tuple of ints, not int"),
    ],
)
def test_refusals(
    pad: Any, mode: str, value: float | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        F.pad(torch.ones(2, 3, 4), pad, mode, value)
