"""What a `Tensor` can do: operators, methods and hooks, which this module gives to the class.

Floor: 8.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch import functions as f
from functrace.torch import in_place, products, reductions, sentences, shaping
from functrace.torch.autograd.engine import backward as run_backward
from functrace.torch.autograd.graph import HookDict, RemovableHandle
from functrace.torch.dtypes import dtype as Dtype
from functrace.torch.dtypes import float16, float32, float64, int32, int64
from functrace.torch.plans import binary
from functrace.torch.tensor import Tensor

# -- backward and hooks ----------------------------------------------------------------------------------------------


def backward(
    self: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Add the gradient of this tensor to the ``.grad`` of leaves; see `functrace.torch.autograd.backward`."""
    run_backward(self, gradient, retain_graph, create_graph, inputs)


def register_hook(self: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Call ``hook(grad)`` whenever the gradient of this tensor is known; a tensor that it returns takes its place.

    Raises:
        RuntimeError: if no gradient flows to this tensor.
    """
    if not self.requires_grad:
        raise RuntimeError(sentences.HOOK_WITHOUT_GRAD)
    node = self.grad_fn
    if node is None:
        if self._hooks is None:
            self._hooks = HookDict()
        return RemovableHandle(self._hooks, hook)
    if node._tensor_hooks is None:
        node._tensor_hooks, node._bare = {}, False
    return RemovableHandle(node._tensor_hooks.setdefault(self._output_nr, HookDict()), hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call ``hook(leaf)`` after a gradient has been added to ``leaf.grad``.

    Raises:
        RuntimeError: for a tensor that is no leaf, or wants no gradient.
    """
    if not self.requires_grad:
        raise RuntimeError(sentences.HOOK_WITHOUT_GRAD)
    if self.grad_fn is not None:
        raise RuntimeError(sentences.POST_ACCUMULATE_NON_LEAF)
    if self._post_hooks is None:
        self._post_hooks = HookDict()
    return RemovableHandle(self._post_hooks, hook)


def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this computed tensor in ``.grad``, as leaves do.

    Raises:
        RuntimeError: if no gradient flows to it.
    """
    if not self.requires_grad:
        raise RuntimeError(sentences.RETAIN_WITHOUT_GRAD)
    node = self.grad_fn
    if node is None or self._retains:
        return
    self._retains = True
    node._bare = False
    node._retained = {**(node._retained or {}), self._output_nr: weakref.ref(self)}


# -- conversions -----------------------------------------------------------------------------------------------------


def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return the tensor in another dtype, or in another tensor's; devices are accepted, there is one."""
    wanted = kwargs.get("dtype")
    for given in args:
        if isinstance(given, Tensor):
            wanted = given.dtype
        elif isinstance(given, (Dtype, np.dtype)):
            wanted = given
    result = self if wanted is None else f.to(self, wanted)
    return f.clone(self) if kwargs.get("copy") and result is self else result


def _converter(wanted: Dtype) -> Callable[[Tensor], Tensor]:
    def convert(self: Tensor) -> Tensor:
        return f.to(self, wanted)

    convert.__doc__ = f"Return the tensor as {wanted}."
    return convert


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """Return the tensor in another one's dtype."""
    return f.to(self, other.dtype)


def detach_(self: Tensor) -> Tensor:
    """Forget the history, in place.

    Raises:
        RuntimeError: for a view.
    """
    if self._view is not None:
        raise RuntimeError(sentences.DETACH_VIEW)
    self._node, self._output_nr, self._requires = None, 0, False
    return self


def new_zeros(self: Tensor, *shape: Any) -> Tensor:
    """Return zeros of this dtype."""
    from functrace.torch.creation import zeros

    return zeros(*shape, dtype=self.dtype)


def new_ones(self: Tensor, *shape: Any) -> Tensor:
    """Return ones of this dtype."""
    from functrace.torch.creation import ones

    return ones(*shape, dtype=self.dtype)


def new_tensor(self: Tensor, data: Any) -> Tensor:
    """Return a tensor of ``data`` of this dtype."""
    from functrace.torch.creation import tensor

    return tensor(data, dtype=self.dtype)


def view_as(self: Tensor, other: Any) -> Tensor:
    """Return a view of another tensor's shape."""
    return shaping.view(self, other.shape)


def reshape_as(self: Tensor, other: Any) -> Tensor:
    """Return this tensor in another one's shape."""
    return shaping.reshape(self, other.shape)


# -- operators ---------------------------------------------------------------------------------------------------------


def _operator(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def operate(self: Any, other: Any) -> Any:
        if isinstance(other, (Tensor, bool, int, float, np.generic)) or hasattr(other, "aval"):
            return function(self, other.item() if isinstance(other, np.generic) else other)
        return NotImplemented

    return operate


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return _operator(lambda self, other: function(other, self))


def _compared(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return _operator(function)


def rdiv(self: Tensor, other: Any) -> Tensor:
    """Return ``other / self`` for a number."""
    return f.mul(f.reciprocal(self), other)


def _transposed(self: Tensor) -> Tensor:
    return shaping.permute(self, tuple(reversed(range(self._array.ndim))))


def _last_two_swapped(self: Tensor) -> Tensor:
    return shaping.transpose(self, -2, -1)


def _with_method_of(module: Any, names: str) -> None:
    for name in names.split():
        setattr(Tensor, name, getattr(module, name))


def install() -> None:
    """Give the class its operators and methods."""
    _with_method_of(
        f,
        "add sub mul div pow square neg reciprocal exp log log1p sin cos tanh sigmoid sqrt relu abs sign floor ceil round "
        "isnan isfinite logical_not clone clamp eq ne lt le gt ge logical_and logical_or maximum minimum",
    )
    _with_method_of(reductions, "sum mean prod max min argmax argmin any all logsumexp softmax log_softmax")
    _with_method_of(products, "mm bmm mv dot matmul")
    _with_method_of(
        shaping,
        "view reshape flatten squeeze unsqueeze expand expand_as t transpose permute contiguous select narrow gather",
    )
    _with_method_of(
        in_place,
        "copy_ fill_ zero_ add_ sub_ mul_ div_ pow_ clamp_ exp_ log_ sin_ cos_ tanh_ sigmoid_ relu_ sqrt_ abs_ neg_",
    )
    here: dict[str, Any] = {
        "where": lambda self, condition, other: f.where(condition, self, other),
        "clamp_min": lambda self, min: f.clamp(self, min=min),
        "clamp_max": lambda self, max: f.clamp(self, max=max),
        "negative": f.neg, "absolute": f.abs, "multiply": f.mul, "divide": f.div, "subtract": f.sub, "true_divide": f.div,
        "backward": backward, "register_hook": register_hook, "retain_grad": retain_grad, "to": to,
        "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook, "type_as": type_as, "detach_": detach_,
        "double": _converter(float64), "float": _converter(float32), "half": _converter(float16), "long": _converter(int64),
        "int": _converter(int32), "cpu": lambda self: self, "new_zeros": new_zeros, "new_ones": new_ones,
        "new_tensor": new_tensor, "view_as": view_as, "reshape_as": reshape_as, "mT": property(_last_two_swapped),
        "T": property(_transposed), "__getitem__": shaping.getitem, "__setitem__": in_place.setitem,
        "__add__": binary(f.ADD), "__radd__": binary(f.ADD), "__sub__": binary(f.SUB), "__rsub__": _operator(f.rsub),
        "__mul__": binary(f.MUL), "__rmul__": binary(f.MUL), "__truediv__": binary(f.DIV),
        "__rtruediv__": _operator(rdiv), "__pow__": _operator(f.pow), "__rpow__": _reflected(f.pow),
        "__matmul__": _operator(products.matmul), "__rmatmul__": _reflected(products.matmul),
        "__neg__": f.neg, "__abs__": f.abs,
        "__pos__": lambda self: self, "__invert__": f.logical_not, "__eq__": _compared(f.eq), "__ne__": _compared(f.ne),
        "__lt__": _compared(f.lt), "__le__": _compared(f.le), "__gt__": _compared(f.gt), "__ge__": _compared(f.ge),
        "__and__": _operator(f.bitwise_and), "__or__": _operator(f.bitwise_or),
        "__iadd__": in_place.add_, "__isub__": in_place.sub_, "__imul__": in_place.mul_, "__itruediv__": in_place.div_,
        "__ipow__": in_place.pow_,
    }  # fmt: skip
    for name, function in here.items():
        setattr(Tensor, name, function)


install()
