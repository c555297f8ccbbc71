"""Arguments of functions of images: sizes along each axis, and refusals in PyTorch's words.

Layer: 9.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.torch import errors
from functrace.torch.functions.elementwise import dtype_of
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand
from functrace.torch.tensors.tensor import Tensor as _Tensor

Sizes = int | Sequence[int]
"""One number for all axes, or one for each."""


def integer(name: str, argument: str, value: Any, position: int = 1) -> int:
    """Return an argument that must be an integer.

    Raises:
        TypeError: if it is none.
    """
    if type(value) is int:
        return value
    kind = type(value).__name__
    if isinstance(value, (bool, float, complex, str)) or value is None:
        raise TypeError(errors.must_be(name, argument, position, "int", kind))
    try:
        return operator.index(value.item() if isinstance(value, _Tensor) else value)
    except (TypeError, RuntimeError):
        raise TypeError(errors.must_be(name, argument, position, "int", kind)) from None


def integers(name: str, argument: str, value: Any, position: int = 1) -> tuple[int, ...]:
    """Return a number, or several, as a tuple.

    Raises:
        TypeError: for anything else.
    """
    if isinstance(value, (tuple, list)):
        return tuple([integer(name, argument, k, position) for k in value])
    return (integer(name, argument, value, position),)


def each(name: str, argument: str, value: Any, axes: int, position: int = 1) -> tuple[int, ...]:
    """Return one number for each axis, from one for all of them or one for each.

    Numbers of another count are returned as they are, to be refused in PyTorch's words.
    """
    found = integers(name, argument, value, position)
    return found * axes if len(found) == 1 else found


def spelled(sizes: Sequence[int]) -> str:
    """Return sizes as PyTorch writes them in messages: ``3 x 4``."""
    return " x ".join(map(str, sizes))


def letters(axes: int) -> str:
    """Return the letters of the last axes: ``"DHW"[-axes:]``."""
    return "DHW"[-axes:]


def check_kinds(x: Operand, kinds: str, kernel: str, *others: np.dtype[Any]) -> None:
    """Refuse dtypes that PyTorch's kernel does not have.

    Args:
        x: the tensor.
        kinds: supported kinds, of ``"buifc"``.
        kernel: PyTorch's name of it.
        others: further supported dtypes.

    Raises:
        NotImplementedError: for other dtypes.
    """
    dtype = dtype_of(x)
    if dtype.kind not in (kinds + "V" if "f" in kinds else kinds) and dtype not in others:
        raise NotImplementedError(errors.no_kernel(kernel).format(DTYPES[dtype].printed))
