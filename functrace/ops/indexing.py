"""Indexing: reading and writing parts of arrays.

Every primitive here has a static *template*, an index as a hashable tuple: an int, ``None`` and
``Ellipsis`` as they are, a slice as ``(start, stop, step)``, and the word ``"array"`` for each
integer array (or 0-d integer), which is an operand and may be traced. `index` and `embed` take
templates without arrays.

Note [Where NumPy puts the axes of index arrays]
    Index arrays (and ints with them) broadcast to one shape ``B``. If they are adjacent, ``B``
    takes the place of the first one in the result; otherwise (with a slice, ``None`` or even an
    empty ``...`` between them) ``B`` comes first. The batch axis of mapped indices is one more
    index array in front, an ``arange``, after which ``B`` always comes first: `lift` returns the
    permutation back.

Note [Repeated indices]
    Reading ``x[[0, 0]]`` reads twice, so cotangents add up (`scatter_add`). Writing ``x[[0, 0]] =
    v`` keeps the last value, so the others have no derivative (`is_last_write`).

Layer: 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.errors import ShapeError, TracedIndexError
from functrace.ir.aval import ShapeDtype, broadcast_shapes, shape_of
from functrace.ir.primitive import (
    LINEAR,
    ZERO,
    Operand,
    Primitive,
    RuleArgument,
    Tangents,
    Values,
    absent,
    always,
    is_linear,
)
from functrace.ir.symbolic_numbers import NeedsConcreteNumber, SymbolicNumber
from functrace.ops import counts, work
from functrace.ops.elementwise import where
from functrace.ops.scattering import add_at
from functrace.ops.shaping import broadcast_to, permute, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

StaticIndex = tuple[Any, ...]
ARRAY = "array"
"""Placeholder in a template for an index array, which is an operand."""

_ALL = (None, None, None)


def decode_index(index: StaticIndex) -> tuple[Any, ...]:
    """Return a static index as NumPy takes it."""
    return tuple(slice(*k) if tuple is type(k) else k for k in index)


def fill_index(template: StaticIndex, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a template with its arrays, as NumPy takes an index."""
    left = iter(arrays)
    return tuple(
        slice(*k) if tuple is type(k) else next(left) if k == "array" else k for k in template
    )


def _target(x: ShapeDtype, template: StaticIndex, arrays: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the shape of an indexing result."""
    if template.count(ARRAY) != len(arrays):
        raise TracedIndexError(
            f"{len(arrays)} index arrays for the index {template}", fix="give one per 'array'"
        )
    for a in arrays:
        if np.dtype(a if isinstance(a, type) else a.dtype).kind not in "iu":
            raise TracedIndexError(
                f"an index array is {a}", fix="index with integers; np.nonzero makes them of a mask"
            )
    if any(
        type(n) is SymbolicNumber
        for n in (*x.shape, *template, *(n for k in template if tuple is type(k) for n in k))
    ):
        return _target_of_unknown(x.shape, template, arrays)
    try:
        both = broadcast_shapes(*[() if isinstance(a, type) else shape_of(a) for a in arrays])
        # NumPy itself evaluates the index, on a zero-stride array with index arrays of at most one
        # element: time and memory do not depend on sizes.
        small = np.zeros((int(0 not in both),) * len(both), np.intp)
        probe = np.broadcast_to(np.empty((), np.bool_), x.shape)
        found = shape_of(probe[fill_index(template, (small,) * len(arrays))])
    except (IndexError, ValueError) as error:
        raise TracedIndexError(
            f"{error} (indexing {x!r})", fix="check the index against the shape"
        ) from None
    start, _ = _placement(template, len(x.shape))
    return (*found[:start], *both, *found[start + len(both) :]) if arrays else found


def _target_of_unknown(
    shape: tuple[int, ...], template: StaticIndex, arrays: tuple[Any, ...]
) -> tuple[int, ...]:
    """Return the shape of an indexing result with symbolic sizes or positions, without NumPy.

    Raises:
        NeedsConcreteNumber: if the index needs concrete numbers: a slice from or beyond the end, or with a
            partial negative step.
    """
    found: list[int] = []
    axis = 0
    used = sum([entry is not None and entry is not Ellipsis for entry in template])
    entries: StaticIndex = template if Ellipsis in template else (*template, ...)
    for entry in entries:
        if entry is None:
            found.append(1)
        elif entry is Ellipsis:
            count = len(shape) - used
            found.extend(shape[axis : axis + count])
            axis += count
        elif entry == ARRAY:
            axis += 1
        elif tuple is type(entry):
            found.append(_steps_of_unknown(shape[axis], *entry))
            axis += 1
        else:
            if not -shape[axis] <= entry < shape[axis]:
                raise NeedsConcreteNumber
            axis += 1
    if not arrays:
        return tuple(found)
    start, _ = _placement(template, len(shape))
    return (
        *found[:start],
        *broadcast_shapes(*[() if isinstance(a, type) else shape_of(a) for a in arrays]),
        *found[start:],
    )


def _steps_of_unknown(size: int, start: int | None, stop: int | None, step: int | None) -> int:
    if (start, stop, step) in (_ALL, (None, None, -1)):
        return size
    start, stop, step = start or 0, size if stop is None else stop, 1 if step is None else step
    if not (step > 0 and 0 <= start <= stop <= size):
        raise NeedsConcreteNumber
    return stop - start if step == 1 else -((start - stop) // step)


def check_bounds(array: Array, axis: int, size: int) -> None:
    """Check that integers fit an axis; raises `TracedIndexError`."""
    if array.size:
        low, high = int(array.min()), int(array.max())
        if low < -size or high >= size:
            raise TracedIndexError(
                f"index {low if low < -size else high} is out of bounds for axis {axis} with size "
                f"{size}",
                fix="check the index against the shape",
            )


def _check_arrays(
    value: Callable[[int], Any], place: int, template: StaticIndex, shape: tuple[int, ...]
) -> None:
    """Check the index arrays of a template, operands from ``place`` on, where they are concrete."""
    used = sum(entry is not None and entry is not Ellipsis for entry in template)
    axis = 0
    for entry in template:
        if entry == ARRAY:
            indices = value(place)
            if indices is not None:
                check_bounds(np.asarray(indices), axis, shape[axis])
            place += 1
        if entry is Ellipsis:
            axis += len(shape) - used
        elif entry is not None:
            axis += 1


def past_batch(index: StaticIndex) -> StaticIndex:
    """Return a static index that leaves the batch axis alone."""
    return (_ALL, *index)


# -- basic indices ---------------------------------------------------------------------------------


def _index_transpose(ct: Array, x: Operand, index: StaticIndex) -> tuple[Any]:
    # An index that only reverses axes (np.flip) is its own transpose, without zeros to write into.
    if all(part in (_ALL, (None, None, -1)) for part in index):
        return (bind(index_p, (ct,), (index,)),)
    return (bind(embed_p, (ct,), (index, x.shape)),)


index_p = Primitive(
    "index",
    eval=lambda x, index: x[decode_index(index)],
    aval=lambda x, index: ShapeDtype(_target(x, index, ()), x.dtype),
    jvp=LINEAR,
    transpose=_index_transpose,
    batch=lambda operands, _, index: bind(index_p, operands, (past_batch(index),)),
    params=("index",),
    view=True,
    writable=True,
    written="{0}[{index}]",
    flops=counts.moved,
)


def _embed_eval(x: Array, index: StaticIndex, shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, x.dtype)
    out[decode_index(index)] = x
    return out


def _embed_aval(
    x: ShapeDtype, shape: tuple[int, ...], template: StaticIndex, arrays: tuple[Any, ...]
) -> ShapeDtype:
    """Infer the aval of zeros of a shape into which ``x`` is written; check that the index fits."""
    target = _target(ShapeDtype(shape, x.dtype), template, arrays)
    if x.shape != target:
        raise ShapeError(
            f"{x} cannot be embedded where the index reads {list(target)}",
            fix="make the shapes equal",
        )
    return ShapeDtype(shape, x.dtype)


embed_p = Primitive(
    "embed",
    eval=_embed_eval,
    aval=lambda x, index, shape: _embed_aval(x, shape, index, ()),
    jvp=LINEAR,
    transpose=lambda ct, x, index, shape: (bind(index_p, (ct,), (index,)),),
    batch=lambda operands, _, index, shape: bind(
        embed_p, operands, (past_batch(index), (operands[0].shape[0], *shape))
    ),
    params=("index", "shape"),
    flops=counts.moved,
    fresh=lambda aval: True,
)


def index_static(x: Value, index: StaticIndex) -> Any:
    """Read a part given by a static basic index."""
    return bind(index_p, (x,), (index,))


# -- batching of index arrays ----------------------------------------------------------------------


def _placement(template: StaticIndex, ndim: int) -> tuple[int, bool]:
    """Return the position of index arrays' axes, and True if the arrays are adjacent."""
    advanced = [k for k, entry in enumerate(template) if entry == ARRAY or entry.__class__ is int]
    if ARRAY not in template or advanced[-1] - advanced[0] >= len(advanced):
        return 0, False
    filled = ndim - sum(entry is not None and entry is not Ellipsis for entry in template)
    before = template[: advanced[0]]
    return sum(filled if entry is Ellipsis else 1 for entry in before), True


def _ranks(arrays: tuple[Any, ...], is_batched: tuple[bool, ...]) -> int:
    return max((len(shape_of(a)) - b for a, b in zip(arrays, is_batched, strict=True)), default=0)


def _align(arrays: tuple[Any, ...], is_batched: tuple[bool, ...], rank: int) -> tuple[Any, ...]:
    """Insert axes of size 1 after the batch axis of index arrays, so that they broadcast."""
    return tuple(
        reshape(a, (shape_of(a)[0],) + (1,) * (rank + 1 - len(shape_of(a))) + shape_of(a)[1:])
        if b
        else a
        for a, b in zip(arrays, is_batched, strict=True)
    )


def _target_rank(template: StaticIndex, rank: int, ndim: int) -> int:
    ints = sum(entry == ARRAY or entry.__class__ is int for entry in template)
    return ndim - ints + sum(entry is None for entry in template) + rank


def lift(
    template: StaticIndex,
    arrays: tuple[Any, ...],
    is_batched: tuple[bool, ...],
    size: int,
    ndim: int,
) -> tuple[StaticIndex, tuple[Any, ...], tuple[int, ...]]:
    """Return the index of a batched array of rank ``1 + ndim`` that applies ``template`` to each
    example.

    Returns:
        template, arrays, and the axis order that moves the batch axis first and then one example's
        axes.
    """
    rank = _ranks(arrays, is_batched)
    total = 1 + _target_rank(template, rank, ndim)
    start, adjacent = _placement(template, ndim)
    if not any(is_batched):
        first = 0 if adjacent else rank
        return (_ALL, *template), arrays, (first, *(k for k in range(total) if k != first))
    rows = np.arange(size).reshape((size,) + (1,) * rank)
    order = (
        0,
        *range(1 + rank, 1 + rank + start),
        *range(1, 1 + rank),
        *range(1 + rank + start, total),
    )
    return (ARRAY, *template), (rows, *_align(arrays, is_batched, rank)), order


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(k) for k in np.argsort(axes))


def _batch_size(operands: tuple[Any, ...], is_batched: tuple[bool, ...]) -> int:
    return next(shape_of(x)[0] for x, b in zip(operands, is_batched, strict=True) if b)


# -- gather: x[i, 1:, j] ---------------------------------------------------------------------------


def _gather_eval(x: Array, *rest: RuleArgument) -> Any:
    *arrays, template = rest
    return x[fill_index(template, tuple(arrays))]


def _gather_aval(x: ShapeDtype, *rest: Any) -> ShapeDtype:
    *arrays, template = rest
    return ShapeDtype(_target(x, template, tuple(arrays)), x.dtype)


def _gather_transpose(ct: Array, x: Operand, *rest: RuleArgument) -> Any:
    *arrays, template = rest
    return (scatter_add(ct, template, tuple(arrays), x.shape), *(None for _ in arrays))


def _gather_batch(
    operands: tuple[Any, ...], is_batched: tuple[bool, ...], template: StaticIndex
) -> Any:
    x, *arrays = operands
    if is_batched[0]:
        size, ndim = shape_of(x)[0], len(shape_of(x)) - 1
        template, lifted, order = lift(template, tuple(arrays), is_batched[1:], size, ndim)
        return permute(gather(x, template, lifted), order)
    rank = _ranks(tuple(arrays), is_batched[1:])
    start, _ = _placement(template, len(shape_of(x)))
    result = gather(x, template, _align(tuple(arrays), is_batched[1:], rank))
    total = len(shape_of(result))
    return permute(result, (start, *(k for k in range(total) if k != start)))


def _gather_check(value: Callable[[int], Any], x: ShapeDtype, *rest: RuleArgument) -> None:
    _check_arrays(value, 1, rest[-1], x.shape)


gather_p = Primitive(
    "gather",
    eval=_gather_eval,
    aval=_gather_aval,
    jvp=LINEAR,
    transpose=_gather_transpose,
    batch=_gather_batch,
    params=("template",),
    view=True,
    fails=always,
    check=_gather_check,
    flops=counts.moved,
)


def gather(x: Value, template: StaticIndex, arrays: tuple[Any, ...]) -> Any:
    """Read ``x[template]`` with index arrays filled in; repeated indices read repeatedly."""
    return bind(gather_p, (x, *arrays), (template,)) if arrays else index_static(x, template)


# -- scatter_add: the transpose of gather ----------------------------------------------------------


def _scatter_add_eval(x: Array, *rest: RuleArgument) -> Any:
    *arrays, template, shape = rest
    out = np.zeros(shape, x.dtype)
    add_at(out, fill_index(template, tuple(arrays)), x)
    return out if shape else out[()]


def _scatter_add_batch(
    operands: tuple[Any, ...],
    is_batched: tuple[bool, ...],
    template: StaticIndex,
    shape: tuple[int, ...],
) -> Any:
    x, *arrays = operands
    size = _batch_size(operands, is_batched)
    if not is_batched[0]:
        x = broadcast_to(x, (size, *shape_of(x)))
    template, lifted, order = lift(template, tuple(arrays), is_batched[1:], size, len(shape))
    return scatter_add(permute(x, _inverse(order)), template, lifted, (size, *shape))


def _scatter_add_aval(x: ShapeDtype, *rest: RuleArgument) -> ShapeDtype:
    return _embed_aval(x, rest[-1], rest[-2], rest[:-2])


def _scatter_add_transpose(ct: Array, _x: Operand, *rest: RuleArgument) -> tuple[Any, ...]:
    *arrays, template, _ = rest
    return (gather(ct, template, tuple(arrays)), *[None] * len(arrays))


def _scatter_add_check(value: Callable[[int], Any], _x: ShapeDtype, *rest: RuleArgument) -> None:
    _check_arrays(value, 1, rest[-2], rest[-1])


scatter_add_p = Primitive(
    "scatter_add",
    eval=_scatter_add_eval,
    aval=_scatter_add_aval,
    jvp=LINEAR,
    transpose=_scatter_add_transpose,
    batch=_scatter_add_batch,
    params=("template", "shape"),
    fresh=lambda aval: bool(aval.shape),
    fails=always,
    check=_scatter_add_check,
    flops=counts.per_added,
    scratch=work.added_positions,
)


def scatter_add(
    x: Value, template: StaticIndex, arrays: tuple[Any, ...], shape: tuple[int, ...]
) -> Any:
    """Return zeros of ``shape`` with ``x`` added at the index; values at repeated indices
    add up.
    """
    return (
        bind(scatter_add_p, (x, *arrays), (template, shape))
        if arrays
        else bind(embed_p, (x,), (template, shape))
    )


# -- is_last_write: which written values stay ------------------------------------------------------


def _last_write_eval(*rest: RuleArgument) -> Any:
    *arrays, template, shape = rest
    key = fill_index(template, tuple(arrays))
    writer = np.zeros(shape, np.intp)
    numbers = np.arange(writer[key].size).reshape(writer[key].shape)
    writer[key] = numbers
    return writer[key] == numbers


def _last_write_aval(*rest: Any) -> ShapeDtype:
    *arrays, template, shape = rest
    return ShapeDtype(_target(ShapeDtype(shape, np.bool_), template, tuple(arrays)), np.bool_)


def _last_write_batch(
    operands: tuple[Any, ...],
    is_batched: tuple[bool, ...],
    template: StaticIndex,
    shape: tuple[int, ...],
) -> Any:
    size = _batch_size(operands, is_batched)
    template, lifted, order = lift(template, operands, is_batched, size, len(shape))
    return permute(bind(is_last_write_p, lifted, (template, (size, *shape))), order)


is_last_write_p = Primitive(
    "is_last_write",
    eval=_last_write_eval,
    aval=_last_write_aval,
    jvp=ZERO,
    transpose=absent(because="is_last_write is not linear", instead="this is a bug in functrace"),
    batch=_last_write_batch,
    params=("template", "shape"),
    flops=counts.moved,
)


def _keep_last(
    v: Array, template: StaticIndex, arrays: tuple[Any, ...], shape: tuple[int, ...]
) -> Any:
    """Zero the values of ``v`` that a later one overwrites; no operation if no index can repeat."""
    if all(shape_of(a) == () for a in arrays):
        return v
    return where(bind(is_last_write_p, arrays, (template, shape)), v, 0.0)


# -- scatter_set: a copy of x in which x[template] = v ---------------------------------------------


def _scatter_set_eval(x: Array, v: Array, *rest: RuleArgument) -> Any:
    *arrays, template = rest
    out = np.array(x)
    out[fill_index(template, tuple(arrays))] = v
    return out if out.ndim else out[()]


def _scatter_set_aval(x: ShapeDtype, v: Array, *rest: RuleArgument) -> ShapeDtype:
    *arrays, template = rest
    target, shape = _target(x, template, tuple(arrays)), () if isinstance(v, type) else v.shape
    try:
        fits = np.broadcast_shapes(shape, target) == target
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"could not broadcast input array from shape {shape} into shape {target} (assigning "
            f"into {x!r})",
            fix="the value's sizes must be equal to those of x[index], or 1, from the last axis",
        )
    return x


def _scatter_set_jvp(
    primals: Values, _outputs: Values, tangents: Tangents, template: StaticIndex
) -> Any:
    (x, _, *arrays), (x_dot, v_dot) = primals, tangents[:2]
    if x_dot is not None:
        return bind(scatter_set_p, (x_dot, 0.0 if v_dot is None else v_dot, *arrays), (template,))
    assert v_dot is not None  # one of them is there
    shape, indices = shape_of(x), tuple(arrays)
    target = _target(ShapeDtype(shape, np.bool_), template, indices)
    return scatter_add(
        _keep_last(broadcast_to(v_dot, target), template, indices, shape), template, indices, shape
    )


def _scatter_set_transpose(ct: Array, x: Operand, v: Operand, *rest: RuleArgument) -> Any:
    *arrays, template = rest
    indices = tuple(arrays)
    x_bar = bind(scatter_set_p, (ct, 0.0, *indices), (template,)) if is_linear(x) else None
    v_bar = (
        _keep_last(gather(ct, template, indices), template, indices, shape_of(ct))
        if is_linear(v)
        else None
    )
    return (x_bar, v_bar, *(None for _ in indices))


def _scatter_set_batch(
    operands: tuple[Any, ...], is_batched: tuple[bool, ...], template: StaticIndex
) -> Any:
    operands, template = _batched_set(operands, is_batched, template)
    return bind(scatter_set_p, operands, (template,))


def _batched_set(
    operands: tuple[Any, ...], is_batched: tuple[bool, ...], template: StaticIndex
) -> tuple[tuple[Any, ...], StaticIndex]:
    """Return the operands and the template that set elements in a batch of arrays."""
    x, v, *arrays = operands
    size = _batch_size(operands, is_batched)
    if not is_batched[0]:
        x = broadcast_to(x, (size, *shape_of(x)))
    ndim = len(shape_of(x)) - 1
    template, lifted, order = lift(template, tuple(arrays), is_batched[2:], size, ndim)
    shape = shape_of(v)
    if is_batched[1]:
        v = reshape(v, (size,) + (1,) * (len(order) - len(shape)) + shape[1:])
        v = permute(v, _inverse(order))
    elif shape and order != tuple(range(len(order))):
        v = permute(reshape(v, (1,) * (len(order) - len(shape)) + shape), _inverse(order))
    return (x, v, *lifted), template


def _scatter_set_check(value: Callable[[int], Any], x: ShapeDtype, *rest: RuleArgument) -> None:
    _check_arrays(value, 2, rest[-1], x.shape)


scatter_set_p = Primitive(
    "scatter_set",
    eval=_scatter_set_eval,
    aval=_scatter_set_aval,
    jvp=_scatter_set_jvp,
    transpose=_scatter_set_transpose,
    batch=_scatter_set_batch,
    params=("template",),
    fails=always,
    check=_scatter_set_check,
    flops=counts.moved,
)


def scatter_set(x: Value, template: StaticIndex, v: Value, arrays: tuple[Any, ...] = ()) -> Any:
    """Return a copy of ``x`` with ``x[template] = v``; the last of repeated writes wins."""
    return bind(scatter_set_p, (x, v, *arrays), (template,))


# -- scatter_each: like scatter_set, but each of repeated writes gets the derivative ---------------


def _scatter_each_jvp(
    primals: Values, _outputs: Values, tangents: Tangents, template: StaticIndex
) -> Any:
    (x, _, *arrays), (x_dot, v_dot) = primals, tangents[:2]
    if v_dot is None:
        return bind(scatter_set_p, (x_dot, 0.0, *arrays), (template,))
    shape = shape_of(x)
    target = _target(ShapeDtype(shape, np.bool_), template, tuple(arrays))
    if x_dot is None:
        x_dot = broadcast_to(np.zeros((), v_dot.dtype), shape)
    return bind(scatter_each_p, (x_dot, broadcast_to(v_dot, target), *arrays), (template,))


def _scatter_each_transpose(ct: Array, x: Operand, v: Operand, *rest: RuleArgument) -> Any:
    *arrays, template = rest
    indices = tuple(arrays)
    x_bar = bind(scatter_set_p, (ct, 0.0, *indices), (template,)) if is_linear(x) else None
    v_bar = gather(ct, template, indices) if is_linear(v) else None
    return (x_bar, v_bar, *(None for _ in indices))


def _scatter_each_batch(
    operands: tuple[Any, ...], is_batched: tuple[bool, ...], template: StaticIndex
) -> Any:
    operands, template = _batched_set(operands, is_batched, template)
    return bind(scatter_each_p, operands, (template,))


scatter_each_p = Primitive(
    "scatter_each",
    eval=_scatter_set_eval,
    aval=_scatter_set_aval,
    jvp=_scatter_each_jvp,
    transpose=_scatter_each_transpose,
    batch=_scatter_each_batch,
    params=("template",),
    fails=always,
    check=_scatter_set_check,
    flops=counts.moved,
)


def scatter_each(x: Value, template: StaticIndex, v: Value, arrays: tuple[Any, ...] = ()) -> Any:
    """Return a copy of ``x`` with ``x[template] = v``; the last of repeated writes wins, but all of
    them get the element's gradient, as in PyTorch.
    """
    return bind(scatter_each_p, (x, v, *arrays), (template,))
