"""Linear filters of images; see `functrace.scipy.ndimage`.

All filters compute in double precision, and round once at the end; SciPy rounds after each axis.

Layer: 9.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypeAlias, cast

import numpy as np
import scipy.ndimage

from functrace.errors import ConcretizationError, DtypeError, ShapeError
from functrace.numpy.protocol.operands import arrayed, holds_tracer, known, one_axis
from functrace.scipy.dispatch import on_traced
from functrace.scipy.ndimage.reading import (
    Modes,
    Output,
    each,
    finished,
    image,
    padded,
    places,
    reach,
    slid,
)
from functrace.scipy.operands import Axis, Nested, Numeric, Operand, X
from functrace.typing import Array

Numbers: TypeAlias = Sequence[float] | Operand


def _one_axis(
    name: str, x: Array, weights: Array, axis: int, mode: str, cval: Operand, origin: int = 0
) -> Any:
    shape = [1] * x.ndim
    shape[axis] = weights.shape[0]
    origins = [0] * x.ndim
    origins[axis] = origin
    return slid(name, x, weights.reshape(shape), origins, {axis: mode}, cval)


def _weights(name: str, weights: Operand, *, conjugate: bool) -> Any:
    made = image(name, weights)
    if made.ndim != 1 or not made.shape[0]:
        raise ShapeError(
            f"scipy.ndimage.{name}: no filter weights given", fix="pass a vector of weights"
        )
    return np.conj(made) if conjugate and made.dtype.kind == "c" else made


# -- with weights ----------------------------------------------------------------------------------


@on_traced(scipy.ndimage.correlate1d)
def correlate1d(
    input: Numeric[X, "*image"] | Nested,
    weights: Numeric[X, "k"] | Nested,
    axis: SupportsIndex = -1,
    output: Output | None = None,
    mode: str = "reflect",
    cval: Operand = 0.0,
    origin: int = 0,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.correlate1d``: sums of neighbours along an axis, weighted by complex
    conjugates of ``weights``.

    Differentiable by the input, the weights and ``cval``.

    Args:
        input: shape (n, m, ...), real or complex.
        weights: shape (k,).
        axis: the axis to filter.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic).
        cval: value beyond the edges for "constant".
        origin: shift of the filter's center, from -(k // 2) to (k - 1) // 2 for k weights.

    Returns:
        an array of the shape of ``input``, computed in double precision and converted to
        ``output``.

    Raises:
        ShapeError: if ``weights`` is not a vector, ``mode`` or ``origin`` is invalid, or ``cval``
            is not one number.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.grad(lambda w: ndimage.correlate1d(np.arange(4.0), w)[1])(np.ones(3))
        array([0., 1., 2.])
    """
    x = image("correlate1d", input)
    made = _weights("correlate1d", weights, conjugate=True)
    found = _one_axis("correlate1d", x, made, one_axis(axis, x.ndim), mode, cval, origin)
    return finished("correlate1d", found, input, output)


@on_traced(scipy.ndimage.convolve1d)
def convolve1d(
    input: Numeric[X, "*image"] | Nested,
    weights: Numeric[X, "k"] | Nested,
    axis: SupportsIndex = -1,
    output: Output | None = None,
    mode: str = "reflect",
    cval: Operand = 0.0,
    origin: int = 0,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.convolve1d``: convolution along an axis.

    Differentiable by the input, the weights and ``cval``.

    Args:
        input: shape (n, m, ...), real or complex.
        weights: shape (k,).
        axis: the axis to filter.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic).
        cval: value beyond the edges for "constant".
        origin: shift of the filter's center, from -(k // 2) to (k - 1) // 2 for k weights.

    Returns:
        an array of the shape of ``input``, computed in double precision and converted to
        ``output``.

    Raises:
        ShapeError: if ``weights`` is not a vector, ``mode`` or ``origin`` is invalid, or ``cval``
            is not one number.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.grad(lambda w: ndimage.convolve1d(np.arange(4.0), w)[1])(np.ones(3))
        array([2., 1., 0.])
    """
    x = image("convolve1d", input)
    made = _weights("convolve1d", weights, conjugate=False)[::-1]
    moved = -origin - (made.shape[0] % 2 == 0)
    found = _one_axis("convolve1d", x, made, one_axis(axis, x.ndim), mode, cval, moved)
    return finished("convolve1d", found, input, output)


def _several(
    name: str,
    input: Operand,
    weights: Operand,
    output: Output | None,
    mode: str,
    cval: Operand,
    origin: int | Sequence[int],
    axes: Axis,
    turn: bool,
) -> Any:
    x, made = image(name, input), image(name, weights)
    along = places(name, axes, x.ndim)
    origins = each(name, origin, len(along))
    if made.ndim != len(along) or 0 in made.shape:
        raise ShapeError(
            f"scipy.ndimage.{name}: weights.ndim ({made.ndim}) must match len(axes) ({len(along)})",
            fix="pass one axis of weights per axis",
        )
    if not isinstance(mode, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' code
        raise ShapeError(
            f"scipy.ndimage.{name}: a sequence of modes is not supported", fix="pass one mode"
        )
    # Weights are in the order of the axes, in any order of ``axes``; so are origins, if all are
    # given.
    shape, moved = [1] * x.ndim, [0] * x.ndim
    for k, n in zip(sorted(along), made.shape, strict=True):
        shape[k] = n
    for k, at in zip(along if len(along) < x.ndim else range(x.ndim), origins, strict=True):
        moved[k] = at
    if turn:
        made = made[(slice(None, None, -1),) * made.ndim]
        moved = [-at - (n % 2 == 0) for at, n in zip(moved, shape, strict=True)]
    elif made.dtype.kind == "c":
        made = np.conj(made)
    found = slid(name, x, made.reshape(shape), moved, dict.fromkeys(range(x.ndim), mode), cval)
    return finished(name, found, input, output)


@on_traced(scipy.ndimage.correlate)
def correlate(
    input: Numeric[X, "*image"] | Nested,
    weights: Operand,
    output: Output | None = None,
    mode: str = "reflect",
    cval: Operand = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: Axis = None,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.correlate``: sums of neighbours, weighted by complex conjugates of
    ``weights``.

    Differentiable by the input, the weights and ``cval``.

    Args:
        input: shape (n, m, ...), real or complex.
        weights: an array of as many axes as are filtered.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic).
        cval: value beyond the edges for "constant".
        origin: shift of the filter's center, an integer, or one per axis.
        axes: the axes to filter; all by default.

    Returns:
        an array of the shape of ``input``, computed in double precision and converted to
        ``output``.

    Raises:
        ShapeError: if ``weights`` has another number of axes, ``mode`` or ``origin`` is invalid, or
            ``cval`` is not one number.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.grad(lambda w: ndimage.correlate(np.arange(4.0), w)[1])(np.ones(3))
        array([0., 1., 2.])

    Cost:
        the product of the sizes of the input and of the weights.
    """
    return _several("correlate", input, weights, output, mode, cval, origin, axes, False)


@on_traced(scipy.ndimage.convolve)
def convolve(
    input: Numeric[X, "*image"] | Nested,
    weights: Operand,
    output: Output | None = None,
    mode: str = "reflect",
    cval: Operand = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: Axis = None,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.convolve``: convolution of an image; differentiable by the input, the weights
    and ``cval``.

    Args:
        input: shape (n, m, ...), real or complex.
        weights: an array of as many axes as are filtered.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic).
        cval: value beyond the edges for "constant".
        origin: shift of the filter's center, an integer, or one per axis.
        axes: the axes to filter; all by default.

    Returns:
        an array of the shape of ``input``, computed in double precision and converted to
        ``output``.

    Raises:
        ShapeError: if ``weights`` has another number of axes, ``mode`` or ``origin`` is invalid, or
            ``cval`` is not one number.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.grad(lambda w: ndimage.convolve(np.arange(4.0), w)[1])(np.ones(3))
        array([2., 1., 0.])
    """
    return _several("convolve", input, weights, output, mode, cval, origin, axes, True)


def _check_passes(name: str, count: int, input: Operand, output: Output | None) -> None:
    """Reject integer results of several passes, after each of which SciPy truncates."""
    named = isinstance(output, type | np.dtype | str)
    kind: Any = np.dtype(output) if named else arrayed(input if output is None else output).dtype  # type: ignore[arg-type]
    if count > 1 and kind.kind in "iub":
        raise DtypeError(
            f"scipy.ndimage.{name} of traced {kind} images: SciPy cuts to integers after each axis",
            fix="pass an image of floats: x.astype(float)",
        )


# -- by shape --------------------------------------------------------------------------------------


def _kernel(name: str, sigma: Operand, order: int, truncate: float, radius: int | None) -> Any:
    """Return the weights of a Gaussian, or of a derivative of it; differentiable by ``sigma``."""
    if order < 0:
        raise ShapeError(
            f"scipy.ndimage.{name}: order must be non-negative",
            fix="pass 0 for the Gaussian itself",
        )
    if radius is None:
        try:
            radius = int(truncate * float(known(sigma)) + 0.5)
        except ConcretizationError as error:
            raise ConcretizationError(
                f"scipy.ndimage.{name}: how many weights there are depends on sigma",
                fix="pass radius=",
            ) from error
    if radius < 0:
        raise ShapeError(
            f"scipy.ndimage.{name}: radius must be a nonnegative integer", fix="leave it out"
        )
    variance: Any = sigma * sigma  # type: ignore[operator]
    x = np.arange(-radius, radius + 1)
    kernel = np.exp(cast("Array", -0.5 / variance * x**2))
    kernel = kernel / np.sum(kernel)
    # The derivative of q(x) exp(p(x)) has the polynomial q' + q p', p' = -x / variance; q is a list
    # of coefficients.
    q: list[Any] = [1.0]
    for _ in range(order):
        lowered = [k * c for k, c in enumerate(q)][1:]
        raised: list[Any] = [0.0, *[c / -variance for c in q]]
        q = [c + (lowered[k] if k < len(lowered) else 0.0) for k, c in enumerate(raised)]
    if order:
        kernel = kernel * sum(c * x**k for k, c in enumerate(q))
    return kernel[::-1]


@on_traced(scipy.ndimage.gaussian_filter1d)
def gaussian_filter1d(
    input: Numeric[X, "*image"] | Nested,
    sigma: Operand,
    axis: SupportsIndex = -1,
    order: int = 0,
    output: Output | None = None,
    mode: str = "reflect",
    cval: Operand = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.gaussian_filter1d``: a Gaussian along an axis; differentiable by the input,
    ``cval`` and ``sigma``.

    Args:
        input: shape (n, m, ...), real or complex.
        sigma: standard deviation in elements. The number of weights depends on its concrete value.
        axis: the axis to filter.
        order: order of the derivative of the Gaussian; 0 for itself.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic).
        cval: value beyond the edges for "constant".
        truncate: number of standard deviations with weights on either side.
        radius: number of weights on either side; required when staged with a traced ``sigma``.

    Returns:
        an array of the shape of ``input``, computed in double precision and converted to
        ``output``.

    Raises:
        ShapeError: if ``order`` or ``radius`` is negative, ``mode`` is unknown, or ``cval`` is not
            one number.
        ConcretizationError: if ``sigma`` is abstract and ``radius`` missing.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> np.round(ft.grad(lambda s: ndimage.gaussian_filter1d(np.arange(4.0), s)[1])(1.0), 4)
        np.float64(0.2369)
    """
    x = image("gaussian_filter1d", input)
    kernel = _kernel("gaussian_filter1d", sigma, order, truncate, radius)
    found = _one_axis("gaussian_filter1d", x, kernel, one_axis(axis, x.ndim), mode, cval)
    return finished("gaussian_filter1d", found, input, output)


def _gaussian(
    name: str,
    x: Array,
    sigma: Numbers,
    order: int | Sequence[int],
    mode: Modes,
    cval: Operand,
    truncate: float,
    radius: int | Sequence[int] | None,
    axes: Axis,
) -> Any:
    along = places(name, axes, x.ndim)
    count = len(along)
    several = list(sigma) if holds_tracer(sigma) and arrayed(sigma).ndim else sigma  # type: ignore[arg-type]
    widths, orders = each(name, several, count), each(name, order, count)
    modes, radii = each(name, mode, count), each(name, radius, count)
    for k, width, how, edge, far in zip(along, widths, orders, modes, radii, strict=True):
        if holds_tracer(width) or width > 1e-15:
            x = _one_axis(name, x, _kernel(name, width, how, truncate, far), k, edge, cval)
    return x


@on_traced(scipy.ndimage.gaussian_filter)
def gaussian_filter(
    input: Numeric[X, "*image"] | Nested,
    sigma: Numbers,
    order: int | Sequence[int] = 0,
    output: Output | None = None,
    mode: Modes = "reflect",
    cval: Operand = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | Sequence[int] | None = None,
    axes: Axis = None,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.gaussian_filter``: a Gaussian along several axes; differentiable by the
    input, ``cval`` and ``sigma``.

    Args:
        input: shape (n, m, ...), real or complex.
        sigma: standard deviation in elements, or one per axis. The number of weights depends on its
            concrete value.
        order: order of the derivative of the Gaussian, or one per axis; 0 for itself.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic); or one per axis.
        cval: value beyond the edges for "constant".
        truncate: number of standard deviations with weights on either side.
        radius: number of weights on either side, or one per axis; required when staged with a
            traced ``sigma``.
        axes: the axes to filter; all by default.

    Returns:
        an array of the shape of ``input``, computed in double precision and converted to
        ``output``.

    Raises:
        ShapeError: if ``order`` or ``radius`` is negative, ``mode`` is unknown, or ``cval`` is not
            one number.
        ConcretizationError: if ``sigma`` is abstract and ``radius`` missing.
        DtypeError: if the result has integers and there are several axes, after each of which SciPy
            truncates.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> np.round(ft.grad(lambda s: ndimage.gaussian_filter(np.eye(3), s)[1, 1])(1.0), 4)
        np.float64(-0.0733)
    """
    x = image("gaussian_filter", input)
    _check_passes("gaussian_filter", len(places("gaussian_filter", axes, x.ndim)), input, output)
    found = _gaussian("gaussian_filter", x, sigma, order, mode, cval, truncate, radius, axes)
    return finished("gaussian_filter", found, input, output)


@on_traced(scipy.ndimage.uniform_filter1d)
def uniform_filter1d(
    input: Numeric[X, "*image"] | Nested,
    size: int,
    axis: SupportsIndex = -1,
    output: Output | None = None,
    mode: str = "reflect",
    cval: Operand = 0.0,
    origin: int = 0,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.uniform_filter1d``: the mean of ``size`` neighbours.

    Args:
        input: shape (n, m, ...), real or complex.
        size: number of neighbours, at least 1.
        axis: the axis to filter.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic).
        cval: value beyond the edges for "constant".
        origin: shift of the filter's center, from -(k // 2) to (k - 1) // 2 for k weights.

    Returns:
        an array of the shape of ``input``, computed in double precision and converted to
        ``output``.

    Raises:
        ShapeError: if ``size``, ``mode`` or ``origin`` is invalid, or ``cval`` is not one number.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.jit(lambda x: ndimage.uniform_filter1d(x, 3))(np.array([0.0, 3.0, 6.0]))
        array([1., 3., 5.])
    """
    x = image("uniform_filter1d", input)
    found = _uniform("uniform_filter1d", x, size, one_axis(axis, x.ndim), mode, cval, origin)
    return finished("uniform_filter1d", found, input, output)


def _uniform(
    name: str, x: Array, size: int, axis: int, mode: str, cval: Operand, origin: int
) -> Any:
    reach(name, int(size), origin)
    # A sum, then divided: with integers, three thirds would be truncated to one less.
    return _one_axis(name, x, np.ones(int(size)), axis, mode, cval, origin) / float(size)


@on_traced(scipy.ndimage.uniform_filter)
def uniform_filter(
    input: Numeric[X, "*image"] | Nested,
    size: int | Sequence[int] = 3,
    output: Output | None = None,
    mode: Modes = "reflect",
    cval: Operand = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: Axis = None,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.uniform_filter``: the mean of the neighbours in a box.

    Args:
        input: shape (n, m, ...), real or complex.
        size: sides of the box: a number, or one per axis.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic); or one per axis.
        cval: value beyond the edges for "constant".
        origin: shift of the filter's center, an integer, or one per axis.
        axes: the axes to filter; all by default.

    Returns:
        an array of the shape of ``input``, computed in double precision and converted to
        ``output``.

    Raises:
        ShapeError: if there is not one value per axis, ``mode`` or ``origin`` is invalid, or
            ``cval`` is not one number.
        DtypeError: if the result has integers and there are several axes, after each of which SciPy
            truncates.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.jit(ndimage.uniform_filter)(np.array([0.0, 3.0, 6.0]))
        array([1., 3., 5.])
    """
    x = image("uniform_filter", input)
    along = places("uniform_filter", axes, x.ndim)
    _check_passes("uniform_filter", len(along), input, output)
    given = [each("uniform_filter", values, len(along)) for values in (size, mode, origin)]
    for k, n, edge, at in zip(along, *given, strict=True):
        if n > 1:
            x = _uniform("uniform_filter", x, n, k, edge, cval, at)
    return finished("uniform_filter", x, input, output)


# -- derivatives -----------------------------------------------------------------------------------


def _edge_filter(name: str, smooth: Sequence[float]) -> Callable[..., Any]:
    def function(
        input: Operand,
        axis: SupportsIndex = -1,
        output: Output | None = None,
        mode: Modes = "reflect",
        cval: Operand = 0.0,
    ) -> Any:
        x = image(name, input)
        _check_passes(name, x.ndim, input, output)
        place = one_axis(axis, x.ndim)
        modes = each(name, mode, x.ndim)
        made = _one_axis(name, x, np.array([-1.0, 0.0, 1.0]), place, modes[place], cval)
        for k in range(x.ndim):
            if k != place:
                made = _one_axis(name, made, np.array(smooth), k, modes[k], cval)
        return finished(name, made, input, output)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""``scipy.ndimage.{name}``: differences along an axis, smoothed along the others.

    Args:
        input: shape (n, m, ...), real or complex.
        axis: the axis of the differences.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic); or one per axis.
        cval: value beyond the edges for "constant".

    Returns:
        an array of the shape of ``input``, computed in double precision and converted to
        ``output``.

    Raises:
        ShapeError: if ``mode`` is unknown, or ``cval`` is not one number.
        DtypeError: if the result has integers and there are several axes, after each of which SciPy
            truncates.

    Example:
        >>> import numpy as np, scipy.ndimage, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> x = np.arange(9.0).reshape(3, 3) ** 2
        >>> bool(np.allclose(ft.jit(ndimage.{name})(x), scipy.ndimage.{name}(x)))
        True
    """
    return on_traced(getattr(scipy.ndimage, name))(function)


prewitt = _edge_filter("prewitt", (1.0, 1.0, 1.0))
sobel = _edge_filter("sobel", (1.0, 2.0, 1.0))


@on_traced(scipy.ndimage.laplace)
def laplace(
    input: Numeric[X, "*image"] | Nested,
    output: Output | None = None,
    mode: Modes = "reflect",
    cval: Operand = 0.0,
    *,
    axes: Axis = None,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.laplace``: the sum of second differences.

    Args:
        input: shape (n, m, ...), real or complex.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic); or one per axis.
        cval: value beyond the edges for "constant".
        axes: the axes to filter; all by default.

    Returns:
        an array of the shape of ``input``, computed in double precision and converted to
        ``output``.

    Raises:
        ShapeError: if ``mode`` is unknown, or ``cval`` is not one number.
        DtypeError: if the result has integers and there are several axes, after each of which SciPy
            truncates.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.jit(ndimage.laplace)(np.arange(4.0) ** 2)
        array([ 1.,  2.,  2., -5.])
    """
    x = image("laplace", input)
    along = places("laplace", axes, x.ndim)
    _check_passes("laplace", len(along), input, output)
    weights = np.array([1.0, -2.0, 1.0])
    modes = each("laplace", mode, len(along))
    parts = [
        _one_axis("laplace", x, weights, k, edge, cval)
        for k, edge in zip(along, modes, strict=True)
    ]
    return finished("laplace", functools.reduce(operator.add, parts) if parts else x, input, output)


def _derivatives(
    name: str,
    input: Operand,
    sigma: Numbers,
    mode: Modes,
    cval: Operand,
    axes: Axis,
    order: int,
    truncate: float,
    radius: int | Sequence[int] | None,
) -> tuple[Any, list[Any]]:
    """Return derivatives along each axis of an image smoothed by a Gaussian along all of them."""
    x = image(name, input)
    along = places(name, axes, x.ndim)
    several = list(sigma) if holds_tracer(sigma) and arrayed(sigma).ndim else sigma  # type: ignore[arg-type]
    if order == 2:
        widths: list[Any] = [0.0] * x.ndim
        for k, width in zip(along, each(name, several, len(along)), strict=True):
            widths[k] = width
    else:
        widths = each(name, several, x.ndim)
    parts: list[Any] = []
    for k, edge in zip(along, each(name, mode, len(along)), strict=True):
        orders = [order if j == k else 0 for j in range(x.ndim)]
        parts.append(_gaussian(name, x, widths, orders, edge, cval, truncate, radius, None))
    return x, parts


@on_traced(scipy.ndimage.gaussian_laplace)
def gaussian_laplace(
    input: Numeric[X, "*image"] | Nested,
    sigma: Numbers,
    output: Output | None = None,
    mode: Modes = "reflect",
    cval: Operand = 0.0,
    *,
    axes: Axis = None,
    truncate: float = 4.0,
    radius: int | Sequence[int] | None = None,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.gaussian_laplace``: the sum of second Gaussian derivatives.

    Args:
        input: shape (n, m, ...), real or complex.
        sigma: standard deviation in elements, or one per axis. The number of weights depends on its
            concrete value.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic); or one per axis.
        cval: value beyond the edges for "constant".
        axes: the axes to filter; all by default.
        truncate: number of standard deviations with weights on either side.
        radius: number of weights on either side, or one per axis; required when staged with a
            traced ``sigma``.

    Returns:
        an array of the shape of ``input``, computed in double precision and converted to
        ``output``.

    Raises:
        ShapeError: if ``radius`` is negative, ``mode`` is unknown, or ``cval`` is not one number.
        ConcretizationError: if ``sigma`` is abstract and ``radius`` missing.
        DtypeError: if the result has integers: SciPy truncates after each axis.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> np.round(ft.jit(lambda x: ndimage.gaussian_laplace(x, 1.0))(np.eye(3)), 3)
        array([[-0.385,  0.037,  0.348],
               [ 0.037, -0.073,  0.037],
               [ 0.348,  0.037, -0.385]])
    """
    _check_passes("gaussian_laplace", 2, input, output)
    x, parts = _derivatives("gaussian_laplace", input, sigma, mode, cval, axes, 2, truncate, radius)
    return finished(
        "gaussian_laplace", functools.reduce(operator.add, parts) if parts else x, input, output
    )


@on_traced(scipy.ndimage.gaussian_gradient_magnitude)
def gaussian_gradient_magnitude(
    input: Numeric[X, "*image"] | Nested,
    sigma: Numbers,
    output: Output | None = None,
    mode: Modes = "reflect",
    cval: Operand = 0.0,
    *,
    axes: Axis = None,
    truncate: float = 4.0,
    radius: int | Sequence[int] | None = None,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.gaussian_gradient_magnitude``: the length of the gradient; where that is 0,
    its derivative is 0.

    Args:
        input: shape (n, m, ...), real or complex.
        sigma: standard deviation in elements, or one per axis. The number of weights depends on its
            concrete value.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic); or one per axis.
        cval: value beyond the edges for "constant".
        axes: the axes to filter; all by default.
        truncate: number of standard deviations with weights on either side.
        radius: number of weights on either side, or one per axis; required when staged with a
            traced ``sigma``.

    Returns:
        an array of the shape of ``input``, computed in double precision and converted to
        ``output``.

    Raises:
        ShapeError: if ``radius`` is negative, ``mode`` is unknown, or ``cval`` is not one number.
        ConcretizationError: if ``sigma`` is abstract and ``radius`` missing.
        DtypeError: if the result has integers: SciPy truncates after each axis.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> np.round(ft.jit(lambda x: ndimage.gaussian_gradient_magnitude(x, 1.0))(np.eye(3)), 3)
        array([[0.153, 0.202, 0.132],
               [0.202, 0.   , 0.202],
               [0.132, 0.202, 0.153]])
    """
    _check_passes("gaussian_gradient_magnitude", 2, input, output)
    x, parts = _derivatives(
        "gaussian_gradient_magnitude", input, sigma, mode, cval, axes, 1, truncate, radius
    )
    if not parts:
        return finished("gaussian_gradient_magnitude", x, input, output)
    squares = sum([part * part for part in parts[1:]], start=parts[0] * parts[0])
    flat = squares == 0
    length = np.where(flat, 0.0, np.sqrt(np.where(flat, 1.0, squares)))
    return finished("gaussian_gradient_magnitude", length, input, output)


__all__ = [
    "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d",
    "gaussian_gradient_magnitude", "gaussian_laplace", "laplace", "padded", "prewitt", "sobel",
    "uniform_filter",
    "uniform_filter1d",
]  # fmt: skip
