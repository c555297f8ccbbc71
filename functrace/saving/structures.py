"""The structure of a pytree as JSON: containers, numbers and strings by value, arrays by number.

``None``, bools, integers and strings are JSON's own; anything else is an object with one key, the
kind of the node. Classes are saved by name and rebuilt from ``like``: no name in a file is imported.

Layer: b (base).
"""

from __future__ import annotations

import math
import re
import struct
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from functrace.errors import ArgumentError, FunctraceError, UnsupportedFunctionError
from functrace.saving.files import is_extended
from functrace.tree import flatten, unflatten
from functrace.tree.nodes import static_values
from functrace.typing import PyTree

Code: TypeAlias = Any
"""A node in JSON."""
Read: TypeAlias = Callable[[int], np.ndarray[Any, Any]]
"""Returns the saved array of a number."""
NOTHING: Final = object()
"""In place of ``like``, where it is not given."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LONG: Final = 2_000
"""Bits of an integer up to which it is written in decimals, as Python does under every setting."""
_LEAVES: Final = "leaves are arrays, numbers, strings, bytes and None; leave out the rest (functrace.tree.partition)"


def encode(node: PyTree, path: str, arrays: list[tuple[str, np.ndarray[Any, Any]]]) -> Code:
    """Return a node in JSON.

    Args:
        node: the pytree.
        path: its place, for messages and names.
        arrays: gets the arrays, each with its place.

    Raises:
        ArgumentError: if a leaf, or the key of a dict, cannot be saved.
    """
    kind = type(node)
    if kind is str and _SURROGATE.search(node):  # (JSON would join pairs of them)
        return {"text": node.encode("utf-8", "surrogatepass").hex()}
    if kind is int and node.bit_length() > _LONG:
        return {"int": hex(node)}
    if node is None or kind in (bool, int, str):
        return node
    if kind is float:
        return {"float": _hex(node)}
    if kind is complex:
        return {"complex": [_hex(node.real), _hex(node.imag)]}
    if kind is bytes:
        return {"bytes": node.hex()}
    if kind in (list, tuple, deque):
        found = [encode(x, f"{path}[{k}]", arrays) for k, x in enumerate(node)]
        return {"deque": [found, node.maxlen]} if kind is deque else {kind.__name__: found}
    if kind in (dict, OrderedDict):
        items = [
            (_key(k, path), encode(x, f"{path}[{_shown(k)}]", arrays)) for k, x in node.items()
        ]
        return {kind.__name__: items}
    array = _array_of(node, path)
    if array is not None:
        if isinstance(node, np.str_ | np.bytes_) and array[()] != node:
            raise ArgumentError(
                f"save: the leaf {path or 'itself'} ends in zeros, which NumPy drops: {node!r}",
                fix="save str(x) or bytes(x)",
            )
        arrays.append((path, array))
        form = "scalar" if isinstance(node, np.generic) else "array"
        return {form: [len(arrays) - 1, _dtype_name(array.dtype), list(array.shape)]}
    children, entries = _children(node)
    if entries is None:
        raise ArgumentError(f"save: the leaf {path or 'itself'} is a {kind.__name__}", fix=_LEAVES)
    rows = [
        (name, encode(x, f"{path}.{name}", arrays))
        for name, x in zip(entries, children, strict=True)
    ]
    return {"class": [kind.__qualname__, rows, _statics(node)]}


def decode(code: Code, like: PyTree, path: str, read: Read) -> Any:
    """Return the node that `encode` has written.

    Args:
        code: the node in JSON.
        like: a node of the same structure, or `NOTHING`.
        path: its place, for messages.
        read: returns arrays.

    Raises:
        ArgumentError: if ``like`` differs, or is missing where a class is saved.
        KeyError, TypeError, ValueError: if the JSON is none of `encode`.
    """
    if code is None or isinstance(code, bool | int | str):
        return _checked(code, like, path)
    [(kind, data)] = code.items()
    if kind == "float":
        return _checked(_number(data), like, path)
    if kind == "complex":
        return _checked(complex(_number(data[0]), _number(data[1])), like, path)
    if kind == "bytes":
        return _checked(bytes.fromhex(data), like, path)
    if kind == "text":
        return _checked(bytes.fromhex(data).decode("utf-8", "surrogatepass"), like, path)
    if kind == "int":
        return _checked(int(data, 16), like, path)
    if kind in ("array", "scalar"):
        number, name, shape = data
        dtype = _dtype(name)
        if like is not NOTHING:
            _check_leaf(like, dtype, tuple(shape), path)
        array = _typed(read(number), dtype, tuple(shape))
        return array[()] if kind == "scalar" else array
    if kind in ("list", "tuple", "deque"):
        rows, most = data if kind == "deque" else (data, None)
        made: Any = {"list": list, "tuple": tuple, "deque": deque}[kind]
        parts: list[Any] = [NOTHING] * len(rows)
        if like is not NOTHING:
            _check_same(kind, len(rows), type(like).__name__, _length(like), path)
            parts = list(like)
        found = [
            decode(x, y, f"{path}[{k}]", read)
            for k, (x, y) in enumerate(zip(rows, parts, strict=True))
        ]
        return deque(found, most) if kind == "deque" else made(found)
    if kind in ("dict", "OrderedDict"):
        keys = [decode(k, NOTHING, path, read) for k, _ in data]
        parts = [NOTHING] * len(keys) if like is NOTHING else _values(kind, keys, like, path)
        values = {
            k: decode(x, part, f"{path}[{_shown(k)}]", read)
            for k, (_, x), part in zip(keys, data, parts, strict=True)
        }
        if len(values) != len(keys):
            raise ValueError("a dict has a key twice")
        return OrderedDict(values) if kind == "OrderedDict" else values
    if kind == "class":
        return _decode_class(data, like, path, read)
    raise ValueError(f"there is no kind of nodes {kind!r}")


def _decode_class(data: Code, like: PyTree, path: str, read: Read) -> Any:
    """Return an object like ``like`` with saved parts."""
    name, rows, statics = data
    if like is NOTHING:
        raise ArgumentError(
            f"load: {path or 'the pytree'} is a {name}, and classes are not in files",
            fix="pass like=, a pytree of the same structure, such as the initial parameters and "
            "tx.init(params)",
        )
    children, entries = _children(like)
    if entries is None:
        _check_same(name, [r for r, _ in rows], type(like).__name__, "a leaf", path)
    _check_same(name, [r for r, _ in rows], type(like).__qualname__, entries, path)
    there = _statics(like)
    if any(there.get(key, NOTHING) != code for key, code in statics.items()):
        raise ArgumentError(
            f"load: static values of {path or 'the pytree'}, a {name}, were {statics}, and are "
            f"{there} in like",
            fix="pass a pytree with the static fields of the saved one",
        )
    parts = zip(rows, children, strict=True)
    found = [decode(code, child, f"{path}.{entry}", read) for (entry, code), child in parts]
    treedef = flatten(like, is_leaf=lambda x: x is not like)[1]
    try:
        return unflatten(treedef, found)
    except FunctraceError:
        raise
    except Exception as error:
        raise ArgumentError(
            f"load: {path or 'the pytree'}, a {name}, cannot be made of the saved parts: {error}",
            fix="its class must accept the parts that it had when it was saved",
        ) from error


def _children(node: PyTree) -> tuple[list[Any], list[str] | None]:
    """Return the parts of an object, and their names; ``None`` for names if it is a leaf."""
    children, treedef = flatten(node, is_leaf=lambda x: x is not node)
    if treedef.is_leaf():
        return children, None
    fields = getattr(type(node), "_fields", None)
    names = fields if isinstance(node, tuple) and fields else treedef.entries()
    return children, [name if isinstance(name, str) else repr(name) for name in names]


def _statics(node: PyTree) -> Code:
    """Return the static fields of a dataclass, or the static value of a registered class (under an
    empty name), that have a form in JSON.
    """
    found: dict[str, Code] = {}
    for name, value in static_values(node):
        arrays: list[Any] = []
        try:
            code = encode(value, "", arrays)
        except ArgumentError:
            continue
        if not arrays:
            found[name] = _plain(code)
    return found


def _plain(code: Code) -> Code:
    """Return a code with lists for tuples, as JSON reads it."""
    if isinstance(code, list | tuple):
        items: Any = code
        return [_plain(x) for x in items]
    return {k: _plain(x) for k, x in code.items()} if isinstance(code, dict) else code


def _key(key: PyTree, path: str) -> Code:
    arrays: list[Any] = []
    kinds = (str, int, bool, float, bytes, tuple, type(None))
    code = encode(key, path, arrays) if type(key) in kinds else NOTHING
    if code is NOTHING or arrays:
        raise ArgumentError(
            f"save: a key of {path or 'the dict'} is a {type(key).__name__}",
            fix="keys are strings, numbers, bytes, None, and tuples of them",
        )
    return code


def _hex(x: float) -> str:
    """Return all bits of a number: in hexadecimal digits, those of NaN by its bytes."""
    return x.hex() if x == x else "nan:" + struct.pack(">d", x).hex()


def _number(text: str) -> float:
    if text.startswith("nan:"):
        return struct.unpack(">d", bytes.fromhex(text[4:]))[0]
    return float.fromhex(text)


def _array_of(node: PyTree, path: str) -> np.ndarray[Any, Any] | None:
    """Return a leaf as an array of NumPy, if it is one that can be saved.

    Raises:
        ArgumentError: if its dtype has no bits that could be saved, or its class means more.
    """
    dtype = getattr(node, "dtype", None)
    is_jax = type(node).__module__.partition(".")[0] in ("jax", "jaxlib")
    if not isinstance(node, np.ndarray | np.generic) and not (
        is_jax and hasattr(node, "__array__")
    ):
        return None
    if (
        not is_jax
        and not isinstance(node, np.generic)
        and type(node) not in (np.ndarray, np.memmap)
    ):
        raise ArgumentError(
            f"save: the leaf {path or 'itself'} is a {type(node).__name__}, a class of arrays",
            fix="save its parts as plain arrays, such as x.data and x.mask of a masked array",
        )
    if not isinstance(dtype, np.dtype) or not (
        is_extended(dtype) or (dtype.kind in "biufcSUmM" and dtype.isbuiltin != 2)
    ):
        raise ArgumentError(
            f"save: the leaf {path or 'itself'} has dtype {dtype}",
            fix="save numbers, strings and dates; of jax.random keys, jax.random.key_data(key); of "
            "structured arrays, their fields",
        )
    return np.asarray(node)


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return dtype.name if is_extended(dtype) else dtype.str


def _dtype(name: str) -> np.dtype[Any]:
    if re.fullmatch(r"[<>|=]?[biufcSUmM]\d+(\[\w+\])?", name):
        return np.dtype(name)
    if not re.fullmatch(r"(b?float|b?complex|u?int)\d\w*", name):
        raise ValueError(f"there is no dtype {name!r}")
    try:
        import ml_dtypes
    except ImportError:
        raise UnsupportedFunctionError(
            f"load: an array is {name}, and ml_dtypes is not installed",
            fix="pip install functrace-numpy[bfloat16]",
        ) from None
    return np.dtype(getattr(ml_dtypes, name))


def _typed(
    stored: np.ndarray[Any, Any], dtype: np.dtype[Any], shape: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """Return an array as it was: dtypes that a format does not have are stored as bytes."""
    if stored.dtype == np.uint8 and stored.ndim == 1:
        if stored.nbytes != dtype.itemsize * math.prod(shape):
            raise ValueError(f"an array has {stored.nbytes} bytes, not {shape} of {dtype}")
        stored = stored.view(dtype).reshape(shape)
    if (stored.dtype, stored.shape) != (dtype, shape):
        raise ValueError(f"an array is {stored.dtype}{stored.shape}, not {dtype}{shape}")
    return stored if stored.flags.writeable else stored.copy()


def _checked(value: PyTree, like: PyTree, path: str) -> Any:
    """Return a number, string or None, if ``like`` has one of the type there."""
    if like is NOTHING or type(like) is type(value):
        return value
    if isinstance(value, bool | int | float | complex) and hasattr(like, "dtype"):
        _check_leaf(like, np.asarray(value).dtype, (), path)
        return value
    return _check_same(type(value).__name__, "", type(like).__name__, None, path)


def _check_leaf(like: PyTree, dtype: np.dtype[Any], shape: tuple[int, ...], path: str) -> None:
    """Check that a leaf of ``like`` has the saved shape and dtype."""
    there: Any = like
    if isinstance(like, bool | int | float | complex):
        there = np.asarray(like)
    if not hasattr(there, "dtype") or not hasattr(there, "shape"):
        _check_same(f"{dtype}{list(shape)}", "", type(like).__name__, None, path)
    if (there.dtype, tuple(there.shape)) != (dtype, shape):
        raise ArgumentError(
            f"load: {path or 'the array'} is {dtype}{list(shape)}, but "
            f"{there.dtype}{list(there.shape)} in like",
            fix="pass a pytree with the shapes and dtypes of the saved one",
        )


def _length(x: PyTree) -> object:
    return len(x) if isinstance(x, list | tuple | deque) else None


def _values(kind: str, keys: list[Any], like: PyTree, path: str) -> list[Any]:
    """Return the values of a dict, in the order of keys that equal its own (NaN equals NaN)."""
    there = sorted(like.items(), key=lambda item: _name(item[0])) if isinstance(like, dict) else []
    order = sorted(range(len(keys)), key=lambda k: _name(keys[k]))
    names, names_there = [_name(keys[k]) for k in order], [_name(k) for k, _ in there]
    _check_same(kind, names, type(like).__name__, names_there, path)
    values: list[Any] = [NOTHING] * len(keys)
    for k, (_, value) in zip(order, there, strict=True):
        values[k] = value
    return values


def _name(key: PyTree) -> str:
    return f"{type(key).__name__} {_shown(key)}"


def _shown(key: PyTree) -> str:
    """Return the text of a key for messages."""
    try:
        return repr(key)
    except ValueError:  # an integer with more digits than Python converts
        return f"{hash(key):#x}"


def _check_same(kind: str, parts: object, kind_there: str, parts_there: object, path: str) -> None:
    """Check that two nodes are of one kind, and have the same parts."""
    if (kind, parts) == (kind_there, parts_there):
        return
    what = f"has {parts}" if kind == kind_there else f"is a {kind}"
    there = f"has {parts_there}" if kind == kind_there else f"is a {kind_there}"
    raise ArgumentError(
        f"load: {path or 'the pytree'} {what}, but {there} in like",
        fix="pass a pytree with the structure of the saved one",
    )
