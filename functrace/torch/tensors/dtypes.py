"""The dtypes of the shim: ``torch.float32`` and the others, objects with PyTorch's names around
NumPy's dtypes.

Note [Kinds of dtypes]
    ``torch.bfloat16`` is a dtype of the package ml_dtypes, which is imported when a tensor is made.
    NumPy's kind of it is ``"V"``, and no other dtype of tensors has that kind: floats are ``"fV"``,
    floats and complex numbers ``"fcV"``.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, TypeAlias, final

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.torch.errors import COMPLEX_HALF


@final
class dtype:
    """An element type, spelled as PyTorch spells it.

    Example:
        >>> float32
        torch.float32
        >>> float32.is_floating_point, float32.itemsize
        (True, 4)
    """

    __slots__ = (
        "abbr",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "name",
        "numpy",
        "printed",
    )

    def __init__(self, name: str, printed: str) -> None:
        self.name = name
        self.printed = printed
        self.numpy: np.dtype[Any] = np.dtype(name)
        self.itemsize = self.numpy.itemsize
        self.abbr = f"{self.numpy.kind}{8 * self.itemsize}"
        self.is_floating_point = self.numpy.kind == "f"
        self.is_complex = self.numpy.kind == "c"
        self.is_signed = self.numpy.kind in "ifc"

    @classmethod
    def of_package(cls, name: str, printed: str, itemsize: int) -> dtype:
        """Return a floating dtype of the package ml_dtypes, which is imported at the first use."""
        made = cls.absent(name, itemsize)
        del made.numpy
        made.printed, made.abbr = printed, f"bf{8 * itemsize}"
        return made

    def __getattr__(self, name: str) -> Any:
        """Import the package of a dtype that NumPy does not have.

        Raises:
            UnsupportedFunctionError: if it is not installed.
        """
        if name != "numpy":
            raise AttributeError(f"'torch.dtype' object has no attribute {name!r}")
        try:
            import ml_dtypes
        except ImportError:
            raise UnsupportedFunctionError(
                f"tensors of {self!r}: NumPy has no such dtype, and the package ml_dtypes is missing",
                fix="pip install functrace-numpy[bfloat16], or use torch.float32",
            ) from None
        self.numpy = np.dtype(getattr(ml_dtypes, self.name))
        DTYPES[self.numpy] = self
        return self.numpy

    @classmethod
    def absent(cls, name: str, itemsize: int) -> dtype:
        """Return a dtype of which there are no tensors: it can be named and compared."""
        made = object.__new__(cls)
        made.name, made.printed, made.itemsize = name, name, itemsize
        made.numpy = None  # type: ignore[assignment]
        made.abbr = f"{name[0]}{8 * itemsize}"
        made.is_floating_point = "float" in name
        made.is_complex = name == "complex32"
        made.is_signed = not name.startswith(("u", "qu"))
        return made

    def to_complex(self) -> dtype:
        """Return the complex dtype whose parts have this width."""
        if not (self.is_floating_point or self.is_complex):
            raise RuntimeError(f"Unknown Complex ScalarType for {self.printed}")
        if self.name == "float16":
            raise NotImplementedError(COMPLEX_HALF)
        return complex128 if self.name in ("float64", "complex128") else complex64

    def to_real(self) -> dtype:
        """Return the dtype of the real part."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (self.name,)


bool_ = dtype("bool", "Bool")
uint8 = dtype("uint8", "Byte")
int8 = dtype("int8", "Char")
int16 = dtype("int16", "Short")
int32 = dtype("int32", "Int")
int64 = dtype("int64", "Long")
float16 = dtype("float16", "Half")
float32 = dtype("float32", "Float")
float64 = dtype("float64", "Double")
bfloat16 = dtype.of_package("bfloat16", "BFloat16", 2)
complex64 = dtype("complex64", "ComplexFloat")
complex128 = dtype("complex128", "ComplexDouble")

DtypeLike: TypeAlias = "dtype | np.dtype[Any] | type[Any]"

DTYPES: dict[np.dtype[Any], dtype] = {
    d.numpy: d
    for d in (bool_, uint8, int8, int16, int32, int64, float16, float32, float64, complex64,
    complex128)
}  # fmt: skip
"""The shim's dtype of each NumPy dtype."""

NAMES: dict[str, dtype] = {d.name: d for d in DTYPES.values()} | {
    "short": int16, "int": int32, "long": int64, "half": float16, "float": float32,
    "double": float64, "bfloat16": bfloat16,
    "cfloat": complex64, "cdouble": complex128,
}  # fmt: skip
"""The dtypes by their names in ``torch``."""


def named(name: str) -> dtype:
    """Return the dtype with a name."""
    return NAMES[name] if name in NAMES else ABSENT[name]


ABSENT: dict[str, dtype] = {
    name: dtype.absent(name, itemsize)
    for name, itemsize in {
        "complex32": 4, "uint16": 2, "uint32": 4, "uint64": 8,
        "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1, "float8_e5m2fnuz": 1,
        "float8_e8m0fnu": 1, "qint8": 1, "quint8": 1, "qint32": 4,
    }.items()
}  # fmt: skip
"""PyTorch's other dtypes, which have names only: programs compare with them."""
ABSENT["chalf"] = ABSENT["complex32"]


_default = [np.dtype(np.float32)]


def default_float() -> np.dtype[Any]:
    """Return the dtype of tensors made from Python floats."""
    return _default[0]


def default_complex() -> np.dtype[Any]:
    """Return the dtype of tensors made from Python complex numbers: its parts are
    `default_float`.
    """
    return np.dtype(np.complex64 if _default[0].itemsize <= 4 else np.complex128)


def get_default_dtype() -> dtype:
    """Return the dtype of tensors made from Python floats."""
    return DTYPES[_default[0]]


def replace_default(d: dtype) -> bool:
    """Set the dtype of tensors made from Python floats; return True if it changed. See
    `functrace.torch.tensors.defaults`.

    Raises:
        TypeError: if it is not a floating dtype.
    """
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    before, _default[0] = _default[0], d.numpy
    return before != d.numpy


def is_half(kind: np.dtype[Any]) -> bool:
    """Return True for float16 and bfloat16."""
    return kind == np.float16 or kind.kind == "V"


def limits_of(kind: np.dtype[Any]) -> Any:
    """Return the limits of a floating dtype, as ``numpy.finfo`` does: those of bfloat16, too."""
    if kind.kind != "V":
        return np.finfo(kind)
    from ml_dtypes import finfo

    return finfo(kind)


def numpy_dtype(d: DtypeLike) -> np.dtype[Any]:
    """Return the NumPy dtype of any accepted dtype: the shim's own, NumPy's or a Python type.

    Raises:
        TypeError: for anything else.
        UnsupportedFunctionError: for a dtype of which there are no tensors.
    """
    if isinstance(d, dtype):
        if d.numpy is None:
            raise UnsupportedFunctionError(
                f"tensors of {d!r}: NumPy has no such dtype, or functrace.torch does not support it",
                fix="use torch.float32 or torch.float16 (torch.int64 for integers)",
            )
        return d.numpy
    if isinstance(d, np.dtype):
        return d
    found = _OF_TYPES.get(d)
    if found is None:
        raise TypeError(f"argument 'dtype' must be torch.dtype, not {type(d).__name__}")
    return found


_OF_TYPES = {
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(complex),
}
