"""Subclasses of `Tensor`: results have their class, and ``__torch_function__`` gets every call.

The expected results are those of PyTorch 2.13.0.
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import functrace.torch as torch
from functrace.torch.dispatch.overrides import Overridable

sin_before = torch.sin


class Plain(torch.Tensor):
    pass


class Narrower(Plain):
    pass


class Unrelated(torch.Tensor):
    pass


CALLS: list[Any] = []


class Logging(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        CALLS.append((func.__name__, types, len(args)))
        return super().__torch_function__(func, types, args, kwargs or {})


EXPRESSIONS = {
    "k + 1": "add", "1 + k": "add", "torch.ones(2) + k": "add", "torch.add(k, 1)": "add",
    "k.add(1)": "add", "k.sum()": "sum", "k[0]": "__getitem__", "k.add_(1)": "add_",
    "torch.stack([k, k])": "stack", "torch.nn.functional.relu(k)": "relu", "k.view(2, 1)": "view",
    "torch.zeros_like(k)": "zeros_like", "k.data": "__get__", "k == k": "__eq__", "k > 0": "gt",
    "k.detach()": "detach", "k @ k": "matmul", "torch.tensor([1.0]) * k": "mul",
    "k.__rsub__(1)": "__rsub__", "1 - k": "__rsub__", "k.clone()": "clone",
    "k.new_zeros(2)": "new_zeros",
}  # fmt: skip
"""Expressions with a tensor, and the name of the function that PyTorch passes."""


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_calls_on_a_subclass_are_passed_to_it(expression: str) -> None:
    k = torch.ones(2).as_subclass(Logging)
    CALLS.clear()
    result = eval(expression, {"torch": torch, "k": k})
    assert [(name, types) for name, types, _ in CALLS] == [(EXPRESSIONS[expression], (Logging,))]
    assert type(result) is Logging


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_results_have_the_subclass(expression: str) -> None:
    k = torch.ones(2).as_subclass(Plain)
    assert type(eval(expression, {"torch": torch, "k": k})) is Plain
    with torch._C.DisableTorchFunctionSubclass():
        k = torch.ones(2).as_subclass(Plain)
        assert type(eval(expression, {"torch": torch, "k": k})) in (torch.Tensor, Plain)
        assert type(k + 1) is torch.Tensor


def test_of_two_classes_the_narrower_one_handles_the_call() -> None:
    s, m = torch.ones(2).as_subclass(Plain), torch.ones(2).as_subclass(Narrower)
    assert type(s + m) is type(m + s) is type(torch.add(s, m)) is Narrower
    o = torch.ones(2).as_subclass(Unrelated)
    with pytest.raises(TypeError, match="unsupported operand"):
        s + o  # type: ignore[operator]
    with pytest.raises(TypeError, match="no implementation found"):
        torch.add(s, o)


def test_results_that_are_no_tensors_or_several() -> None:
    s = torch.ones(2).as_subclass(Plain)
    assert [type(x) for x in s.split(1)] == [Plain, Plain]
    assert type(s.shape) is torch.Size and s.sum().item() == 2.0
    assert repr(s) == "Plain([1., 1.])"
    values, places = torch.max(s, 0)
    assert type(values) is type(places) is Plain


def test_gradients_flow_through_subclasses() -> None:
    s = torch.ones(2).as_subclass(Plain).requires_grad_()
    y = s * 2
    assert type(y) is Plain and type(y.grad_fn).__name__ == "AliasBackward0"
    y.sum().backward()
    assert s.grad is not None and s.grad.tolist() == [2.0, 2.0] and type(s.grad) is torch.Tensor


def test_a_function_keeps_the_subclass() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    s = torch.ones(2).as_subclass(Plain).requires_grad_()
    assert type(Double.apply(s)) is Plain


def test_a_class_that_is_no_tensor_handles_functions() -> None:
    class Duck:
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return "duck", func.__name__

    assert torch.sin(Duck()) == ("duck", "sin")  # type: ignore[comparison-overlap]
    assert torch.add(torch.ones(1), Duck()) == ("duck", "add")  # type: ignore[comparison-overlap]


def test_tables_of_overrides_find_functions_from_before_and_after() -> None:
    table = {sin_before: "before"}
    assert isinstance(torch.sin, Overridable)
    assert table[torch.sin] == "before" and {torch.sin: "after"}[sin_before] == "after"
    assert pickle.loads(pickle.dumps(torch.sin)) == sin_before


def test_own_methods_of_a_subclass_are_left_alone() -> None:
    class Own(torch.Tensor):
        def sum(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
            return "mine"

    assert torch.ones(2).as_subclass(Own).sum() == "mine"


def test_parameters_have_no_overrides() -> None:
    p = torch.nn.Parameter(torch.ones(2))
    assert type(p + 1) is type(torch.sin(p)) is type(p.detach()) is torch.Tensor


def test_a_handler_that_would_not_run_is_refused() -> None:
    class Wrapper(torch.Tensor):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise AssertionError

    class Inner(Wrapper):
        pass

    for kind in (Wrapper, Inner):
        for make in (
            lambda kind=kind: torch.Tensor._make_subclass(kind, torch.ones(2)),
            lambda kind=kind: torch.ones(2).as_subclass(kind),
            lambda kind=kind: kind([1.0]),
        ):
            with pytest.raises(
                NotImplementedError, match=r"would not be called.*TorchDispatchMode"
            ):
                make()
