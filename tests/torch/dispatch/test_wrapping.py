"""Wrapper subclasses: their ``__torch_dispatch__`` gets the operations below autograd, of forward and
backward passes; what it cannot get is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import functrace.torch as torch
from functrace.errors import UnsupportedFunctionError
from functrace.torch import Tensor
from functrace.torch.autograd.profiler import profile
from functrace.torch.nn import functional as F
from functrace.torch.tensors.storageless import StoragelessArray
from functrace.torch.utils import _pytree as pytree
from functrace.torch.utils._python_dispatch import TorchDispatchMode
from functrace.torch.utils.checkpoint import checkpoint


class Wrapper(torch.Tensor):
    """Wraps a tensor, and notes the operations."""

    inner: Tensor
    noted: ClassVar[list[str]] = []

    @staticmethod
    def __new__(cls, inner: Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), inner.stride(), dtype=inner.dtype, requires_grad=inner.requires_grad
        )

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return f"Wrapper({self.inner.tolist()})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any, kwargs: Any = None) -> Any:
        cls.noted.append(str(func))
        assert types == (cls,)
        given = pytree.tree_map(unwrapped, (args, kwargs or {}))
        out = func(*given[0], **given[1])
        return pytree.tree_map(lambda x: cls(x) if isinstance(x, Tensor) else x, out)


def unwrapped(x: Any) -> Any:
    return x.inner if isinstance(x, Wrapper) else x


VALUES = np.random.default_rng(0).random((4, 4)) + 0.1
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "chain": lambda x: ((x * 2).exp() * x).sum(),
    "matmul": lambda x: (x @ x.T).relu(),
    "softmax": lambda x: x.softmax(1),
    "losses": lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2, 3])),
    "layer norm": lambda x: F.layer_norm(x, (4,)),
    "linear": lambda x: F.linear(x, x, x[0]),
    "convolution": lambda x: F.conv2d(x.view(1, 1, 4, 4), x[:2, :2].reshape(1, 1, 2, 2)),
    "several": lambda x: torch.cat([x.max(1)[0], x.topk(2)[0].flatten(), x.chunk(2)[1][0]]),
    "views": lambda x: x.view(-1)[2:].reshape(2, 7)[:1].expand(3, 7),
    "numbers": lambda x: 1 - x**3 / (2 + x),
    "mixed": lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0]).double() + torch.ones(4, 1),
    "where": lambda x: torch.where(x > 0.5, x, x * 0),
    "linalg": lambda x: torch.linalg.inv(x + 3 * torch.eye(4)) * torch.linalg.det(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_the_wrapped_tensors(name: str) -> None:
    function = FUNCTIONS[name]
    plain = torch.tensor(VALUES, requires_grad=True)
    wrapper = Wrapper(torch.tensor(VALUES)).requires_grad_()
    expected, found = function(plain), function(wrapper)
    assert type(found) is Wrapper and found.shape == expected.shape
    assert found.dtype == expected.dtype and found.requires_grad
    assert found.grad_fn.name() == expected.grad_fn.name()
    np.testing.assert_allclose(found.inner.numpy(), expected.detach().numpy(), rtol=1e-10)
    for k in range(2):  # the second time, derivatives may have been compiled
        ours = torch.autograd.grad(found.sum(), wrapper, retain_graph=not k)[0]
        theirs = torch.autograd.grad(expected.sum(), plain, retain_graph=not k)[0]
        assert type(ours) is Wrapper
        np.testing.assert_allclose(ours.inner.numpy(), theirs.numpy(), rtol=1e-8, atol=1e-12)


def test_ordinary_tensors_of_the_same_shapes_are_not_affected() -> None:
    plain, wrapper = torch.ones(3, requires_grad=True), Wrapper(torch.ones(3)).requires_grad_()
    for _ in range(6):  # until the derivative is compiled
        for x in (plain, wrapper):
            (g,) = torch.autograd.grad((x * x).exp().sum(), x)
            assert unwrapped(g).tolist() == pytest.approx([2 * np.e] * 3)
            assert type(g) is type(x)


def test_the_class_gets_the_operations_of_both_passes() -> None:
    x = Wrapper(torch.ones(2)).requires_grad_()
    Wrapper.noted.clear()
    (x * 3).sum().backward()
    assert Wrapper.noted == [
        "aten.mul.Tensor", "aten.sum.default", "aten.ones_like.default", "aten.expand.default",
        "aten.mul.Tensor", "aten.detach.default",
    ]  # fmt: skip
    assert isinstance(x.grad, Wrapper) and x.grad.inner.tolist() == [3.0, 3.0]
    (x * x).sum().backward()
    assert isinstance(x.grad, Wrapper) and x.grad.inner.tolist() == [5.0, 5.0]


def test_higher_derivatives_checkpoints_modes_and_profiles() -> None:
    x = Wrapper(torch.full((2,), 2.0)).requires_grad_()
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(g.sum(), x)
    assert unwrapped(second).tolist() == [12.0, 12.0]
    checkpoint(lambda x: (x * x).view(2, 1).exp(), x, use_reentrant=False).sum().backward()
    assert unwrapped(x.grad).tolist() == pytest.approx([4 * np.exp(4.0)] * 2)

    class Noting(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            modes.append((str(func), type(args[0])))
            return func(*args, **(kwargs or {}))

    modes: list[Any] = []
    with Noting():
        y = x.sin()
    assert type(y) is Wrapper and modes[0] == ("aten.sin.default", Wrapper)
    with profile() as prof:
        assert type(x.cos()) is Wrapper
    assert "aten::cos" in [event.name for event in prof.function_events]


def test_gradients_of_ordinary_leaves_may_be_wrappers() -> None:
    p = torch.ones(2, requires_grad=True)
    (p.sin() * Wrapper(torch.full((2,), 3.0))).sum().backward()
    assert unwrapped(p.grad).tolist() == pytest.approx([3 * np.cos(1.0)] * 2)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: (x * 1).add_(1), lambda x: torch.zeros(2).add_(x), lambda x: x.detach().tolist(),
        lambda x: torch.equal(x, x), lambda x: x.sum().item(), lambda x: np.asarray(x.detach()),
        lambda x: bool(x.sum() > 0), lambda x: torch.vmap(torch.sin)(x), lambda x: x.detach().unique(),
        lambda x: x.detach().nonzero(), lambda x: torch.allclose(x, x),
        lambda x: torch.func.grad(lambda y: y.sum())(x),
    ],
)  # fmt: skip
def test_what_needs_the_data_is_refused(use: Callable[[Any], Any]) -> None:
    x = Wrapper(torch.ones(2)).requires_grad_()
    with pytest.raises((UnsupportedFunctionError, RuntimeError)):
        use(x)


def test_a_wrapper_needs_a_handler_that_takes_the_operation() -> None:
    class Without(torch.Tensor):
        pass

    with pytest.raises(RuntimeError, match="requires a class with __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(Without, (2,))

    class Refusing(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any, kwargs: Any = None) -> Any:
            return NotImplemented

    with pytest.raises(TypeError):
        Refusing(torch.ones(2)).sin()


def _has_stand_in(found: Any) -> bool:
    if isinstance(found, (list, tuple)):
        return any(_has_stand_in(x) for x in found)
    return isinstance(found, StoragelessArray)


@pytest.mark.sampled(10)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in dir(Tensor) if name not in dir(object)])
def test_no_attribute_returns_the_stand_in(name: str) -> None:
    x = Wrapper(torch.ones(2, 2))
    try:
        found = getattr(x, name)
        found = found() if callable(found) else found
    except Exception as error:
        assert "__array_interface__" not in str(error)
        assert "StoragelessArray" not in str(error)
    else:
        assert not _has_stand_in(found)


def test_no_numpy_array() -> None:
    x = Wrapper(torch.ones(2, 2))
    for call in (x.numpy, lambda: x.numpy(force=True)):
        with pytest.raises(RuntimeError, match="not supported for tensor subclasses"):
            call()
    for call in (x.data_ptr, x.storage_offset, lambda: np.asarray(x)):
        with pytest.raises(UnsupportedFunctionError, match="no data of its own"):
            call()
