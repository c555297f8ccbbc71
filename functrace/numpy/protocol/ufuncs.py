"""Ufuncs on traced values: ``__array_ufunc__`` (NEP 13) beyond its fast paths.

Handles ``out=``, ``where=``, ``dtype=`` and ``casting=`` of a call, and the methods ``reduce``,
``accumulate``, ``reduceat``, ``outer`` and ``at``.

Layer: 3.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from functrace.errors import DtypeError, UnsupportedFunctionError
from functrace.ir.aval import shape_of
from functrace.numpy.arrays.masked import mask_of
from functrace.numpy.protocol.operands import (
    Casting,
    DtypeLike,
    arrayed,
    holds_tracer,
    need_traced,
    stored,
    without_derivatives,
)
from functrace.numpy.protocol.tables import FUNCTIONS, UFUNC_METHODS
from functrace.numpy.protocol.ufunc_folds import fold_method
from functrace.ops import elementwise as ew
from functrace.ops import of_scipy
from functrace.ops.shaping import broadcast_to, convert
from functrace.tracing.binding import bind
from functrace.tracing.tracer import LITERALS, Tracer, as_array


def call_ufunc(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Apply a ufunc, or one of its methods, in the general form (NEP 13)."""
    out = kwargs.pop("out", None)
    if out is not None:
        targets: tuple[Any, ...] = out if isinstance(out, tuple) else (out,)
        plain = None if any(map(holds_tracer, targets)) else without_derivatives((inputs, kwargs))
        if plain is not None:  # no derivative is lost in a plain array
            return getattr(ufunc, method)(*plain[0], **plain[1], out=out)
        for target in targets:
            if target is not None:
                need_traced(target, f"numpy.{ufunc.__name__} with out= (or an in-place operator)")
        if len(targets) == 1:
            where = (
                mask_of(kwargs.pop("where", True), ufunc.__name__) if method == "__call__" else True
            )
            result = call_ufunc(ufunc, method, inputs, kwargs)
            if where is not True:  # elsewhere, out is unchanged
                result = ew.where(where, result, targets[0])
            return stored(result, targets[0], ufunc.__name__)
        results = call_ufunc(ufunc, method, inputs, kwargs)
        return tuple([stored(r, t, ufunc.__name__) for t, r in zip(targets, results, strict=True)])
    if method == "__call__":
        return _call(ufunc, inputs, kwargs)
    if method == "outer":
        x, y = inputs
        x, y = [t if isinstance(t, Tracer) else np.asarray(t) for t in (x, y)]  # no weak numbers
        return ufunc(FUNCTIONS[np.reshape](x, (*x.shape, *(1,) * y.ndim)), y, **kwargs)
    if method == "at":
        plain = None if holds_tracer(inputs[0]) else without_derivatives(inputs)
        if plain is not None:
            return ufunc.at(*plain)
        need_traced(inputs[0], f"numpy.{ufunc.__name__}.at")
    found = UFUNC_METHODS.get((ufunc, method)) or fold_method(ufunc, method)
    if found is None:
        plain = without_derivatives((inputs, kwargs))
        return (
            _raise(ufunc, method)
            if plain is None
            else getattr(ufunc, method)(*plain[0], **plain[1])
        )
    if method == "at":
        return found(*inputs)
    x, *rest = inputs
    if not rest:
        kwargs.setdefault("axis", 0)
    if method == "accumulate" and not shape_of(arrayed(x)):
        raise DtypeError(
            f"numpy.{ufunc.__name__}.accumulate: cannot accumulate on a scalar",
            fix="pass an array with an axis",
        )
    code = found.__code__
    takes = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    unknown = [name for name in kwargs if name not in takes]
    if unknown:
        return _raise(ufunc, f"{method} with {', '.join(unknown)}")
    return found(x, *rest, **kwargs)


def _raise(ufunc: np.ufunc, method: str) -> Any:
    module = next(
        (
            m
            for m in ("numpy", "scipy.special")
            if getattr(sys.modules.get(m), ufunc.__name__, None) is ufunc
        ),
        None,
    )
    name = f"{module}.{ufunc.__name__}" if module else f"the ufunc {ufunc.__name__}"
    if module != "numpy":
        raise UnsupportedFunctionError(
            f"{name} has no derivative here",
            fix="give it one with functrace.primitive(f, vjp=…), or take the plain value with "
            "functrace.value(x) if no "
            "derivative is needed through it",
        )
    raise UnsupportedFunctionError(
        f"{name}{'' if method == '__call__' else f'.{method}'} has no implementation on traced "
        "values",
        fix="write it with functions that are supported (see functrace.numpy), or take the plain "
        "value with "
        "functrace.value(x) if no derivative is needed through it",
    )


def _cast(
    ufunc: np.ufunc, inputs: tuple[Any, ...], dtype: DtypeLike, casting: Casting
) -> tuple[Any, ...]:
    """Cast operands for the loop that ``dtype=`` and ``casting=`` select, as resolved by NumPy.

    Raises:
        DtypeError: if there is no such loop.
    """
    kinds = [
        type(x) if type(x) in LITERALS else (x if isinstance(x, Tracer) else as_array(x)).dtype
        for x in inputs
    ]
    plain = [
        x if isinstance(k, type) else np.empty(0, k) for x, k in zip(inputs, kinds, strict=True)
    ]
    options: dict[str, Any] = (
        {"casting": casting} if dtype is None else {"casting": casting, "dtype": dtype}
    )
    try:
        result = ufunc(*plain, **options)
        if dtype is None or ufunc(*plain).dtype == result.dtype:
            return inputs
    except TypeError as error:
        shown = ", ".join([k.__name__ if isinstance(k, type) else str(k) for k in kinds])
        raise DtypeError(
            f"numpy.{ufunc.__name__} of {shown}: {str(error).partition(chr(10))[0]}",
            fix="convert the operands with .astype",
        ) from None
    letter = result.dtype.char
    if f"{letter * ufunc.nin}->{letter}" not in ufunc.types:
        raise UnsupportedFunctionError(
            f"numpy.{ufunc.__name__} with dtype={result.dtype} has no implementation on traced "
            "values",
            fix="leave dtype= out",
        )
    return tuple(
        [
            np.asarray(x).astype(result.dtype)[()]
            if isinstance(k, type)
            else convert(x, result.dtype)
            for x, k in zip(inputs, kinds, strict=True)
        ]
    )


def _call(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    where = mask_of(kwargs.pop("where", True), ufunc.__name__)
    dtype = kwargs.pop("dtype", None)
    casting = kwargs.pop("casting", "same_kind")
    for harmless in ("order", "subok"):
        kwargs.pop(harmless, None)
    primitive = ew.UFUNCS.get(ufunc) or of_scipy(ufunc)
    if primitive is None and ufunc not in FUNCTIONS:
        plain = without_derivatives(inputs)
        if plain is not None:
            given = {"dtype": dtype, "where": where, "casting": casting}
            usual = {"dtype": None, "where": True, "casting": "same_kind"}
            return ufunc(
                *plain, **{key: x for key, x in given.items() if x is not usual[key]}, **kwargs
            )
    options = {"axis": kwargs.pop("axis")} if ufunc is np.vecdot and "axis" in kwargs else {}
    if kwargs or (primitive is None and ufunc not in FUNCTIONS):
        return _raise(ufunc, "__call__")
    if dtype is not None or casting != "same_kind":
        inputs = _cast(ufunc, inputs, dtype, casting)
    result = (
        bind(primitive, inputs) if primitive is not None else FUNCTIONS[ufunc](*inputs, **options)
    )
    if where is not True:
        base = broadcast_to(np.zeros((), result.dtype), result.shape)
        result = ew.where(where, result, base)
    return result
