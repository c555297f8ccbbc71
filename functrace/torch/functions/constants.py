"""Other names of ``torch``: constants, memory formats, limits of dtypes, the older constructors.

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from functrace.torch.functions.creation import of_legacy
from functrace.torch.tensors.dtypes import DtypeLike, bfloat16, default_float, named, numpy_dtype
from functrace.torch.tensors.formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    legacy_contiguous_format,
    memory_format,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from functrace.torch.tensors.tensor import Tensor

inf, nan, pi, e, newaxis = math.inf, math.nan, math.pi, math.e, None


@final
class finfo:
    """The limits of a floating dtype.

    Example:
        >>> finfo(named("float64")).eps
        2.220446049250313e-16
    """

    def __init__(self, type: DtypeLike | None = None) -> None:
        if getattr(type, "name", "") == "bfloat16":
            self.dtype, self.bits, self.eps, self.resolution = "bfloat16", 16, 0.0078125, 0.01
            self.max, self.tiny = 3.3895313892515355e38, 1.1754943508222875e-38
            self.min, self.smallest_normal = -self.max, self.tiny
            return
        kind = default_float() if type is None else numpy_dtype(type)
        if kind.kind not in "fcV":
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle "
                "'torch.finfo'"
            )
        found = np.finfo(kind)
        self.dtype = found.dtype.name
        self.bits = int(found.bits)
        self.eps, self.max, self.min = float(found.eps), float(found.max), float(found.min)
        self.tiny = self.smallest_normal = float(found.smallest_normal)
        self.resolution = float(found.resolution)

    def __repr__(self) -> str:
        names = "resolution", "min", "max", "eps", "smallest_normal", "tiny"
        return f"finfo({', '.join(f'{name}={getattr(self, name):g}' for name in names)}, dtype={self.dtype})"


@final
class iinfo:
    """The limits of an integer dtype.

    Example:
        >>> iinfo(named("int8")).max
        127
    """

    def __init__(self, type: DtypeLike) -> None:
        kind = numpy_dtype(type)
        if kind.kind not in "iu":
            raise TypeError(
                "torch.iinfo() requires an integer input type. Use torch.finfo to handle "
                f"'{'torch.' + kind.name}'"
            )
        found = np.iinfo(kind)
        self.dtype, self.bits, self.max, self.min = (
            kind.name,
            int(found.bits),
            int(found.max),
            int(found.min),
        )

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"


class _TensorType(type):
    """The class of the older constructors, such as ``torch.LongTensor``: tensors of that dtype are
    its instances.
    """

    dtype: np.dtype[Any]

    def __call__(cls, *arguments: Any) -> Tensor:
        """Return a tensor of sizes, or of data."""
        return of_legacy(cls.dtype, arguments)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance._array.dtype == cls.dtype


def typename(obj: object) -> str:
    """Return the full name of a type, a function or a module; for another object, that of its
    type.

    Example:
        >>> from functrace.torch.functions.factories import ones
        >>> typename(ones(2)), typename(typename), typename(3)
        ('torch.FloatTensor', 'torch.functions.constants.typename', 'int')
    """
    if isinstance(obj, Tensor):
        return obj.type()
    owner = obj if hasattr(obj, "__qualname__") or hasattr(obj, "__name__") else type(obj)
    name = getattr(owner, "__qualname__", None) or getattr(owner, "__name__", "")
    module = (getattr(owner, "__module__", "") or "").removeprefix("functrace.")
    return name if module in ("", "builtins") else f"{module}.{name}"


class _NarrowType(_TensorType):
    """The class of ``torch.BFloat16Tensor``, whose dtype is imported at the first use."""

    @property
    def dtype(cls) -> np.dtype[Any]:  # type: ignore[override]
        return bfloat16.numpy


def _older(name: str, dtype: str) -> Any:
    doc = f"Constructor of {dtype} tensors, and their type in ``isinstance``: PyTorch's older form of ``dtype={dtype}``."
    return _TensorType(
        name, (), {"dtype": named(dtype).numpy, "__doc__": doc, "__module__": "functrace.torch"}
    )


FloatTensor = _older("FloatTensor", "float32")
DoubleTensor = _older("DoubleTensor", "float64")
HalfTensor = _older("HalfTensor", "float16")
BFloat16Tensor = _NarrowType(
    "BFloat16Tensor",
    (),
    {"__doc__": "Constructor of bfloat16 tensors, and their type in ``isinstance``."},
)
LongTensor = _older("LongTensor", "int64")
IntTensor = _older("IntTensor", "int32")
ShortTensor = _older("ShortTensor", "int16")
CharTensor = _older("CharTensor", "int8")
ByteTensor = _older("ByteTensor", "uint8")
BoolTensor = _older("BoolTensor", "bool")

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "e",
    "finfo",
    "iinfo",
    "inf",
    "layout",
    "legacy_contiguous_format",
    "memory_format",
    "nan",
    "newaxis",
    "pi",
    "preserve_format",
    "sparse_bsc",
    "sparse_bsr",
    "sparse_coo",
    "sparse_csc",
    "sparse_csr",
    "strided",
    "typename",
]
