"""How dtypes meet in PyTorch: Python numbers are weak, 0-d tensors are weak within a category, integers divide to floats.

A promotion takes a function and the specs of its operands, and returns the function that converts operands first, or the
same function if nothing needs converting. The conversions are part of what is traced, so gradients come back in the
operands' dtypes.

Floor: 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.errors import FunctraceError
from functrace.ir.aval import ShapeDtype
from functrace.ops.shaping import convert
from functrace.torch import sentences
from functrace.torch.dtypes import default_complex, default_float

Promotion = Callable[[Callable[..., Any], Sequence[Any]], Callable[..., Any]]

_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def common_dtype(specs: Sequence[Any]) -> np.dtype[Any]:
    """Return the dtype that operands promote to.

    Args:
        specs: avals; types of Python numbers, or ``(type, number)``.
    """
    arrays = [s.dtype for s in specs if isinstance(s, ShapeDtype) and s.shape]
    scalars = [s.dtype for s in specs if isinstance(s, ShapeDtype) and not s.shape]
    numbers = [s if isinstance(s, type) else s[0] for s in specs if not isinstance(s, ShapeDtype)]
    result = _joined(arrays)
    for group in (_joined(scalars), _joined([_dtype_of_number(kind) for kind in numbers])):
        if group is not None and (result is None or _RANK[group.kind] > _RANK[result.kind]):
            result = _raised(group, result)
    assert result is not None, "an operation has operands"
    return result


def _joined(dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any] | None:
    if not dtypes:
        return None
    result = dtypes[0]
    for d in dtypes[1:]:
        if d != result:
            # Among floats and integers the float wins whatever its width: int64 with float32 is float32.
            if _RANK[d.kind] != _RANK[result.kind] and "f" in (d.kind, result.kind):
                result = d if _RANK[d.kind] > _RANK[result.kind] else result
            else:
                result = np.promote_types(d, result)
    return result


def _raised(group: np.dtype[Any], before: np.dtype[Any] | None) -> np.dtype[Any]:
    if before is not None and group.kind == "c" and before == np.float64:
        return np.dtype(np.complex128)
    return group


def _dtype_of_number(kind: type) -> np.dtype[Any]:
    if kind is float:
        return default_float()
    if kind is complex:
        return default_complex()
    return np.dtype(np.bool_ if kind is bool else np.int64)


def _converting(function: Callable[..., Any], specs: Sequence[Any], dtype: np.dtype[Any]) -> Callable[..., Any]:
    """The function that converts its operands to ``dtype`` first; numbers too, where they are not weak enough."""
    shapes = [s.shape for s in specs if isinstance(s, ShapeDtype)]
    if len(shapes) == 2:
        check_broadcast(*shapes)
    weak = {bool: 0, int: 1, float: 2, complex: 3}
    moved = []
    for s in specs:
        if isinstance(s, ShapeDtype):
            moved.append(s.dtype != dtype)
        else:
            moved.append(weak[s if isinstance(s, type) else s[0]] > _RANK[dtype.kind])
    if not any(moved):
        return function
    count = len(specs)

    def converted(*given: Any) -> Any:
        operands = [convert(x, dtype) if flag else x for x, flag in zip(given[:count], moved, strict=True)]
        return function(*operands, *given[count:])

    return converted


def check_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Check that two shapes broadcast together.

    Raises:
        RuntimeError: with PyTorch's sentence.
    """
    if a != b:
        try:
            np.broadcast_shapes(a, b)
        except (ValueError, FunctraceError):
            raise RuntimeError(sentences.cannot_broadcast(a, b)) from None


def broadcasting(function: Callable[..., Any], specs: Sequence[Any]) -> Callable[..., Any]:
    """Operands stay as they are; two must broadcast together."""
    shapes = [s.shape for s in specs if isinstance(s, ShapeDtype)]
    if len(shapes) == 2:
        check_broadcast(*shapes)
    return function


def arithmetic(function: Callable[..., Any], specs: Sequence[Any]) -> Callable[..., Any]:
    """Operands are converted to their common dtype."""
    return _converting(function, specs, common_dtype(specs))


def floating(function: Callable[..., Any], specs: Sequence[Any]) -> Callable[..., Any]:
    """Operands are converted to their common dtype, integers to the default float."""
    dtype = common_dtype(specs)
    return _converting(function, specs, dtype if dtype.kind in "fc" else default_float())
