"""A function's derivative is PyTorch's in every mode: by ``backward``, and under ``torch.func``'s
``grad``, ``jvp``, ``vmap`` and their compositions, also where several derivatives are possible:
repeated writes, ties, zeros.
"""

from __future__ import annotations

import importlib
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

_TIES = [[1.0, 3.0, 3.0, 2.0], [1.0, 1.0, 1.0, 1.0]]
_ZEROS = [[0.0, 1.0, -2.0], [0.0, 0.0, 0.0]]
_PLAIN = [[0.7, -1.3, 0.2], [1.9, 0.4, -0.6]]

EXPRESSIONS = {
    "_PLAIN": (
        "torch.zeros(4, dtype=x.dtype).put(torch.tensor([0, 0, 1, 1, 1, 3]), x)",
        "torch.zeros(4, dtype=x.dtype).put(torch.tensor([0, 0, 1, 1, 1, 3]), x, accumulate=True)",
        "torch.zeros(4, dtype=x.dtype).index_put((torch.tensor([1, 1, 2]),), x[0])",
        "torch.zeros(4, dtype=x.dtype).index_put((torch.tensor([1, 1]),), x[0, 0])",
        "torch.zeros(4, dtype=x.dtype).scatter(0, torch.tensor([1, 1, 3]), x[0])",
        "torch.zeros(4, 3, dtype=x.dtype).index_copy(0, torch.tensor([1, 1]), x)",
        "torch.zeros(4, 3, dtype=x.dtype).index_add(0, torch.tensor([1, 1]), x, alpha=2)",
        "torch.zeros(4, dtype=x.dtype).scatter_add(0, torch.tensor([1, 1, 3]), x[0])",
        "x.index_fill(0, torch.tensor([1]), x.sum())", "x.index_fill(1, torch.tensor([1, 1]), 2.)",
        "x.masked_fill(x > 0, x.sum())", "x.take(torch.tensor([0, 0, 5]))",
        "x.gather(1, torch.tensor([[0, 0], [1, 0]]))", "x[[0, 0, 1]]",
        "F.embedding(torch.tensor([0, 1, 1]), x)", "torch.linalg.pinv(x)", "torch.frexp(x)[0]",
        "F.embedding_bag(torch.tensor([[0, 1], [1, 1]]), x, mode='max')",
        "torch.bucketize(x, torch.tensor([0., 1.]).double())",
        "torch.searchsorted(x.sort(1)[0], x, right=True)",
        "torch.lerp(x, 2 * x, 0.7)", "torch.lerp(x, 2 * x, x)", "x.logsumexp(1)",
        "F.softmax(x.masked_fill(x > 1, -float('inf')), 1)", "F.layer_norm(x, (3,))",
        "F.group_norm(x, 3)", "F.batch_norm(x, None, None, training=True)", "F.logsigmoid(x)",
        "F.scaled_dot_product_attention(x, x, x, attn_mask=torch.tensor([[True, False]] * 2))",
        "F.cross_entropy(x, torch.tensor([0, 2]), label_smoothing=.1)", "x.cumprod(1)",
    ),
    "_TIES": (
        "x.max()", "x.min()", "x.amax(1)", "x.amin()", "x.max(1)[0]", "x.median()", "x.median(1)[0]",
        "x.nanmedian()", "torch.aminmax(x)[1]", "torch.maximum(x, 2 * x - 3)", "x.cummax(1)[0]",
        "x.clamp(1, 3)", "x.sort(1)[0]", "F.max_pool1d(x, 2)", "x.norm(float('inf'))",
        "F.hardtanh(x)", "x.mode(1)[0]", "F.smooth_l1_loss(x, x * 0)",
    ),
    "_ZEROS": (
        "x.norm()", "x.norm(dim=1)", "x.norm(1, 1)", "x.norm(3, 1)", "torch.linalg.matrix_norm(x)",
        "F.normalize(x)", "x.abs()", "F.relu(x)", "x.prod(1)", "x.prod()", "torch.dist(x, x * 0)",
        "x.sign() * x", "x ** 2", "x ** 0", "F.leaky_relu(x)",
        "torch.where(x > 0, x.log(), 0. * x)", "torch.logaddexp(x, x)",
    ),
}  # fmt: skip
CASES = [(expression, kind) for kind, group in EXPRESSIONS.items() for expression in group]
_ARRAYS = {"_PLAIN": _PLAIN, "_TIES": _TIES, "_ZEROS": _ZEROS}


def results(library: ModuleType, expression: str, array: Any) -> dict[str, Any]:
    """Return the derivatives by their names; the type of the error where there is one."""
    scope: dict[str, Any] = {"torch": library, "F": library.nn.functional}
    function = eval(f"lambda x: {expression}", scope)
    func, x = library.func, library.tensor(array, dtype=library.float64)

    def total(x: Any) -> Any:
        found = function(x)
        weights = library.cos(library.arange(found.numel(), dtype=library.float64) + 1)
        return (found * weights.view(found.shape)).sum()

    def backward() -> Any:
        leaf = x.clone().requires_grad_()
        return library.autograd.grad(total(leaf), leaf)[0]

    tangent = library.ones_like(x) + library.arange(x.numel()).view(x.shape) / 4
    batch = library.stack([x, 2 * x, x + 1])
    computed = {
        "backward": backward,
        "grad": lambda: func.grad(total)(x),
        "jvp": lambda: func.jvp(function, (x,), (tangent,))[1],
        "vmap": lambda: func.vmap(function)(batch),
        "vmap of grad": lambda: func.vmap(func.grad(total))(batch),
        "jacrev of grad": lambda: func.jacrev(func.grad(total))(x),
        "jacfwd of grad": lambda: func.jacfwd(func.grad(total))(x),
    }
    found = {}
    for name, compute in computed.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = compute().detach().numpy(force=True)
        except Exception as problem:
            found[name] = problem
    return found


@pytest.mark.parametrize(("expression", "kind"), CASES)
def test_derivatives_are_equal_in_every_mode(expression: str, kind: str) -> None:
    ours, theirs = (results(library, expression, _ARRAYS[kind]) for library in (SHIM, torch))
    for name, wanted in theirs.items():
        if isinstance(wanted, Exception):
            continue  # PyTorch lacks some forward derivatives and batching rules
        assert not isinstance(ours[name], Exception), (name, ours[name])
        np.testing.assert_allclose(ours[name], wanted, 1e-7, 1e-10, err_msg=name)
