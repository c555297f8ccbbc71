"""``numpy.fft`` on traced values, on top of `functrace.ops.fft`.

Layer: 3.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from functrace.errors import DtypeError, ShapeError, UnsupportedFunctionError
from functrace.ir.primitive import Primitive
from functrace.numpy.arrays.layout import order_like
from functrace.numpy.arrays.views import laid_out
from functrace.numpy.functions.shaping import roll
from functrace.numpy.protocol.operands import Arrayed, Axis, Operand, Out, arrayed, one_axis, stored
from functrace.numpy.protocol.tables import implements
from functrace.ops import elementwise as ew
from functrace.ops.fft import NORMS, Norm, fft_p, fourier, ifft_p, irfft_p, rfft_p
from functrace.tracing.tracer import Tracer

Count = SupportsIndex | None
Counts = Sequence[SupportsIndex | None] | None


def _norm(norm: str | None) -> Norm:
    found: Any = "backward" if norm is None else norm
    if found not in NORMS:
        raise ShapeError(
            f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".',
            fix="leave it out for 'backward'",
        )
    return found


def _one(primitive: Primitive, a: Operand, n: Count, axis: SupportsIndex, norm: str | None) -> Any:
    """Apply one transform along one axis, which must exist."""
    x = arrayed(a)
    if x.dtype.kind == "c" and primitive is rfft_p:
        raise DtypeError(
            f"numpy.fft.rfft takes real numbers, not {x.dtype}",
            fix="use np.fft.fft, or take x.real",
        )
    axis = one_axis(axis, x.ndim)
    size = x.shape[axis]
    points = (2 * (size - 1) if primitive is irfft_p else size) if n is None else operator.index(n)
    result = fourier(primitive, x, points, axis, _norm(norm))
    return laid_out(result, order_like(x, "K")) if isinstance(x, Tracer) else result


@implements(np.fft.fft)
def fft(
    a: Operand, n: Count = None, axis: SupportsIndex = -1, norm: str | None = None, out: Out = None
) -> Any:
    """As ``numpy.fft.fft``."""
    return stored(_one(fft_p, a, n, axis, norm), out, "fft.fft")


@implements(np.fft.ifft)
def ifft(
    a: Operand, n: Count = None, axis: SupportsIndex = -1, norm: str | None = None, out: Out = None
) -> Any:
    """As ``numpy.fft.ifft``."""
    return stored(_one(ifft_p, a, n, axis, norm), out, "fft.ifft")


@implements(np.fft.rfft)
def rfft(
    a: Operand, n: Count = None, axis: SupportsIndex = -1, norm: str | None = None, out: Out = None
) -> Any:
    """As ``numpy.fft.rfft``."""
    return stored(_one(rfft_p, a, n, axis, norm), out, "fft.rfft")


@implements(np.fft.irfft)
def irfft(
    a: Operand, n: Count = None, axis: SupportsIndex = -1, norm: str | None = None, out: Out = None
) -> Any:
    """As ``numpy.fft.irfft``, for even and odd ``n``."""
    return stored(_one(irfft_p, a, n, axis, norm), out, "fft.irfft")


@implements(np.fft.hfft)
def hfft(
    a: Operand, n: Count = None, axis: SupportsIndex = -1, norm: str | None = None, out: Out = None
) -> Any:
    """As ``numpy.fft.hfft``: the real spectrum of a Hermitian-symmetric signal."""
    x = arrayed(a)
    turned: Any = ew.conj(x) if x.dtype.kind == "c" else x
    return stored(_one(irfft_p, turned, n, axis, NORMS[_norm(norm)]), out, "fft.hfft")


@implements(np.fft.ihfft)
def ihfft(
    a: Operand, n: Count = None, axis: SupportsIndex = -1, norm: str | None = None, out: Out = None
) -> Any:
    """As ``numpy.fft.ihfft``."""
    return stored(ew.conj(_one(rfft_p, a, n, axis, NORMS[_norm(norm)])), out, "fft.ihfft")


# -- several axes ----------------------------------------------------------------------------------


def _plan(x: Arrayed, s: Counts, axes: Axis, *, inverse_real: bool) -> tuple[list[Any], list[int]]:
    """Return the number of points (``None`` for the default) and the axes of a transform."""
    listed: Any = axes
    if s is None:
        places = list(range(x.ndim)) if axes is None else [one_axis(k, x.ndim) for k in listed]
        sizes: list[Any] = [x.shape[k] for k in places]
        if inverse_real:
            if not places:
                raise ShapeError(
                    "irfftn needs at least one axis to transform", fix="pass an array with axes"
                )
            sizes[-1] = None
        return sizes, places
    sizes = list(s)
    if axes is None:
        warnings.warn(
            "`axes` should not be `None` if `s` is not `None` (Deprecated in NumPy 2.0). In a "
            "future version of NumPy, this "
            "will raise an error and `s[i]` will correspond to the size along the transformed axis "
            "specified by `axes[i]`. "
            "To retain current behaviour, pass a sequence [0, ..., k-1] to `axes` for an array of "
            "dimension k.",
            DeprecationWarning,
            stacklevel=5,
        )
        listed = range(-len(sizes), 0)
    if len(sizes) != len(listed):
        raise ShapeError("Shape and axes have different lengths.", fix="pass one size per axis")
    if None in sizes:
        warnings.warn(
            "Passing an array containing `None` values to `s` is deprecated in NumPy 2.0 and will "
            "raise an error in a "
            "future version of NumPy. To use the default behaviour of the corresponding 1-D "
            "transform, pass the value "
            "matching the default for its `n` parameter. To use the default behaviour for every "
            "axis, the `s` argument can "
            "be omitted.",
            DeprecationWarning,
            stacklevel=5,
        )
    places = [one_axis(k, x.ndim) for k in listed]
    return [x.shape[k] if n == -1 else n for n, k in zip(sizes, places, strict=True)], places


def _several(primitive: Primitive, a: Operand, s: Counts, axes: Axis, norm: str | None) -> Any:
    x = arrayed(a)
    sizes, places = _plan(x, s, axes, inverse_real=False)
    for n, axis in zip(reversed(sizes), reversed(places), strict=True):
        x = _one(primitive, x, n, axis, norm)
    return x


def _several_real(a: Operand, s: Counts, axes: Axis, norm: str | None) -> Any:
    x = arrayed(a)
    sizes, places = _plan(x, s, axes, inverse_real=False)
    if not places:
        raise ShapeError(
            "rfftn needs at least one axis to transform", fix="pass an array with axes"
        )
    x = _one(rfft_p, x, sizes[-1], places[-1], norm)
    for n, axis in zip(reversed(sizes[:-1]), reversed(places[:-1]), strict=True):
        x = _one(fft_p, x, n, axis, norm)
    return x


def _several_to_real(a: Operand, s: Counts, axes: Axis, norm: str | None) -> Any:
    x = arrayed(a)
    sizes, places = _plan(x, s, axes, inverse_real=True)
    for n, axis in zip(sizes[:-1], places[:-1], strict=True):
        x = _one(ifft_p, x, n, axis, norm)
    return _one(irfft_p, x, sizes[-1], places[-1], norm)


def _no_out(out: Out, name: str, instead: str) -> None:
    """Raise for ``out=``: NumPy accepts it here, but does not write to it."""
    if out is not None:
        raise UnsupportedFunctionError(
            f"numpy.fft.{name} writes nothing into its out=, in NumPy either",
            fix=f"use numpy.fft.{instead}(…, out=out)",
        )


@implements(np.fft.fftn)
def fftn(
    a: Operand, s: Counts = None, axes: Axis = None, norm: str | None = None, out: Out = None
) -> Any:
    """As ``numpy.fft.fftn``."""
    return stored(_several(fft_p, a, s, axes, norm), out, "fft.fftn")


@implements(np.fft.ifftn)
def ifftn(
    a: Operand, s: Counts = None, axes: Axis = None, norm: str | None = None, out: Out = None
) -> Any:
    """As ``numpy.fft.ifftn``."""
    return stored(_several(ifft_p, a, s, axes, norm), out, "fft.ifftn")


@implements(np.fft.fft2)
def fft2(
    a: Operand, s: Counts = None, axes: Axis = (-2, -1), norm: str | None = None, out: Out = None
) -> Any:
    """As ``numpy.fft.fft2``."""
    return stored(_several(fft_p, a, s, axes, norm), out, "fft.fft2")


@implements(np.fft.ifft2)
def ifft2(
    a: Operand, s: Counts = None, axes: Axis = (-2, -1), norm: str | None = None, out: Out = None
) -> Any:
    """As ``numpy.fft.ifft2``."""
    _no_out(out, "ifft2", "ifftn")
    return _several(ifft_p, a, s, axes, norm)


@implements(np.fft.rfftn)
def rfftn(
    a: Operand, s: Counts = None, axes: Axis = None, norm: str | None = None, out: Out = None
) -> Any:
    """As ``numpy.fft.rfftn``."""
    return stored(_several_real(a, s, axes, norm), out, "fft.rfftn")


@implements(np.fft.rfft2)
def rfft2(
    a: Operand, s: Counts = None, axes: Axis = (-2, -1), norm: str | None = None, out: Out = None
) -> Any:
    """As ``numpy.fft.rfft2``."""
    return stored(_several_real(a, s, axes, norm), out, "fft.rfft2")


@implements(np.fft.irfftn)
def irfftn(
    a: Operand, s: Counts = None, axes: Axis = None, norm: str | None = None, out: Out = None
) -> Any:
    """As ``numpy.fft.irfftn``."""
    return stored(_several_to_real(a, s, axes, norm), out, "fft.irfftn")


@implements(np.fft.irfft2)
def irfft2(
    a: Operand, s: Counts = None, axes: Axis = (-2, -1), norm: str | None = None, out: Out = None
) -> Any:
    """As ``numpy.fft.irfft2``."""
    _no_out(out, "irfft2", "irfftn")
    return _several_to_real(a, s, axes, norm)


# -- order of frequencies --------------------------------------------------------------------------


def _shift(half: Callable[[int], int]) -> Callable[..., Any]:
    def shift(x: Operand, axes: Axis = None) -> Any:
        x = arrayed(x)
        if axes is None:
            places: Any = tuple(range(x.ndim))
        else:
            places = tuple(axes) if isinstance(axes, Sequence) else (axes,)
        return roll(x, [half(x.shape[k]) for k in places], places)

    return shift


fftshift = implements(np.fft.fftshift)(_shift(lambda n: n // 2))
fftshift.__doc__ = "As ``numpy.fft.fftshift``."
ifftshift = implements(np.fft.ifftshift)(_shift(lambda n: -(n // 2)))
ifftshift.__doc__ = "As ``numpy.fft.ifftshift``."
