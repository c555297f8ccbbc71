"""Masked arrays without masked elements, combined with traced values: their data.

Traced values have no masks. A `numpy.ma.MaskedArray` whose concrete mask has no true element is
replaced by its data in operations with traced values. Division and powers raise, since ``numpy.ma``
masks elements where they are undefined. In lifted code ``np.ma.array``, ``np.ma.asarray`` and the
like return a traced value itself, if nothing is masked; for plain data they return masked arrays
that defer operators to traced operands.

Layer: 3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.ir.aval import check_plain
from functrace.ir.primitive import Primitive
from functrace.numpy.protocol.operands import holds_tracer
from functrace.numpy.protocol.tables import ROWS
from functrace.ops import elementwise as ew
from functrace.tracing.tracer import Tracer

_WITH_DOMAINS = frozenset({ew.div, ew.floor_divide, ew.remainder, ew.power, ew.UFUNCS[np.fmod]})
"""Operations for which ``numpy.ma`` masks undefined results."""


def is_masked(kind: type) -> bool:
    """Return True for classes of masked arrays."""
    return (
        kind is not np.ndarray
        and issubclass(kind, np.ndarray)
        and issubclass(kind, np.ma.MaskedArray)
    )


def without_masks(value: Any) -> Any:
    """Replace masked arrays without masked elements by their data, also in lists, tuples and dicts.

    Raises:
        DtypeError: for an array with masked elements.
    """
    if is_masked(type(value)):
        if np.ma.getmaskarray(value).any():
            check_plain(value)
        return np.asarray(np.ma.getdata(value))
    if type(value) in (list, tuple):
        return type(value)([without_masks(part) for part in value])
    if type(value) is dict:
        return {key: without_masks(part) for key, part in value.items()}
    return value


def operands_without_masks(primitive: Primitive, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Apply `without_masks` to the operands of an operation.

    Raises:
        UnsupportedFunctionError: if ``numpy.ma`` may mask results of the operation.
    """
    found = without_masks(operands)
    if primitive in _WITH_DOMAINS:
        raise UnsupportedFunctionError(
            f"{primitive.name} of a masked array masks elements where it is not defined, and "
            "traced values have no masks",
            fix="take its data, np.ma.getdata(x), or x.filled(value)",
        )
    return found


@functools.lru_cache(maxsize=1)
def _delegating() -> Any:
    """Return the class of masked arrays in lifted code: it defers operators to traced operands."""

    class MaskedArray(np.ma.MaskedArray):
        def _delegate_binop(self, other: object) -> bool:
            return isinstance(other, Tracer) or super()._delegate_binop(other)  # type: ignore[misc]

        def __reduce__(self) -> Any:
            return self.view(np.ma.MaskedArray).__reduce__()

    return MaskedArray


def masked_array(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return the lifted version of a function of ``np.ma`` that makes a masked array."""
    plain = getattr(np, own.__name__)

    def made(a: Any, dtype: object = None, *args: object, **kwargs: object) -> Any:
        given = (a, *args) if dtype is None else (a, dtype, *args)
        if not holds_tracer(a):
            result = own(*given, **kwargs)
            return result.view(_delegating()) if type(result) is np.ma.MaskedArray else result
        mask: Any = kwargs.get("mask", np.ma.nomask)
        if args or (mask is not np.ma.nomask and (holds_tracer(mask) or np.any(mask))):
            raise UnsupportedFunctionError(
                f"numpy.ma.{own.__name__} of a traced value with masked elements has no "
                "implementation",
                fix="use np.where(mask, 0.0, x), or np.sum(x, where=~mask) and the like",
            )
        options = {
            key: kwargs[key] for key in ("order", "ndmin", "copy") if kwargs.get(key) is not None
        }
        if plain is np.array:
            options["copy"] = options.get("copy") or None
        return ROWS[plain].does(*given, **options)

    made.__wrapped__ = own  # type: ignore[attr-defined]
    return made


MASKED = ("array", "asarray", "asanyarray", "atleast_1d", "atleast_2d")
"""Functions of ``np.ma`` that are replaced by `masked_array` in lifted code."""
