"""Arrays made from sizes, endpoints or nests of traced values; and questions about shape and dtype.

``zeros_like(x)`` and its kin of a traced ``x`` are traced themselves, so that traced values can be written into them; so
are ``np.zeros(shape, like=x)`` and ``np.array([x, 1.0], like=x)`` (NEP 35). `array` is what `functrace.numpy.array` is.

Floor: 6.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.errors import DtypeError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import shape_of
from functrace.numpy.assigning import numeric
from functrace.numpy.indexing import without_leading_ones
from functrace.numpy.layout import C_ORDER, F_ORDER, UNKNOWN, order_like
from functrace.numpy.operands import (
    Casting,
    along,
    arrayed,
    axis_tuple,
    cast_to,
    checked_order,
    flattened,
    holds_tracer,
    int_tuple,
    need_traced,
    one_axis,
    operand,
    stacked,
)
from functrace.numpy.shaping import concatenate
from functrace.numpy.tables import implements, implements_like
from functrace.numpy.taking import take
from functrace.numpy.view_kinds import LaidView
from functrace.numpy.views import is_scalar, laid_out, linked, new_array, owned, reshaped, shares
from functrace.ops import elementwise as ew
from functrace.ops import joining
from functrace.ops.indexing import index_static
from functrace.ops.shaping import broadcast_to, convert, filled, reshape
from functrace.tracing.recording import LITERALS, Tracer, as_array, claimed

# -- arrays from nests --------------------------------------------------------------------------------


@implements(np.array, creates=True)
def array(
    object: Any, dtype: Any = None, *, copy: bool | None = True, order: Any = "K", subok: bool = False,
    ndmin: int = 0, like: Any = None,
) -> Any:  # fmt: skip
    """As ``numpy.array``, also for traced values and for nested lists of them.

    Example:
        >>> import functrace as ft, functrace.numpy as fnp
        >>> ft.grad(lambda x: fnp.array([x, 2.0 * x, 1.0]).sum())(1.0)
        np.float64(3.0)
    """
    if not holds_tracer(object):
        if isinstance(like, Tracer):
            made = np.array(object, dtype, copy=copy, order=order, ndmin=ndmin)
            home = claimed(like._recording)
            handle = home.handle(home.capture(made))
            return owned(handle, order_like(handle, "="))
        return np.array(object, dtype, copy=copy, order=order, subok=subok, ndmin=ndmin, like=like)
    letter = checked_order(order, "array")
    if isinstance(object, Tracer):
        made = _laid(object, object.dtype if dtype is None else np.dtype(dtype), letter, copy)
    else:
        made = stacked(object)
        made = new_array(cast_to(made, dtype), F_ORDER if letter == "F" else C_ORDER)
    missing = ndmin - len(shape_of(made))
    return reshaped(made, (1,) * missing + shape_of(made)) if missing > 0 else made


def _laid(x: Any, dtype: Any, letter: str, copy: bool | None) -> Any:
    """A traced value as an array of a dtype in an order: a copy, or where none is needed, itself."""
    if x.dtype != dtype:
        if copy is False:
            raise ShapeError("Unable to avoid copy while creating an array as requested.", fix="pass copy=None")
        return new_array(convert(x, dtype), order_like(x, letter))
    if copy:
        return owned(x, order_like(x, letter))
    if not x.shape:
        scalar = is_scalar(x)
        return x if scalar is False else linked(x, LaidView(x, "K"))
    if letter in "AK":
        return x
    result = linked(x, LaidView(x, letter))
    if copy is False and not shares(result._view):
        raise ShapeError("Unable to avoid copy while creating an array as requested.", fix="pass copy=None")
    return result


@implements(np.asarray, creates=True)
def asarray(a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None) -> Any:
    """As ``numpy.asarray``, also for traced values and for nested lists of them."""
    return array(a, dtype, copy=copy, order="K" if order is None else order, like=like)


@implements(np.asanyarray, creates=True)
def asanyarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Any:
    """As ``numpy.asanyarray``, also for traced values and for nested lists of them."""
    return array(a, dtype, copy=copy, order="K" if order is None else order, subok=True, like=like)


@implements(np.ascontiguousarray, creates=True)
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """As ``numpy.ascontiguousarray``, also for traced values and for nested lists of them."""
    if not holds_tracer(a) and like is None:
        return np.ascontiguousarray(a, dtype)
    return array(a, dtype, copy=None, order="C", ndmin=1, like=like)


@implements(np.asfortranarray, creates=True)
def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """As ``numpy.asfortranarray``, also for traced values and for nested lists of them."""
    if not holds_tracer(a) and like is None:
        return np.asfortranarray(a, dtype)
    return array(a, dtype, copy=None, order="F", ndmin=1, like=like)


@implements(np.require, creates=True)
def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Any:
    """As ``numpy.require``, also for traced values; these are aligned and writable, and who owns memory is not known."""
    if not holds_tracer(a) and like is None:
        return np.require(a, dtype, requirements)
    wanted = {str(word).upper()[0] for word in requirements or ()}
    if "O" in wanted:
        raise UnsupportedFunctionError("require: a traced value does not know whether it owns its memory", fix="use np.copy")
    order = "F" if "F" in wanted else "C" if "C" in wanted else "K"
    return array(a, dtype, copy=None, order=order, like=like)


# -- arrays like another one ------------------------------------------------------------------------------


def _as_shape(shape: Any) -> tuple[int, ...]:
    return shape if type(shape) is tuple and all(type(n) is int for n in shape) else int_tuple(shape)


def _like(a: Any, dtype: Any, shape: Any, value: Any, order: Any) -> Any:
    sizes = a.shape if shape is None else _as_shape(shape)
    return new_array(filled(a, sizes, a.dtype if dtype is None else dtype, value), _order_of(sizes, a, order))


def _order_of(shape: Any, a: Any, order: Any) -> Any:
    """The order in which the functions named ``…_like`` lay out an array of a shape."""
    letter = checked_order(order, "zeros_like and its kin")
    if not isinstance(a, Tracer) or (letter == "K" and len(shape) != a.ndim):
        letter = "C" if letter in "AK" else letter
    return order_like(a, letter) if letter in "AK" else F_ORDER if letter == "F" else C_ORDER


@implements(np.zeros_like)
def zeros_like(
    a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    """As ``numpy.zeros_like``; traced, so that traced values can be written into it."""
    return _like(a, dtype, shape, 0, order)


@implements(np.ones_like)
def ones_like(
    a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    """As ``numpy.ones_like``; traced, so that traced values can be written into it."""
    return _like(a, dtype, shape, 1, order)


@implements(np.empty_like)
def empty_like(
    prototype: Any, /, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    """As ``numpy.empty_like``, filled with zeros."""
    return _like(prototype, dtype, shape, 0, order)


@implements(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """As ``numpy.full_like``; ``fill_value`` may be traced."""
    shape, dtype = shape_of(a) if shape is None else _as_shape(shape), a.dtype if dtype is None else np.dtype(dtype)
    fill_value = stacked(fill_value)
    if isinstance(fill_value, Tracer):
        return owned(broadcast_to(convert(fill_value, dtype), shape), _order_of(shape, a, order))
    numeric(fill_value)
    if not isinstance(a, Tracer):
        return np.full(shape, fill_value, dtype)
    if np.ndim(fill_value) == 0:
        return new_array(filled(a, shape, dtype, np.full((), fill_value, dtype)[()]), _order_of(shape, a, order))
    return new_array(array(np.full(shape, fill_value, dtype), like=a), _order_of(shape, a, order))


@implements(np.full, creates=True)
def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None) -> Any:
    """As ``numpy.full``; ``fill_value`` may be traced."""
    shape, fill_value = _as_shape(shape), stacked(fill_value)
    if isinstance(fill_value, Tracer):
        filled_in = broadcast_to(fill_value if dtype is None else convert(fill_value, dtype), shape)
        return owned(filled_in, F_ORDER if checked_order(order, "full") == "F" else C_ORDER)
    made = np.full(shape, fill_value, dtype, order)
    return array(made, like=like) if isinstance(like, Tracer) else made


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: Casting = "same_kind", where: Any = True) -> None:
    """As ``numpy.copyto`` into a traced value; a plain ndarray cannot hold a traced one."""
    need_traced(dst, "numpy.copyto (or numpy.full_like of a plain array)")
    src = stacked(src)
    if not isinstance(src, Tracer):  # NumPy's own casting, or refusal
        plain = np.empty(numeric(src).shape, dst.dtype)
        np.copyto(plain, src, casting=casting)
        src = plain[()]
    elif not np.can_cast(src.dtype, dst.dtype, casting):
        raise DtypeError(f"copyto: cannot cast {src.dtype} to {dst.dtype} by the rule {casting!r}", fix="convert it first")
    new = broadcast_to(without_leading_ones(convert(src, dst.dtype), dst.ndim), dst.shape)
    if where is not True:
        new = ew.where(broadcast_to(where if isinstance(where, Tracer) else np.asarray(where, bool), dst.shape), new, dst)
    dst._assign(new, "copyto")  # type: ignore[attr-defined]


# -- ranges --------------------------------------------------------------------------------------------


@implements(np.arange, creates=True)
def arange(*args: Any, dtype: Any = None, device: Any = None, like: Any = None) -> Any:
    """As ``numpy.arange``; traced ends are asked for their values to know the length, the elements stay traced.

    Raises:
        ConcretizationError: if a traced end has no value (under ``vmap`` or ``trace``).
    """
    if not any(isinstance(x, Tracer) for x in args):
        made = np.arange(*args, dtype=dtype)
        return array(made, like=like) if isinstance(like, Tracer) else made
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    low, high, by = (x._concrete() if isinstance(x, Tracer) else x for x in (start, stop, step))
    length = max(0, math.ceil((high - low) / by))
    made = start + np.arange(length) * step
    found = np.arange(low, high, by).dtype if dtype is None else np.dtype(dtype)
    return convert(made, found)


@implements(np.linspace)
def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: Any = 0, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """As ``numpy.linspace``."""
    num = operator.index(num)
    if num < 0:
        raise ShapeError(f"linspace: the number of samples, {num}, must be non-negative", fix="pass num >= 0")
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
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: Any = 0
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
def geomspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: Any = 0) -> Any:
    """As ``numpy.geomspace``, for real ends."""
    start, stop = arrayed(start), arrayed(stop)
    kind = np.result_type(start.dtype, stop.dtype, float(operator.index(num)))
    if kind.kind == "c":
        raise UnsupportedFunctionError("geomspace between complex numbers is not supported", fix="use np.exp of a linspace")
    start, stop = convert(start, kind), convert(stop, kind)
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


# -- questions -----------------------------------------------------------------------------------------


def _spec(x: Any) -> Any:
    return x.dtype if isinstance(x, Tracer) else x


def _probe(x: Any) -> Any:
    """A stand-in without values, whose shape and dtype answer questions."""
    return np.broadcast_to(np.zeros((), x.dtype), x.shape) if isinstance(x, Tracer) else x


@implements(np.size)
def _size(a: Any, axis: Any = None) -> int:
    return a.size if axis is None else math.prod(a.shape[k] for k in axis_tuple(axis, a.ndim))


@implements(np.min_scalar_type)
def _min_scalar_type(a: Any, /) -> np.dtype[Any]:
    return a.dtype if a.ndim else np.min_scalar_type(a._concrete())


def _root(x: Any) -> Any:
    while isinstance(x, Tracer) and x._view is not None and x._view.base is not None and shares(x._view):
        x = x._view.base
    return x


@implements(np.may_share_memory, np.shares_memory)
def _shares_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    return _root(a) is _root(b)


# -- samples -------------------------------------------------------------------------------------------


@implements(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """As ``numpy.interp``; differentiable by ``x``, ``xp``, ``fp``, ``left`` and ``right``."""
    x, xp, fp = (convert(y, np.result_type(y.dtype, float)) for y in map(arrayed, (x, xp, fp)))
    if len(shape_of(xp)) != 1 or shape_of(xp) != shape_of(fp) or not shape_of(xp)[0]:
        raise ShapeError(
            f"interp: xp and fp must be vectors of one size of at least 1, got {shape_of(xp)} and {shape_of(fp)}",
            fix="pass one value per point",
        )
    if xp.dtype.kind == "c" or x.dtype.kind == "c":
        raise DtypeError("interp: x and xp must be real", fix="take the real part")
    left, right = (end if end is None else _outside(end, fp.dtype) for end in (left, right))
    if period is not None:
        period = abs(period)
        x, xp = x % period, xp % period
        order = np.argsort(xp)
        xp, fp = take(xp, order), take(fp, order)
        xp = concatenate((xp[-1:] - period, xp, xp[:1] + period))
        fp = concatenate((fp[-1:], fp, fp[:1]))
        left = right = None
    n = shape_of(xp)[0]
    upper = np.clip(np.searchsorted(xp, x, "right"), 1, max(n - 1, 1))
    lower = upper - 1
    upper = np.minimum(upper, n - 1)
    x0, y0 = take(xp, lower), take(fp, lower)
    dx, dy = take(xp, upper) - x0, take(fp, upper) - y0
    flat = ew.equal(dx, 0)
    made = ew.add(ew.mul(ew.div(dy, ew.where(flat, 1.0, dx)), ew.sub(x, x0)), y0)
    first, last = index_static(xp, (0,)), index_static(xp, (n - 1,))
    made = ew.where(ew.less(x, first), index_static(fp, (0,)) if left is None else left, made)
    outside = index_static(fp, (n - 1,))
    made = ew.where(ew.equal(x, last), outside, made)
    return ew.where(ew.greater(x, last), outside if right is None else right, made)


_MODES = ("full", "same", "valid")


def _slid(a: Any, v: Any, mode: Any, what: str) -> tuple[Any, Any, str]:
    a, v = arrayed(a), arrayed(v)
    mode = _MODES[::-1][mode] if isinstance(mode, int) and 0 <= mode < 3 else mode
    if mode not in _MODES:
        raise ShapeError(f"{what}: mode must be one of 'full', 'same', 'valid', not {mode!r}", fix="pass one of them")
    if len(shape_of(a)) > 1 or len(shape_of(v)) > 1:
        raise ShapeError(f"{what} needs vectors, got shapes {shape_of(a)} and {shape_of(v)}", fix="use .ravel()")
    a, v = (flattened(x) for x in (a, v))
    if not shape_of(a)[0] or not shape_of(v)[0]:
        raise ShapeError(f"{what}: neither argument can be empty", fix="pass at least one element")
    return a, v, mode


def _cut(full_result: Any, m: int, n: int, mode: str, start: int) -> Any:
    small, large = min(m, n), max(m, n)
    if mode == "full":
        return full_result
    if mode == "same":
        return index_static(full_result, ((start, start + large, None),))
    return index_static(full_result, ((small - 1, large, None),))


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    """As ``numpy.convolve``."""
    a, v, mode = _slid(a, v, mode, "convolve")
    m, n = len(a), len(v)
    return _cut(joining.convolve(a, v), m, n, mode, (min(m, n) - 1) // 2)


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    """As ``numpy.correlate``: of ``a`` with the complex conjugate of ``v``."""
    a, v, mode = _slid(a, v, mode, "correlate")
    m, n = len(a), len(v)
    other = ew.conj(v) if v.dtype.kind == "c" else v
    made = joining.convolve(a, index_static(other, ((None, None, -1),)))
    # Where v is the longer one NumPy swaps the two and turns the result round, which moves the middle of an even length.
    return _cut(made, m, n, mode, (m - 1) // 2 if n > m and m % 2 else min(m, n) // 2 if n > m else (n - 1) // 2)


def _outside(end: Any, dtype: Any) -> Any:
    """What `interp` gives outside of its points: one number, real where the others are."""
    end = stacked(end)
    if not isinstance(end, Tracer):
        end = as_array(end)[()]
    if shape_of(end) or (end.dtype.kind == "c" and dtype.kind != "c"):
        raise DtypeError(f"interp: left and right must be numbers like those of fp ({dtype})", fix="pass one number each")
    return convert(end, dtype)


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """As ``numpy.gradient``; differentiable by the values and by the spacings."""
    f = arrayed(f)
    ndim = len(shape_of(f))
    axes = tuple(range(ndim)) if axis is None else axis_tuple(axis, ndim)
    spacings = [stacked(s) for s in varargs] or [1.0]
    if len(spacings) == 1 and not len(shape_of(arrayed(spacings[0]))):
        spacings = spacings * len(axes)
    if len(spacings) != len(axes):
        raise DtypeError(f"gradient: {len(varargs)} spacings do not fit {len(axes)} axes", fix="give one per axis")
    if edge_order not in (1, 2):
        raise ShapeError("gradient: 'edge_order' greater than 2 not supported", fix="use 1 or 2")
    if f.dtype.kind == "b":
        raise DtypeError("gradient: bools have no difference", fix="convert them first, e.g. with .astype(int)")
    if f.dtype.kind not in "fc":
        f = convert(f, float)
    order = order_like(f, "K") if isinstance(f, Tracer) else UNKNOWN
    made = [laid_out(_gradient_along(f, s, k, edge_order), order) for s, k in zip(spacings, axes, strict=True)]
    return made[0] if len(axes) == 1 else tuple(made)


def _gradient_along(f: Any, spacing: Any, axis: int, edge_order: int) -> Any:
    n, ndim = shape_of(f)[axis], len(shape_of(f))
    if n < edge_order + 1:
        raise ShapeError(
            f"Shape of array too small to calculate a numerical gradient: axis {axis} has {n} elements",
            fix=f"at least {edge_order + 1} elements are required",
        )
    spacing = arrayed(spacing)

    def part(a: int | None, b: int | None) -> Any:
        return index_static(f, along(axis, (a, b, None)))

    uniform = not len(shape_of(spacing))
    if uniform:
        h = first = last = before_last = second = spacing
        inner = (part(2, None) - part(None, -2)) / (2.0 * h)
    else:
        if shape_of(spacing) != (n,):
            raise ShapeError(
                f"gradient: {shape_of(spacing)} coordinates do not fit axis {axis} of size {n}", fix="give one each"
            )
        steps = convert(spacing[1:] - spacing[:-1], np.result_type(spacing.dtype, f.dtype.type(0).real.dtype))
        first, second, last, before_last = (index_static(steps, (k,)) for k in (0, min(1, n - 2), n - 2, max(0, n - 3)))
        steps = reshape(steps, (n - 1,) + (1,) * (ndim - 1 - axis))
        low, high = index_static(steps, ((None, -1, None),)), index_static(steps, ((1, None, None),))
        a, b, c = -high / (low * (low + high)), (high - low) / (low * high), low / (high * (low + high))
        inner = a * part(None, -2) + b * part(1, -1) + c * part(2, None)
    if edge_order == 1:
        left = (part(1, 2) - part(0, 1)) / first
        right = (part(n - 1, n) - part(n - 2, n - 1)) / last
    else:
        left = -_one_sided(part(0, 1), part(1, 2), part(2, 3), first, second)
        right = _one_sided(part(n - 1, n), part(n - 2, n - 1), part(n - 3, n - 2), last, before_last)
    return joining.concatenate([convert(x, f.dtype) for x in (left, inner, right)], axis)


def _one_sided(y0: Any, y1: Any, y2: Any, h1: Any, h2: Any) -> Any:
    """Second-order difference at the end ``y0``, seen from outside; ``h1`` and ``h2`` are the next two steps."""
    return (2.0 * h1 + h2) / (h1 * (h1 + h2)) * y0 - (h1 + h2) / (h1 * h2) * y1 + h1 / (h2 * (h1 + h2)) * y2


@implements(np.cov)
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Any:  # fmt: skip
    """As ``numpy.cov``."""
    if ddof is not None and ddof != int(ddof):
        raise ShapeError("ddof must be integer", fix="pass 0 or 1")
    m = arrayed(m)
    rows = [m] if y is None else [m, arrayed(y)]
    if any(len(shape_of(x)) > 2 for x in rows):
        raise ShapeError("cov: m and y must have at most 2 axes", fix="use a matrix whose rows are variables")
    kind = np.result_type(*(x.dtype for x in rows), np.float64) if dtype is None else np.dtype(dtype)
    made = []
    for k, x in enumerate(rows):
        x = convert(x, kind)
        shape = shape_of(x)
        x = reshape(x, (1,) * (2 - len(shape)) + shape)
        made.append(np.transpose(x) if not rowvar and (len(shape) == 2 if k == 0 else shape_of(x)[0] != 1) else x)
    x = made[0] if len(made) == 1 else joining.concatenate(made, 0)
    ddof = (0 if bias else 1) if ddof is None else ddof
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            given = arrayed(given)
            if shape_of(given) != shape_of(x)[1:]:
                raise ShapeError(
                    f"cov: weights of shape {shape_of(given)} do not fit {shape_of(x)[1]} observations", fix="give one each"
                )
            weights = given if weights is None else weights * given
    n = shape_of(x)[1]
    if weights is None:
        mean, total = np.mean(x, axis=1, keepdims=True), float(n)
        scale: Any = total - ddof
    else:
        total = np.sum(weights)
        mean = np.sum(x * weights, axis=1, keepdims=True) / total
        scale = total - ddof
        if aweights is not None and ddof != 0:
            scale = total - ddof * np.sum(weights * arrayed(aweights)) / total
    centred = x - mean
    other = np.transpose(centred if weights is None else centred * weights)
    result = np.matmul(centred, np.conj(other) if kind.kind == "c" else other) * ew.div(1.0, scale)
    return np.squeeze(result)


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """As ``numpy.corrcoef``; NumPy's clipping to [-1, 1] only moves values by rounding, and is left out."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not len(shape_of(c)):
        return c / c
    deviation = np.sqrt(np.real(np.diagonal(c)))
    return c / deviation[:, None] / deviation[None, :]


@implements(np.can_cast)
def _can_cast(from_: Any, to: Any, casting: Casting = "safe") -> bool:
    return np.can_cast(_spec(from_), _spec(to), casting)


implements(np.shape)(lambda a: a.shape)
implements(np.ndim)(lambda a: a.ndim)
implements(np.result_type)(lambda *arrays_and_dtypes: np.result_type(*map(_spec, arrays_and_dtypes)))
implements(np.iscomplexobj)(lambda x: x.dtype.kind == "c")
implements(np.isrealobj)(lambda x: x.dtype.kind != "c")
implements(np.common_type)(lambda *arrays: np.common_type(*map(_probe, arrays)))
implements(np.array_repr)(lambda arr, *_, **__: repr(arr))
implements(np.array_str, np.array2string)(lambda a, *_, **__: repr(a))


@implements_like(np.zeros)
@implements_like(np.empty)
def _zeros(like: Any, shape: Any, dtype: Any = float, *_: Any, **__: Any) -> Any:
    return filled(like, _as_shape(shape), dtype, 0)


@implements_like(np.ones)
def _ones(like: Any, shape: Any, dtype: Any = None, *_: Any, **__: Any) -> Any:
    return filled(like, _as_shape(shape), float if dtype is None else dtype, 1)


def _sized_like(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda like, *args, **kwargs: array(function(*args, **kwargs), like=like)


for _function in (np.eye, np.identity, np.tri):
    implements_like(_function)(_sized_like(_function))
