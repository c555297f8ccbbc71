"""Names of storages in files, by dtype.

Layer: 9.
"""

from __future__ import annotations

from functrace.torch.tensors.dtypes import NAMES, dtype

STORAGES: dict[str, str] = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
"""Name of the dtype of each kind of storage."""

STORAGE_OF = {name: storage for storage, name in STORAGES.items()}
"""Kind of storage of each dtype."""


def dtype_named(name: str) -> dtype | None:
    """Return a dtype by its name; None if functrace.torch does not have it."""
    return NAMES.get(name)
