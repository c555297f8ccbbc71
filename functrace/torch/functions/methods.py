"""The rows of methods and properties of `Tensor` without a function: ``grad_fn``, ``backward``,
hooks, conversions.

Layer: 9.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.torch import errors
from functrace.torch.autograd.engine import backward as run_backward
from functrace.torch.autograd.handles import HookDict, RemovableHandle, register
from functrace.torch.autograd.traced_hooks import register_traced
from functrace.torch.dispatch.applying import Op
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.errors.warnings import warn_once
from functrace.torch.functions import elementwise as f
from functrace.torch.tensors.device import check_device, device
from functrace.torch.tensors.dtypes import DTYPES, NAMES
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.formats import preserve_format, strided
from functrace.torch.tensors.tensor import UNVERSIONED, Tensor, Value, constant
from functrace.torch.tensors.views import renew_node
from functrace.tracing import Tracer

ROWS = FunctionTable()
_REAL = Op("SelectBackward0", ew.real, is_view=True, called="real")
_IMAG = Op("SelectBackward0", ew.imag, is_view=True, called="imag")

# -- the graph -------------------------------------------------------------------------------------


@ROWS.function("property")
def grad_fn(self: Tensor) -> Any:
    """The node that computed this tensor; rebuilt for a view whose base was overwritten."""
    view = self._view
    if (
        view is not None
        and view.version != self._counter[0]
        and (self._node is not None or view.base.requires_grad)
    ):
        renew_node(self, view)
    return self._node


# -- backward and hooks ----------------------------------------------------------------------------


@ROWS.function("method")
def backward(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradient of this tensor to the ``.grad`` of leaves; see
    `functrace.torch.autograd.backward`.
    """
    run_backward(self, gradient, retain_graph, create_graph, inputs)


@ROWS.function("method")
def register_hook(self: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Call ``hook(grad)`` whenever the gradient of this tensor is computed; a returned tensor
    replaces it.

    Raises:
        RuntimeError: if no gradient flows to this tensor.
    """
    if isinstance(self._array, Tracer):
        return register_traced(self, hook)
    if not self.requires_grad:
        raise RuntimeError(errors.HOOK_WITHOUT_GRAD)
    node = self.grad_fn
    if node is None:
        if self._hooks is None:
            self._hooks = HookDict()
        return register(self._hooks, hook)
    if node._tensor_hooks is None:
        node._tensor_hooks, node._bare = {}, False
    return register(node._tensor_hooks.setdefault(self._output_nr, HookDict()), hook)


@ROWS.function("method")
def register_post_accumulate_grad_hook(
    self: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Call ``hook(leaf)`` after a gradient has been added to ``leaf.grad``.

    Raises:
        RuntimeError: for a tensor that is no leaf, or does not require grad.
    """
    if not self.requires_grad:
        raise RuntimeError(errors.HOOK_WITHOUT_GRAD)
    if self.grad_fn is not None:
        raise RuntimeError(errors.POST_ACCUMULATE_NON_LEAF)
    if self._post_hooks is None:
        self._post_hooks = HookDict()
    return register(self._post_hooks, hook)


@ROWS.function("method")
def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this non-leaf tensor in ``.grad``.

    Raises:
        RuntimeError: if no gradient flows to it.
    """
    if not self.requires_grad:
        raise RuntimeError(errors.RETAIN_WITHOUT_GRAD)
    if self._node is None or self._retains:
        return
    node = self.grad_fn
    assert node is not None
    self._retains = True
    node._bare = False
    node._retained = {**(node._retained or {}), self._output_nr: weakref.ref(self)}


# -- inference -------------------------------------------------------------------------------------


@ROWS.function("function method")
def is_inference(input: Tensor) -> bool:
    """Return True if a tensor was made in inference mode: it has no version, and is not saved for
    backward.
    """
    if not isinstance(input, Tensor):
        raise TypeError(errors.is_inference_argument(errors.kind_of(input)))
    return input._counter is UNVERSIONED


# -- conversions -----------------------------------------------------------------------------------


@ROWS.function("method")
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return the tensor in another dtype, or in another tensor's; only the CPU is accepted as a
    device.
    """
    unknown = set(kwargs) - {"dtype", "device", "other", "non_blocking", "copy", "memory_format"}
    if unknown:
        raise TypeError(errors.invalid_combination("to", args))
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
            wanted = float  # as PyTorch does
        elif isinstance(given, (device, str, int)) or given is None:
            check_device(given)
        else:
            raise TypeError(errors.invalid_combination("to", args))
    result = self if wanted is None else f.to(self, wanted)
    found = f.clone(self) if flags[1] and result is self else result
    return _in_format(self, found, kwargs.get("memory_format"))


def _in_format(self: Tensor, found: Any, memory_format: Any) -> Any:
    """Return a converted tensor in a memory format: a copy, if it must be another one."""
    if memory_format is None or memory_format is preserve_format:
        return found
    if found is not self:
        return f.put_in_format("to", found, memory_format)
    if self.is_contiguous(memory_format):
        return self
    return f.clone(self, memory_format=memory_format)


def _converter(dtype: str, name: str = "") -> None:
    wanted, name = NAMES[dtype], name or dtype

    def convert(self: Tensor, memory_format: Any = None) -> Value:
        found = f.to(self, wanted)
        return found if memory_format is None else _in_format(self, found, memory_format)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"Return the tensor as {wanted}."
    ROWS.function("method")(convert)


for _name in (
    "double",
    "float",
    "half",
    "bfloat16",
    "long",
    "int",
    "short",
    "bool",
    "cfloat",
    "cdouble",
):
    _converter(_name)
for _name, _dtype in (("byte", "uint8"), ("char", "int8")):
    _converter(_dtype, _name)


@ROWS.function("property")
def real(self: Tensor) -> Value:
    """The real part, a view; a real tensor itself."""
    return f.apply(_REAL, (self,)) if self._array.dtype.kind == "c" else self


@ROWS.function("property")
def imag(self: Tensor) -> Value:
    """The imaginary part, a view.

    Raises:
        RuntimeError: for a real tensor.
    """
    if self._array.dtype.kind != "c":
        raise RuntimeError(errors.IMAG_OF_REAL)
    return f.apply(_IMAG, (self,))


@ROWS.function("property", name="H")
def adjoint(self: Tensor) -> Value:
    """The conjugate transpose of a matrix."""
    if self._array.ndim not in (0, 2):
        raise RuntimeError(errors.only_matrices("H", self._array.ndim))
    if not self._array.ndim:
        warn_once(errors.H_OF_SCALAR)
        return f.conj(self)
    return f.conj(self).T if self._array.dtype.kind == "c" else self.mT


def add_constant(
    rows: FunctionTable, name: str, doc: str, value: object, forms: str = "property"
) -> None:
    """Add an attribute, or a method, with the same value for every tensor."""

    def constant(self: Tensor) -> Any:
        return value

    constant.__name__ = constant.__qualname__ = name
    constant.__doc__ = doc
    rows.function(forms)(constant)


for _name in (
    "is_nested",
    "is_quantized",
    "is_sparse",
    "is_cuda",
    "is_mps",
    "is_meta",
    "is_mkldnn",
    "is_xpu",
):
    add_constant(ROWS, _name, "Always False: functrace has no such tensors.", False)
for _name in ("is_pinned", "is_coalesced"):
    add_constant(ROWS, _name, "Always False: functrace has no such tensors.", False, "method")


@ROWS.function("property")
def itemsize(self: Tensor) -> int:
    """Bytes of one element."""
    return self._array.itemsize


@ROWS.function("method")
def is_complex(self: Tensor) -> bool:
    """Return True if the elements are complex."""
    return self._array.dtype.kind == "c"


@ROWS.function("method")
def is_signed(self: Tensor) -> bool:
    """Return True if elements can be negative."""
    return self._array.dtype.kind in "ifcV"


@ROWS.function("method")
def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Return True if another tensor has the same shape."""
    return self._array.shape == other._array.shape


@ROWS.function("method")
def nelement(self: Tensor) -> int:
    """Return the number of elements."""
    return self._array.size


@ROWS.function("method")
def ndimension(self: Tensor) -> int:
    """Return the number of dimensions."""
    return self._array.ndim


@ROWS.function("property", name="layout")
def layout_of(self: Tensor) -> Any:
    """The memory layout: ``torch.strided``."""
    return strided


@ROWS.function("method")
def get_device(self: Tensor) -> int:
    """Return the number of its device: -1, the CPU."""
    return -1


@ROWS.function("", operators="contains")
def contains(self: Tensor, element: Any) -> bool:
    """Return True if some element equals this one."""
    if not isinstance(element, (Tensor, bool, int, float, complex)):
        raise RuntimeError(errors.contains_kind(type(element)))
    return bool((self == element).any().item())


@ROWS.function("method")
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """Return the tensor itself, which is on the CPU; a copy in another memory format."""
    return _in_format(self, self, memory_format)


@ROWS.function("method")
def cuda(self: Tensor, device: Any = None) -> Tensor:
    """Raise: there is no CUDA here."""
    raise AssertionError(errors.NO_CUDA)


@ROWS.function("method", name="type")
def type_of(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the name of the tensor's type, ``"torch.FloatTensor"``; or the tensor in another
    dtype.
    """
    if dtype is None:
        return f"torch.{self.dtype.printed}Tensor"
    if isinstance(dtype, str):
        named = {f"torch.{d.printed}Tensor": d for d in NAMES.values()}
        if dtype not in named:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = named[dtype]
    elif isinstance(dtype, type) and isinstance(getattr(dtype, "dtype", None), np.dtype):
        dtype = DTYPES[dtype.dtype]  # an older constructor
    return f.to(self, dtype)


@ROWS.function("method")
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """Return the tensor in another one's dtype."""
    f.tensors_only("type_as", input=self, other=other)
    return f.to(self, other.dtype)


@ROWS.function("method")
def detach_(self: Tensor) -> Tensor:
    """Drop the history, in place.

    Raises:
        RuntimeError: for a view.
    """
    if self._view is not None:
        raise RuntimeError(errors.DETACH_VIEW)
    self._node, self._output_nr, self._requires, self._dual = None, 0, False, None
    self._array = constant(self._array)
    return self
