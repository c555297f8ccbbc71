"""Losses of input and target of two dtypes have PyTorch's dtype, values and gradients, or are refused
likewise.
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
LOSSES = (
    "binary_cross_entropy_with_logits", "huber_loss", "soft_margin_loss", "kl_div", "smooth_l1_loss",
    "mse_loss", "l1_loss", "poisson_nll_loss", "binary_cross_entropy",
)  # fmt: skip
DTYPES = ("float16", "float32", "float64", "int64")


def refused_otherwise(loss: str, dtypes: tuple[str, str]) -> bool:
    """Return True where PyTorch has another type of error, or a result without a gradient."""
    mixed = loss == "huber_loss" and dtypes[0] != dtypes[1] and "int64" != dtypes[0]
    return mixed or (loss, dtypes) == ("soft_margin_loss", ("int64", "int64"))


def found(library: ModuleType, loss: str, dtypes: tuple[str, str], how: str) -> Any:
    """Return the loss, its dtype and the input's gradient; the type of the error if it is refused."""
    x = library.tensor([0.5, 0.25, 0.75]).to(getattr(library, dtypes[0]))
    y = library.tensor([1.0, 0.25, 0.5]).to(getattr(library, dtypes[1]))
    x.requires_grad_(x.is_floating_point())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = getattr(library.nn.functional, loss)(x, y, reduction=how)
        if value.requires_grad:
            value.sum().backward()
    except Exception as problem:
        return type(problem).__name__
    grad = None if x.grad is None else x.grad.numpy()
    return str(value.dtype), value.detach().numpy(), grad


@pytest.mark.parametrize("loss", LOSSES)
def test_dtypes_are_pytorchs(loss: str) -> None:
    for dtypes in itertools.product(DTYPES, DTYPES):
        for how in ("none", "mean", "sum"):
            ours, theirs = (found(library, loss, dtypes, how) for library in (SHIM, torch))
            if isinstance(theirs, str):
                if refused_otherwise(loss, dtypes):
                    continue
                assert ours == theirs, (dtypes, how)
                continue
            assert ours[0] == theirs[0], (dtypes, how)
            for one, other in zip(ours[1:], theirs[1:], strict=True):
                if other is not None:
                    tolerance = 3e-3 if "float16" in dtypes else 1e-6
                    np.testing.assert_allclose(one, other, tolerance, tolerance)
