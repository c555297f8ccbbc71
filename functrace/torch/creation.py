"""Factories: tensors from numbers, arrays and shapes.

Floor: 8.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.torch.dtypes import default_float, numpy_dtype
from functrace.torch.tensor import Tensor, wrap


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a leaf tensor with a copy of ``data``: numbers, nested lists, an array or a tensor."""
    if isinstance(data, Tensor):
        data = data._array
    array = np.array(data)
    if dtype is not None:
        array = array.astype(numpy_dtype(dtype))
    elif array.dtype == np.float64 and not isinstance(data, (np.ndarray, np.generic)):
        array = array.astype(default_float())
    made = wrap(array)
    return made.requires_grad_() if requires_grad else made
