"""The rows of what there is only as a method or property of `Tensor`: ``grad_fn``, ``backward``, hooks, conversions.

Floor: 8.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch import functions as f
from functrace.torch import sentences
from functrace.torch.autograd.engine import backward as run_backward
from functrace.torch.autograd.graph import HookDict, RemovableHandle
from functrace.torch.device import check_device, device
from functrace.torch.dtypes import DTYPES, NAMES
from functrace.torch.dtypes import dtype as Dtype
from functrace.torch.rows import Rows
from functrace.torch.tensor import Tensor, Value
from functrace.torch.views import renew_node

ROWS = Rows()

# -- the graph ------------------------------------------------------------------------------------------------------


@ROWS.function("property")
def grad_fn(self: Tensor) -> Any:
    """The node that computed this tensor; made again if it is a view whose base was overwritten."""
    view = self._view
    if view is not None and view.version != self._counter[0] and view.base.requires_grad:
        renew_node(self, view)
    return self._node


# -- backward and hooks ----------------------------------------------------------------------------------------------


@ROWS.function("method")
def backward(
    self: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Add the gradient of this tensor to the ``.grad`` of leaves; see `functrace.torch.autograd.backward`."""
    run_backward(self, gradient, retain_graph, create_graph, inputs)


@ROWS.function("method")
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


@ROWS.function("method")
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


@ROWS.function("method")
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


@ROWS.function("method")
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return the tensor in another dtype, or in another tensor's; devices are accepted, there is one."""
    unknown = set(kwargs) - {"dtype", "device", "other", "non_blocking", "copy", "memory_format"}
    if unknown:
        raise TypeError(sentences.invalid_combination("to", args))
    wanted = kwargs.get("dtype")
    flags = [kwargs.get("non_blocking", False), kwargs.get("copy", False)]
    if "device" in kwargs:
        check_device(kwargs["device"])
    others, rest = args, ()
    if len(args) > 1 and isinstance(args[0], (Tensor, Dtype)):
        others, rest = args[:1], args[1:]
    elif len(args) > 2:
        others, rest = args[:2], args[2:]
    flags[: len(rest)] = rest
    for given in (*others, kwargs.get("other")):
        if isinstance(given, Tensor):
            wanted = given.dtype
        elif isinstance(given, (Dtype, np.dtype)) or given in (bool, int, float, complex):
            wanted = given
        elif isinstance(given, float):
            wanted = float  # as PyTorch takes it
        elif isinstance(given, (device, str, int)) or given is None:
            check_device(given)
        else:
            raise TypeError(sentences.invalid_combination("to", args))
    result = self if wanted is None else f.to(self, wanted)
    return f.clone(self) if flags[1] and result is self else result


def _converter(dtype: str, name: str = "") -> None:
    wanted, name = NAMES[dtype], name or dtype

    def convert(self: Tensor) -> Value:
        return f.to(self, wanted)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"Return the tensor as {wanted}."
    ROWS.function("method")(convert)


for _name in ("double", "float", "half", "long", "int", "short", "bool", "cfloat", "cdouble"):
    _converter(_name)
for _name, _dtype in (("byte", "uint8"), ("char", "int8")):
    _converter(_dtype, _name)


@ROWS.function("method")
def cpu(self: Tensor) -> Tensor:
    """Return the tensor itself: it lives there."""
    return self


@ROWS.function("method")
def cuda(self: Tensor, device: Any = None) -> Tensor:
    """Refuse: there is no CUDA here."""
    raise AssertionError(sentences.NO_CUDA)


@ROWS.function("method", name="type")
def type_of(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the name of the tensor's type, ``"torch.FloatTensor"``; or the tensor in another dtype."""
    if dtype is None:
        return f"torch.{self.dtype.printed}Tensor"
    if isinstance(dtype, str):
        named = {f"torch.{d.printed}Tensor": d for d in DTYPES.values()}
        if dtype not in named:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = named[dtype]
    return f.to(self, dtype)


@ROWS.function("method")
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """Return the tensor in another one's dtype."""
    f.tensors_only("type_as", input=self, other=other)
    return f.to(self, other.dtype)


@ROWS.function("method")
def detach_(self: Tensor) -> Tensor:
    """Forget the history, in place.

    Raises:
        RuntimeError: for a view.
    """
    if self._view is not None:
        raise RuntimeError(sentences.DETACH_VIEW)
    self._node, self._output_nr, self._requires = None, 0, False
    return self
