"""Filters of signals, forwards and both ways; see `functrace.scipy.signal`.

Note [Recursive filters]
    A filter is its moving average ``b``, a convolution, followed by its recursive part ``a``
    (`functrace.ops.grids.recur`), which has SciPy's loop and its own transpose: the same filter,
    run backwards. The initial state (``zi``, of the transposed direct form II) is added to the
    first elements between the two.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np
import scipy.signal

from functrace.errors import ConcretizationError, ShapeError
from functrace.numpy.protocol.operands import holds_tracer, one_axis
from functrace.ops.grids import convolve_grids, recur
from functrace.scipy.dispatch import on_traced
from functrace.scipy.operands import Nested, Numeric, Operand, X
from functrace.scipy.signal.convolving import numbers
from functrace.typing import Array

# NumPy's own types say nothing about `Any`.
_solved: Callable[[Any, Any], Any] = np.linalg.solve
_least_squares: Callable[..., Any] = np.linalg.lstsq


def _coefficients(name: str, b: Operand, a: Operand, *others: Array) -> tuple[Any, Any]:
    """Return both divided by ``a[0]``, as vectors of the common dtype with other arrays."""
    b, a = np.atleast_1d(numbers(b)), np.atleast_1d(numbers(a))
    dtype = np.result_type(b.dtype, a.dtype, *[x.dtype for x in others])
    b, a = b.astype(dtype), a.astype(dtype)
    if b.ndim != 1 or a.ndim != 1 or not b.shape[0] or not a.shape[0]:
        raise ShapeError(
            f"scipy.signal.{name}: b and a must be vectors, got {b.shape} and {a.shape}",
            fix="map with vmap",
        )
    if not holds_tracer(a) and not a[0]:
        raise ShapeError(f"scipy.signal.{name}: a[0] is 0", fix="leave zeros in front out")
    return b / a[0], a / a[0]


def _rows(x: Array, rank: int) -> Any:
    return x.reshape(*(1,) * (rank - 1), -1)


def _filtered(b: Array, a: Array, x: Array, zi: Any | None) -> tuple[Any, Any | None]:
    """Filter along the last axis; ``zi`` is the initial state. Also return the final state."""
    n, rank = x.shape[-1], x.ndim
    order = max(b.shape[0], a.shape[0]) - 1
    moved = (
        convolve_grids(x, _rows(b, rank), rank - 1)
        if n
        else np.zeros((*x.shape[:-1], b.shape[0] - 1), x.dtype)
    )
    total = moved[..., :n]
    if zi is not None and order:
        total = total + np.pad(zi[..., :n], [(0, 0)] * (rank - 1) + [(0, max(n - order, 0))])
    y = total if a.shape[0] == 1 else recur(_rows(a[1:], rank), total)
    if zi is None:
        return y, None
    shape = (*y.shape[:-1], order)
    last = np.zeros(shape, y.dtype)
    parts = [moved[..., n:]]
    if a.shape[0] > 1 and n:
        parts.append(-convolve_grids(y, _rows(a, rank), rank - 1)[..., n:])
    if order > n:
        parts.append(zi[..., n:])
    for part in parts:
        last = last + np.pad(part, [(0, 0)] * (rank - 1) + [(0, order - part.shape[-1])])
    return y, last


@on_traced(scipy.signal.lfilter)
def lfilter(
    b: Numeric[X, "m"] | Numeric[X, ""] | Nested,
    a: Numeric[X, "k"] | Numeric[X, ""] | Nested,
    x: Numeric[X, "*rest n"] | Nested,
    axis: SupportsIndex = -1,
    zi: Operand | None = None,
) -> Any:
    """``scipy.signal.lfilter``; differentiable by coefficients, samples and the initial state.

    Args:
        b: coefficients of the moving average, shape (m,).
        a: coefficients of the recursion, shape (k,); all are divided by ``a[0]``.
        x: samples, shape (..., n) for the last axis.
        axis: the axis along which samples are filtered.
        zi: the initial state, of the shape of ``x`` with ``max(m, k) - 1`` elements along the axis;
            its other axes broadcast.

    Returns:
        the filtered samples, of the shape of ``x``; with ``zi``, a pair of these and the final
        state. The dtype is the common dtype of all arrays, float64 at least for integers.

    Raises:
        ShapeError: if ``b`` or ``a`` is not a vector, ``a[0]`` is a concrete 0, or the shape of
            ``zi`` does not fit.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> ft.grad(lambda b: signal.lfilter(b, np.ones(1), np.arange(4.0))[3])(np.ones(2))
        array([3., 2.])

    Cost:
        SciPy's loop, twice in reverse.
    """
    samples = numbers(x)
    start = None if zi is None else numbers(zi)
    numerator, denominator = _coefficients(
        "lfilter", b, a, samples, *([] if start is None else [start])
    )
    dtype = numerator.dtype
    samples = samples.astype(dtype)
    place = one_axis(axis, samples.ndim)
    samples = np.moveaxis(samples, place, -1)
    if start is not None:
        order = max(numerator.shape[0], denominator.shape[0]) - 1
        shape = (*samples.shape[:-1], order)
        if start.ndim != samples.ndim:
            raise ShapeError(
                f"scipy.signal.lfilter: zi has {start.ndim} axes, and x {samples.ndim}",
                fix="add axes of size 1 to zi",
            )
        start = np.moveaxis(start.astype(dtype), place, -1)
        if start.shape[-1] != order or any(
            n not in (1, m) for n, m in zip(start.shape, shape, strict=True)
        ):
            raise ShapeError(
                f"scipy.signal.lfilter: unexpected shape for zi: expected {shape} (the axis last), "
                f"found {start.shape}",
                fix="see scipy.signal.lfilter_zi and lfiltic",
            )
        start = np.broadcast_to(start, shape)
    y, last = _filtered(numerator, denominator, samples, start)
    y = np.moveaxis(y, -1, place)
    return y if last is None else (y, np.moveaxis(last, -1, place))


@on_traced(scipy.signal.lfilter_zi)
def lfilter_zi(
    b: Numeric[X, "m"] | Numeric[X, ""] | Nested, a: Numeric[X, "k"] | Numeric[X, ""] | Nested
) -> Numeric[Array, "_"]:
    """``scipy.signal.lfilter_zi``: the steady state of a filter for an input of ones.

    Args:
        b: coefficients of the moving average, shape (m,).
        a: coefficients of the recursion, shape (k,); all are divided by ``a[0]``.

    Returns:
        the state, shape (max(m, k) - 1,), to be multiplied by the first sample and passed as
        ``zi``.

    Raises:
        ShapeError: if ``b`` or ``a`` is not a vector, or ``a[0]`` is a concrete 0.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> ft.jit(signal.lfilter_zi)(np.array([0.5, 0.5]), np.array([1.0, -0.5]))
        array([1.5])
    """
    numerator, denominator = _coefficients("lfilter_zi", b, a)
    order = max(numerator.shape[0], denominator.shape[0]) - 1
    numerator, denominator = (
        np.pad(v, (0, order + 1 - v.shape[0])) for v in (numerator, denominator)
    )
    rest = denominator[1:]
    first = np.pad(rest[:, None], ((0, 0), (0, max(order - 1, 0))))[:, :order]
    system = np.eye(order) - np.eye(order, k=1) + first
    return _solved(
        system.astype(np.result_type(numerator, denominator)), numerator[1:] - rest * numerator[0]
    )


def _sections(name: str, sos: Operand) -> Any:
    made = np.atleast_2d(numbers(sos))
    if made.ndim != 2 or made.shape[1] != 6:
        raise ShapeError(
            f"scipy.signal.{name}: sos array must be shape (n_sections, 6), got {made.shape}",
            fix="see tf2sos",
        )
    if not holds_tracer(made) and not np.all(made[:, 3] == 1):
        raise ShapeError(
            f"scipy.signal.{name}: sos[:, 3] should be all ones", fix="divide each section by it"
        )
    return made


@on_traced(scipy.signal.sosfilt_zi)
def sosfilt_zi(sos: Numeric[X, "s 6"] | Nested) -> Numeric[Array, "_ 2"]:
    """``scipy.signal.sosfilt_zi``: the steady states of a cascade of second-order sections for an
    input of ones.

    Args:
        sos: shape (s, 6): b0, b1, b2, a0, a1, a2 of each section, with a0 = 1.

    Returns:
        the states, shape (s, 2).

    Raises:
        ShapeError: if ``sos`` has another shape, or a concrete a0 is not 1.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> ft.jit(signal.sosfilt_zi)(np.array([[0.5, 0.5, 0.0, 1.0, 0.0, 0.0]]))
        array([[0.5, 0. ]])
    """
    sections = _sections("sosfilt_zi", sos)
    states: list[Any] = []
    scale: Any = 1.0
    for k in range(sections.shape[0]):
        b, a = sections[k, :3], sections[k, 3:]
        states.append(scale * lfilter_zi(b, a))
        scale = scale * np.sum(b) / np.sum(a)
    return np.stack(states)


@on_traced(scipy.signal.sosfilt)
def sosfilt(
    sos: Numeric[X, "s 6"] | Numeric[X, "6"] | Nested,
    x: Numeric[X, "*rest n"] | Nested,
    axis: SupportsIndex = -1,
    zi: Operand | None = None,
) -> Any:
    """``scipy.signal.sosfilt``: a cascade of second-order sections.

    Args:
        sos: shape (s, 6): b0, b1, b2, a0, a1, a2 of each section, with a0 = 1.
        x: samples, shape (..., n) for the last axis.
        axis: the axis along which samples are filtered.
        zi: initial states: s states of the shape of ``x`` with 2 elements along the axis.

    Returns:
        the filtered samples, of the shape of ``x``; with ``zi``, a pair of these and the final
        states. The dtype is the common dtype of all arrays, float64 at least for integers.

    Raises:
        ShapeError: if ``sos`` has another shape, a concrete a0 is not 1, ``x`` is a number, or the
            shape of ``zi`` does not fit.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> sos = np.array([[0.5, 0.5, 0.0, 1.0, 0.0, 0.0]])
        >>> ft.jit(lambda x: signal.sosfilt(sos, x))(np.arange(4.0))
        array([0. , 0.5, 1.5, 2.5])
    """
    sections, samples = _sections("sosfilt", sos), numbers(x)
    if not samples.ndim:
        raise ShapeError(
            "scipy.signal.sosfilt: x must be at least 1-D", fix="pass an array of samples"
        )
    place = one_axis(axis, samples.ndim)
    starts = None if zi is None else numbers(zi)
    dtype = np.result_type(*[v.dtype for v in (sections, samples, starts) if v is not None])
    sections, samples = sections.astype(dtype), np.moveaxis(samples.astype(dtype), place, -1)
    if starts is not None:
        starts = np.moveaxis(starts.astype(dtype), place + 1, -1)
        shape = (sections.shape[0], *samples.shape[:-1], 2)
        if starts.shape != shape:
            raise ShapeError(
                f"scipy.signal.sosfilt: zi must have shape {shape} (the axis last), got "
                f"{starts.shape}",
                fix="see sosfilt_zi",
            )
    lasts: list[Any] = []
    for k in range(sections.shape[0]):
        start = None if starts is None else starts[k]
        samples, last = _filtered(sections[k, :3], sections[k, 3:], samples, start)
        lasts.append(last)
    samples = np.moveaxis(samples, -1, place)
    return samples if starts is None else (samples, np.moveaxis(np.stack(lasts), -1, place + 1))


# -- both ways -------------------------------------------------------------------------------------


def extended(x: Array, count: int, kind: str) -> Any:
    """Extend samples along the last axis, at both ends."""
    if not count:
        return x
    room = [(0, 0)] * (x.ndim - 1) + [(count, count)]
    if kind == "zeros":
        return np.pad(x, room)
    if kind == "constant":
        return np.pad(x, room, mode="edge")
    if kind == "even":
        return np.pad(x, room, mode="reflect")
    before, behind = x[..., count:0:-1], x[..., -2 : -(count + 2) : -1]
    return np.concatenate([2 * x[..., :1] - before, x, 2 * x[..., -1:] - behind], axis=-1)


def _padded(
    name: str, x: Array, padtype: str | None, padlen: int | None, taps: int
) -> tuple[int, Any]:
    if padtype not in ("even", "odd", "constant", None):
        raise ShapeError(
            f"scipy.signal.{name}: padtype={padtype!r} must be 'even', 'odd', 'constant', or None",
            fix="leave it out for 'odd'",
        )
    edge = 0 if padtype is None else 3 * taps if padlen is None else padlen
    if x.shape[-1] <= edge:
        raise ShapeError(
            f"scipy.signal.{name}: the length of the input vector x must be greater than padlen, "
            f"which is {edge}",
            fix="pass padlen=",
        )
    return edge, x if padtype is None else extended(x, edge, padtype)


@on_traced(scipy.signal.filtfilt)
def filtfilt(
    b: Numeric[X, "m"] | Numeric[X, ""] | Nested,
    a: Numeric[X, "k"] | Numeric[X, ""] | Nested,
    x: Numeric[X, "*rest n"] | Nested,
    axis: SupportsIndex = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
    method: str = "pad",
    irlen: int | None = None,
) -> Numeric[Array, "*rest n"]:
    """``scipy.signal.filtfilt``: a filter run forwards and then backwards, without delay.

    Args:
        b: coefficients of the moving average, shape (m,).
        a: coefficients of the recursion, shape (k,).
        x: samples, shape (..., n) for the last axis.
        axis: the axis along which samples are filtered.
        padtype: how samples are continued at both ends: "odd", "even", "constant", or ``None``; for
            "pad".
        padlen: number of samples added at either end; 3 max(m, k) by default.
        method: "pad", or "gust" for initial states such that the order of the directions does not
            matter.
        irlen: length of the impulse response that "gust" takes into account; all samples by
            default.

    Returns:
        the filtered samples, of the shape of ``x``, in the common dtype of all arrays, float64 at
        least for integers.

    Raises:
        ShapeError: if ``b`` or ``a`` is not a vector, there are no more samples than ``padlen``, or
            ``method`` or ``padtype`` is unknown.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> values = ft.jit(lambda x: signal.filtfilt(np.array([0.5, 0.5]), 1.0, x))(np.sin(np.arange(64.0)))
        >>> values.shape
        (64,)
    """
    if method not in ("pad", "gust"):
        raise ShapeError(
            f"scipy.signal.filtfilt: method={method!r} must be 'pad' or 'gust'",
            fix="leave it out for 'pad'",
        )
    samples = numbers(x)
    numerator, denominator = _coefficients("filtfilt", b, a, samples)
    samples = samples.astype(numerator.dtype)
    place = one_axis(axis, samples.ndim)
    samples = np.moveaxis(samples, place, -1)
    if method == "gust":
        return np.moveaxis(_by_gustafsson(numerator, denominator, samples, irlen), -1, place)
    taps = max(numerator.shape[0], denominator.shape[0])
    edge, samples = _padded("filtfilt", samples, padtype, padlen, taps)
    state = lfilter_zi(numerator, denominator)
    y, _ = lfilter(numerator, denominator, samples, zi=state * samples[..., :1])
    y, _ = lfilter(numerator, denominator, y[..., ::-1], zi=state * y[..., -1:])
    y = y[..., ::-1]
    return np.moveaxis(y[..., edge : y.shape[-1] - edge], -1, place)


def _by_gustafsson(b: Array, a: Array, x: Array, irlen: int | None) -> Any:
    """Choose the states at both ends so that the order of the directions does not matter.

    Source: F. Gustafsson, Determining the initial states in forward-backward filtering, 1996; like
    SciPy.
    """
    order = max(b.shape[0], a.shape[0]) - 1
    if order == 0:
        return (b[0] / a[0]) ** 2 * x
    n = x.shape[-1]
    m = n if irlen is None or n <= 2 * irlen else irlen
    impulse = np.zeros(order)
    impulse[0] = 1
    observed = lfilter(b, a, np.zeros(m), zi=impulse)[0]
    columns = [np.pad(observed[: m - k], (k, 0)) for k in range(order)]
    seen = np.stack(columns, axis=1)
    again = lfilter(b, a, seen[::-1], axis=0)
    turned, back = again[::-1], seen[::-1]

    def at_ends(first: Array, last: Array) -> Any:
        if m == n:
            return np.concatenate([first, last], axis=1)
        return np.concatenate(
            [np.pad(first, ((0, 0), (0, order))), np.pad(last, ((0, 0), (order, 0)))], axis=0
        )

    forwards = lfilter(b, a, lfilter(b, a, x)[..., ::-1])[..., ::-1]
    backwards = lfilter(b, a, lfilter(b, a, x[..., ::-1])[..., ::-1])
    difference = backwards - forwards
    if m != n:
        difference = np.concatenate([difference[..., :m], difference[..., -m:]], axis=-1)
    rows = difference.reshape(-1, difference.shape[-1]).T
    states = _least_squares(at_ends(turned - seen, back - again), rows, rcond=None)[0].T
    moved = states @ at_ends(turned, back).T
    moved = moved.reshape(*difference.shape)
    if m != n:
        between = np.zeros((*moved.shape[:-1], n - 2 * m))
        moved = np.concatenate([moved[..., :m], between, moved[..., m:]], axis=-1)
    return forwards + moved


@on_traced(scipy.signal.sosfiltfilt)
def sosfiltfilt(
    sos: Numeric[X, "s 6"] | Numeric[X, "6"] | Nested,
    x: Numeric[X, "*rest n"] | Nested,
    axis: SupportsIndex = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
) -> Numeric[Array, "*rest n"]:
    """``scipy.signal.sosfiltfilt``: second-order sections run forwards and then backwards, without
    delay.

    Args:
        sos: shape (s, 6): b0, b1, b2, a0, a1, a2 of each section, with a0 = 1.
        x: samples, shape (..., n) for the last axis.
        axis: the axis along which samples are filtered.
        padtype: how samples are continued at both ends: "odd", "even", "constant", or ``None``.
        padlen: number of samples added at either end; by default from the number of sections and of
            zero coefficients.

    Returns:
        the filtered samples, of the shape of ``x``, in the common dtype of all arrays, float64 at
        least for integers.

    Raises:
        ShapeError: if ``sos`` has another shape, a concrete a0 is not 1, there are no more samples
            than ``padlen``, or ``padtype`` is unknown.
        ConcretizationError: if ``sos`` is abstract and ``padlen`` missing.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> sos = np.array([[0.5, 0.5, 0.0, 1.0, 0.0, 0.0]])
        >>> values = ft.jit(lambda x: signal.sosfiltfilt(sos, x))(np.sin(np.arange(64.0)))
        >>> values.shape
        (64,)
    """
    sections, samples = _sections("sosfiltfilt", sos), numbers(x)
    place = one_axis(axis, samples.ndim)
    samples = np.moveaxis(samples, place, -1)
    count = sections.shape[0]
    taps = 2 * count + 1
    if padlen is None and padtype is not None:
        try:
            taps -= min(int(np.sum(sections[:, 2] == 0)), int(np.sum(sections[:, 5] == 0)))
        except ConcretizationError as error:
            raise ConcretizationError(
                "scipy.signal.sosfiltfilt: how far samples are continued depends on which "
                "coefficients are 0",
                fix="pass padlen=",
            ) from error
    edge, samples = _padded("sosfiltfilt", samples, padtype, padlen, taps)
    state = sosfilt_zi(sections).reshape(count, *(1,) * (samples.ndim - 1), 2)
    y, _ = sosfilt(sections, samples, zi=state * samples[..., :1])
    y, _ = sosfilt(sections, y[..., ::-1], zi=state * y[..., -1:])
    y = y[..., ::-1]
    return np.moveaxis(y[..., edge : y.shape[-1] - edge], -1, place)
