"""First and second gradients of functions with several results, any of which may be used, are
PyTorch's at every size.
"""

from __future__ import annotations

import importlib
import itertools
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

SHIM = importlib.import_module("functrace.torch")
SHAPES = [(), (0,), (1,), (2,), (0, 3), (3, 0), (1, 1), (1, 3), (3, 1), (2, 3), (2, 1, 2)]
NUMBERS = [[0.5, 2.0, -1.0, 3.0, 0.25, 7.0], [1.0, 1.0, 0.0, 1.0, 0.0, 0.0]]
DIMS = ("None", "0", "1", "-1", "(0,)", "(0, 1)")
EXPRESSIONS = [
    *(f"torch.{name}_mean(x, dim={dim}, keepdim={keep}, correction={c})"
      for name in ("var", "std") for dim in DIMS for keep in (False, True) for c in (0, 1, 2, 0.5)),
    *(f"torch.{name}(x, {dim}, keepdim={keep})"
      for name in ("max", "min", "median", "nanmedian") for dim in (0, 1, -1) for keep in (False,
      True)),
    *(f"torch.sort(x, {dim})" for dim in (0, 1, -1)), "torch.topk(x, 1)", "torch.topk(x, 0)",
    "torch.topk(x, 1, 0)",
    "x.unbind()", "x.split(1)", "x.split(2, -1)", "x.chunk(3)", "x.tensor_split(3)",
    "x.unsafe_split(1)",
    "torch.broadcast_tensors(x, x.unsqueeze(0))",
]  # fmt: skip


def facts(
    library: ModuleType,
    expression: str,
    array: np.ndarray[Any, Any],
    used: Callable[[list[Any]], list[Any]],
) -> Any:
    """Return the gradient of what is used of the results, and the gradient of that; or what is
    refused.
    """
    x = library.tensor(array).requires_grad_()
    try:
        results = [y for y in eval(expression, {"torch": library, "x": x}) if y.requires_grad]
        seeds = [library.ones_like(y.detach()) * k for k, y in enumerate(used(results), 1)]
        (first,) = library.autograd.grad(
            used(results), x, seeds, create_graph=True, allow_unused=True
        )
        found = [first]
        if first is not None and first.requires_grad:
            found += library.autograd.grad(first.sum(), x, allow_unused=True)
    except Exception as error:
        return type(error).__name__
    return [g if g is None else g.detach().numpy() for g in found]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_some_of_the_results_are_used(expression: str) -> None:
    for shape, numbers, k in itertools.product(SHAPES, NUMBERS, range(5)):
        array = np.array(numbers)[: np.prod(shape, dtype=int)].reshape(shape)
        used = (
            lambda y: y[:1],
            lambda y: y[1:2],
            lambda y: y,
            lambda y: y[::-1],
            lambda y: y[2:3],
        )[k]
        with warnings.catch_warnings(action="ignore"):
            expected, found = (facts(library, expression, array, used) for library in (torch, SHIM))
        if isinstance(expected, str) or isinstance(found, str):
            assert expected == found, (shape, k)
            continue
        assert len(expected) == len(found), (shape, numbers, k, expected, found)
        for a, b in zip(expected, found, strict=True):
            assert (a is None) == (b is None), (shape, k)
            if a is not None:
                np.testing.assert_allclose(
                    b, a, rtol=1e-9, atol=1e-12, err_msg=f"{shape} {numbers} {k}"
                )
