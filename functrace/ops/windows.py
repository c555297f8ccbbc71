"""Sliding windows and resampling of images: linear maps along an axis, maxima, and columns.

* ``map_axis`` applies a sparse matrix along one axis: sums of windows, averages of spans,
  interpolation, padding by reflection. The matrix is described by a few words and numbers
  (`MATRICES`), and is computed when it is used. The transpose is the same with the transposed
  matrix.
* ``max_windows`` returns the maxima of windows, and their positions.
* ``im2col`` writes out all windows as columns, and ``col2im`` adds them up again.

Layer: 2.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from functrace.errors import AxisError, ProgramError, ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import LINEAR, WRITTEN_AS, Flags, Operand, Primitive, Values, absent
from functrace.ops import counts
from functrace.ops.convolution import Shape, count_windows, windows_of
from functrace.ops.plain_windows import max_windows as plain_max_windows
from functrace.ops.plain_windows import places_of, spans_of
from functrace.ops.shaping import broadcast_to, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

How: TypeAlias = "tuple[str | int | float | bool, ...]"
"""Description of a matrix: a name of `MATRICES`, the sizes of its sides, and what else it needs."""

# -- matrices --------------------------------------------------------------------------------------


Matrix: TypeAlias = tuple[Array, Array, Array | None]
"""A sparse matrix by rows: row of each entry, in order; its column, in order within a row; and the
entries, None if all are 1. (Plain tuples, which NumPy source can contain.)"""


def _of_runs(begin: Array, end: Array) -> tuple[Array, Array]:
    """Return rows and columns of a matrix whose rows are adjacent entries."""
    lengths: Array = np.maximum(end - begin, 0)
    rows: Array = np.repeat(np.arange(len(begin)), lengths)
    first: Array = begin - np.cumsum(lengths) + lengths
    return rows, np.arange(len(rows)) + first[rows]


def _sums(size: int, count: int, kernel: int, stride: int, before: int) -> Matrix:
    """Sums of windows; elements outside count as 0."""
    begin = np.arange(count) * stride - before
    rows, columns = _of_runs(np.maximum(begin, 0), np.minimum(begin + kernel, size))
    return (rows, columns, None)


def _means(size: int, count: int) -> Matrix:
    """Means of spans that cover the axis, as adaptive pooling."""
    begin, end = spans_of(size, count)
    rows, columns = _of_runs(begin, end)
    return (rows, columns, (1.0 / (end - begin))[rows])


def _picked(columns: Array) -> Matrix:
    return (np.arange(len(columns)), columns, None)


def _reflected(size: int, count: int, before: int) -> Matrix:
    """Padding that mirrors the array at its first and last element."""
    period = max(1, 2 * (size - 1))
    k = np.abs(np.arange(count) - before) % period
    return _picked(np.minimum(k, period - k) if size > 1 else k)


def _repeated(size: int, count: int, before: int) -> Matrix:
    """Padding that repeats the first and the last element."""
    return _picked(np.clip(np.arange(count) - before, 0, size - 1))


def _wrapped(size: int, count: int, before: int) -> Matrix:
    """Padding that continues at the other end; negative padding is removed first."""
    after = count - size - before
    first = max(-before, 0)
    kept = size - first - max(-after, 0)
    return _picked(first + (np.arange(count) - max(before, 0)) % max(kept, 1))


def _nearest(size: int, count: int, scale: float, exact: bool) -> Matrix:
    """The element next to each position; ``exact`` from centers, otherwise from the left."""
    # In single precision, as PyTorch computes positions.
    step = np.float32(scale)
    k = np.arange(count, dtype=np.float32)
    places = (k + np.float32(0.5)) * step if exact else k * step
    return _picked(np.clip(np.floor(places).astype(np.intp), 0, size - 1))


def _centers(size: int, count: int, scale: float, corners: bool, dtype: Any) -> Array:
    """Return the position in the input of each element of the output."""
    k = np.arange(count, dtype=dtype)
    if corners:
        step = dtype(size - 1) / dtype(count - 1) if count > 1 else dtype(0)
        return k * step
    return (k + dtype(0.5)) * dtype(scale) - dtype(0.5)


def _linear(size: int, count: int, scale: float, corners: bool, double: bool) -> Matrix:
    """Linear interpolation between neighbours."""
    places = np.maximum(
        _centers(size, count, scale, corners, np.float64 if double else np.float32), 0
    )
    low = np.minimum(places.astype(np.intp), size - 1)
    high = np.minimum(low + 1, size - 1)
    share = np.clip(places - low, 0, 1)
    return _joined(np.stack([low, high], 1), np.stack([1 - share, share], 1))


def _cubic_weights(t: Array, a: float) -> Array:
    """Return the weights of the elements at distances 1 + t, t, 1 - t, 2 - t: Keys' kernel."""
    near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (t, 1 - t)]
    far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (t + 1, 2 - t)]
    return np.stack([far[0], *near, far[1]], -1)


def _cubic(size: int, count: int, scale: float, corners: bool, double: bool) -> Matrix:
    """Cubic interpolation among four neighbours; those outside are the last element."""
    places = _centers(size, count, scale, corners, np.float64 if double else np.float32)
    low = np.floor(places)
    weights = _cubic_weights(places - low, -0.75)
    columns = np.clip(low.astype(np.intp)[:, None] + np.arange(-1, 3), 0, size - 1)
    return _joined(columns, weights)


def _smoothed(size: int, count: int, scale: float, corners: bool, kind: str) -> Matrix:
    """Interpolation with a kernel as wide as the steps (antialiasing): linear, cubic, lanczos."""
    if corners:
        scale = (size - 1) / (count - 1) if count > 1 else 0.0
    wide = max(scale, 1.0)
    support = {"linear": 1.0, "cubic": 2.0, "lanczos": 3.0}[kind] * wide
    centers = (np.arange(count) + 0.5) * scale
    begin = np.maximum((centers - support + 0.5).astype(np.intp), 0)
    end = np.minimum((centers + support + 0.5).astype(np.intp), size)
    rows, columns = _of_runs(begin, end)
    d = np.abs((columns - centers[rows] + 0.5) / wide)
    if kind == "linear":
        weights = np.maximum(1 - d, 0)
    elif kind == "lanczos":
        weights = np.where(d < 3, np.sinc(d) * np.sinc(d / 3), 0.0)
    else:
        a = -0.5
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        weights = np.where(d < 1, near, np.where(d < 2, far, 0.0))
    total = np.bincount(rows, weights, count)
    return (rows, columns, weights / np.where(total == 0, 1, total)[rows])


def _fixed_point(size: int, count: int, scale: float, corners: bool, kind: str) -> Matrix:
    """Interpolation of uint8 images: weights are multiples of a power of two, as many bits as an
    int16 of the largest one holds (at most 22).
    """
    name, smoothed = kind.split()[0], kind.endswith("smoothed")
    if smoothed:
        rows, columns, exact = _smoothed(size, count, scale, corners, name)
    else:
        rows, columns, exact = {"linear": _linear, "cubic": _cubic}[name](
            size, count, scale, corners, True
        )
    assert exact is not None
    largest, bits = float(exact.max()), 0
    while bits < 22 and int(0.5 + largest * (2 << bits)) < 1 << 15:
        bits += 1
    scaled = exact * (1 << bits)
    return (rows, columns, np.trunc(scaled + np.copysign(0.5, scaled)) / (1 << bits))


def _joined(columns: Array, weights: Array) -> Matrix:
    """Return a matrix from the same number of entries in each row, of which some may coincide."""
    count, width = len(columns), columns.shape[1]
    same = np.zeros(columns.shape, bool)
    weights = weights.astype(np.float64)
    for k in range(width - 1, 0, -1):
        # Columns are in order, so those that coincide are neighbours: move the weight to the first.
        same[:, k] = columns[:, k] == columns[:, k - 1]
        weights[:, k - 1] += np.where(same[:, k], weights[:, k], 0)
    kept = ~same
    rows: Array = np.broadcast_to(np.arange(count)[:, None], columns.shape)
    return (rows[kept], columns[kept], weights[kept])


MATRICES: dict[str, Callable[..., Matrix]] = {
    "cubic": _cubic,
    "fixed point": _fixed_point,
    "linear": _linear,
    "means": _means,
    "nearest": _nearest,
    "reflected": _reflected,
    "repeated": _repeated,
    "smoothed": _smoothed,
    "sums": _sums,
    "wrapped": _wrapped,
}
"""Matrices by name; each takes the size of the input, that of the output, and what else it needs."""


_Tap: TypeAlias = tuple[Any, Any, Array | None]
"""One entry of each row that has so many: rows of the matrix, as a slice or positions; its columns,
likewise; and the entries, None if all are 1."""


_Taps: TypeAlias = tuple[tuple[_Tap, ...], bool, Array | None]
"""A matrix in the form in which it is applied: its entries, the k-th of each row together; True if
the first of these has an entry of every row; and the begin of each row's columns, if these are all
columns in order, with entries 1."""


def _as_slice(k: Array) -> Any:
    """Return positions with equal steps as a slice."""
    if not len(k):
        return slice(0, 0)
    if len(k) == 1:
        return slice(int(k[0]), int(k[0]) + 1)
    step = int(k[1] - k[0])
    if step > 0 and (np.diff(k) == step).all():
        return slice(int(k[0]), int(k[-1]) + 1, step)
    return k


@functools.lru_cache(maxsize=512)
def _taps(how: How, backwards: bool) -> _Taps:
    name, *rest = how
    matrix = MATRICES[str(name)](*rest)
    rows, columns, weights = matrix
    count = int(how[1] if backwards else how[2])
    size = int(how[2] if backwards else how[1])
    if backwards:
        order = np.argsort(columns, kind="stable")
        rows, columns = columns[order], rows[order]
        weights = None if weights is None else weights[order]
    lengths = np.bincount(rows, minlength=count)
    first = np.cumsum(lengths) - lengths
    place = np.arange(len(rows)) - first[rows]
    taps: list[_Tap] = []
    for k in range(int(lengths.max(initial=0))):
        kept = place == k
        taps.append(
            (
                _as_slice(rows[kept]),
                _as_slice(columns[kept]),
                None if weights is None else weights[kept],
            )
        )
    covers = bool(len(lengths)) and bool(lengths.min() > 0)
    in_order = covers and len(columns) == size and bool((columns == np.arange(size)).all())
    segments = first if in_order and weights is None and len(taps) > 4 else None
    return tuple(taps), covers, segments


def _map_eval(x: Array, axis: int, how: How, backwards: bool) -> Any:
    taps, covers, segments = _taps(how, backwards)
    before, after = (slice(None),) * axis, x.ndim - axis - 1
    if segments is not None:
        return np.add.reduceat(x, segments, axis, dtype=x.dtype)

    def term(tap: _Tap) -> Any:
        _, source, weights = tap
        part = x[*before, source] if type(source) is slice else x.take(source, axis)
        if weights is None:
            return part
        factor = weights.astype(x.dtype if x.dtype.kind in "fc" else np.float64)
        return part * factor.reshape(-1, *(1,) * after)

    if len(taps) == 1 and covers:
        return np.array(term(taps[0]), x.dtype, order="C", copy=None)
    shape = (*x.shape[:axis], int(how[1] if backwards else how[2]), *x.shape[axis + 1 :])
    if covers:
        out = np.array(term(taps[0]), x.dtype, order="C")
        taps = taps[1:]
    else:
        out = np.zeros(shape, x.dtype)
    for tap in taps:
        out[*before, tap[0]] += term(tap)
    return out


def _check_how(how: How) -> None:
    if len(how) < 3 or how[0] not in MATRICES or not all(type(n) is int for n in how[1:3]):
        raise ProgramError(
            f"map_axis: there is no matrix {how}", fix=f"name one of {sorted(MATRICES)}, with sizes"
        )


def _map_aval(x: ShapeDtype, axis: int, how: How, backwards: bool) -> ShapeDtype:
    _check_how(how)
    if not 0 <= axis < x.ndim:
        raise AxisError(f"map_axis: {x} has no axis {axis}", fix=f"use an axis below {x.ndim}")
    size, count = (how[2], how[1]) if backwards else (how[1], how[2])
    if x.shape[axis] != size:
        raise ShapeError(
            f"map_axis: axis {axis} of {x} has not {size} elements",
            fix="describe the matrix with the size of the axis",
        )
    return ShapeDtype((*x.shape[:axis], int(count), *x.shape[axis + 1 :]), x.dtype)


map_axis_p = Primitive(
    "map_axis",
    eval=_map_eval,
    aval=_map_aval,
    jvp=LINEAR,
    transpose=lambda ct, x, axis, how, backwards: (
        bind(map_axis_p, (ct,), (axis, how, not backwards)),
    ),
    batch=lambda operands, flags, axis, how, backwards: bind(
        map_axis_p, operands, (axis + 1, how, backwards)
    ),
    params=("axis", "how", "backwards"),
    flops=counts.twice_per_input,
)


def map_axis(x: Value, axis: int, how: How) -> Any:
    """Apply a sparse matrix along an axis.

    Args:
        x: the array.
        axis: from 0.
        how: name of the matrix (`MATRICES`), size of the axis, size of the result, further
            parameters.
    """
    return bind(map_axis_p, (x,), (axis, how, False))


# -- maxima ----------------------------------------------------------------------------------------

Window: TypeAlias = "tuple[int, ...]"
"""Windows along an axis: kernel, stride, padding, dilation and count; or only the count of spans
that cover the axis."""


class _Places(NamedTuple):
    """Windows along one axis.

    Args:
        begin: position of the first tap of each window, which may be outside.
        step: steps between taps.
        taps: number of taps of the largest window.
        low: first position inside of the array of each window.
        high: last position.
    """

    begin: Array
    step: int
    taps: int
    low: Array
    high: Array

    def position(self, tap: Any) -> Array:
        """Return the position of a tap; the next one in the window if that is outside."""
        return np.clip(self.begin + tap * self.step, self.low, self.high)


@functools.lru_cache(maxsize=512)
def _places(size: int, window: Window) -> _Places:
    places = _Places(*places_of(size, window))
    if (places.low > places.high).any():
        raise ShapeError(
            f"max_windows: some windows lie beside an axis of {size} elements, and have no maximum",
            fix="pad the array with -inf first, or choose a smaller dilation or padding",
        )
    return places


def places_of_windows(size: int, window: Window) -> Array:
    """Return the positions (windows, taps) of windows along an axis, all inside of the array."""
    places = _places(size, window)
    return np.stack([places.position(k) for k in range(places.taps)], 1)


@functools.lru_cache(maxsize=512)
def _sources(size: int, window: Window) -> list[Any]:
    places = _places(size, window)
    return [_as_slice(places.position(k)) for k in range(places.taps)]


def _max_eval(x: Array, windows: tuple[Window, ...]) -> tuple[Array, Array]:
    best, flat = _maxima(x, windows, nan=False)
    if x.dtype.kind == "f" and best.size and np.isnan(best.min()):
        return _maxima(x, windows, nan=True)
    return best, flat


vars(_max_eval)[WRITTEN_AS] = plain_max_windows


def _maxima(x: Array, windows: tuple[Window, ...], *, nan: bool) -> tuple[Array, Array]:
    """Reduce axis by axis, the last one first: ties go to the first element in C order.

    Args:
        x: the array.
        windows: windows along its last axes.
        nan: True if nan is to be found, of which the last one counts.
    """
    axes = len(windows)
    best: Array = x
    chosen: list[Array] = []  # for the axes already reduced, last to first, the number of the tap
    for axis in range(x.ndim - 1, x.ndim - axes - 1, -1):
        size, window = x.shape[axis], windows[axis - x.ndim + axes]
        sources = _sources(size, window)
        kind = np.uint8 if len(sources) <= 256 else np.uint32
        before = (slice(None),) * axis
        # Elements apart are compared twice: copied first, that is 2x faster.
        copies = axis == x.ndim - 1

        def at(a: Array, source: Any, before: Any = before, axis: int = axis) -> Array:
            return a[*before, source] if type(source) is slice else a.take(source, axis)

        top = at(best, sources[0])
        top = np.ascontiguousarray(top) if copies else top
        tap: Any = None
        others = [at(c, sources[0]) for c in chosen]
        for k, source in enumerate(sources[1:], 1):
            value = at(best, source)
            value = np.ascontiguousarray(value) if copies else value
            wins = value > top
            if nan:
                wins |= value != value
            top = np.maximum(top, value)
            number = wins.view(np.uint8)
            if kind is not np.uint8 or k > 1:
                number = number.astype(kind, copy=False) * kind(k)
            # Later taps have larger numbers.
            tap = number if tap is None else np.maximum(tap, number, out=tap)
            others = [c + wins * (at(b, source) - c) for c, b in zip(others, chosen, strict=True)]
        chosen = [*others, np.zeros(top.shape, kind) if tap is None else tap]
        best = top
    sizes = x.shape[x.ndim - axes :]
    return np.array(best, x.dtype, order="C", copy=None), _flat(sizes, windows, chosen[::-1])


def _flat(sizes: Shape, windows: tuple[Window, ...], taps: Sequence[Array]) -> Array:
    """Return the positions in C order of the taps along each axis."""
    base, steps = _first_positions(sizes, windows)
    if base is not None:
        reach = sum(
            (len(_sources(n, w)) - 1) * step
            for n, w, step in zip(sizes, windows, steps, strict=True)
        )
        kind = np.uint16 if reach < 1 << 16 else np.int64
        offset: Any = 0
        for tap, step in zip(taps, steps, strict=True):
            if step:
                offset = offset + tap * kind(step)
        found: Array = np.add(offset, base, dtype=np.int64)
        return (
            found if found.shape == taps[0].shape else np.broadcast_to(found, taps[0].shape).copy()
        )
    flat: Any = 0
    for k, (window, tap) in enumerate(zip(windows, taps, strict=True)):
        places = _places(sizes[k], window)
        column = (-1, *(1,) * (len(sizes) - 1 - k))
        position = tap * np.int64(places.step) + places.begin.reshape(column)
        np.clip(position, places.low.reshape(column), places.high.reshape(column), out=position)
        flat = position if k == 0 else flat * sizes[k] + position
    return flat


@functools.lru_cache(maxsize=512)
def _first_positions(sizes: Shape, windows: tuple[Window, ...]) -> tuple[Array | None, list[int]]:
    """Return the position of the first tap of all windows, and the steps of the taps of each axis;
    None if windows reach beyond the borders.
    """
    base: Any = np.zeros((), np.int64)
    steps: list[int] = []
    for k, (size, window) in enumerate(zip(sizes, windows, strict=True)):
        places, rest = _places(size, window), math.prod(sizes[k + 1 :])
        last = places.begin + (places.taps - 1) * places.step
        if (places.low != places.begin).any() or (places.high != last).any():
            return None, []
        base = base[..., None] + places.begin * rest
        steps.append(places.step * rest if places.taps > 1 else 0)
    return base, steps


def _window_count(window: Window) -> int:
    return window[0] if len(window) == 1 else window[4]


def _max_aval(x: ShapeDtype, windows: tuple[Window, ...]) -> tuple[ShapeDtype, ShapeDtype]:
    axes = len(windows)
    if not 0 < axes <= x.ndim or not all(len(w) in (1, 5) for w in windows):
        raise ShapeError(
            f"max_windows: {x} has no {axes} axes with windows",
            fix="pass windows for its last axes",
        )
    if 0 in x.shape[x.ndim - axes :]:
        raise ShapeError(f"max_windows: the images of {x} are empty", fix="pass some elements")
    shape = (*x.shape[: x.ndim - axes], *[_window_count(w) for w in windows])
    return ShapeDtype(shape, x.dtype), ShapeDtype(shape, np.int64)


def _are_disjoint(sizes: Sequence[int], windows: tuple[Window, ...]) -> bool:
    return all(
        size % w[0] == 0 if len(w) == 1 else w[1] >= (w[0] - 1) * w[3] + 1
        for size, w in zip(sizes, windows, strict=True)
    )


def _max_jvp(
    primals: Values, outputs: Values, tangents: tuple[Array], windows: tuple[Window, ...]
) -> Any:
    shape = shape_of(primals[0])
    disjoint = _are_disjoint(shape[len(shape) - len(windows) :], windows)
    return take_flat(tangents[0], outputs[1], len(windows), is_permutation=disjoint), None


def _whole_positions(positions: Array, axes: int, size: int) -> Array:
    """Return positions in the whole array, from those in images of a size, as one line."""
    lines = math.prod(positions.shape[: positions.ndim - axes])
    rows = positions.reshape(lines, math.prod(positions.shape[positions.ndim - axes :]))
    return (rows + np.arange(lines)[:, None] * size).reshape(-1)


def _take_eval(x: Array, positions: Array, axes: int, is_permutation: bool) -> Any:
    size = math.prod(x.shape[x.ndim - axes :])
    return x.reshape(-1)[_whole_positions(positions, axes, size)].reshape(positions.shape)


def _put_eval(x: Array, positions: Array, sizes: Shape, is_permutation: bool) -> Any:
    axes = len(sizes)
    out = np.zeros((*x.shape[: x.ndim - axes], *sizes), x.dtype)
    flat, line = _whole_positions(positions, axes, math.prod(sizes)), out.reshape(-1)
    if is_permutation:
        line[flat] = x.reshape(-1)
    else:
        np.add.at(line, flat, x.reshape(-1))
    return out


def _flat_batch(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    def batch(operands: Values, flags: Flags, *params: Any) -> Any:
        b = next(shape_of(x)[0] for x, flag in zip(operands, flags, strict=True) if flag)
        both = [
            x if flag else broadcast_to(x, (b, *shape_of(x)))
            for x, flag in zip(operands, flags, strict=True)
        ]
        return bind(primitive(), tuple(both), params)

    return batch


def _take_transpose(
    ct: Array, x: Operand, positions: Array, axes: int, is_permutation: bool
) -> Any:
    sizes = tuple(x.shape[len(x.shape) - axes :])
    return bind(put_flat_p, (ct, positions), (sizes, is_permutation)), None


def _put_transpose(
    ct: Array, _x: Operand, positions: Array, sizes: Shape, _is_permutation: bool
) -> Any:
    # Not as a permutation: `put_flat` gets positions that repeat, too.
    return take_flat(ct, positions, len(sizes)), None


take_flat_p = Primitive(
    "take_flat",
    eval=_take_eval,
    aval=lambda x, positions, axes, is_permutation: ShapeDtype(positions.shape, x.dtype),
    jvp=LINEAR,
    transpose=_take_transpose,
    batch=_flat_batch(lambda: take_flat_p),
    params=("axes", "is_permutation"),
    flops=counts.moved,
)
put_flat_p = Primitive(
    "put_flat",
    eval=_put_eval,
    aval=lambda x, positions, sizes, is_permutation: ShapeDtype(
        (*x.shape[: len(x.shape) - len(sizes)], *sizes), x.dtype
    ),
    jvp=LINEAR,
    transpose=_put_transpose,
    batch=_flat_batch(lambda: put_flat_p),
    params=("sizes", "is_permutation"),
    flops=counts.per_added,
)


def take_flat(x: Value, positions: Value, axes: int, *, is_permutation: bool = False) -> Any:
    """Read the last axes at flat positions.

    Args:
        x: the array (..., *sizes).
        positions: positions (..., *counts) in C order of ``sizes``, with as many last axes.
        axes: number of the last axes.
        is_permutation: promises that no position repeats.
    """
    return bind(take_flat_p, (x, positions), (axes, is_permutation))


def put_flat(x: Value, positions: Value, sizes: Shape) -> Any:
    """Write elements to flat positions of new images, which are 0 elsewhere.

    The derivative with respect to an element is read at its position, even if another element was
    written there later, as PyTorch's ``max_unpool2d`` does.

    Args:
        x: the array (..., *counts), with as many last axes as there are sizes.
        positions: integers of its shape, in C order of ``sizes``.
        sizes: sizes of the images.
    """
    return bind(put_flat_p, (x, positions), (sizes, True))


max_windows_p = Primitive(
    "max_windows",
    eval=_max_eval,
    aval=_max_aval,
    jvp=_max_jvp,
    transpose=absent(
        because="the maximum of windows is not linear",
        instead="differentiate with functrace.vjp instead",
    ),
    batch=lambda operands, flags, windows: bind(max_windows_p, operands, (windows,)),
    params=("windows",),
    many=True,
    flops=counts.per_input,
)


def max_windows(x: Value, windows: tuple[Window, ...]) -> Any:
    """Return the maxima of windows along the last axes, and their positions.

    Args:
        x: the array (..., *sizes).
        windows: for each of the last axes (kernel, stride, padding, dilation, count); or (count,)
            for spans that cover the axis. Each window must hold an element.

    Returns:
        maxima (..., *counts), and int64 positions in C order of ``sizes``. Of equal elements the
        first counts, of several nan the last.
    """
    return bind(max_windows_p, (x,), (windows,))


# -- columns ---------------------------------------------------------------------------------------


def _im2col_eval(x: Array, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Any:
    n, c, *sizes = x.shape
    if any(padding):
        x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]])
    windows = windows_of(x, kernel, stride, dilation)
    spots = math.prod(count_windows(tuple(sizes), kernel, stride, padding, dilation))
    return windows.reshape(n, c * math.prod(kernel), spots)


def _im2col_aval(
    x: ShapeDtype, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> ShapeDtype:
    axes = len(kernel)
    if not axes == len(stride) == len(padding) == len(dilation) == x.ndim - 2:
        raise ShapeError(
            f"im2col: {x} is no stack of images with {axes} axes", fix="pass an array (N, C, ...)"
        )
    spots = count_windows(x.shape[2:], kernel, stride, padding, dilation)
    if min(spots) < 0:
        raise ShapeError(f"im2col: the images of {x} have no windows", fix="pass smaller windows")
    return ShapeDtype((x.shape[0], x.shape[1] * math.prod(kernel), math.prod(spots)), x.dtype)


def _col2im_eval(
    x: Array, sizes: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Any:
    n, c = x.shape[0], x.shape[1] // math.prod(kernel)
    padded = [m + 2 * p for m, p in zip(sizes, padding, strict=True)]
    out = np.zeros((n, c, *padded), x.dtype)
    windows = windows_of(out, kernel, stride, dilation)
    columns = x.reshape(windows.shape)
    for k in np.ndindex(*kernel):
        windows[:, :, *k] += columns[:, :, *k]
    inside = [slice(p, p + m) for p, m in zip(padding, sizes, strict=True)]
    return np.ascontiguousarray(out[:, :, *inside])


def _col2im_aval(
    x: ShapeDtype, sizes: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> ShapeDtype:
    axes = len(sizes)
    same = axes == len(kernel) == len(stride) == len(padding) == len(dilation) and x.ndim == 3
    if (
        not same
        or x.shape[1] % math.prod(kernel)
        or x.shape[2] != math.prod(count_windows(sizes, kernel, stride, padding, dilation))
    ):
        raise ShapeError(
            f"col2im: {x} is not the columns of images with sizes {sizes}",
            fix="pass an array (N, C * elements of a window, windows)",
        )
    return ShapeDtype((x.shape[0], x.shape[1] // math.prod(kernel), *sizes), x.dtype)


def _columns_batch(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    def batch(operands: Values, _flags: Flags, *params: Any) -> Any:
        (x,) = operands
        b, n, *rest = shape_of(x)
        made: Any = bind(primitive(), (reshape(x, (b * n, *rest)),), params)
        return reshape(made, (b, n, *shape_of(made)[1:]))

    return batch


def _im2col_transpose(ct: Array, x: Operand, *params: Any) -> Any:
    return (bind(col2im_p, (ct,), (tuple(x.shape[2:]), *params)),)


def _col2im_transpose(ct: Array, _x: Operand, _sizes: Shape, *params: Any) -> Any:
    return (bind(im2col_p, (ct,), params),)


im2col_p = Primitive(
    "im2col",
    eval=_im2col_eval,
    aval=_im2col_aval,
    jvp=LINEAR,
    transpose=_im2col_transpose,
    batch=_columns_batch(lambda: im2col_p),
    params=("kernel", "stride", "padding", "dilation"),
    flops=counts.moved,
)
col2im_p = Primitive(
    "col2im",
    eval=_col2im_eval,
    aval=_col2im_aval,
    jvp=LINEAR,
    transpose=_col2im_transpose,
    batch=_columns_batch(lambda: col2im_p),
    params=("sizes", "kernel", "stride", "padding", "dilation"),
    flops=counts.per_added,
)


def im2col(x: Value, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Any:
    """Return all windows of images (N, C, *sizes) as (N, C * elements of a window, windows)."""
    return bind(im2col_p, (x,), (kernel, stride, padding, dilation))


def col2im(
    x: Value, sizes: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Any:
    """Return images of the given sizes, to which the windows are added: the transpose of im2col."""
    return bind(col2im_p, (x,), (sizes, kernel, stride, padding, dilation))
