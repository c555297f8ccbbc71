"""``torch.types``: names of types for annotations.

Layer: 9.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from functrace.torch.tensors.device import device
from functrace.torch.tensors.dtypes import dtype
from functrace.torch.tensors.memory import Storage
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Tensor

__all__ = ["Device", "FileLike", "Number", "Size", "Storage"]

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_dtype: TypeAlias = dtype
_device: TypeAlias = device
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_Number = (int, float, bool)
_int, _float, _bool, _complex = int, float, bool, complex
SymInt, SymFloat, SymBool = int, float, bool
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool
py_sym_types = (int, float, bool)
