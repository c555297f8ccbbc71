"""Functions of shape, dtype and memory, which need no values.

Layer: 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.errors import ConcretizationError
from functrace.numpy.arrays.overlaps import memory_like, part_of
from functrace.numpy.arrays.traced_number import weak_kind
from functrace.numpy.arrays.views import is_scalar, root_of, shares
from functrace.numpy.protocol.operands import Arrayed, Axis, Casting, Operand, axis_tuple
from functrace.numpy.protocol.tables import implements
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import is_constant

if TYPE_CHECKING:
    import numpy.typing as npt

    from functrace.numpy.arrays.traced_array import TracedArray


def _spec(x: object) -> Any:
    if not isinstance(x, Tracer):
        return x
    kind = weak_kind(x)
    return x.dtype if kind is None else kind(0)


def _probe(x: Arrayed) -> Any:
    """Return a stand-in with the shape and dtype of ``x``."""
    return np.broadcast_to(np.zeros((), x.dtype), x.shape) if isinstance(x, Tracer) else x


@implements(np.size)
def _size(a: Arrayed, axis: Axis = None) -> int:
    return a.size if axis is None else math.prod(a.shape[k] for k in axis_tuple(axis, a.ndim))


@implements(np.min_scalar_type)
def _min_scalar_type(a: TracedArray, /) -> np.dtype[Any]:
    return a.dtype if a.ndim else np.min_scalar_type(a.ft_concrete())


def _root(x: Operand) -> Any:
    while (
        isinstance(x, Tracer)
        and x.ft_view is not None
        and x.ft_view.base is not None
        and shares(x.ft_view)
    ):
        x = x.ft_view.base
    return x


def _sharing(function: Callable[..., bool]) -> Callable[..., bool]:
    def shares_memory(a: Operand, b: Operand, /, max_work: int | None = None) -> bool:
        for plain, traced in ((a, b), (b, a)):
            if (
                isinstance(traced, Tracer)
                and isinstance(plain, np.ndarray)
                and not plain.flags.writeable
            ):
                return traced.size == plain.size and is_constant(traced)  # type: ignore[attr-defined]  # np.asarray(traced), it may be
        if _root(a) is not _root(b):
            return False
        if not (isinstance(a, Tracer) and isinstance(b, Tracer)):
            return a is b
        memory = memory_like(root_of(a))
        parts = [part_of(memory, x) for x in (a, b)]
        return any(part is None for part in parts) or function(*parts, max_work)

    return implements(function)(shares_memory)


for _function in (np.may_share_memory, np.shares_memory):
    _sharing(_function)


@implements(np.can_cast, weak=True)
def _can_cast(
    from_: Operand | npt.DTypeLike, to: Arrayed | npt.DTypeLike, casting: Casting = "safe"
) -> bool:
    return np.can_cast(_spec(from_), _spec(to), casting)


@implements(np.isscalar)
def _isscalar(element: Operand) -> bool:
    if not isinstance(element, Tracer):  # a list with traced values in it
        return np.isscalar(element)
    found = element.is_number or (not element.shape and is_scalar(element))
    if found is None:
        raise ConcretizationError(
            f"whether {element.aval} is a NumPy scalar or a 0-d array is not known here",
            fix="use np.ndim(x) == 0, which is true for both",
        )
    return found


implements(np.shape)(lambda a: a.shape)


implements(np.ndim)(lambda a: a.ndim)


implements(np.result_type, weak=True)(
    lambda *arrays_and_dtypes: np.result_type(*map(_spec, arrays_and_dtypes))
)


implements(np.iscomplexobj)(lambda x: x.dtype.kind == "c")


implements(np.isrealobj)(lambda x: x.dtype.kind != "c")


implements(np.common_type)(lambda *arrays: np.common_type(*map(_probe, arrays)))


implements(np.array_repr)(lambda arr, *_, **__: repr(arr))


implements(np.array_str, np.array2string)(lambda a, *_, **__: repr(a))
