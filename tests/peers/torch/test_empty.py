"""Tensors without elements: values, shapes, gradients and errors are PyTorch's."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

SHIM = importlib.import_module("functrace.torch")
SIZES = [
    ((2, 3, 0), (2, 0, 4)), ((2, 0, 3), (2, 3, 4)), ((2, 3, 4), (2, 4, 0)), ((0, 3, 4), (0, 4, 2)),
    ((3, 0), (2, 0, 4)),
    ((2, 3, 0), (0,)), ((2, 3, 0), (0, 4)), ((2, 0, 3), (3,)), ((2, 2, 0, 3), (3, 4)), ((0, 2, 3),
    (3,)), ((3,), (2, 3, 0)),
    ((0,), (2, 0, 3)), ((0,), (0,)), ((0, 3), (3,)), ((3, 0), (0, 2)), ((1, 3, 0), (5, 0, 2)),
]  # fmt: skip
REDUCTIONS = "median nanmedian max min amax amin argmax argmin sum prod mean all any"


def outcome(lib: ModuleType, f: Any, *sizes: tuple[int, ...], dtype: str = "float32") -> Any:
    """Return the value of a function of empty tensors, and the gradients; or the error."""
    floats = dtype.startswith("float")
    xs = [lib.zeros(size, dtype=getattr(lib, dtype), requires_grad=floats) for size in sizes]
    try:
        out = f(lib, *xs)
        if out.requires_grad:
            out.sum().backward()
    except Exception as error:
        return type(error).__name__, str(error)
    shown = [
        None if x.grad is None else (tuple(x.grad.shape), x.grad.tolist()) for x in xs if floats
    ]
    return str(out.dtype), tuple(out.shape), repr(out.tolist()), shown


@pytest.mark.parametrize(("a", "b"), SIZES, ids=str)
def test_products_of_empty_matrices(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    def product(lib: ModuleType, x: Any, y: Any) -> Any:
        return lib.matmul(x, y)

    assert outcome(SHIM, product, a, b) == outcome(torch, product, a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("size", [(0,), (0, 5), (2, 0)], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS.split())
def test_reductions_of_nothing(name: str, size: tuple[int, ...], dtype: str) -> None:
    with np.errstate(all="ignore"):
        found, wanted = (
            outcome(lib, lambda lib, x: getattr(x, name)(), size, dtype=dtype)
            for lib in (SHIM, torch)
        )
    assert found == wanted
