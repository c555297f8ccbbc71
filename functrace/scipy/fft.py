"""``scipy.fft`` for traced values: Fourier transforms of every kind, cosine and sine transforms,
the fast Hankel transform.

``overwrite_x``, ``workers`` and ``plan`` are accepted and ignored. Other names are SciPy's own
(``fftfreq``, ``next_fast_len``, ``fhtoffset``).

Example:
    >>> import numpy as np, functrace as ft
    >>> from functrace.scipy import fft
    >>> np.round(ft.grad(lambda x: fft.dct(x, norm="ortho")[1])(np.zeros(4)), 4)
    array([ 0.6533,  0.2706, -0.2706, -0.6533])

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np
import scipy.fft

from functrace.errors import DtypeError, ShapeError
from functrace.numpy.protocol.operands import Axis, Operand, arrayed, axis_tuple, one_axis
from functrace.ops.cosines import cosines
from functrace.ops.fft import NORMS
from functrace.scipy.dispatch import on_traced
from functrace.typing import Array

Count = SupportsIndex | None
Counts = SupportsIndex | Sequence[SupportsIndex] | None


def _numbers(x: Operand) -> Any:
    made: Any = arrayed(x)
    if made.dtype.kind not in "fc":
        return made.astype(np.float64)
    return made.astype(np.float32) if made.dtype == np.float16 else made


def _checked(name: str, norm: str | None) -> str:
    norm = "backward" if norm is None else norm
    if norm not in NORMS:
        raise ShapeError(
            f"scipy.fft.{name}: norm={norm!r} is none of 'backward', 'ortho', 'forward'",
            fix="leave it out for 'backward'",
        )
    return norm


def _places(name: str, x: Array, s: Counts, axes: Axis) -> tuple[list[int], list[int]]:
    """Return numbers of points, and axes, from ``s`` and ``axes``."""
    given = None if s is None else [int(n) for n in (s if isinstance(s, Sequence) else (s,))]
    if axes is not None:
        places = list(axis_tuple(axes, x.ndim))
    else:
        count = x.ndim if given is None else len(given)
        if count > x.ndim:
            raise ShapeError(
                f"scipy.fft.{name}: shape requires more axes than are present",
                fix="give one size per axis of the array",
            )
        places = list(range(x.ndim - count, x.ndim))
    sizes = [x.shape[k] for k in places] if given is None else given
    if len(sizes) != len(places):
        raise ShapeError(
            f"scipy.fft.{name}: when given, axes and shape arguments have to be of the same length",
            fix="give one per axis",
        )
    sizes = [x.shape[k] if n == -1 else n for n, k in zip(sizes, places, strict=True)]
    if any(n < 1 for n in sizes):
        raise ShapeError(
            f"scipy.fft.{name}: invalid number of data points ({sizes}) specified",
            fix="pass positive sizes",
        )
    return sizes, places


# -- Fourier transforms ----------------------------------------------------------------------------

_FOURIER = {
    "fft": ("Discrete Fourier transform", "real or complex", "a complex array with n points"),
    "ifft": ("Inverse of `fft`", "real or complex", "a complex array with n points"),
    "rfft": ("Fourier transform of real numbers", "real", "a complex array with n // 2 + 1 points"),
    "irfft": ("Inverse of `rfft`", "the non-negative frequencies", "a real array with n points"),
    "hfft": (
        "Fourier transform of a Hermitian signal",
        "the non-negative times",
        "a real array with n points",
    ),
    "ihfft": ("Inverse of `hfft`", "real", "a complex array with n // 2 + 1 points"),
}
"""Description, argument, and result along the last axis of each transform."""


def _points_of(kind: str) -> str:
    """Describe ``n=`` of a transform of m points."""
    if kind in ("irfft", "hfft"):
        return (
            "number of points of the result, 2 * (m - 1) by default; x is cut, or padded with zeros"
        )
    return "number of points, m by default; the axis is cut, or padded with zeros"


def _factors_of(kind: str) -> str:
    """Describe ``norm=`` of a transform."""
    backward, forward = ("1 / n", "1") if kind in ("ifft", "irfft", "ihfft") else ("1", "1 / n")
    return f'"backward" for {backward}, "ortho" for 1 / sqrt(n), "forward" for {forward}'


def _raises_of(kind: str) -> str:
    """Describe the errors of a transform that depend on its kind."""
    return "\n        DtypeError: if x is complex." if kind in ("rfft", "ihfft") else ""


def _one(name: str) -> Callable[..., Any]:
    does = getattr(np.fft, name)

    def transform(
        x: Operand,
        n: Count = None,
        axis: SupportsIndex = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Any:
        made = _numbers(x)
        if name in ("rfft", "ihfft") and made.dtype.kind == "c":
            raise DtypeError(
                f"scipy.fft.{name}: x must be a real sequence", fix="take its real part, or use fft"
            )
        return does(made, n, axis, _checked(name, norm))

    transform.__name__ = transform.__qualname__ = name
    head, takes, returns = _FOURIER[name]
    transform.__doc__ = f"""{head} along one axis, like ``scipy.fft.{name}``.

    Args:
        x: an array with m points along the axis, {takes}.
        n: {_points_of(name)}.
        axis: the axis to transform.
        norm: the factor of the result:
            {_factors_of(name)}.
            None is "backward".
        overwrite_x, workers, plan: accepted for SciPy's signature; they have no effect on traced
            values.

    Returns:
        {returns} along the axis, in the precision of x;
        integers count as float64.

    Raises:
        ShapeError: if norm is none of these, or n is not positive.
        AxisError: if x has no such axis.{_raises_of(name)}

    Example:
        >>> import numpy as np, scipy.fft, functrace as ft
        >>> from functrace.scipy import fft
        >>> x = np.arange(1.0, 5.0)
        >>> bool(np.allclose(ft.jit(fft.{name})(x), scipy.fft.{name}(x)))
        True
    """
    return on_traced(getattr(scipy.fft, name))(transform)


fft, ifft, rfft, irfft, hfft, ihfft = map(_one, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))


def _real_or_half(kind: str, name: str, x: Operand, s: Counts, axes: Axis, norm: str | None) -> Any:
    """Transform several axes: the last one by ``kind``, the others by a complex transform."""
    made, scale = _numbers(x), _checked(name, norm)
    if kind in ("rfft", "ihfft") and made.dtype.kind == "c":
        raise DtypeError(
            f"scipy.fft.{name}: x must be a real sequence", fix="take its real part, or use fftn"
        )
    half = kind in ("irfft", "hfft")
    sizes, places = _places(name, made, s, axes)
    if not places:
        if kind in ("fft", "ifft"):
            return (
                made
                if made.dtype.kind == "c"
                else made.astype(np.result_type(made.dtype, np.complex64))
            )
        raise ShapeError(
            f"scipy.fft.{name}: at least 1 axis must be transformed", fix="pass an array with axes"
        )
    if half and s is None:
        sizes[-1] = 2 * (made.shape[places[-1]] - 1)
    others: Any = np.fft.fft if kind in ("fft", "rfft", "hfft") else np.fft.ifft
    last = getattr(np.fft, kind)
    if not half:
        made = last(made, sizes[-1], places[-1], scale)
    for n, axis in zip(reversed(sizes[:-1]), reversed(places[:-1]), strict=True):
        made = others(made, n, axis, scale)
    return last(made, sizes[-1], places[-1], scale) if half else made


def _several(name: str) -> Callable[..., Any]:
    kind = {
        "fft": "fft",
        "ifft": "ifft",
        "rfft": "rfft",
        "irfft": "irfft",
        "hfft": "hfft",
        "ihfft": "ihfft",
    }[name[:-1]]
    usual: Axis = (-2, -1) if name.endswith("2") else None

    def transform(
        x: Operand,
        s: Counts = None,
        axes: Axis = usual,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Any:
        return _real_or_half(kind, name, x, s, axes, norm)

    transform.__name__ = transform.__qualname__ = name
    axes_of = "two" if name.endswith("2") else "several"
    head, takes, returns = _FOURIER[kind]
    head = f"Inverse of `{name[1:]}`" if head.startswith("Inverse") else head
    last = ", and 2 * (m - 1) for m points of the last one" if kind in ("irfft", "hfft") else ""
    which = "the last two" if usual else "the last ones, as many as s has sizes, or all"
    transform.__doc__ = f"""{head} along {axes_of} axes, like ``scipy.fft.{name}``.

    Args:
        x: an array, {takes}.
        s: a number of points for each of the axes, which are cut, or padded with zeros; by default
            the sizes of x{last}.
        axes: the axes to transform; {which} by default.
        norm: the factor of the result, where n is the product of s:
            {_factors_of(kind)}.
            None is "backward".
        overwrite_x, workers, plan: accepted for SciPy's signature; they have no effect on traced
            values.

    Returns:
        {returns} along the last of the axes, n the last of s,
        and s points along the others; in the precision of x; integers count as float64.

    Raises:
        ShapeError: if norm is none of these, or s does not fit the axes.
        AxisError: if x has no such axis.{_raises_of(kind)}

    Example:
        >>> import numpy as np, scipy.fft, functrace as ft
        >>> from functrace.scipy import fft
        >>> x = np.arange(1.0, 7.0).reshape(2, 3)
        >>> bool(np.allclose(ft.jit(fft.{name})(x), scipy.fft.{name}(x)))
        True
    """
    return on_traced(getattr(scipy.fft, name))(transform)


fft2, ifft2, rfft2, irfft2, hfft2, ihfft2 = map(
    _several, ("fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2")
)
fftn, ifftn, rfftn, irfftn, hfftn, ihfftn = map(
    _several, ("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn")
)


@on_traced(scipy.fft.fftshift)
def fftshift(x: Operand, axes: Axis = None) -> Any:
    """Move frequency 0 to the middle, like ``scipy.fft.fftshift``.

    Args:
        x: an array.
        axes: the axis or the axes to rotate by half their size; all by default.

    Returns:
        an array like x.

    Raises:
        AxisError: if x has no such axis.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import fft
        >>> ft.jit(fft.fftshift)(np.arange(4.0))
        array([2., 3., 0., 1.])
    """
    made: Any = x
    return np.fft.fftshift(made, axes)


@on_traced(scipy.fft.ifftshift)
def ifftshift(x: Operand, axes: Axis = None) -> Any:
    """Move the middle to the front, like ``scipy.fft.ifftshift``: the inverse of `fftshift`.

    Args:
        x: an array.
        axes: the axis or the axes to rotate by half their size; all by default.

    Returns:
        an array like x.

    Raises:
        AxisError: if x has no such axis.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import fft
        >>> ft.jit(fft.ifftshift)(np.arange(4.0))
        array([2., 3., 0., 1.])
    """
    made: Any = x
    return np.fft.ifftshift(made, axes)


# -- cosine and sine transforms --------------------------------------------------------------------

_WAVES = {
    "dct": "Discrete cosine transform",
    "idct": "Inverse discrete cosine transform",
    "dst": "Discrete sine transform",
    "idst": "Inverse discrete sine transform",
}


def _ends(x: Array, axis: int, first: float, last: float) -> Any:
    """Multiply the first and the last element along an axis."""
    weights = np.ones(x.shape[axis], np.abs(np.empty(0, x.dtype)).dtype)
    weights[0] *= first
    weights[-1] *= last
    return x * weights.reshape(-1, *(1,) * (x.ndim - axis - 1))


_ROOT = math.sqrt(2)
_BEFORE = {"dct1": (_ROOT, _ROOT), "dct3": (_ROOT, 1.0), "dst3": (1.0, _ROOT)}
_AFTER = {"dct1": (1 / _ROOT, 1 / _ROOT), "dct2": (1 / _ROOT, 1.0), "dst2": (1.0, 1 / _ROOT)}
"""Factors of the first and the last element that make a transform orthogonal, up to its scale."""


def _resized(x: Array, n: int, axis: int) -> Any:
    if n <= x.shape[axis]:
        return x[(*(slice(None),) * axis, slice(n))]
    return np.pad(x, [(0, n - x.shape[axis]) if k == axis else (0, 0) for k in range(x.ndim)])


def _along(
    name: str,
    made: Array,
    type: int,
    n: Count,
    axis: SupportsIndex,
    norm: str | None,
    orthogonalize: bool | None,
) -> Any:
    """Transform along one axis; ``name`` begins with "i" for the inverse."""
    scale, inverse = _checked(name, norm), name.startswith("i")
    if type not in (1, 2, 3, 4):
        raise ShapeError(
            f"scipy.fft.{name}: {type} is no type of transform", fix="pass 1, 2, 3 or 4"
        )
    kind = name.lstrip("in")[:3] + str({2: 3, 3: 2}.get(type, type) if inverse else type)
    place = one_axis(axis, made.ndim)
    if n is not None:
        made = _resized(made, int(n), place)
    points = made.shape[place]
    if points < (2 if kind == "dct1" else 1):
        raise ShapeError(
            f"scipy.fft.{name}: invalid number of data points ({points}) specified",
            fix="pass more points",
        )
    # SciPy ignores orthogonalize= for complex numbers.
    orthogonal = (
        scale == "ortho" if orthogonalize is None or made.dtype.kind == "c" else orthogonalize
    )
    if orthogonal and kind in _BEFORE:
        made = _ends(made, place, *_BEFORE[kind])
    made = cosines(made, kind, place)
    if orthogonal and kind in _AFTER:
        made = _ends(made, place, *_AFTER[kind])
    whole = 2 * (points + {"dct1": -1, "dst1": 1}.get(kind, 0))
    if scale == "ortho":
        return made * (1 / math.sqrt(whole))
    return made * (1 / whole) if (scale == "forward") != inverse else made


def _cosine(name: str) -> Callable[..., Any]:
    def transform(
        x: Operand,
        type: int = 2,
        n: Count = None,
        axis: SupportsIndex = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        orthogonalize: bool | None = None,
    ) -> Any:
        return _along(name, _numbers(x), type, n, axis, norm, orthogonalize)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"""{_WAVES[name]} along one axis, like ``scipy.fft.{name}``.

    Args:
        x: an array of any shape with at least one axis, real or complex.
        type: 1, 2, 3 or 4; of an inverse, the type that it inverts.
        n: number of points; the axis is cut, or padded with zeros. The size of the axis by default.
        axis: the axis to transform.
        norm: "backward" for a factor 1 / N of inverses, "forward" for that factor of the others,
            "ortho" for 1 / sqrt(N) of both; N is 2 n, for dct of type 1 it is 2 (n - 1), for dst of
            type 1 it is 2 (n + 1). None is "backward".
        overwrite_x, workers: accepted for SciPy's signature; they have no effect on traced values.
        orthogonalize: True to scale the first or the last element so that the matrix of the
            transform is orthogonal; by default if norm is "ortho".

    Returns:
        an array with n points along the axis, in the dtype of x; float64 for integers.

    Raises:
        ShapeError: if type or norm is none of these, or there are too few points.
        AxisError: if x has no such axis.

    Example:
        >>> import numpy as np, scipy.fft, functrace as ft
        >>> from functrace.scipy import fft
        >>> x = np.arange(1.0, 5.0)
        >>> bool(np.allclose(ft.jit(fft.{name})(x), scipy.fft.{name}(x)))
        True
    """
    return on_traced(getattr(scipy.fft, name))(transform)


def _cosines(name: str) -> Callable[..., Any]:
    def transform(
        x: Operand,
        type: int = 2,
        s: Counts = None,
        axes: Axis = None,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        orthogonalize: bool | None = None,
    ) -> Any:
        made = _numbers(x)
        for n, axis in zip(*_places(name, made, s, axes), strict=True):
            made = _along(name, made, type, n, axis, norm, orthogonalize)
        return made

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"""{_WAVES[name[:-1]]} along several axes, like ``scipy.fft.{name}``.

    Args:
        x: an array, real or complex.
        type: 1, 2, 3 or 4; of an inverse, the type that it inverts.
        s: numbers of points along each of the axes, which are cut, or padded with zeros; the sizes
            of x by default.
        axes: the axes to transform; the last ones, as many as s has sizes, or all by default.
        norm: "backward" for a factor 1 / N of inverses, "forward" for that factor of the others,
            "ortho" for 1 / sqrt(N) of both; N is the product over the axes of 2 n, for dctn of type
            1 of 2 (n - 1), for dstn of type 1 of 2 (n + 1). None is "backward".
        overwrite_x, workers: accepted for SciPy's signature; they have no effect on traced values.
        orthogonalize: True to scale the first or the last element along each axis so that the
            matrix of the transform is orthogonal; by default if norm is "ortho".

    Returns:
        an array with s points along the axes, in the dtype of x; float64 for integers.

    Raises:
        ShapeError: if type or norm is none of these, s does not fit the axes, or there are too few
            points.
        AxisError: if x has no such axis.

    Example:
        >>> import numpy as np, scipy.fft, functrace as ft
        >>> from functrace.scipy import fft
        >>> x = np.arange(1.0, 7.0).reshape(2, 3)
        >>> bool(np.allclose(ft.jit(fft.{name})(x), scipy.fft.{name}(x)))
        True
    """
    return on_traced(getattr(scipy.fft, name))(transform)


dct, idct, dst, idst = map(_cosine, ("dct", "idct", "dst", "idst"))
dctn, idctn, dstn, idstn = map(_cosines, ("dctn", "idctn", "dstn", "idstn"))


# -- the fast Hankel transform ---------------------------------------------------------------------


def _hankel(name: str, x: Operand, dln: float, mu: float, offset: float, bias: float) -> Any:
    from scipy.fft._fftlog_backend import fhtcoeff

    made, inverse = _numbers(x), name == "ifht"
    n: int = made.shape[-1]
    from_middle = np.arange(n) - (n - 1) / 2
    before, after = np.exp(-bias * from_middle * dln), np.exp(-bias * (from_middle * dln + offset))
    factors = fhtcoeff(n, dln, mu, offset=offset, bias=bias, inverse=inverse)
    if bias != 0:
        made = made / after if inverse else made * before
    spectrum = np.fft.rfft(made, axis=-1)
    # SciPy: without a factor for frequency 0, or with an infinite one, the transform or its inverse
    # is singular there.
    spectrum = spectrum / np.conj(factors) if inverse else spectrum * factors
    made = np.fft.irfft(spectrum, n, axis=-1)[..., ::-1]
    if bias == 0:
        return made
    return made / before if inverse else made * after


@on_traced(scipy.fft.fht)
def fht(a: Operand, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Any:
    """Fast Hankel transform along the last axis, like ``scipy.fft.fht``; differentiable by ``a``.

    Args:
        a: samples at points that are equidistant on a logarithmic scale, shape (..., n), real.
        dln: distance of the logarithms of two points.
        mu: order of the Bessel function.
        offset: logarithm of the product of the central points of argument and result.
        bias: exponent of the power law that is taken out of the argument.

    Returns:
        the transform, shape (..., n), in the dtype of a; float64 for integers.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import fft
        >>> np.round(ft.jit(lambda a: fft.fht(a, 0.1, 0.5))(np.arange(4.0)), 4)
        array([0.2474, 0.7573, 2.1066, 2.8888])
    """
    return _hankel("fht", a, dln, mu, offset, bias)


@on_traced(scipy.fft.ifht)
def ifht(A: Operand, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Any:
    """Inverse fast Hankel transform along the last axis, like ``scipy.fft.ifht``; differentiable by
    ``A``.

    Args:
        A: samples at points that are equidistant on a logarithmic scale, shape (..., n), real.
        dln: distance of the logarithms of two points.
        mu: order of the Bessel function.
        offset: logarithm of the product of the central points of argument and result.
        bias: exponent of the power law that is taken out of the argument.

    Returns:
        the samples, shape (..., n), in the dtype of A; float64 for integers.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import fft
        >>> np.round(ft.jit(lambda a: fft.ifht(a, 0.1, 0.5))(np.arange(4.0)), 4)
        array([-0.2036,  1.2082,  1.6557,  3.3397])
    """
    return _hankel("ifht", A, dln, mu, offset, bias)


def __getattr__(name: str) -> Any:
    """Return SciPy's attribute of the same name."""
    return getattr(scipy.fft, name)


def __dir__() -> list[str]:
    """List SciPy's names."""
    return sorted({*globals(), *dir(scipy.fft)})
