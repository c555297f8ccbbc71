"""Functions made of reductions: norms, variances, sums of exponentials; and running extremes.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.native.loop_ir import Affine, Atom, Builder, Const
from functrace.native.lowering import DEAR, Lowering, NoNativeForm, Operation, Row, extreme
from functrace.native.rows import elementwise, layout
from functrace.native.rows.reductions import limit, reduced
from functrace.native.values import Scalars, Shape, Uniform, Value
from functrace.ops import linalg, norms
from functrace.ops import reductions as ops
from functrace.ops.cumulative import cummax_p, cummin_p, linear_recurrence_p

BOOL = np.dtype(bool)


def _floats(op: Operation) -> tuple[Value, tuple[int, ...], Shape]:
    """Return the operand, its reduced axes, and its shape with these kept."""
    x, axes = op.operands[0], op.params[0]
    if op.dtype.kind != "f" or x.dtype != op.dtype or 0 in x.shape:
        raise NoNativeForm(f"{op.primitive.name} of {x.dtype}")
    ndim = len(x.shape)
    axes = tuple(range(ndim)) if axes is None else tuple(sorted(k % ndim for k in axes))
    return x, axes, tuple(1 if k in axes else n for k, n in enumerate(x.shape))


Writer: TypeAlias = (
    Callable[[Builder, Atom], Atom]
    | Callable[[Builder, Atom, Atom], Atom]
    | Callable[[Builder, Atom, Atom, Atom], Atom]
)


def _map(low: Lowering, op: Operation, write: Writer, *x: Value) -> Value:
    run: Callable[..., Atom] = write

    def element(inner: Lowering, *atoms: Atom) -> Atom:
        return run(inner.builder, *atoms)

    shape = np.broadcast_shapes(*[one.shape for one in x])
    return low.elementwise(element, x, shape, op.dtype, DEAR)


def _reshaped(low: Lowering, op: Operation, x: Value) -> Value:
    found = low.computed(x)
    if isinstance(found, Uniform):
        return Uniform(found.atom, op.shape)
    if isinstance(found, Scalars):
        return Scalars(found.atoms.reshape(op.shape), found.dtype)
    return layout.reshape_view(low, found, op.shape)


def _logsumexp(low: Lowering, op: Operation) -> Value:
    x, axes, kept = _floats(op)
    dtype = op.dtype

    def finite(b: Builder, peak: Atom) -> Atom:
        size = b.let("fabs", dtype, peak)
        is_finite = b.let("less", BOOL, size, Const(math.inf, dtype))
        return b.let("select", dtype, is_finite, peak, Const(0.0, dtype))

    peak = low.computed(_map(low, op, finite, reduced(low, op, "maximum", x, axes, kept)))
    powers = _map(low, op, lambda b, x, m: b.let("exp", dtype, b.let("sub", dtype, x, m)), x, peak)
    total = reduced(low, op, "add", powers, axes, kept)
    found = _map(low, op, lambda b, t, m: b.let("add", dtype, b.let("log", dtype, t), m), total, peak)  # fmt: skip
    return _reshaped(low, op, found)


def _variance(low: Lowering, op: Operation) -> Value:
    x, axes, kept = _floats(op)
    dtype, size = op.dtype, float(math.prod(op.operands[0].shape[k] for k in axes))
    freedom = Const(max(size - op.params[1], 0.0), dtype)
    total = reduced(low, op, "add", x, axes, kept)
    mean = low.computed(_map(low, op, lambda b, t: b.let("div", dtype, t, Const(size, dtype)), total))  # fmt: skip
    centred = _map(low, op, lambda b, x, m: b.let("sub", dtype, x, m), x, mean)
    squares = _map(low, op, lambda b, x: b.let("mul", dtype, x, x), centred)
    sums = reduced(low, op, "add", squares, axes, kept)
    return _reshaped(low, op, _map(low, op, lambda b, t: b.let("div", dtype, t, freedom), sums))


def _norm(low: Lowering, op: Operation) -> Value:
    x, axes, kept = _floats(op)
    dtype = op.dtype
    squares = _map(low, op, lambda b, x: b.let("mul", dtype, x, x), x)
    total = reduced(low, op, "add", squares, axes, kept)
    return _reshaped(low, op, _map(low, op, lambda b, t: b.let("sqrt", dtype, t), total))


def _vector_norm(low: Lowering, op: Operation) -> Value:
    order = op.params[1]
    if order == 2:
        return _norm(low, op)
    x, axes, kept = _floats(op)
    dtype = op.dtype
    sizes = _map(low, op, lambda b, x: b.let("fabs", dtype, x), x)
    word = {math.inf: "maximum", -math.inf: "minimum"}.get(order, "add")
    if word != "add" or order == 1:
        return _reshaped(low, op, reduced(low, op, word, sizes, axes, kept))
    power: Callable[..., Atom] = elementwise.WRITERS[elementwise.ops.power][0]
    powers = _map(low, op, lambda b, x: power(b, dtype, x, Const(float(order), dtype)), sizes)
    total = reduced(low, op, "add", powers, axes, kept)
    root = Const(1.0 / order, dtype)
    return _reshaped(low, op, _map(low, op, lambda b, t: power(b, dtype, t, root), total))


def _along(
    low: Lowering,
    op: Operation,
    operands: Sequence[Value],
    first: Const,
    step: Callable[[Atom, Atom], Atom] | Callable[[Atom, Atom, Atom], Atom],
    backwards: bool = False,
) -> Value:
    """Write a loop along an axis that carries its result: ``y = step(y, *elements)``."""
    axis: int = op.params[0] % len(op.shape)
    run: Callable[..., Atom] = step
    given = [low.computed(x) for x in operands]
    for x in given:
        if x.shape != op.shape:
            raise NoNativeForm(f"{op.primitive.name} that broadcasts")
        low.to_memory(x)
    b, target = low.builder, low.target(op)
    space = tuple(1 if k == axis else n for k, n in enumerate(op.shape))
    with b.loops(space) as index:
        place = list(index)
        carry = b.declare(first)
        with b.loop(op.shape[axis], reverse=backwards) as counter:
            place[axis] = Affine(((counter.name, 1),))
            now = run(b.get(carry), *[low.cast(low.atom(x, place), op.dtype) for x in given])
            b.assign(carry, now)
            b.store(target.buffer, target.place(place), now)
    return layout.of_size(low, target)


def _running(word: str) -> Row:
    def row(low: Lowering, op: Operation) -> Value:
        first = Const(limit(op.dtype, -1 if word == "maximum" else 1), op.dtype)
        return _along(low, op, op.operands, first, lambda y, x: extreme(low.builder, word, y, x))

    return row


def _linear_recurrence(low: Lowering, op: Operation) -> Value:
    dtype = op.dtype
    if dtype.kind != "f":
        raise NoNativeForm("a recurrence of integers")

    def step(y: Atom, a: Atom, x: Atom) -> Atom:
        return low.builder.let("add", dtype, low.builder.let("mul", dtype, a, y), x)

    return _along(low, op, op.operands, Const(0.0, dtype), step, bool(op.params[1]))


ROWS: dict[Primitive, Row] = {
    ops.logsumexp_p: _logsumexp,
    ops.variance_p: _variance,
    linalg.norm_p: _norm,
    norms.vector_norm_p: _vector_norm,
    cummax_p: _running("maximum"),
    cummin_p: _running("minimum"),
    linear_recurrence_p: _linear_recurrence,
}
"""Lowering by primitive."""
