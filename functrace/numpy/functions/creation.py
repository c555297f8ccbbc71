"""Arrays made from sizes, endpoints or nested lists of traced values.

``zeros_like(x)`` and related functions of a traced ``x`` return traced arrays, so that traced
values can be written into them; so do ``np.zeros(shape, like=x)`` and ``np.array([x, 1.0],
like=x)`` (NEP 35). `array` is `functrace.numpy.array`.

Layer: 3.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from functrace.errors import ConcretizationError, DtypeError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import shape_of
from functrace.numpy.arrays.assignment import numeric
from functrace.numpy.arrays.indexing import without_leading_ones
from functrace.numpy.arrays.layout import C_ORDER, F_ORDER, Order, order_like
from functrace.numpy.arrays.masked import mask_of
from functrace.numpy.arrays.overlaps import refuse_overlap
from functrace.numpy.arrays.view_kinds import OrderedView
from functrace.numpy.arrays.views import is_scalar, linked, new_array, owned, reshaped, shares
from functrace.numpy.protocol.operands import (
    Arrayed,
    Casting,
    DtypeLike,
    Operand,
    OrderLike,
    Shape,
    Sizes,
    arrayed,
    cast_to,
    checked_order,
    holds_tracer,
    int_tuple,
    known,
    need_traced,
    one_axis,
    operand,
    stacked,
    without_derivatives,
)
from functrace.numpy.protocol.tables import FUNCTIONS, implements, implements_like
from functrace.ops import elementwise as ew
from functrace.ops.checks import require as require_that
from functrace.ops.shaping import broadcast_to, convert, filled
from functrace.tracing.binding import claimed
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import LITERALS, Tracer, Value
from functrace.typing import Scalar

if TYPE_CHECKING:
    import numpy.typing as npt

    from functrace.numpy.arrays.traced_array import TracedArray

# -- arrays from nested lists ----------------------------------------------------------------------


_COPIES: dict[Any, bool | None] = {
    np._CopyMode.ALWAYS: True, np._CopyMode.NEVER: False, np._CopyMode.IF_NEEDED: None,  # type: ignore[attr-defined]
}  # fmt: skip
"""Values of ``copy=`` other than bools."""


@implements(np.array, creates=True)
def array(
    object: Operand, dtype: DtypeLike = None, *, copy: bool | None = True, order: OrderLike = "K",
    subok: bool = False,
    ndmin: int = 0, like: Arrayed | None = None,
) -> Any:  # fmt: skip
    """As ``numpy.array``, also for traced values and for nested lists of them.

    Example:
        >>> import functrace as ft, functrace.numpy as fnp
        >>> ft.grad(lambda x: fnp.array([x, 2.0 * x, 1.0]).sum())(1.0)
        np.float64(3.0)
    """
    if not holds_tracer(object):
        if isinstance(like, Tracer):
            return made_in(
                claimed(like.ft_recording),
                np.array(object, dtype, copy=copy, order=order, ndmin=ndmin),
            )
        return np.array(object, dtype, copy=copy, order=order, subok=subok, ndmin=ndmin, like=like)
    if dtype is not None and np.dtype(dtype).kind == "O":
        plain = without_derivatives((object,))
        if plain is not None:
            return np.array(plain[0], dtype, copy=copy, order=order, ndmin=ndmin)
    letter, copy = checked_order(order, "array"), _COPIES.get(copy, copy)
    if isinstance(object, Tracer):
        made = _laid(object, object.dtype if dtype is None else np.dtype(dtype), letter, copy)
    else:
        made = new_array(cast_to(arrayed(object), dtype), F_ORDER if letter == "F" else C_ORDER)
    missing = ndmin - len(shape_of(made))
    return reshaped(made, (1,) * missing + shape_of(made)) if missing > 0 else made


def made_in(recording: Recording, values: np.ndarray[Any, Any]) -> TracedArray:
    """Return a plain array as a traced one, so that traced values can be written into it.

    Args:
        recording: the recording of the new array.
        values: an array of numbers without other writers.
    """
    handle = recording.handle(recording.capture(values))
    return owned(handle, order_like(handle, "="))


def _laid(x: TracedArray, dtype: np.dtype[Any], letter: str, copy: bool | None) -> Any:
    """Return a traced value in a dtype and order: a copy, or itself where none is needed."""
    if x.dtype != dtype:
        if copy is False:
            raise ShapeError(
                "Unable to avoid copy while creating an array as requested.", fix="pass copy=None"
            )
        return new_array(convert(x, dtype), order_like(x, letter))
    if copy:
        return owned(x, order_like(x, letter))
    if not x.shape:
        scalar = is_scalar(x)
        return x if scalar is False else linked(x, OrderedView(x, "K"))
    if letter in "AK":
        return x
    result = linked(x, OrderedView(x, letter))
    if copy is False and not shares(result.ft_view):
        raise ShapeError(
            "Unable to avoid copy while creating an array as requested.", fix="pass copy=None"
        )
    return result


@implements(np.asarray, creates=True)
def asarray(
    a: Operand,
    dtype: DtypeLike = None,
    order: OrderLike = None,
    *,
    device: str | None = None,
    copy: bool | None = None,
    like: Arrayed | None = None,
) -> Any:
    """As ``numpy.asarray``, also for traced values and for nested lists of them."""
    return array(a, dtype, copy=copy, order="K" if order is None else order, like=like)


@implements(np.asanyarray, creates=True)
def asanyarray(
    a: Operand,
    dtype: DtypeLike = None,
    order: OrderLike = None,
    *,
    device: str | None = None,
    copy: bool | None = None,
    like: Arrayed | None = None,
) -> Any:
    """As ``numpy.asanyarray``, also for traced values and for nested lists of them."""
    return array(a, dtype, copy=copy, order="K" if order is None else order, subok=True, like=like)


@implements(np.ascontiguousarray, creates=True)
def ascontiguousarray(a: Operand, dtype: DtypeLike = None, *, like: Arrayed | None = None) -> Any:
    """As ``numpy.ascontiguousarray``, also for traced values and for nested lists of them."""
    if not holds_tracer(a) and like is None:
        return np.ascontiguousarray(a, dtype)
    return array(a, dtype, copy=None, order="C", ndmin=1, like=like)


@implements(np.asfortranarray, creates=True)
def asfortranarray(a: Operand, dtype: DtypeLike = None, *, like: Arrayed | None = None) -> Any:
    """As ``numpy.asfortranarray``, also for traced values and for nested lists of them."""
    if not holds_tracer(a) and like is None:
        return np.asfortranarray(a, dtype)
    return array(a, dtype, copy=None, order="F", ndmin=1, like=like)


@implements(np.require, creates=True)
def require(
    a: Operand, dtype: DtypeLike = None, requirements: Any = None, *, like: Arrayed | None = None
) -> Any:
    """As ``numpy.require``, also for traced values: aligned and writable; ownership is unknown."""
    if not holds_tracer(a) and like is None:
        return np.require(a, dtype, requirements)
    wanted = {str(word).upper()[0] for word in requirements or ()}
    if "O" in wanted:
        raise UnsupportedFunctionError(
            "require: unknown memory ownership of a traced value", fix="use np.copy"
        )
    order = "F" if "F" in wanted else "C" if "C" in wanted else "K"
    return array(a, dtype, copy=None, order=order, like=like)


@implements(np.asarray_chkfinite, creates=True)
def asarray_chkfinite(a: Operand, dtype: DtypeLike = None, order: OrderLike = None) -> Any:
    """As ``numpy.asarray_chkfinite``, also for traced values and nested lists; concretizes them.

    Raises:
        ConcretizationError: if the values are abstract.
    """
    if not holds_tracer(a):
        return np.asarray_chkfinite(a, dtype, order)
    made = asarray(a, dtype, order)
    try:
        values = known(made)
    except ConcretizationError as error:
        raise ConcretizationError(
            "numpy.asarray_chkfinite checks values, which are not known here",
            made=error.made,
            fix="use np.asarray(x), and np.all(np.isfinite(x)) as a result of the function",
        ) from error
    np.asarray_chkfinite(values)
    return made


@implements(np.fromiter, creates=True)
def fromiter(
    iter: Iterable[Operand], dtype: Any, count: int = -1, *, like: Arrayed | None = None
) -> Any:
    """As ``numpy.fromiter``, also for an iterable of traced values."""
    found = (
        iter
        if isinstance(iter, list)
        else list(itertools.islice(iter, count) if count >= 0 else iter)
    )
    if not holds_tracer(found):
        made = np.fromiter(found, dtype, count)
        return array(made, like=like) if isinstance(like, Tracer) else made
    found = found[:count] if count >= 0 else found
    if len(found) < count:
        raise ShapeError(
            f"iterator too short: Expected {count} but iterator had only {len(found)} items.",
            fix="leave count out",
        )
    return array(found, dtype)


# -- arrays like another array ---------------------------------------------------------------------


def _as_shape(shape: Sizes) -> tuple[int, ...]:
    return (
        shape if type(shape) is tuple and all(type(n) is int for n in shape) else int_tuple(shape)
    )


def _like(
    a: Arrayed, dtype: DtypeLike, shape: Sizes | None, value: Scalar, order: OrderLike
) -> Any:
    sizes = a.shape if shape is None else _as_shape(shape)
    return new_array(
        filled(a, sizes, a.dtype if dtype is None else dtype, value), _order_of(sizes, a, order)
    )


def _order_of(shape: Shape, a: Arrayed, order: OrderLike) -> Order:
    """Return the memory order of a result of ``zeros_like`` and related functions."""
    letter = checked_order(order, "zeros_like and the like")
    if not isinstance(a, Tracer):
        return F_ORDER if letter == "F" else C_ORDER
    return order_like(a, "C" if letter == "K" and len(shape) != a.ndim else letter)


@implements(np.zeros_like)
def zeros_like(
    a: Arrayed,
    dtype: DtypeLike = None,
    order: OrderLike = "K",
    subok: bool = True,
    shape: Sizes | None = None,
    *,
    device: str | None = None,
) -> Any:
    """As ``numpy.zeros_like``, but traced, so that traced values can be written into it."""
    return _like(a, dtype, shape, 0, order)


@implements(np.ones_like)
def ones_like(
    a: Arrayed,
    dtype: DtypeLike = None,
    order: OrderLike = "K",
    subok: bool = True,
    shape: Sizes | None = None,
    *,
    device: str | None = None,
) -> Any:
    """As ``numpy.ones_like``, but traced, so that traced values can be written into it."""
    return _like(a, dtype, shape, 1, order)


@implements(np.empty_like)
def empty_like(
    prototype: Arrayed,
    /,
    dtype: DtypeLike = None,
    order: OrderLike = "K",
    subok: bool = True,
    shape: Sizes | None = None,
    *,
    device: str | None = None,
) -> Any:
    """As ``numpy.empty_like``, filled with zeros."""
    return _like(prototype, dtype, shape, 0, order)


@implements(np.full_like)
def full_like(
    a: Arrayed,
    fill_value: Operand,
    dtype: DtypeLike = None,
    order: OrderLike = "K",
    subok: bool = True,
    shape: Sizes | None = None,
    *,
    device: str | None = None,
) -> Any:
    """As ``numpy.full_like``; ``fill_value`` may be traced."""
    a = arrayed(a)
    shape, dtype = (
        shape_of(a) if shape is None else _as_shape(shape),
        a.dtype if dtype is None else np.dtype(dtype),
    )
    fill_value = stacked(fill_value)
    if isinstance(fill_value, Tracer):
        return owned(broadcast_to(convert(fill_value, dtype), shape), _order_of(shape, a, order))
    if not isinstance(fill_value, int):  # an integer may be too large for any integer dtype
        numeric(fill_value)
    if not isinstance(a, Tracer):
        return np.full(shape, fill_value, dtype)
    if np.ndim(fill_value) == 0:
        return new_array(
            filled(a, shape, dtype, np.full((), fill_value, dtype)[()]), _order_of(shape, a, order)
        )
    return new_array(array(np.full(shape, fill_value, dtype), like=a), _order_of(shape, a, order))


@implements(np.full, creates=True)
def full(
    shape: Sizes,
    fill_value: Operand,
    dtype: DtypeLike = None,
    order: Literal["C", "F"] = "C",
    *,
    device: str | None = None,
    like: Arrayed | None = None,
) -> Any:
    """As ``numpy.full``; ``fill_value`` may be traced."""
    shape, fill_value = _as_shape(shape), stacked(fill_value)
    if isinstance(fill_value, Tracer):
        filled_in = broadcast_to(fill_value if dtype is None else convert(fill_value, dtype), shape)
        return owned(filled_in, F_ORDER if checked_order(order, "full") == "F" else C_ORDER)
    made = np.full(shape, fill_value, dtype, order)
    return array(made, like=like) if isinstance(like, Tracer) else made


@implements(np.copyto)
def copyto(
    dst: TracedArray, src: Operand, casting: Casting = "same_kind", where: Value = True
) -> None:
    """As ``numpy.copyto`` into a traced value; a plain ndarray cannot hold traced values."""
    need_traced(dst, "numpy.copyto (or numpy.full_like of a plain array)")
    src = stacked(src)
    if not isinstance(src, Tracer):  # NumPy casts, or raises
        plain = np.empty(numeric(src).shape, dst.dtype)
        np.copyto(plain, src, casting=casting)
        src = plain[()]
    elif not np.can_cast(src.dtype, dst.dtype, casting):
        raise DtypeError(
            f"copyto: cannot cast {src.dtype} to {dst.dtype} by the rule {casting!r}",
            fix="convert it first",
        )
    new = broadcast_to(without_leading_ones(convert(src, dst.dtype), dst.ndim), dst.shape)
    where = mask_of(where, "copyto")
    if not isinstance(where, Tracer):
        refuse_overlap(dst, src, "copyto", lambda t, v: np.copyto(t, v, where=where), strict=False)
    if where is not True:
        new = ew.where(broadcast_to(where, dst.shape), new, dst)
    dst.ft_assign(new, "copyto")  # type: ignore[attr-defined]


# -- ranges ----------------------------------------------------------------------------------------


@implements(np.arange, creates=True)
def arange(
    *args: Any, dtype: DtypeLike = None, device: str | None = None, like: Arrayed | None = None
) -> Any:
    """As ``numpy.arange``; traced ends are concretized for the length, the elements stay traced.

    Raises:
        ConcretizationError: if a traced end is abstract (under ``vmap`` or ``trace``).
    """
    if not any(isinstance(x, Tracer) for x in args):
        made = np.arange(*args, dtype=dtype)
        return array(made, like=like) if isinstance(like, Tracer) else made
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    low, high, by = (x.ft_concrete() if isinstance(x, Tracer) else x for x in (start, stop, step))
    length = max(0, math.ceil((high - low) / by))
    made = start + np.arange(length) * step
    found = np.arange(low, high, by).dtype if dtype is None else np.dtype(dtype)
    return convert(made, found)


@implements(np.linspace)
def linspace(
    start: Operand,
    stop: Operand,
    num: SupportsIndex = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DtypeLike = None,
    axis: SupportsIndex = 0,
    *,
    device: str | None = None,
) -> Any:
    """As ``numpy.linspace``."""
    num = operator.index(num)
    if num < 0:
        raise ShapeError(
            f"linspace: the number of samples, {num}, must be non-negative", fix="pass num >= 0"
        )
    ends = [operand(x) for x in (start, stop)]
    kind = np.result_type(*[x if type(x) in LITERALS else x.dtype for x in ends], 0.0)
    start, stop = (convert(arrayed(x), kind) for x in ends)
    shape = np.broadcast_shapes(shape_of(start), shape_of(stop))
    divisions = num - 1 if endpoint else num
    k = np.arange(num, dtype=kind).reshape((num,) + (1,) * len(shape))
    delta = stop - start
    step = delta / divisions if divisions > 0 else math.nan
    made = k * step + start if divisions > 0 else k * delta + start
    if endpoint and num > 1:
        made = ew.where(k == divisions, stop, made)
    wanted = kind if dtype is None else np.dtype(dtype)
    axis = one_axis(axis, len(shape) + 1)
    if axis:
        made = np.moveaxis(made, 0, axis)
    if wanted.kind in "iu":
        made = np.floor(made)
    made = convert(made, wanted)
    return (made, step) if retstep else made


@implements(np.logspace)
def logspace(
    start: Operand,
    stop: Operand,
    num: SupportsIndex = 50,
    endpoint: bool = True,
    base: Operand = 10.0,
    dtype: DtypeLike = None,
    axis: SupportsIndex = 0,
) -> Any:
    """As ``numpy.logspace``."""
    base = stacked(base)
    if len(shape_of(base)):
        shape = np.broadcast_shapes(*(shape_of(arrayed(x)) for x in (start, stop, base)))
        start = broadcast_to(arrayed(start), shape)
        base = np.expand_dims(broadcast_to(arrayed(base), shape), axis)
    made = np.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return cast_to(made, dtype)


@implements(np.geomspace)
def geomspace(
    start: Operand,
    stop: Operand,
    num: SupportsIndex = 50,
    endpoint: bool = True,
    dtype: DtypeLike = None,
    axis: SupportsIndex = 0,
) -> Any:
    """As ``numpy.geomspace``."""
    start, stop = arrayed(start), arrayed(stop)
    kind = np.result_type(start.dtype, stop.dtype, float(operator.index(num)), np.zeros((), dtype))
    start, stop = (
        require_that(
            convert(x, kind),
            ew.not_equal(x, 0),
            "ValueError",
            "Geometric sequence cannot include zero",
        )
        for x in (start, stop)
    )
    sign = np.sign(start)
    low, high = np.broadcast_arrays(start / sign, stop / sign)
    exponents = linspace(np.log10(low), np.log10(high), num, endpoint)
    made = np.power(10.0, exponents)
    k = np.arange(shape_of(made)[0]).reshape((-1,) + (1,) * (len(shape_of(made)) - 1))
    made = ew.where(k == 0, low, made)
    if endpoint and len(k) > 1:
        made = ew.where(k == len(k) - 1, high, made)
    made = made * sign
    axis = one_axis(axis, len(shape_of(made)))
    if axis:
        made = np.moveaxis(made, 0, axis)
    return convert(made, kind if dtype is None else dtype)


@implements(np.kaiser, creates=True)
def kaiser(M: SupportsIndex, beta: Operand, *, like: Arrayed | None = None) -> Any:
    """As ``numpy.kaiser``; ``beta`` may be traced, ``M`` is concretized."""
    if not holds_tracer(beta):
        made = np.kaiser(M, beta)  # type: ignore[arg-type]
        return array(made, like=like) if isinstance(like, Tracer) else made
    size: Any = np.asarray(M)[()]
    if shape_of(arrayed(beta)):
        raise ShapeError(
            f"kaiser: beta must be a number, got shape {shape_of(arrayed(beta))}",
            fix="map over it by vmap",
        )
    beta = convert(arrayed(beta), np.result_type(arrayed(beta).dtype, size, 0.0))
    if size == 1:
        return np.ones(1, beta.dtype)
    middle = (size - 1) / 2.0
    arch = np.sqrt(1 - ((np.arange(0, size, dtype=beta.dtype) - middle) / middle) ** 2.0)
    return ew.div(FUNCTIONS[np.i0](ew.mul(arch, beta)), FUNCTIONS[np.i0](beta))


@implements_like(np.zeros)
@implements_like(np.empty)
def _zeros(
    like: TracedArray, shape: Sizes, dtype: npt.DTypeLike = float, *_: object, **__: object
) -> Any:
    return filled(like, _as_shape(shape), dtype, 0)


@implements_like(np.ones)
def _ones(
    like: TracedArray, shape: Sizes, dtype: DtypeLike = None, *_: object, **__: object
) -> Any:
    return filled(like, _as_shape(shape), float if dtype is None else dtype, 1)


def _sized_like(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda like, *args, **kwargs: array(function(*args, **kwargs), like=like)


for _function in (np.eye, np.identity, np.tri):
    implements_like(_function)(_sized_like(_function))
