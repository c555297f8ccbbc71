"""Reductions, and functions made of them.

Sums are in NumPy's order; see `functrace.native.numpy_order`.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.executor.plan.layouts import compact
from functrace.ir.primitive import Primitive
from functrace.native.loop_ir import Affine, Atom, Const, DType
from functrace.native.lowering import FUSED_REDUCTIONS, TINY, Lowering, NoNativeForm, Operation, Row
from functrace.native.numpy_order import LANES
from functrace.native.rows.elementwise import truth
from functrace.native.values import AtomArray, Scalars, Stored, Uniform, Value, scalars
from functrace.ops import reductions as ops
from functrace.ops.cumulative import cumprod_p, cumsum_p

BOOL, INT64 = np.dtype(bool), np.dtype(np.int64)


def limit(dtype: DType, sign: int) -> Any:
    """Return the largest (or least) number of a dtype."""
    if dtype.kind == "f":
        return sign * math.inf
    if dtype.kind == "b":
        return sign > 0
    limits = np.iinfo(dtype)
    return limits.max if sign > 0 else limits.min


_FIRST: dict[str, Callable[[DType], Any]] = {
    "add": lambda dtype: dtype.type(0).item(),
    "mul": lambda dtype: dtype.type(1).item(),
    "maximum": lambda dtype: limit(dtype, -1),
    "minimum": lambda dtype: limit(dtype, 1),
    "and": lambda dtype: True,
    "or": lambda dtype: False,
}
"""Element of an empty reduction."""


def _changes(word: str, dtype: DType) -> bool:
    """Return True if joining an element to that of an empty reduction may change it: the sum of -0.0
    alone is 0.0, the product of a complex infinity alone has a nan.
    """
    return (word == "add" and dtype.kind in "fc") or (word == "mul" and dtype.kind == "c")


def joined(low: Lowering, op: str, atoms: Sequence[Atom]) -> Atom:
    """Join atoms in NumPy's order of a run."""
    left = list(atoms)
    lanes = LANES // 2 if left[0].dtype.kind == "c" else LANES
    if op == "add" and len(left) >= lanes:
        parts = left[:lanes]
        whole = len(left) - len(left) % lanes
        for k in range(lanes, whole, lanes):
            parts = [low.join(op, a, b) for a, b in zip(parts, left[k : k + lanes], strict=True)]
        while len(parts) > 1:
            parts = [low.join(op, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        left = [parts[0], *left[whole:]]
    total = left[0]
    for atom in left[1:]:
        total = low.join(op, total, atom)
    return total


def _axes(op: Operation, ndim: int) -> tuple[int, ...]:
    axes = op.params[0]
    if axes is None:
        return tuple(range(ndim))
    if isinstance(axes, int):
        axes = (axes,)
    return tuple(sorted(axis % ndim for axis in axes))


def _reduction(word: str) -> Row:
    def row(low: Lowering, op: Operation) -> Value:
        x = op.operands[0]
        shape, dtype = x.shape, op.dtype
        axes = _axes(op, len(shape))

        def alone(inner: Lowering, a: Atom) -> Atom:
            a = inner.cast(a, dtype)
            if _changes(word, dtype):
                return inner.join(word, Const(_FIRST[word](dtype), dtype), a)
            return a

        if math.prod(shape) == 0:
            raise NoNativeForm("a reduction of nothing")
        if not axes:
            return low.elementwise(lambda inner, a: alone(inner, a), [x], op.shape, dtype)
        if math.prod(shape) <= TINY:
            return _tiny(low, op, word, low.elements(x), axes)
        if word in ("and", "or") and x.dtype != BOOL:
            x = low.elementwise(lambda inner, a: truth(inner.builder, a), [x], shape, BOOL)
        if isinstance(x, Uniform):
            x = low.stored(x)
        return low.reduction(word, Const(_FIRST[word](dtype), dtype), x, axes, op)

    return row


def _tiny(low: Lowering, op: Operation, word: str, atoms: AtomArray, axes: Sequence[int]) -> Value:
    kept = [k for k in range(atoms.ndim) if k not in axes]
    order = low.order(word, op, atoms.shape, axes)
    inner = [k for k in order.axes if k in axes] if order is not None else list(axes)
    inner = [*[k for k in axes if k not in inner], *inner]
    size = math.prod(atoms.shape[k] for k in axes)
    run = size
    if order is not None and word == "add":
        run = math.prod(atoms.shape[k] for k in order.axes[len(order.axes) - order.run :])
    rows = atoms.transpose([*kept, *inner]).reshape(-1, size)
    found: list[Atom] = []
    for row in rows:
        if word in ("and", "or"):
            given = [truth(low.builder, x) for x in row]
        else:
            given = [low.cast(x, op.dtype) for x in row]
        if _changes(word, op.dtype):
            k = -1 if word == "add" else 0
            given[k] = low.join(word, Const(_FIRST[word](op.dtype), op.dtype), given[k])
        total = joined(low, word, given[:run])
        for k in range(run, size, run):
            total = low.join(word, total, joined(low, word, given[k : k + run]))
        found.append(total)
    return scalars(found, op.shape, op.dtype)


def _argument(word: str) -> Row:
    """``argmax`` and ``argmin``: the first extreme element, or the first nan."""

    def row(low: Lowering, op: Operation) -> Value:
        x = low.computed(op.operands[0])
        axis = op.params[0]
        b = low.builder
        if axis is None:
            if math.prod(x.shape) != max(x.shape, default=1):
                raise NoNativeForm("argmax of all axes")
            axis = x.shape.index(max(x.shape)) if x.shape else 0
        axis = axis % len(x.shape) if x.shape else 0
        if not x.shape:
            return Uniform(Const(0, INT64), op.shape)
        low.to_memory(x)
        target = low.target(op)
        space = tuple(1 if k == axis else n for k, n in enumerate(x.shape))
        with b.loops(space) as index:
            at = list(index)
            best = b.declare(low.atom(x, at))
            place = b.declare(Const(0, INT64))
            with b.loop(x.shape[axis]) as counter:
                at[axis] = Affine(((counter.name, 1),))
                now, then = low.atom(x, at), b.get(best)
                better = b.let(word, BOOL, now, then)
                if x.dtype.kind == "f":
                    is_first_nan = b.let(
                        "and", BOOL, b.let("is_nan", BOOL, now), b.let("equal", BOOL, then, then)
                    )
                    better = b.let("or", BOOL, better, is_first_nan)
                b.assign(best, b.let("select", x.dtype, better, now, then))
                b.assign(place, b.let("select", INT64, better, counter, b.get(place)))
            kept = [x for k, x in enumerate(index) if k != axis or len(op.shape) == len(index)]
            b.store(target.buffer, target.place(kept), b.get(place))
        if math.prod(op.shape) <= TINY:
            return Scalars(low.elements(target), op.dtype)
        return target

    return row


def _cumulative(word: str) -> Row:
    def row(low: Lowering, op: Operation) -> Value:
        axis: int = op.params[0]
        rest = op.params[1:]
        is_backwards = bool(rest and rest[0])
        x = low.computed(op.operands[0])
        b, dtype = low.builder, op.dtype
        axis %= len(x.shape)
        if math.prod(x.shape) <= TINY:
            atoms = np.array(low.elements(x))
            lines = np.moveaxis(atoms, axis, 0)
            made = np.empty(lines.shape, object)
            order = range(len(lines))[::-1] if is_backwards else range(len(lines))
            for rest_index in np.ndindex(*lines.shape[1:]):
                total: Atom | None = None
                for k in order:
                    atom = low.cast(lines[(k, *rest_index)], dtype)
                    total = atom if total is None else b.let(word, dtype, total, atom)
                    made[(k, *rest_index)] = total
            return Scalars(np.moveaxis(made, 0, axis), dtype)
        low.to_memory(x)
        target = low.target(op)
        space = tuple(1 if k == axis else n for k, n in enumerate(x.shape))
        with b.loops(space) as index:
            at, count = list(index), x.shape[axis] - 1
            at[axis] = Affine((), count if is_backwards else 0)
            first = low.cast(low.atom(x, at), dtype)  # (as it is: -0.0, or a complex infinity)
            b.store(target.buffer, target.place(at), first)
            total_ = b.declare(first)
            with b.loop(count, reverse=is_backwards) as counter:
                at[axis] = Affine(((counter.name, 1),), 0 if is_backwards else 1)
                now = b.let(word, dtype, b.get(total_), low.cast(low.atom(x, at), dtype))
                b.assign(total_, now)
                b.store(target.buffer, target.place(at), now)
        return target

    return row


def _apart(
    low: Lowering, x: Value, axis: int
) -> tuple[Stored | Scalars | Uniform, tuple[int, ...], tuple[int, ...]]:
    found = low.computed(x)
    axis %= len(found.shape)
    kept = tuple(1 if k == axis else n for k, n in enumerate(found.shape))
    return found, kept, (axis,)


def _softmax(is_log: bool) -> Row:
    def row(low: Lowering, op: Operation) -> Value:
        (axis,) = op.params
        x, kept, axes = _apart(low, op.operands[0], axis)
        dtype = op.dtype
        if dtype.kind != "f":
            raise NoNativeForm("softmax of integers")
        most = reduced(low, op, "maximum", x, axes, kept)
        moved = low.elementwise(
            lambda inner, a, m: inner.builder.let("sub", dtype, a, m), [x, most], x.shape, dtype
        )
        power = low.elementwise(
            lambda inner, a: inner.builder.let("exp", dtype, a), [moved], x.shape, dtype, 20
        )
        total = reduced(low, op, "add", power, axes, kept)
        if not is_log:
            return low.elementwise(
                lambda inner, a, t: inner.builder.let("div", dtype, a, t),
                [power, total], x.shape, dtype, 4,
            )  # fmt: skip
        scale = low.elementwise(
            lambda inner, t: inner.builder.let("log", dtype, t), [total], kept, dtype, 20
        )
        return low.elementwise(
            lambda inner, a, s: inner.builder.let("sub", dtype, a, s),
            [moved, scale],
            x.shape,
            dtype,
        )

    return row


def reduced(
    low: Lowering, op: Operation, word: str, x: Value, axes: tuple[int, ...], kept: tuple[int, ...]
) -> Value:
    """Reduce and keep the axes."""
    aval = op.avals[0]
    strides = op.strides
    if strides is not None and x is not op.operands[0]:
        strides = compact(x.shape, strides)
    avals = (type(aval)(kept, aval.dtype),)
    one = op._replace(k=-1, avals=avals, operands=(x,), params=(axes,), strides=strides)
    return _reduction(word)(low, one)  # type: ignore[return-value]


FUSED: tuple[Primitive, ...] = (
    ops.reduce_sum_p, ops.reduce_prod_p, ops.reduce_max_p, ops.reduce_min_p, ops.reduce_any_p,
    ops.reduce_all_p,
)  # fmt: skip
"""Reductions that read their operand element by element."""

COMPLEX = (
    ops.reduce_sum_p, ops.reduce_prod_p, ops.reduce_any_p, ops.reduce_all_p, cumsum_p, cumprod_p,
)  # fmt: skip
"""Primitives whose native form takes complex numbers."""

FUSED_REDUCTIONS.update(FUSED)

ROWS: dict[Primitive, Row] = {
    ops.reduce_sum_p: _reduction("add"),
    ops.reduce_prod_p: _reduction("mul"),
    ops.reduce_max_p: _reduction("maximum"),
    ops.reduce_min_p: _reduction("minimum"),
    ops.reduce_any_p: _reduction("or"),
    ops.reduce_all_p: _reduction("and"),
    ops.argmax_p: _argument("greater"),
    ops.argmin_p: _argument("less"),
    ops.softmax_p: _softmax(False),
    ops.log_softmax_p: _softmax(True),
    cumsum_p: _cumulative("add"),
    cumprod_p: _cumulative("mul"),
}
"""Lowering by primitive."""
