"""Convolution and correlation of arrays of any rank; see `functrace.scipy.signal`.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.signal
from scipy.fft import next_fast_len

from functrace.errors import ShapeError
from functrace.numpy.protocol.operands import arrayed, axis_tuple
from functrace.ops.grids import convolve_grids
from functrace.scipy.dispatch import on_traced
from functrace.scipy.operands import Axis, Nested, Numeric, Operand, X
from functrace.typing import Array

Shape = tuple[int, ...]


def numbers(x: Operand) -> Any:
    """Return an array of inexact numbers; integers become float64."""
    made: Any = arrayed(x)
    return made if made.dtype.kind in "fc" else made.astype(np.float64)


def real_kind(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the real part."""
    return np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype


def along(axis: int, part: slice) -> tuple[slice, ...]:
    """Return the index of a part of one axis (non-negative)."""
    return (*(slice(None),) * axis, part)


def _checked(name: str, in1: Operand, in2: Operand, mode: str) -> tuple[Any, Any]:
    x, y = arrayed(in1), arrayed(in2)
    if mode not in ("full", "same", "valid") and x.ndim:
        raise ShapeError(
            f"scipy.signal.{name}: mode={mode!r} is none of 'valid', 'same', or 'full'",
            fix="leave it out for 'full'",
        )
    if x.ndim != y.ndim:
        raise ShapeError(
            f"scipy.signal.{name}: in1 and in2 should have the same dimensionality, got shapes "
            f"{x.shape} and {y.shape}",
            fix="add axes of size 1 to one of them",
        )
    return x, y


def _swapped(name: str, mode: str, x: Array, y: Array, axes: Sequence[int]) -> bool:
    """Return True if the second operand is the larger one, for "valid"."""
    if mode != "valid" or all(x.shape[k] >= y.shape[k] for k in axes):
        return False
    if all(y.shape[k] >= x.shape[k] for k in axes):
        return True
    raise ShapeError(
        f"scipy.signal.{name}: for 'valid' mode, one must be at least as large as the other in "
        "every dimension, "
        f"got shapes {x.shape} and {y.shape}",
        fix="use mode='full' or 'same'",
    )


def _centred(whole: Array, shape: Sequence[int]) -> Any:
    starts = [(n - m) // 2 for n, m in zip(whole.shape, shape, strict=True)]
    return whole[tuple([slice(k, k + m) for k, m in zip(starts, shape, strict=True)])]


def _turned(x: Array) -> Any:
    made = x[(slice(None, None, -1),) * x.ndim]
    return np.conj(made) if x.dtype.kind == "c" else made


# -- by Fourier transforms -------------------------------------------------------------------------


@on_traced(scipy.signal.fftconvolve)
def fftconvolve(in1: Operand, in2: Operand, mode: str = "full", axes: Axis = None) -> Any:
    """``scipy.signal.fftconvolve``: along axes, all by default; the others broadcast.

    Args:
        in1: shape (n, ...).
        in2: an array of the same rank.
        mode: "full" (every overlap), "same" (the middle part, as large as ``in1``), or "valid"
            (complete overlap only).
        axes: the axes to convolve, all by default; the others broadcast.

    Returns:
        a float or complex array; along an axis with n elements of ``in1`` and m of ``in2``: n + m -
        1 for "full", n for "same", abs(n - m) + 1 for "valid".

    Raises:
        ShapeError: if the ranks differ, ``mode`` is unknown, or neither operand of "valid" is at
            least as large as the other along every axis; if ``axes`` is empty, or the other axes do
            not broadcast.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> np.round(ft.jit(signal.fftconvolve)(np.arange(3.0), np.ones(2)), 4)
        array([0., 1., 3., 2.])

    Cost:
        three real Fourier transforms of the size of the result (complex ones of complex numbers).
    """
    return _by_transforms("fftconvolve", in1, in2, mode, axes)


@on_traced(scipy.signal.oaconvolve)
def oaconvolve(in1: Operand, in2: Operand, mode: str = "full", axes: Axis = None) -> Any:
    """``scipy.signal.oaconvolve``: convolution by Fourier transforms of blocks, for one operand
    much longer than the other.

    Args:
        in1: shape (n, ...).
        in2: an array of the same rank.
        mode: "full" (every overlap), "same" (the middle part, as large as ``in1``), or "valid"
            (complete overlap only).
        axes: the axes to convolve, all by default; the others broadcast.

    Returns:
        a float or complex array; along an axis with n elements of ``in1`` and m of ``in2``: n + m -
        1 for "full", n for "same", abs(n - m) + 1 for "valid".

    Raises:
        ShapeError: if the ranks differ, ``mode`` is unknown, or neither operand of "valid" is at
            least as large as the other along every axis; if ``axes`` is empty, or the other axes do
            not broadcast.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> np.round(ft.jit(signal.oaconvolve)(np.arange(3.0), np.ones(2)), 4)
        array([0., 1., 3., 2.])

    Cost:
        Fourier transforms of blocks a few times as long as the shorter operand, along one axis; for
        several axes like `fftconvolve`.
    """
    return _by_transforms("oaconvolve", in1, in2, mode, axes)


def _by_transforms(name: str, in1: Operand, in2: Operand, mode: str, axes: Axis) -> Any:
    x, y = _checked(name, in1, in2, mode)
    if x.ndim == 0:
        return x * y
    if 0 in x.shape or 0 in y.shape:
        return np.zeros(0)
    places = list(range(x.ndim)) if axes is None else list(axis_tuple(axes, x.ndim))
    if not places:
        raise ShapeError(
            f"scipy.signal.{name}: when provided, axes cannot be empty",
            fix="leave them out for all axes",
        )
    used = [k for k in places if x.shape[k] != 1 and y.shape[k] != 1]
    if any(
        x.shape[k] != y.shape[k] and 1 not in (x.shape[k], y.shape[k])
        for k in range(x.ndim)
        if k not in used
    ):
        raise ShapeError(
            f"scipy.signal.{name}: incompatible shapes for in1 and in2: {x.shape} and {y.shape}",
            fix="let them broadcast along axes that are not convolved",
        )
    if _swapped(name, mode, x, y, used):
        x, y = y, x
    x, y = (v if v.dtype.kind in "fc" else v.astype(np.float64) for v in (x, y))
    whole = (
        (_in_blocks if name == "oaconvolve" and len(used) == 1 else _at_once)(x, y, used)
        if used
        else x * y
    )
    if mode == "full":
        return whole
    if mode == "same":
        return _centred(whole, x.shape)
    sizes = [x.shape[k] - y.shape[k] + 1 if k in used else n for k, n in enumerate(whole.shape)]
    return _centred(whole, sizes)


def _at_once(x: Array, y: Array, axes: Sequence[int]) -> Any:
    lengths = [x.shape[k] + y.shape[k] - 1 for k in axes]
    real = "c" not in (x.dtype.kind, y.dtype.kind)
    sizes: Any = [next_fast_len(n, real) for n in lengths]
    if real:
        whole = np.fft.irfftn(
            np.fft.rfftn(x, sizes, axes) * np.fft.rfftn(y, sizes, axes), sizes, axes
        )
    else:
        whole = np.fft.ifftn(np.fft.fftn(x, sizes, axes) * np.fft.fftn(y, sizes, axes), sizes, axes)
    index = [slice(None)] * whole.ndim
    for k, n in zip(axes, lengths, strict=True):
        index[k] = slice(n)
    return whole[tuple(index)]


def _in_blocks(x: Array, y: Array, axes: Sequence[int]) -> Any:
    """Add up the convolutions of blocks of the longer operand, which overlap with the next."""
    from scipy.signal._signaltools import _calc_oa_lens

    (axis,) = axes
    if y.shape[axis] > x.shape[axis]:
        x, y = y, x
    n, m = x.shape[axis], y.shape[axis]
    _, overlap, step, _ = _calc_oa_lens(n, m)
    if overlap is None:
        return _at_once(x, y, axes)
    count = -(-(n + m - 1) // step)
    x = np.pad(x, [(0, count * step - n) if k == axis else (0, 0) for k in range(x.ndim)])
    x = x.reshape(*x.shape[:axis], count, step, *x.shape[axis + 1 :])
    y = y.reshape(*y.shape[:axis], 1, m, *y.shape[axis + 1 :])
    parts = _at_once(x, y, [axis + 1])
    # The last m - 1 elements of each block's result are added to the first ones of the next block.
    own, late = parts[along(axis + 1, slice(step))], parts[along(axis + 1, slice(step, None))]
    late = late[along(axis, slice(count - 1))]
    margins = [(0, 0)] * late.ndim
    margins[axis], margins[axis + 1] = (1, 0), (0, step - overlap)
    whole = own + np.pad(late, margins)
    whole = whole.reshape(*whole.shape[:axis], count * step, *whole.shape[axis + 2 :])
    return whole[along(axis, slice(n + m - 1))]


# -- directly --------------------------------------------------------------------------------------


def _directly(x: Array, y: Array, mode: str) -> Any:
    if mode == "valid":
        return convolve_grids(x, y, 0, "valid")
    whole = convolve_grids(x, y)
    return whole if mode == "full" else _centred(whole, x.shape)


def _method(name: str, x: Array, y: Array, mode: str, method: str) -> str:
    if method not in ("auto", "direct", "fft"):
        raise ShapeError(
            f"scipy.signal.{name}: method={method!r} is none of 'auto', 'direct', or 'fft'",
            fix="leave it out for 'auto'",
        )
    if method != "auto":
        return method
    if "c" not in (x.dtype.kind, y.dtype.kind) and "f" not in (x.dtype.kind, y.dtype.kind):
        return "direct"
    stand_ins = [np.broadcast_to(np.ones((), v.dtype), v.shape) for v in (x, y)]
    chosen: Any = scipy.signal.choose_conv_method(*stand_ins, mode=mode)
    return chosen


@on_traced(scipy.signal.convolve)
def convolve(in1: Operand, in2: Operand, mode: str = "full", method: str = "auto") -> Any:
    """``scipy.signal.convolve``, of arrays of any rank; differentiable by both.

    Args:
        in1: shape (n, ...).
        in2: an array of the same rank.
        mode: "full" (every overlap), "same" (the middle part, as large as ``in1``), or "valid"
            (complete overlap only).
        method: "direct", "fft", or "auto" for the one estimated to be faster, like SciPy.

    Returns:
        an array of the common dtype; along an axis with n elements of ``in1`` and m of ``in2``: n +
        m - 1 for "full", n for "same", abs(n - m) + 1 for "valid".

    Raises:
        ShapeError: if the ranks differ, ``mode`` is unknown, or neither operand of "valid" is at
            least as large as the other along every axis; if an operand is empty, or ``method`` is
            unknown.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> ft.grad(lambda w: signal.convolve(np.arange(4.0), w)[2])(np.ones(2))
        array([2., 1.])
    """
    return _convolve("convolve", in1, in2, mode, method)


def _convolve(name: str, in1: Operand, in2: Operand, mode: str, method: str) -> Any:
    x, y = _checked(name, in1, in2, mode)
    if x.ndim == 0:
        return x * y
    if _swapped(name, mode, x, y, range(x.ndim)):
        x, y = y, x
    if 0 in x.shape or 0 in y.shape:
        raise ShapeError(
            f"scipy.signal.{name}: shapes {x.shape} and {y.shape} are empty",
            fix="pass at least one element",
        )
    dtype = np.result_type(x.dtype, y.dtype)
    if _method(name, x, y, mode, method) == "direct":
        # For two vectors SciPy lets NumPy choose the center, which is that of the longer one.
        if x.ndim == 1 and mode == "same" and y.shape[0] > x.shape[0]:
            return _centred(convolve_grids(x, y), x.shape)
        return _directly(x, y, mode)
    found: Array = _by_transforms("fftconvolve", x, y, mode, None)
    return (np.round(found) if dtype.kind in "iu" else found).astype(dtype)


@on_traced(scipy.signal.correlate)
def correlate(in1: Operand, in2: Operand, mode: str = "full", method: str = "auto") -> Any:
    """``scipy.signal.correlate``: sums of products of ``in1`` and the shifted complex conjugate of
    ``in2``.

    Args:
        in1: shape (n, ...).
        in2: an array of the same rank.
        mode: "full" (every overlap), "same" (the middle part, as large as ``in1``), or "valid"
            (complete overlap only).
        method: "direct", "fft", or "auto" for the one estimated to be faster, like SciPy.

    Returns:
        an array of the common dtype; along an axis with n elements of ``in1`` and m of ``in2``: n +
        m - 1 for "full", n for "same", abs(n - m) + 1 for "valid".

    Raises:
        ShapeError: if the ranks differ, ``mode`` is unknown, or neither operand of "valid" is at
            least as large as the other along every axis; if an operand is empty, or ``method`` is
            unknown.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> ft.jit(signal.correlate)(np.arange(3.0), np.ones(2))
        array([0., 1., 3., 2.])
    """
    x, y = _checked("correlate", in1, in2, mode)
    if x.ndim == 0:
        return x * (np.conj(y) if y.dtype.kind == "c" else y)
    return _convolve("correlate", x, _turned(y), mode, method)


# -- two axes, with edges --------------------------------------------------------------------------


def _edges(
    name: str,
    x: Array,
    rows: tuple[int, int],
    columns: tuple[int, int],
    boundary: str,
    fillvalue: Operand,
) -> Any:
    """Pad an array by numbers of rows and columns, by ``boundary``."""
    modes = {
        "fill": "constant",
        "pad": "constant",
        "wrap": "wrap",
        "circular": "wrap",
        "symm": "symmetric",
    }
    mode = modes.get(boundary, modes.get({"symmetric": "symm"}.get(boundary, "")))
    if mode is None:
        raise ShapeError(
            f"scipy.signal.{name}: boundary={boundary!r} is none of 'fill', 'wrap', or 'symm'",
            fix="leave it out for 'fill'",
        )
    margins: Any = (rows, columns)
    if mode != "constant":
        return np.pad(x, margins, mode=mode)  # type: ignore[call-overload]
    value: Any = arrayed(fillvalue)
    if value.ndim or (value.dtype.kind == "c" and x.dtype.kind != "c"):
        raise ShapeError(
            f"scipy.signal.{name}: fillvalue must be one number like those of in1",
            fix="pass a number",
        )
    return np.pad(x, margins, constant_values=value.astype(x.dtype))


def _two_axes(
    name: str, in1: Operand, in2: Operand, mode: str, boundary: str, fillvalue: Operand, turn: bool
) -> Any:
    x, y = _checked(name, in1, in2, mode)
    if x.ndim != 2:
        raise ShapeError(
            f"scipy.signal.{name} inputs must both be 2-D arrays, got {x.shape}",
            fix="map others with vmap",
        )
    swapped = _swapped(name, mode, x, y, (0, 1))
    if swapped:
        x, y = y, x
    dtype = np.result_type(x.dtype, y.dtype)
    x, y = x.astype(dtype), (_turned(y) if turn else y).astype(dtype)
    if mode != "valid":
        margins: list[tuple[int, int]] = []
        for m in y.shape:
            # "same" begins in the center of the filter; for correlate, of the reversed filter.
            start = (
                ((m - 1) if mode == "full" else (m - 1) // 2)
                if turn is False
                else (m - 1 if mode == "full" else m // 2)
            )
            margins.append(
                (m - 1 if mode == "full" else m - 1 - start, m - 1 if mode == "full" else start)
            )
        x = _edges(name, x, margins[0], margins[1], boundary, fillvalue)
    else:
        _edges(name, x, (0, 0), (0, 0), boundary, fillvalue)
    found = convolve_grids(x, y, 0, "valid")
    return found[::-1, ::-1] if swapped and turn else found


@on_traced(scipy.signal.convolve2d)
def convolve2d(
    in1: Numeric[X, "n m"] | Nested,
    in2: Numeric[X, "k l"] | Nested,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Operand = 0,
) -> Numeric[Array, "_ _"]:
    """``scipy.signal.convolve2d``: directly, with a choice of padding beyond the edges of ``in1``.

    Args:
        in1: shape (n, m).
        in2: shape (k, l).
        mode: "full" (every overlap), "same" (the middle part, as large as ``in1``), or "valid"
            (complete overlap only).
        boundary: elements beyond the edges of ``in1``: "fill" (one value), "wrap" (periodic), or
            "symm" (mirrored).
        fillvalue: value for "fill", one number.

    Returns:
        an array of two axes and of the common dtype; along an axis with n elements of ``in1`` and m
        of ``in2``: n + m - 1 for "full", n for "same", abs(n - m) + 1 for "valid".

    Raises:
        ShapeError: if the ranks differ, ``mode`` is unknown, or neither operand of "valid" is at
            least as large as the other along every axis; if the rank is not 2, ``boundary`` is
            unknown, or ``fillvalue`` is not one number like those of ``in1``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> ft.jit(signal.convolve2d)(np.eye(2), np.ones((1, 2)))
        array([[1., 1., 0.],
               [0., 1., 1.]])
    """
    return _two_axes("convolve2d", in1, in2, mode, boundary, fillvalue, False)


@on_traced(scipy.signal.correlate2d)
def correlate2d(
    in1: Numeric[X, "n m"] | Nested,
    in2: Numeric[X, "k l"] | Nested,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Operand = 0,
) -> Numeric[Array, "_ _"]:
    """``scipy.signal.correlate2d``: sums of products of ``in1`` and the shifted complex conjugate
    of ``in2``.

    Args:
        in1: shape (n, m).
        in2: shape (k, l).
        mode: "full" (every overlap), "same" (the middle part, as large as ``in1``), or "valid"
            (complete overlap only).
        boundary: elements beyond the edges of ``in1``: "fill" (one value), "wrap" (periodic), or
            "symm" (mirrored).
        fillvalue: value for "fill", one number.

    Returns:
        an array of two axes and of the common dtype; along an axis with n elements of ``in1`` and m
        of ``in2``: n + m - 1 for "full", n for "same", abs(n - m) + 1 for "valid".

    Raises:
        ShapeError: if the ranks differ, ``mode`` is unknown, or neither operand of "valid" is at
            least as large as the other along every axis; if the rank is not 2, ``boundary`` is
            unknown, or ``fillvalue`` is not one number like those of ``in1``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> ft.jit(signal.correlate2d)(np.eye(2), np.ones((1, 2)))
        array([[1., 1., 0.],
               [0., 1., 1.]])
    """
    return _two_axes("correlate2d", in1, in2, mode, boundary, fillvalue, True)
