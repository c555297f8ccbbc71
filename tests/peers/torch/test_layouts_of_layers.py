"""Layers make results that PyTorch's users may ``view``: where PyTorch's result is contiguous, ours
is, for every memory order of the input; and derivatives exist where PyTorch has them.
"""

from __future__ import annotations

import importlib
import itertools
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

SHIM = importlib.import_module("functrace.torch")

LAYERS = {
    "Linear(4, 3)": [(2, 4), (2, 3, 4)], "Conv1d(4, 6, 3)": [(2, 4, 7)],
    "Conv2d(2, 4, 3)": [(2, 2, 6, 6)], "ConvTranspose1d(4, 6, 3)": [(2, 4, 7)],
    "BatchNorm1d(4)": [(3, 4), (3, 4, 2)], "BatchNorm2d(4)": [(3, 4, 2, 2)],
    "BatchNorm2d(4, track_running_stats=False)": [(3, 4, 2, 2)],
    "InstanceNorm1d(4)": [(3, 4, 5)], "GroupNorm(2, 4)": [(3, 4, 5), (3, 4)],
    "LayerNorm((2, 4))": [(3, 2, 4)], "LayerNorm(4)": [(3, 2, 4)], "RMSNorm(4)": [(3, 4), (3, 2, 4)],
    "LocalResponseNorm(3)": [(2, 4, 5)], "MaxPool1d(2)": [(2, 3, 6)],
    "AvgPool2d(2)": [(2, 3, 4, 4)], "Upsample(scale_factor=2, mode='bilinear')": [(2, 3, 4, 5)],
    "ReLU()": [(2, 3, 4)], "LogSigmoid()": [(2, 4), (2, 3, 4)], "RReLU()": [(2, 4), (2, 3, 4)],
    "GELU()": [(2, 3, 4)], "SiLU()": [(2, 3, 4)], "Softplus()": [(2, 3, 4)], "PReLU(3)": [(2, 3, 4)],
    "GLU(1)": [(2, 4, 3)], "Softmax(1)": [(2, 3, 4)], "LogSoftmax(-1)": [(2, 3, 4)],
    "Dropout(0.5)": [(2, 3, 4)], "Hardswish()": [(2, 3, 4)], "Mish()": [(2, 3, 4)],
    "PixelShuffle(2)": [(2, 4, 3, 3)], "ReflectionPad1d(1)": [(2, 3, 4)],
    "MultiheadAttention(4, 2)": [(3, 2, 4)],
}  # fmt: skip
CASES = [(layer, shape) for layer, shapes in LAYERS.items() for shape in shapes]


def made(library: ModuleType, layer: str, array: Any, order: Any) -> dict[str, Any]:
    """Return a layer's result on an array whose axes are laid out in a certain order."""
    library.manual_seed(1)
    module = eval(f"nn.{layer}", {"nn": library.nn}).double()
    x = library.from_numpy(np.ascontiguousarray(array.transpose(order)))
    x = x.permute(*np.argsort(order).tolist()).requires_grad_()
    library.manual_seed(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = module(x, x, x)[0] if "Attention" in layer else module(x)
    slopes = library.autograd.grad((found * found).sum(), x, create_graph=True)[0]
    second = library.autograd.grad((slopes * slopes).sum(), [x, *module.parameters()],
    allow_unused=True) if slopes.requires_grad and "Attention" not in layer else ()  # fmt: skip
    return {
        "contiguous": found.is_contiguous(), "value": found.detach().numpy(),
        "slopes": slopes.detach().numpy(),
        "second": [g.detach().numpy(force=True) for g in second if g is not None],
    }  # fmt: skip


@pytest.mark.parametrize(("layer", "shape"), CASES)
def test_results_are_contiguous_where_pytorchs_are(layer: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(3).normal(size=shape)
    orders = list(itertools.permutations(range(len(shape))))
    for order in orders[:: 5 if len(orders) > 6 else 1]:
        ours, theirs = (made(library, layer, array, order) for library in (SHIM, torch))
        assert ours["contiguous"] or not theirs["contiguous"], order
        for name in ("value", "slopes"):
            np.testing.assert_allclose(ours[name], theirs[name], 1e-7, 1e-10, err_msg=name)
        assert len(ours["second"]) >= len(theirs["second"])
        for one, other in zip(ours["second"], theirs["second"], strict=False):
            np.testing.assert_allclose(one, other, 1e-6, 1e-9)
