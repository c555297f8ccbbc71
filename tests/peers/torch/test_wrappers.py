"""Wrapper subclasses get the operations that PyTorch's get, in the same order, with the same values;
custom operators behave as PyTorch's.
"""

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
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def _wrapper(library: ModuleType, noted: list[str]) -> Any:
    """Return a subclass that wraps a tensor, and notes the operations."""
    pytree = importlib.import_module(f"{library.__name__}.utils._pytree")

    class Wrapper(library.Tensor):
        @staticmethod
        def __new__(cls: Any, inner: Any) -> Any:
            return library.Tensor._make_wrapper_subclass(
                cls, inner.size(), inner.stride(), dtype=inner.dtype, layout=inner.layout,
                device=inner.device, requires_grad=inner.requires_grad,
            )  # fmt: skip

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        @classmethod
        def __torch_dispatch__(
            cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            noted.append(str(func))
            unwrap = lambda x: x.inner if isinstance(x, cls) else x
            out = func(*pytree.tree_map(unwrap, args), **pytree.tree_map(unwrap, kwargs or {}))
            return pytree.tree_map(lambda x: cls(x) if isinstance(x, library.Tensor) else x, out)

    return Wrapper


_BOTH_PASSES = [
    "(x * 2 + 1).sum()", "(x.exp() * x).sum()", "(x @ x).sum()", "x.sin().cos().mean()",
    "(x * x.sum()).view(-1).view(8, 2).exp().sum()", "x[1:, 0].sum()", "x.relu().sum()",
    "torch.cat([x, x * 2]).sum()", "x.max(1)[0].sum()", "x.tanh().sigmoid().sum()",
    "torch.where(x > 0.5, x, x * 0).sum()", "(x / (x + 1)).sum()",
    "torch.stack([x, x], 1).sum()", "x.softmax(1)[0, 0]",
]  # fmt: skip
_FORWARD = [
    *_BOTH_PASSES, "torch.nn.functional.linear(x, x)", "x.softmax(1).log()", "x.clamp(0.2, 0.7)",
    "torch.nn.functional.layer_norm(x, (4,))", "x.permute(1, 0).reshape(2, 8)", "x**2.5",
    "torch.nn.functional.cross_entropy(x, torch.tensor([0, 1, 2, 3]))", "x.cumsum(0)",
    "x.topk(2)[0]", "x.gather(1, torch.zeros(4, 2, dtype=torch.int64))", "x.unbind()[2]",
    "x.masked_fill(x > 0.5, 0.0)", "x.squeeze(0).unsqueeze(1)", "x.double()", "x.clone()",
]  # fmt: skip


def _run(library: ModuleType, expression: str, *, backward: bool) -> Any:
    noted: list[str] = []
    kind = _wrapper(library, noted)
    values = np.random.default_rng(0).random((4, 4)).astype(np.float32) + np.float32(0.1)
    x = kind(library.tensor(values)).requires_grad_()
    noted.clear()
    y = eval(expression, {"torch": library, "x": x})
    assert type(y) is kind
    results = [y.inner.detach().numpy()]
    if backward:
        (g,) = library.autograd.grad(y, x)
        assert type(g) is kind
        results.append(g.inner.numpy())
    return noted, results, y.grad_fn.name()


@pytest.mark.parametrize("expression", _FORWARD)
def test_the_operations_of_the_forward_pass(expression: str) -> None:
    there, here = (_run(library, expression, backward=False) for library in (torch, SHIM))
    assert here[0] == there[0] and here[2] == there[2]
    np.testing.assert_allclose(here[1][0], there[1][0], rtol=1e-5)


@pytest.mark.parametrize("expression", _BOTH_PASSES)
def test_the_gradients(expression: str) -> None:
    there, here = (_run(library, expression, backward=True) for library in (torch, SHIM))
    for ours, theirs in zip(here[1], there[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def _operator(library: ModuleType, name: str) -> list[str]:
    """Return what a custom operator does."""
    shown: list[str] = []

    def show(*values: Any) -> None:
        shown.append(" ".join([" ".join(str(x).split()) for x in values]))

    def refused(function: Any) -> None:
        with pytest.raises((RuntimeError, ValueError)) as caught:
            function()
        show(caught.type.__name__, str(caught.value).split("Cast error details")[0].strip())

    def scaled(x: Any, n: int = 2, *, scale: float = 1.0) -> Any:
        return x.sin() * n * scale, n

    scaled.__annotations__ |= {"x": library.Tensor, "n": int, "scale": float}
    scaled.__annotations__["return"] = tuple[library.Tensor, int]
    show(library.library.infer_schema(scaled, mutates_args=()))
    operator = library.library.custom_op(name, mutates_args=())(scaled)
    show(operator, operator._opoverload, operator._opoverload._schema)
    x = library.tensor([0.5, 1.0], requires_grad=True)
    y, n = operator(x)
    show(y.detach(), n, y.grad_fn.name())
    refused(lambda: y.sum().backward())

    def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        show(len(inputs), inputs[1], keyword_only_inputs, output[0].detach(), output[1])
        ctx.save_for_backward(inputs[0])
        ctx.factor = inputs[1] * keyword_only_inputs["scale"]

    def backward(ctx: Any, gradient: Any, other: Any) -> Any:
        show(gradient, other)
        return gradient * ctx.saved_tensors[0].cos() * ctx.factor, None

    operator.register_autograd(backward, setup_context=setup)
    y, n = operator(x, 3, scale=2.0)
    y.sum().backward()
    show(y.detach(), n, x.grad)
    show(operator(x.detach(), 3))
    refused(lambda: operator(x, "a"))
    refused(lambda: operator())
    refused(lambda: operator(x, 3, 2.0))
    same = lambda x: x[:1]
    same.__annotations__ |= {"x": library.Tensor, "return": library.Tensor}
    part = library.library.custom_op(f"{name}_part", mutates_args=())(same)
    with pytest.raises(RuntimeError, match="may not alias any inputs"):
        part(x)
    return shown


def test_custom_operators_are_those_of_pytorch() -> None:
    assert _operator(SHIM, "peers::scaled") == _operator(torch, "peers::scaled")
