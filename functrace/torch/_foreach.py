"""``torch._foreach_…``: an operation on each tensor of a list.

They are calls, one by one: optimizers with ``foreach=True`` compute what they compute without it.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrace.torch import namespace
from functrace.torch.tensors.tensor import Tensor

OF_ONE = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor",
    "frac", "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt",
    "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
"""Functions of one tensor."""
OF_TWO = (
    "add", "sub", "mul", "div", "pow", "clamp_min", "clamp_max", "maximum", "minimum", "lerp",
    "addcmul", "addcdiv",
)  # fmt: skip
"""Functions of a list and others, of which each is a list, a tensor, or a number."""
OF_NUMBERS = {"maximum": "clamp_min", "minimum": "clamp_max"}
"""The methods that take numbers, by those that take tensors."""
OF_TENSORS = {number: tensor for tensor, number in OF_NUMBERS.items()}
VALUE = ("addcmul", "addcdiv")
"""Functions whose last argument is a factor: a number, one for each tensor, or a tensor of them."""


def _each(operand: Any, count: int) -> Sequence[Any]:
    """Return an operand for each of so many tensors."""
    return operand if isinstance(operand, (list, tuple)) else [operand] * count


def _call(name: str, is_written: bool, tensor: Tensor, others: Sequence[Any], options: Any) -> Any:
    """Return a function of one tensor, or write its value into the tensor."""
    if others:
        other_names = OF_TENSORS if isinstance(others[0], Tensor) else OF_NUMBERS
        name = other_names.get(name, name)
    if not isinstance(tensor, Tensor):  # a number to the power of tensors
        return namespace.pow(tensor, *others)
    if is_written and hasattr(tensor, f"{name}_"):
        return getattr(tensor, f"{name}_")(*others, **options)
    found = getattr(tensor, name)(*others, **options)
    return tensor.copy_(found) if is_written else found


def _made(name: str, is_written: bool) -> Callable[..., Any]:
    """Return the function of lists for a method of tensors."""

    def foreach(self: Any, *others: Any, **options: Any) -> Any:
        """Call the method of each tensor with its part of the other arguments."""
        lists = [x for x in (self, *others) if isinstance(x, (list, tuple))]
        count = len(lists[0])
        if not count:
            raise RuntimeError("Tensor list must have at least one tensor.")
        if name in VALUE and len(others) == 3:
            others, options = others[:2], {"value": others[2]}
        values = options.pop("value", options.pop("scalars", None)) if name in VALUE else None
        if isinstance(values, Tensor):
            values = values.tolist()
        columns = [_each(x, count) for x in (self, *others)]
        wrong = next((column for column in columns if len(column) != count), None)
        if wrong is not None:
            if not isinstance(wrong[0], Tensor):
                raise RuntimeError("Tensor list must have same number of elements as scalar list.")
            raise RuntimeError(
                "Tensor lists must have the same number of tensors, got "
                + " and ".join(str(len(column)) for column in columns)
            )
        results = []
        for k, (tensor, *rest) in enumerate(zip(*columns, strict=True)):
            given = dict(options)
            if values is not None:
                given["value"] = _each(values, count)[k]
            results.append(_call(name, is_written, tensor, rest, given))
        return self if is_written else tuple(results)

    foreach.__name__ = foreach.__qualname__ = f"_foreach_{name}{'_' * is_written}"
    return foreach


def _foreach_norm(self: Sequence[Tensor], ord: Any = 2, dtype: Any = None) -> tuple[Any, ...]:
    """Return the norm of each tensor."""
    from functrace.torch import linalg

    return tuple(linalg.vector_norm(tensor, ord, dtype=dtype) for tensor in self)


def _foreach_max(self: Sequence[Tensor]) -> tuple[Any, ...]:
    """Return the largest element of each tensor."""
    return tuple(tensor.max() for tensor in self)


def _foreach_clone(self: Sequence[Tensor]) -> tuple[Any, ...]:
    """Return a copy of each tensor."""
    return tuple(tensor.clone() for tensor in self)


def _foreach_copy_(
    self: Sequence[Tensor], src: Sequence[Tensor], non_blocking: bool = False
) -> Sequence[Tensor]:
    """Write each tensor of another list into a tensor."""
    for target, value in zip(self, src, strict=True):
        target.copy_(value)
    return self


def _foreach_zero_(self: Sequence[Tensor]) -> Sequence[Tensor]:
    """Write zeros into each tensor."""
    for tensor in self:
        tensor.zero_()
    return self


for _name in (*OF_ONE, *OF_TWO):
    for _is_written in (False, True):
        _function = _made(_name, _is_written)
        globals()[_function.__name__] = _function
