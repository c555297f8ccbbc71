"""Memory layout that NumPy would have given a traced value: its strides, computed on demand.

Note [Layouts are computed on demand]
    Most of NumPy does not depend on strides, so recordings keep none. Operations that do call
    `layout_of`: ``ravel("K")`` needs the order of elements, and a write through ``x.reshape(…)`` or
    ``x.ravel()`` needs to know if that is a view. `layout_of` walks the tape backwards from the
    value, visiting each variable once: inputs and captured arrays have the caller's strides; views
    are taken by NumPy of stand-ins (arrays with strides and one element of memory); new arrays have
    the layout that NumPy's iterator allocates for such operands. Where the tape does not determine
    the layout (an argument of a jitted function, the result of a loop, a function that NumPy
    computes in other steps), it is ``None``, unknown; it is never guessed.
    Only the order of axes matters for new arrays, so the iterator gets at most 2 elements per axis.

Layer: 3.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, cast, final

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import CONSTANT, INPUT, RESULT, Primitive
from functrace.ir.program import Program
from functrace.ops import cumulative, joining, linalg, reductions, shaping, sorting
from functrace.ops import elementwise as ew
from functrace.ops.cholesky import cholesky_p
from functrace.ops.contraction import matmul_p
from functrace.ops.indexing import (
    ARRAY,
    decode_index,
    embed_p,
    gather_p,
    index_p,
    scatter_add_p,
    scatter_each_p,
    scatter_set_p,
)
from functrace.ops.naming import name_p
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer

Shape = tuple[int, ...]
Strides = tuple[int, ...] | None
"""Bytes from one element to the next, by axis; ``None`` if unknown."""

_ABSENT: Any = object()
_MOST_AXES = 12


@final
class Order:
    """Layout of an array that the tape does not determine: a copy, or an array written in place.

    Args:
        letter: ``"C"``, ``"F"``, ``"K"`` or ``"A"`` as in NumPy; ``"="`` for the strides of the
            source, ``"?"`` for an unknown layout.
        source: the reference of "K", "A" and "=": an order, a view, or a recording and its
        variable. aval: shape and dtype of the source.
    """

    __slots__ = ("aval", "found", "letter", "source")

    def __init__(self, letter: str, source: Any = None, aval: ShapeDtype | None = None) -> None:
        self.letter, self.source, self.aval = letter, source, aval
        self.found: Any = _ABSENT


C_ORDER, F_ORDER, UNKNOWN = Order("C"), Order("F"), Order("?")


def order_like(x: Tracer, letter: str) -> Order:
    """Return the order of an array like ``x``: a copy ("K", "A"), or ``x`` itself ("=")."""
    if letter in "CF":
        return C_ORDER if letter == "C" else F_ORDER
    view = x.ft_view
    if view is None:
        return Order(letter, (x.ft_recording, x.ft_variable), x.aval)
    if view.base is None:
        return view.order if letter == "=" else Order(letter, view.order, x.aval)
    return Order(letter, view, x.aval)


def layout_of(x: Tracer) -> np.ndarray[Any, Any] | None:
    """Return an ndarray with the strides that NumPy would give ``x``, or ``None`` if unknown.

    Its elements must not be read.

    Cost:
        about 5 us per operation that ``x`` depends on, once.
    """
    view = x.ft_view
    if view is None:
        strides = _solved((x.ft_recording, x.ft_variable))
    else:
        strides = _solved((view.order, x.aval)) if view.base is None else _solved(view)
    return None if strides is None else stand_in(x.aval, strides)


def stand_in(aval: ShapeDtype, strides: Shape) -> np.ndarray[Any, Any]:
    """Return an ndarray with these strides, whose elements must not be read."""
    return np.lib.stride_tricks.as_strided(np.empty(1, aval.dtype), aval.shape, strides)


def is_row(shape: Shape) -> bool:
    """Return True if at most one axis has more than one element, so that all orders are equal."""
    return sum(n != 1 for n in shape) <= 1 or 0 in shape


def packed(shape: Shape, itemsize: int, axes: Sequence[int] | None = None) -> Shape:
    """Return the strides of a new array, the last of ``axes`` varying fastest; default C order."""
    strides, step = [0] * len(shape), itemsize
    for k in reversed(axes if axes is not None else range(len(shape))):
        strides[k] = step
        step *= max(shape[k], 1)
    return tuple(strides)


def compact(aval: ShapeDtype, strides: Shape) -> Shape:
    """Return the strides of a copy in "K" order."""
    return packed(
        aval.shape, aval.dtype.itemsize, sorted(range(aval.ndim), key=lambda k: -abs(strides[k]))
    )


# -- the walk: generators yield what they depend on, so that long tapes need no recursion ----------


def _solved(request: Any) -> Strides:
    """Compute the strides of a recording's variable, an order with an aval, or a view.

    Note [Layouts that depend on themselves]
        After ``np.copyto(v, y)`` the array ``v`` names the variable of ``y``, with the layout of
        the operation that made ``v``, possibly from ``y``: one operand then has two layouts, one of
        which depends on the operation. A layout requested during its own computation is unknown.
    """
    stack, outcome = [_evaluated(request)], None
    while stack:
        try:
            request = stack[-1].send(outcome)
        except StopIteration as done:
            stack.pop()
            outcome = done.value
        else:
            stack.append(_evaluated(request))
            outcome = None
    return outcome


Walk = Generator[Any, Strides, Strides]


def _evaluated(request: Any) -> Walk:
    if not isinstance(request, tuple):
        return _of_view(request)
    first, second = request
    return _of_order(first, second) if isinstance(first, Order) else _of_variable(first, second)


def _of_order(order: Order, aval: ShapeDtype) -> Walk:
    """Yield dependencies, return the strides of an aval in an order."""
    letter = order.letter
    if letter in "CF":
        axes = range(aval.ndim) if letter == "C" else range(aval.ndim)[::-1]
        return packed(aval.shape, aval.dtype.itemsize, axes)
    if letter == "?":
        return packed(aval.shape, aval.dtype.itemsize) if is_row(aval.shape) else None
    if order.found is _ABSENT:
        source, order.found = order.source, None  # see Note [Layouts that depend on themselves]
        assert order.aval is not None
        order.found = yield (source, order.aval) if isinstance(source, Order) else source
    strides = order.found
    if letter == "=":
        return strides
    if is_row(aval.shape):
        return packed(aval.shape, aval.dtype.itemsize)
    if strides is None:
        return None
    assert order.aval is not None
    if letter == "K":
        return compact(aval, strides)
    flags = stand_in(order.aval, strides).flags
    return packed(aval.shape, aval.dtype.itemsize, range(aval.ndim)[::-1] if flags.fnc else None)


def _of_view(view: Any) -> Walk:
    """Return the strides of a view, applied to the strides of its base."""
    chain = [view]
    base = view.base
    while base.ft_view is not None and base.ft_view.base is not None:
        chain.append(base.ft_view)
        base = base.ft_view.base
    own = base.ft_view
    strides = yield (base.ft_recording, base.ft_variable) if own is None else (own.order, base.aval)
    if strides is None:
        return None
    found: Any = stand_in(base.aval, strides)
    for link in reversed(chain):
        found = link.layout(found)
        if found is None:
            return None
    return found.strides


def _of_variable(recording: Recording, variable: int) -> Walk:
    """Return the strides of a variable of a tape, cached in the recording."""
    known = recording.views.layouts
    found = known.get(variable, _ABSENT)
    if found is None or type(found) is tuple:
        return found
    aval = recording.avals[variable]
    known[variable] = None
    if found is _ABSENT:
        first, place = variable, 0
        primitive, operands, params = recording.ops[variable]
        if primitive is RESULT:
            first, place = operands[0], params[0]
            primitive, operands, params = recording.ops[first]
        if recording.inner and first in recording.inner:
            held: Program = params[0]
            found = yield from _of_variable(
                _inside(recording, held, operands), held.output_ids[place]
            )
        elif primitive is INPUT or primitive is CONSTANT:
            found = yield from _from_outside(recording, variable)
        else:
            found = yield from _of_operation(recording, aval, primitive, operands, params)
        known[variable] = found
    elif isinstance(found, Order):
        found = known[variable] = yield found, aval
    return found


def _inside(recording: Recording, program: Program, operands: Sequence[int]) -> Recording:
    """Return the program of a call as a recording whose inputs are the operands of the call."""
    inside = Recording(program.name, keeps_source=False)
    inside.begin(program.columns, program.avals)
    inside.values.known = {
        i: recording.handle(k) for i, k in zip(program.input_ids, operands, strict=True)
    }
    inside.constants = dict(program.constant_values)
    inside.views.layouts = {
        i: x.strides for i, x in program.constant_values.items() if isinstance(x, np.ndarray)
    }
    return inside


def _from_outside(recording: Recording, variable: int) -> Walk:
    """Return the strides of a captured value, a caller's array, or an input with known layout."""
    outside = recording.constants.get(variable, _ABSENT)
    if outside is _ABSENT:
        outside = recording.values.known.get(variable)
    if isinstance(outside, Tracer):
        return (yield from _as_operand(outside.ft_recording, outside.ft_variable))
    if outside is None:
        return None
    held = recording.captures.held(variable)
    if held is not None:
        return held.strides
    aval = recording.avals[variable]
    return packed(aval.shape, aval.dtype.itemsize)


def _as_operand(recording: Recording, variable: int) -> Walk:
    """Return the strides of an operand; unknown if handles with several layouts name it."""
    strides = yield recording, variable
    aval = recording.avals[variable]
    for order in recording.views.copies.get(variable, ()):
        other = yield order, aval
        if (
            strides is None
            or other is None
            or _significant(aval, other) != _significant(aval, strides)
        ):
            return None
    return strides


def _significant(aval: ShapeDtype, strides: Shape) -> list[tuple[int, bool]]:
    """Return the properties of a layout that matter to operations: axis order, and zero strides."""
    return [(k, strides[k] == 0) for k in _axes(strides) if aval.shape[k] != 1]


def _of_operation(
    recording: Recording,
    aval: ShapeDtype,
    primitive: Primitive,
    operands: tuple[int, ...],
    params: tuple[Any, ...],
) -> Walk:
    view = VIEWS.get(primitive)
    rule = None
    if view is None or not operands or operands[0] < 0:
        if is_row(aval.shape):
            return packed(aval.shape, aval.dtype.itemsize)
        if view is not None:  # a number, broadcast
            return packed(aval.shape, aval.dtype.itemsize)
        rule = _merged if isinstance(primitive, ew.Elementwise) else NEW.get(primitive)
        if rule is None or aval.ndim > _MOST_AXES:
            return None
    laid: list[tuple[ShapeDtype, Shape]] = []
    for i in operands:
        if i < 0:
            continue
        spec = recording.avals[i]
        if view is None and is_row(spec.shape):
            strides: Strides = packed(spec.shape, spec.dtype.itemsize)
        else:
            strides = yield from _as_operand(recording, i)
        if strides is None:
            return None
        laid.append((spec, strides))
    if view is not None:
        return view(stand_in(*laid[0]), *params).strides
    assert rule is not None
    axes = rule(laid, aval, *params)
    return None if axes is None else packed(aval.shape, aval.dtype.itemsize, axes)


# -- rules: views as functions of a stand-in -------------------------------------------------------


def reshaped_like(base: np.ndarray[Any, Any], shape: Shape) -> np.ndarray[Any, Any]:
    """Return a stand-in for ``base.reshape(shape)``: a view if NumPy can make one, else C order."""
    try:
        return np.reshape(base, shape, copy=False)
    except ValueError:
        return stand_in(ShapeDtype(shape, base.dtype), packed(shape, base.itemsize))


def indexed_like(base: np.ndarray[Any, Any], index: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """Return a stand-in for a basic index; an array even where NumPy returns a scalar."""
    key = decode_index(index)
    return base[key] if Ellipsis in key else base[(*key, ...)]


def unmoved(base: np.ndarray[Any, Any], *_params: object) -> np.ndarray[Any, Any]:
    """Return the stand-in of the operand itself."""
    return base


VIEWS: dict[Primitive, Callable[..., np.ndarray[Any, Any]]] = {
    index_p: indexed_like,
    shaping.reshape_p: reshaped_like,
    shaping.permute_p: lambda base, axes: base.transpose(axes),
    shaping.broadcast_to_p: lambda base, shape: np.broadcast_to(base, shape),
    shaping.diagonal_p: lambda base, offset: np.diagonal(base, offset, -2, -1),
    ew.real: lambda base: base.real,
    ew.imag: lambda base: base.imag,
    name_p: unmoved,
}
"""Operations that return a view of their operand, as functions of its stand-in and the params.

A registry: higher packages add rows for their own primitives.
"""

# -- rules: memory order of the axes of new arrays, slowest first ----------------------------------

Laid = Sequence[tuple[ShapeDtype, Shape]]


def _small(aval: ShapeDtype, strides: Shape) -> np.ndarray[Any, Any]:
    return np.lib.stride_tricks.as_strided(
        np.empty(1, np.bool_), tuple([min(n, 2) for n in aval.shape]), strides
    )


def _axes(strides: Sequence[int]) -> list[int]:
    return sorted(range(len(strides)), key=lambda k: -abs(strides[k]))


def _merged(laid: Laid, _aval: ShapeDtype, *_params: object) -> Sequence[int]:
    """Return the axis order of a ufunc's result, as NumPy's iterator allocates it."""
    operands = [_small(*x) for x in laid]
    flags: Any = [["readonly"]] * len(operands) + [["writeonly", "allocate"]]
    made = cast(
        "Any", np.nditer([*operands, None], flags=["zerosize_ok"], op_flags=flags, order="K")
    )
    return _axes(made.operands[-1].strides)


def elements_in_memory(known: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Return the axis order in which ``flatten("K")`` reads elements: the iterator's."""
    return tuple(
        _merged(
            [(ShapeDtype(known.shape, known.dtype), known.strides)], ShapeDtype((), known.dtype)
        )
    )


def _reduced(laid: Laid, _aval: ShapeDtype, axes: Shape, *_params: object) -> Sequence[int]:
    """Return the axis order of a reduction's result, as NumPy's iterator allocates it."""
    ((aval, strides),) = laid
    left = iter(range(aval.ndim))
    places = [-1 if k in axes else next(left) for k in range(aval.ndim)]
    made = cast("Any", np.nditer)(
        [_small(aval, strides), None],
        flags=["zerosize_ok", "reduce_ok"],
        op_flags=[["readonly"], ["readwrite", "allocate"]],
        op_axes=[list(range(aval.ndim)), places],
        order="K",
    )
    return _axes(made.operands[-1].strides)


def _like_first(laid: Laid, _aval: ShapeDtype, *_params: object) -> Sequence[int]:
    """Return the axis order of a "K" copy of the first operand."""
    return _axes(laid[0][1])


def _in_c_order(_laid: Laid, aval: ShapeDtype, *_params: object) -> Sequence[int]:
    return range(aval.ndim)


def _if_all_are(laid: Laid, aval: ShapeDtype, *_params: object) -> Sequence[int] | None:
    """Return C order if all operands have it; otherwise unknown."""
    return range(aval.ndim) if all(stand_in(*x).flags.c_contiguous for x in laid) else None


def _if_matrix(laid: Laid, aval: ShapeDtype, *_params: object) -> Sequence[int] | None:
    """Return C order for one matrix, and for a stack if all operands have it."""
    return range(aval.ndim) if aval.ndim <= 2 else _if_all_are(laid, aval)


def _gathered(laid: Laid, aval: ShapeDtype, template: tuple[Any, ...]) -> Sequence[int] | None:
    """Index a small array that has the same axis order in memory."""
    (base, strides), *indices = laid
    if 0 in base.shape or 0 in strides or any(not stand_in(*i).flags.c_contiguous for i in indices):
        return None
    taken = iter(indices)
    key: list[Any] = []
    sizes, axis = list(base.shape), 0
    for entry in template:
        if entry is None:
            key.append(None)
            continue
        if entry is Ellipsis:
            count = base.ndim - sum(k is not None and k is not Ellipsis for k in template)
            key.append(Ellipsis)
            sizes[axis : axis + count] = [min(n, 2) for n in sizes[axis : axis + count]]
            axis += count
            continue
        if entry == ARRAY:
            (spec, _) = next(taken)
            key.append(np.zeros(tuple([min(n, 2) for n in spec.shape]), np.intp))
            sizes[axis] = 2
        elif type(entry) is tuple:
            count = len(range(*slice(*entry).indices(base.shape[axis])))
            key.append(slice(None))
            sizes[axis] = min(count, 2)
        else:
            key.append(0)
            sizes[axis] = 2
        axis += 1
    sizes[axis:] = [min(n, 2) for n in sizes[axis:]]
    order = _axes(strides)
    small = np.empty([sizes[k] for k in order], np.bool_).transpose(np.argsort(order))
    return _axes(small[tuple(key)].strides)


NEW: dict[Primitive, Callable[..., Sequence[int] | None]] = {
    shaping.convert_p: _like_first,
    shaping.roll_p: _like_first,
    ew.round_p: _like_first,
    scatter_each_p: _like_first,
    scatter_set_p: _like_first,
    sorting.sort_p: _like_first,
    shaping.embed_diagonal_p: _in_c_order,
    embed_p: _in_c_order,
    scatter_add_p: _in_c_order,
    gather_p: _gathered,
    joining.concatenate_p: _if_all_are,
    joining.stack_p: _if_all_are,
    matmul_p: _if_matrix,
    cumulative.cumsum_p: _if_all_are,
    cumulative.cumprod_p: _if_all_are,
    linalg.inv_p: _if_matrix,
    linalg.solve_p: _if_matrix,
    cholesky_p: _if_matrix,
    **dict.fromkeys(
        (
            reductions.reduce_sum_p, reductions.reduce_prod_p, reductions.reduce_max_p,
            reductions.reduce_min_p,
            reductions.reduce_any_p, reductions.reduce_all_p,
        ),
        _reduced,
    ),
}  # fmt: skip
"""Rules for new results: functions of operand avals and strides, result aval, and params."""
