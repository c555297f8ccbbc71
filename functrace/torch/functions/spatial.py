"""Arguments of functions of images: sizes along each axis, and refusals in PyTorch's words; and the
memory layout of their results.

Layer: 9.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from functrace.ops.shaping import convert
from functrace.torch import errors
from functrace.torch.functions.elementwise import dtype_of
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.orders import channels_lie_last
from functrace.torch.tensors.tensor import Operand
from functrace.torch.tensors.tensor import Tensor as _Tensor
from functrace.typing import Array

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


def in_single(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes half precision in single precision, and rounds once."""

    @wraps(function)
    def computed(x: Array, *rest: object) -> Any:
        if x.dtype != np.float16:
            return function(x, *rest)
        made = function(convert(x, np.float32), *rest)
        if type(made) is tuple:
            return tuple([convert(r, np.float16) for r in made])
        return convert(made, np.float16)

    return computed


def keeping_channels_last(function: Callable[..., Any], operands: int = 1) -> Callable[..., Any]:
    """Return a function whose results are ``channels_last`` if an operand is, otherwise in C order.

    Args:
        function: function of arrays and parameters; arrays of a transform have no memory layout.
        operands: number of leading arguments whose layout counts.
    """

    @wraps(function)
    def computed(*given: Any) -> Any:
        made = function(*given)
        arrays = [x for x in given[:operands] if type(x) is np.ndarray]
        if not arrays:
            return made
        in_format = channels_last if any(channels_lie_last(x) for x in arrays) else in_c_order

        def lay(result: Any) -> Any:
            laid = in_format(result)
            if type(laid) is np.ndarray and np.may_share_memory(laid, arrays[0]):
                return laid.copy("K")  # a result is no view
            return laid

        return tuple([lay(r) for r in made]) if type(made) is tuple else lay(made)

    return computed


def in_c_order(x: Any) -> Any:
    """Return an array in C order: itself, or a copy; anything else as it is."""
    return x if type(x) is not np.ndarray or x.flags.c_contiguous else x.copy()


def channels_last(x: Any) -> Any:
    """Return an array whose second of four or five axes is innermost in memory: itself, or a copy.
    Anything else is returned as it is.
    """
    if type(x) is not np.ndarray or x.ndim not in (4, 5):
        return x
    turned: Array = np.moveaxis(x, 1, -1)
    laid = np.empty(turned.shape, x.dtype)
    if turned.strides == laid.strides:
        return x
    laid[...] = turned
    return np.moveaxis(laid, -1, 1)
