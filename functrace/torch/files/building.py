"""Tensors and storages of a file: the functions that its pickle may name.

Layer: 9.
"""

from __future__ import annotations

import codecs
import math
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, final

import numpy as np

from functrace.torch.files.kinds import STORAGES, dtype_named
from functrace.torch.files.parts import Part
from functrace.torch.files.reading import Function, UnpicklingError
from functrace.torch.functions import constants
from functrace.torch.tensors.copying import rebuilt
from functrace.torch.tensors.device import device
from functrace.torch.tensors.dtypes import dtype
from functrace.torch.tensors.memory import TypedStorage, UntypedStorage
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.strides import dense_strides
from functrace.torch.tensors.tensor import Tensor
from functrace.typing import Array

_MOST = 1 << 62
_STATE_NAMES = {"persistent", "_is_buffer", "_is_param"}


@final
class StorageKind:
    """A kind of storage, as a file names it: its dtype, or none for bytes."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def element(self) -> dtype:
        """Return the dtype.

        Raises:
            UnpicklingError: if functrace.torch does not have it.
        """
        return _element(STORAGES.get(self.name, self.name))


def _element(name: str) -> dtype:
    found = dtype_named(name)
    if found is None:
        raise UnpicklingError(
            f"the file has tensors of {name}, a dtype that functrace.torch does not have\n"
            "fix: in PyTorch, convert them (x.float()), and save them again"
        )
    return found


@final
class Memory:
    """A storage of a file.

    Args:
        array: its elements, flat; bytes, if the file does not tell their dtype.
        kind: its kind.
    """

    __slots__ = ("array", "kind", "tensors")

    def __init__(self, array: Array, kind: StorageKind) -> None:
        self.array, self.kind = array, kind
        self.tensors: list[Tensor] = []

    def share(self) -> None:
        """Tell the tensors in this memory that it is their storage, if there are several."""
        if len(self.tensors) > 1 or any(x._array.size != self.array.size for x in self.tensors):
            for tensor in self.tensors:
                tensor._home = self.array


def public(value: Part) -> Any:
    """Return an object of a file as its user sees it: a storage by its own class."""
    if isinstance(value, Memory):
        untyped = UntypedStorage(value.array)
        return (
            untyped
            if value.kind.name == "UntypedStorage"
            else TypedStorage(untyped, value.kind.element())
        )
    return value


def _counts(values: Part) -> tuple[int, ...]:
    if type(values) not in (tuple, Size) or not all(type(n) is int and n >= 0 for n in values):
        raise UnpicklingError(f"a tensor of the file has sizes or strides {values!r}")
    return tuple(values)


def tensor(
    memory: Part,
    offset: Part,
    size: Part,
    stride: Part,
    requires_grad: Part = False,
    _hooks: Part = None,
    metadata: Part = None,
) -> Tensor:
    """Make a tensor in a storage.

    Raises:
        UnpicklingError: if it would leave the storage.
    """
    if type(memory) is not Memory:
        raise UnpicklingError("a tensor of the file has no storage")
    return _tensor(memory, memory.array, offset, size, stride, requires_grad, metadata)


def _tensor(
    memory: Memory,
    array: Array,
    offset: Part,
    size: Part,
    stride: Part,
    requires_grad: Part,
    metadata: Part,
) -> Tensor:
    shape, strides = _counts(size), _counts(stride)
    if type(offset) is not int or offset < 0 or len(shape) != len(strides):
        raise UnpicklingError("a tensor of the file has a negative offset, or too few strides")
    count = math.prod(shape)
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if count > _MOST or (count and last >= array.size) or max(strides, default=0) > _MOST:
        raise UnpicklingError(
            f"a tensor of the file has sizes {list(shape)}, strides {list(strides)} and offset "
            f"{offset}: it leaves its storage of {array.size} elements"
        )
    grad = bool(requires_grad) and array.dtype.kind in "fcV"
    if count and (offset, strides, count) == (0, dense_strides(shape), array.size):
        made = rebuilt(Tensor, array.reshape(shape), None, grad)
    elif count:
        made = rebuilt(Tensor, array, (shape, strides, offset), grad)
    else:
        made = rebuilt(Tensor, np.empty(shape, array.dtype), None, grad)
    if count:
        memory.tensors.append(made)
    if type(metadata) is dict:
        made = made.conj() if metadata.get("conj") else made
        made = -made if metadata.get("neg") else made
    return made


def tensor_of_dtype(
    memory: Part,
    offset: Part,
    size: Part,
    stride: Part,
    requires_grad: Part,
    _hooks: Part,
    kind: Part,
    metadata: Part = None,
) -> Tensor:
    """Make a tensor of a dtype in a storage of bytes."""
    if type(memory) is not Memory or not isinstance(kind, dtype):
        raise UnpicklingError("a tensor of the file has no storage, or no dtype")
    whole = memory.array.view(np.uint8)
    count = whole.size // kind.itemsize
    elements = whole[: count * kind.itemsize].view(kind.numpy)
    return _tensor(memory, elements, offset, size, stride, requires_grad, metadata)


def parameter(data: Part, requires_grad: Part, _hooks: Part = None, state: Part = None) -> Tensor:
    """Make a parameter of a tensor."""
    from functrace.torch import nn  # (PyTorch's own, if `originals.use` has replaced it)

    if not isinstance(data, Tensor):
        raise UnpicklingError("a parameter of the file has no tensor")
    made = nn.Parameter(data, bool(requires_grad) and data._array.dtype.kind in "fcV")
    made._home = data._home
    return _with_state(made, state)


def with_state(function: Part, kind: Part, arguments: Part, state: Part) -> Tensor:
    """Make a tensor with attributes."""
    if type(function) is not Function or type(arguments) is not tuple:
        raise UnpicklingError("a tensor of the file is made by no function")
    if function.call not in (tensor, tensor_of_dtype, parameter):
        raise UnpicklingError(f"a tensor of the file is made by {function.name}")
    return _with_state(function.call(*arguments), state)


def _with_state(made: Tensor, state: Part) -> Tensor:
    if isinstance(state, dict):
        for name, value in state.items():
            if name in _STATE_NAMES or (
                isinstance(name, str) and not name.startswith("_") and not hasattr(Tensor, name)
            ):
                vars(made)[name] = value
    return made


# -- numbers and containers ------------------------------------------------------------------------


def _encoded(text: Part, encoding: Part) -> bytes:
    if type(text) is not str or encoding != "latin1":
        raise UnpicklingError("the file encodes a string in another way than latin1")
    return codecs.encode(text, "latin1")


def _set(items: Part = ()) -> set[Any]:
    from functrace.torch.files.reading import _key

    if type(items) not in (list, tuple):
        raise UnpicklingError("a set of the file is made of no list")
    return {_key(x) for x in items}


def _counter(items: Part = ()) -> Counter[Any]:
    if type(items) not in (dict, tuple):
        raise UnpicklingError("a Counter of the file is made of no dict")
    return Counter(dict(items))


def _ordered(items: Part = ()) -> OrderedDict[Any, Any]:
    from functrace.torch.files.reading import _key

    if type(items) not in (list, tuple):
        raise UnpicklingError("an OrderedDict of the file is made of no list")
    return OrderedDict((_key(k), v) for k, v in items)


def _bytearray(data: Part = b"") -> bytearray:
    if type(data) is not bytes:
        raise UnpicklingError("a bytearray of the file is made of no bytes")
    return bytearray(data)


def _complex(real: Part, imag: Part = 0.0) -> complex:
    return complex(float(real), float(imag))


def _size(items: Part) -> Size:
    return Size(_counts(tuple(items)))


def _layout(name: Part) -> Any:
    if name != "torch.strided":
        raise UnpicklingError(f"the file has the layout {name!r}")
    return constants.strided


def _device(kind: Part, index: Part = None) -> device:
    return device(kind, index)


def _table() -> dict[str, Any]:
    calls: dict[str, Callable[..., Any]] = {
        "torch._utils._rebuild_tensor": tensor,
        "torch._utils._rebuild_tensor_v2": tensor,
        "torch._utils._rebuild_tensor_v3": tensor_of_dtype,
        "torch._utils._rebuild_parameter": parameter,
        "torch._utils._rebuild_parameter_with_state": parameter,
        "torch._tensor._rebuild_from_type_v2": with_state,
        "torch.nn.parameter.Parameter": parameter,
        "torch.Tensor": tensor,
        "torch.Size": _size,
        "torch.device": _device,
        "torch.serialization._get_layout": _layout,
        "collections.OrderedDict": _ordered,
        "collections.Counter": _counter,
        "_codecs.encode": _encoded,
        "builtins.set": _set,
        "builtins.bytearray": _bytearray,
        "builtins.complex": _complex,
    }
    table: dict[str, Any] = {name: Function(name, call) for name, call in calls.items()}
    for name in STORAGES:
        table[f"torch.{name}"] = table[f"torch.cuda.{name}"] = StorageKind(name)
    table["torch.storage.UntypedStorage"] = StorageKind("UntypedStorage")
    return table


TABLE = _table()
"""The names that pickles may have, besides those of dtypes."""
