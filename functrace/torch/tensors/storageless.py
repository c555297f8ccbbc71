"""The array of a wrapper subclass: a shape, a dtype and strides, without storage.

Whatever needs data raises; operations are passed to the class's ``__torch_dispatch__`` instead, by
the `Handling` of each of them (functrace.torch.dispatch.wrapping).

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn, Protocol, final

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.ir.aval import ShapeDtype

KINDS: set[type[Any]] = set()
"""The wrapper subclasses of which there has been a tensor."""


_OF_DATA = frozenset(("__array_interface__", "__array_struct__", "__dlpack__", "__dlpack_device__"))


class Handling(Protocol):
    """Way of operations on wrappers to their classes."""

    def apply(self, op: Any, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Apply an op."""

    def detach(self, tensor: Any) -> Any:
        """Return a tensor without history."""

    def seed(self, output: Any) -> Any:
        """Return the gradient of a root."""


@final
class StoragelessArray:
    """Shape, dtype and strides of a tensor without data.

    Args:
        shape: the sizes.
        dtype: NumPy's dtype.
        strides: in bytes.
        handling: passes operations to the class.
    """

    __slots__ = ("dtype", "handling", "shape", "strides")
    __array_ufunc__ = None  # NumPy's functions raise
    base = None

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        strides: tuple[int, ...],
        handling: Handling,
    ) -> None:
        self.shape, self.dtype, self.strides = shape, dtype, strides
        self.handling = handling

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def flags(self) -> Any:
        """NumPy's flags of this layout."""
        return self.laid_out().flags

    @property
    def aval(self) -> ShapeDtype:
        """Shape and dtype."""
        return ShapeDtype(self.shape, self.dtype)

    def laid_out(self) -> Any:
        """Return an array with this layout, whose elements must not be read."""
        return np.lib.stride_tricks.as_strided(np.empty((), self.dtype), self.shape, self.strides)

    def refuse(self) -> NoReturn:
        """Raise: there is no data.

        Raises:
            UnsupportedFunctionError: always.
        """
        raise UnsupportedFunctionError(
            "a wrapper subclass has no data of its own, and this needs it: functrace.torch does not "
            "pass it to __torch_dispatch__",
            fix="use the tensors that it wraps",
        )

    def __array__(self, *_arguments: object, **_options: object) -> NoReturn:
        self.refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in _OF_DATA:
            raise AttributeError(name)
        self.refuse()

    def __getitem__(self, index: object) -> NoReturn:
        self.refuse()


def refuse_write(kind: str) -> NoReturn:
    """Refuse to write into a wrapper, or a wrapper into a tensor.

    Raises:
        UnsupportedFunctionError: always.
    """
    raise UnsupportedFunctionError(
        f"functrace.torch does not write into wrapper subclasses, or these into tensors: {kind}",
        fix="use the operation that returns a new tensor",
    )
