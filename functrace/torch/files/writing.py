"""The pickle of a file that ``torch.save`` writes, byte by byte.

Layer: 9.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, final

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.torch.files.kinds import STORAGE_OF
from functrace.torch.files.parts import Part
from functrace.torch.tensors.device import device
from functrace.torch.tensors.dtypes import DTYPES, dtype
from functrace.torch.tensors.formats import layout
from functrace.torch.tensors.geometry import Geometry, geometry_of, memory_of, row_of
from functrace.torch.tensors.memory import TypedStorage, UntypedStorage
from functrace.torch.tensors.mirrors import is_lazy
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.strides import dense_strides
from functrace.torch.tensors.tensor import Mirrored, Tensor
from functrace.tracing import Tracer
from functrace.typing import Array

MARK, TUPLE, REDUCE, BUILD, STOP = b"(", b"t", b"R", b"b", b"."
_ATTRIBUTES = {"persistent", "_is_buffer"}
"""Attributes of tensors that are written although one is private."""


class Pickled:
    """An object that is written as a call of a named function.

    Args:
        name: module and name of the function, separated by a space.
        arguments: its arguments.
    """

    __slots__ = ("arguments", "name")

    def __init__(self, name: str, *arguments: Part) -> None:
        self.name, self.arguments = name, arguments


class Global(Pickled):
    """A named function or class, not called."""


class Arguments(Pickled):
    """A tuple of forms."""

    def __init__(self, *items: Part) -> None:
        super().__init__("", *items)


@final
class Writer:
    """A pickle in the making, and the memory that it refers to.

    Attributes:
        storages: the memory of each storage, flat; its number is its name.
    """

    def __init__(self) -> None:
        self.storages: list[Array] = []
        self._parts: list[bytes] = [b"\x80\x02"]
        self._memo: dict[Any, int] = {}
        self._kept: list[Any] = []
        self._numbers: dict[int, int] = {}

    def write(self, obj: Part) -> bytes:
        """Return the pickle of an object.

        Raises:
            UnsupportedFunctionError: for an object that is neither a tensor, a container, a number,
                a string nor None.
        """
        self._save(obj)
        return b"".join([*self._parts, STOP])

    # -- parts -------------------------------------------------------------------------------------

    def _put(self, key: Part) -> None:
        number = self._memo[key] = len(self._memo)
        self._parts.append(
            b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number)
        )

    def _got(self, key: Part) -> bool:
        number = self._memo.get(key)
        if number is None:
            return False
        self._parts.append(
            b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)
        )
        return True

    def _save(self, obj: Part) -> None:
        kind = type(obj)
        scalar = _SCALARS.get(kind)
        if scalar is not None:
            self._parts.append(scalar(obj))
            return
        if kind is str:
            self._string(obj)
            return
        if self._got(id(obj)):
            return
        self._kept.append(obj)  # so that its id stays its own
        container = _CONTAINERS.get(kind)
        if container is not None:
            container(self, obj)
        elif isinstance(obj, Tensor):
            self._call(_of_tensor(self, obj))
            self._put(id(obj))
        elif isinstance(obj, dtype):
            self._global(f"torch {obj.name}")
        else:
            self._call(_plain_form(self, obj))
            self._put(id(obj))

    def _string(self, text: str) -> None:
        if self._got(text):
            return
        data = text.encode("utf-8", "surrogatepass")
        self._parts += [b"X", struct.pack("<I", len(data)), data]
        self._put(text)

    def _global(self, name: str) -> None:
        key = ("global", name)
        if not self._got(key):
            self._parts.append(b"c" + name.replace(" ", "\n").encode() + b"\n")
            self._put(key)

    def _call(self, form: Pickled | Storage) -> None:
        if isinstance(form, Storage):
            self._reference(form)
        elif isinstance(form, Arguments):
            self._tuple(form.arguments)
        else:
            self._global(form.name)
            if not isinstance(form, Global):
                self._tuple(form.arguments)
                self._parts.append(REDUCE)

    def _reference(self, storage: Storage) -> None:
        self._parts.append(MARK)
        self._string("storage")
        self._global(storage.kind)
        self._string(storage.key)
        self._string("cpu")
        self._save(storage.count)
        self._parts += [TUPLE, b"Q"]

    def _tuple(self, items: tuple[Any, ...]) -> None:
        if not items:
            self._parts.append(b")")
            return
        self._parts.append(MARK)
        for item in items:
            self._form(item)
        self._parts.append(TUPLE)

    def _form(self, item: Part) -> None:
        if isinstance(item, (Pickled, Storage)):
            self._call(item)
        else:
            self._save(item)

    # -- containers --------------------------------------------------------------------------------

    def save_tuple(self, items: tuple[Any, ...]) -> None:
        """Write a tuple."""
        self._tuple(items)
        if items:
            self._put(id(items))

    def save_list(self, items: list[Any]) -> None:
        """Write a list."""
        self._parts.append(b"]")
        self._put(id(items))
        if items:
            self._parts.append(MARK)
            for item in items:
                self._save(item)
            self._parts.append(b"e")

    def save_dict(self, items: dict[Any, Any]) -> None:
        """Write a dict."""
        self._parts.append(b"}")
        self._put(id(items))
        self._items(items.items())

    def save_ordered(self, items: OrderedDict[Any, Any]) -> None:
        """Write an ``OrderedDict``, with its attributes: a ``state_dict`` has ``_metadata``."""
        self._call(Pickled("collections OrderedDict"))
        self._put(id(items))
        self._items(items.items())
        if vars(items):
            self._save(dict(vars(items)))
            self._parts.append(BUILD)

    def save_counter(self, items: Counter[Any]) -> None:
        """Write a ``Counter``."""
        self._call(Pickled("collections Counter", dict(items)))
        self._put(id(items))

    def save_set(self, items: set[Any]) -> None:
        """Write a set."""
        self._call(Pickled("__builtin__ set", list(items)))
        self._put(id(items))

    def _items(self, items: Iterable[tuple[Any, Any]]) -> None:
        pairs = list(items)
        if not pairs:
            return
        self._parts.append(MARK)
        for key, value in pairs:
            self._save(key)
            self._save(value)
        self._parts.append(b"u")

    # -- memory ------------------------------------------------------------------------------------

    def storage(self, memory: Array, element: dtype) -> Storage:
        """Return the reference to some memory, which is stored once."""
        number = self._numbers.get(id(memory))
        if number is None:
            number = self._numbers[id(memory)] = len(self.storages)
            self._kept.append(memory)
            self.storages.append(row_of(memory))
        elif self.storages[number].dtype != memory.dtype:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different "
                "types"
            )
        kind = STORAGE_OF.get(element.name, "")
        return Storage(f"torch {kind}", str(number), self.storages[number].size)


@final
class Storage:
    """Reference to a storage of the archive.

    Args:
        kind: module and name of its class.
        key: its name.
        count: number of elements.
    """

    __slots__ = ("count", "key", "kind")

    def __init__(self, kind: str, key: str, count: int) -> None:
        self.kind, self.key, self.count = kind, key, count


def _integer(n: int) -> bytes:
    if 0 <= n < 256:
        return b"K" + bytes([n])
    if 0 <= n < 65536:
        return b"M" + struct.pack("<H", n)
    if -(2**31) <= n < 2**31:
        return b"J" + struct.pack("<i", n)
    data = n.to_bytes(n.bit_length() // 8 + 1, "little", signed=True)
    if len(data) > 255:
        raise OverflowError(f"torch.save writes integers of at most 255 bytes, not {len(data)}")
    return b"\x8a" + bytes([len(data)]) + data


_SCALARS: dict[type[Any], Callable[[Any], bytes]] = {
    type(None): lambda _: b"N",
    bool: lambda x: b"\x88" if x else b"\x89",
    int: _integer,
    float: lambda x: b"G" + struct.pack(">d", x),
}
_CONTAINERS: dict[type[Any], Callable[[Writer, Any], None]] = {
    tuple: Writer.save_tuple,
    list: Writer.save_list,
    dict: Writer.save_dict,
    OrderedDict: Writer.save_ordered,
    Counter: Writer.save_counter,
    set: Writer.save_set,
}


def _bytes(data: bytes) -> Pickled:
    return Pickled("_codecs encode", data.decode("latin1"), "latin1")


def _plain_form(writer: Writer, obj: Part) -> Pickled | Storage:
    """Return the form of an object that is no tensor or container.

    Raises:
        UnsupportedFunctionError: if there is none.
    """
    kind = type(obj)
    if kind is bytes:
        return _bytes(obj)
    if kind is bytearray:
        return Pickled("__builtin__ bytearray", _bytes(bytes(obj)))
    if kind is complex:
        return Pickled("__builtin__ complex", obj.real, obj.imag)
    if kind is Size:
        return Pickled("torch Size", tuple(obj))
    if isinstance(obj, device):
        arguments = (obj.type,) if obj.index is None else (obj.type, obj.index)
        return Pickled("torch device", *arguments)
    if isinstance(obj, layout):
        return Pickled("torch.serialization _get_layout", str(obj))
    if isinstance(obj, TypedStorage):
        return writer.storage(obj.memory, obj.dtype)
    if isinstance(obj, UntypedStorage):
        return writer.storage(obj.memory, DTYPES[obj.memory.dtype])
    raise UnsupportedFunctionError(
        f"torch.save cannot write {_named(obj)}: its files hold tensors, containers, numbers and "
        "strings, and no code",
        fix=_instead_of(obj),
    )


def _named(obj: Part) -> str:
    kind = type(obj)
    if isinstance(obj, type):
        return f"the class {obj.__qualname__}"
    return f"an object of {kind.__module__}.{kind.__qualname__}".replace("builtins.", "")


def _instead_of(obj: Part) -> str:
    if hasattr(obj, "state_dict"):
        return "save x.state_dict(), and load it with x.load_state_dict()"
    if isinstance(obj, np.generic):
        return "save x.item()"
    if isinstance(obj, np.ndarray):
        return "save torch.from_numpy(x)"
    if isinstance(obj, dict):
        return "save dict(x)"
    if isinstance(obj, (list, tuple)):
        return "save list(x) or tuple(x)"
    return "save its data as a dict of tensors, numbers and strings"


# -- tensors ---------------------------------------------------------------------------------------


def _of_tensor(writer: Writer, tensor: Tensor) -> Pickled:
    """Return the form of a tensor: a call that makes it of its storage.

    Raises:
        UnsupportedFunctionError: for a traced value, and for other subclasses than parameters.
    """
    from functrace.torch import nn  # (PyTorch's own, if `originals.use` has replaced it)

    if isinstance(tensor._array, Tracer):
        raise UnsupportedFunctionError(
            f"{tensor._array.aval} is a traced value, which has no memory to save",
            fix="save it outside of the transform",
        )
    state = {k: v for k, v in vars(tensor).items() if k in _ATTRIBUTES or not k.startswith("_")}
    if type(tensor) is nn.Parameter:
        data = _memory_form(writer, tensor, False)
        hooks: OrderedDict[Any, Any] = OrderedDict()
        name = "torch._utils _rebuild_parameter"
        if state:
            return Pickled(f"{name}_with_state", data, tensor.requires_grad, hooks, state)
        return Pickled(name, data, tensor.requires_grad, hooks)
    if type(tensor) not in (Tensor, Mirrored):
        raise UnsupportedFunctionError(
            f"torch.save cannot write {_named(tensor)}: its class is not in the file",
            fix="save x.as_subclass(torch.Tensor)",
        )
    form = _memory_form(writer, tensor, tensor.requires_grad)
    if not state:
        return form
    function = Global("torch._utils _rebuild_tensor_v2")
    return Pickled(
        "torch._tensor _rebuild_from_type_v2", function, Global("torch Tensor"),
        Arguments(*form.arguments), state,
    )  # fmt: skip


def _memory_form(writer: Writer, tensor: Tensor, requires_grad: bool) -> Pickled:
    memory, (shape, strides, offset) = _memory(tensor)
    storage = writer.storage(memory, tensor.dtype)
    hooks: OrderedDict[Any, Any] = OrderedDict()
    return Pickled(
        "torch._utils _rebuild_tensor_v2", storage, offset, shape, strides, requires_grad, hooks
    )


def _memory(tensor: Tensor) -> tuple[Array, Geometry]:
    """Return the storage of a tensor, and its place there; of a copy, if NumPy's memory is no
    storage of this dtype.
    """
    array = tensor._array
    if not is_lazy(array):
        memory = memory_of(tensor)
        flags = memory.flags
        is_dense = flags.c_contiguous or flags.f_contiguous
        if is_dense and memory.dtype == array.dtype:
            shape, strides, offset = geometry_of(tensor)
            last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
            if min(strides, default=0) >= 0 <= offset and (last < memory.size or not array.size):
                return memory, (tuple(shape), tuple(strides), offset if array.size else 0)
    copy = np.ascontiguousarray(array).reshape(array.shape)
    copy = copy.copy() if copy is array else copy
    return copy, (copy.shape, dense_strides(copy.shape), 0)
