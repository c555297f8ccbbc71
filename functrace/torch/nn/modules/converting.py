"""Arguments of ``to``, of tensors, modules and packed sequences.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrace.torch import errors
from functrace.torch.tensors.device import CPU, check_device, device
from functrace.torch.tensors.dtypes import NAMES, dtype, float64
from functrace.torch.tensors.formats import memory_format
from functrace.torch.tensors.tensor import Tensor

_PYTHON: dict[Any, dtype] = {
    bool: NAMES["bool"],
    int: NAMES["int64"],
    float: float64,
    complex: NAMES["complex128"],
}
"""Dtypes of Python's types."""
_FORMS = (
    ("device", "dtype", "non_blocking", "copy"),
    ("dtype", "non_blocking", "copy"),
    ("tensor", "non_blocking", "copy"),
)
"""Names of the positional arguments."""
_ACCEPTS: dict[str, Callable[[Any], bool]] = {
    "device": lambda x: (
        x is None or (isinstance(x, (device, str, int)) and not isinstance(x, bool))
    ),
    "dtype": lambda x: x is None or isinstance(x, dtype) or (isinstance(x, type) and x in _PYTHON),
    "tensor": lambda x: isinstance(x, (Tensor, bool, float, complex)),
    "non_blocking": lambda x: isinstance(x, bool),
    "copy": lambda x: isinstance(x, bool),
    "memory_format": lambda x: x is None or isinstance(x, memory_format),
}


def _named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name.

    Raises:
        TypeError: for arguments of no form.
    """
    for form in _FORMS:
        names = form[: len(args)]
        is_empty = names[:1] == ("dtype",) and args[0] is None
        if len(args) > len(form) or kwargs.keys() & {*names} or is_empty:
            continue
        given = dict(zip(names, args, strict=True)) | kwargs
        if given.keys() <= {*form, "memory_format"} and all(
            _ACCEPTS[name](value) for name, value in given.items()
        ):
            return given
    raise TypeError(errors.invalid_combination("to", args))


def parse_to(*args: Any, **kwargs: Any) -> tuple[device | None, dtype | None, bool, Any]:
    """Return what the arguments of ``Tensor.to`` say: the device, the dtype, whether the copy may
    run in the background, and the memory format.

    Raises:
        TypeError: for arguments of no form of ``Tensor.to``.
        RuntimeError: if they say whether to copy, and for an unknown device.
    """
    given = _named(args, kwargs)
    if "copy" in given:
        raise RuntimeError(".to() does not accept copy argument")
    place, kind = given.get("device"), given.get("dtype")
    if "tensor" in given:
        like = given["tensor"]
        place, kind = CPU, like.dtype if isinstance(like, Tensor) else _PYTHON[type(like)]
    elif kind is not None and not isinstance(kind, dtype):
        kind = _PYTHON[kind]
    check_device(place)
    found = None if place is None else device(place)
    return found, kind, given.get("non_blocking", False), given.get("memory_format")
