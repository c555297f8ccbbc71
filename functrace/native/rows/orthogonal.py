"""QR factorizations of small real matrices by reflectors, in loops.

Signs are LAPACK's: a reflector turns its column against the sign of the first element. Where a
column depends on those before up to rounding, or what is below the diagonal may be rounding, the
result would depend on how LAPACK rounds: NumPy's form runs.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.native.loop_ir import INT64, Affine, Atom, Const, affine, at
from functrace.native.lowering import Lowering, NoNativeForm, Operation, Row
from functrace.native.rows import contraction, layout
from functrace.native.rows.factorizations import (
    Matrix,
    copy_matrix,
    rows_after,
    size_of_columns,
    store_matrix,
    work_matrix,
)
from functrace.native.values import Stored, Value
from functrace.ops import qr

BOOL: Final = np.dtype(bool)
MOST_ROWS: Final = 20
"""Rows and columns of matrices up to which the loops here are faster than LAPACK."""


def _small(dtype: np.dtype[np.floating]) -> float:
    """Return the norm below which squares lose digits to underflow."""
    return float(np.sqrt(np.finfo(dtype).tiny) / np.finfo(dtype).eps)


def _reflect(
    low: Lowering, v: Matrix, here: Affine, count: Atom, factor: Atom, x: Matrix, column: Affine
) -> None:
    """Apply a reflector, whose vector is below the diagonal of a matrix, to a column.

    Args:
        low: the lowering.
        v: holds the vector; its first element is 1.
        here: number of the reflector.
        count: rows that follow.
        factor: of the reflector.
        x, column: the column.
    """
    b, dtype, let = low.builder, v.view.dtype, low.builder.let
    total = b.declare(x.get(here, column))
    with b.loop(count) as r:
        row = affine(r).plus(here).plus(at(1))
        product = let("mul", dtype, v.get(row, here), x.get(row, column))
        b.assign(total, let("add", dtype, b.get(total), product))
    moved = let("mul", dtype, factor, b.get(total))
    x.set(here, column, let("sub", dtype, x.get(here, column), moved))
    with b.loop(count) as r:
        row = affine(r).plus(here).plus(at(1))
        x.subtract(row, column, moved, v.get(row, here))


def _eliminate(low: Lowering, a: Matrix, factors: Stored, steps: int) -> None:
    """Reflect each column onto the diagonal, in place.

    Args:
        low: the lowering.
        a: the matrix; gets R, and the vectors of the reflectors below the diagonal.
        factors: gets their factors.
        steps: number of reflectors.
    """
    b, dtype, let = low.builder, a.view.dtype, low.builder.let
    m, n = a.view.shape
    columns = size_of_columns(low, a)
    rounding = b.declare(contraction.rounding_of(dtype, m))

    def need(size: Atom, here: Affine) -> Atom:
        """Leave a column to LAPACK if its size may be rounding; return its largest element."""
        largest = b.load(columns.buffer, columns.place((here,)))
        contraction.need_pivot(low, size, largest, b.get(rounding))
        return largest

    with b.loop(steps) as k:
        here, below = affine(k), rows_after(low, k, m)
        alpha = a.get(here, here)
        total = b.declare(let("mul", dtype, alpha, alpha))
        best = b.declare(Const(0.0, dtype))
        with b.loop(below) as r:
            x = a.get(affine(r).plus(here).plus(at(1)), here)
            b.assign(total, let("add", dtype, b.get(total), let("mul", dtype, x, x)))
            b.assign(best, contraction.larger(low, b.get(best), let("fabs", dtype, x)))
        norm = let("sqrt", dtype, b.get(total))
        b.fail(let("not", BOOL, let("greater", BOOL, norm, Const(_small(dtype), dtype))), 1)
        need(b.get(best), here)
        largest = need(norm, here)
        ratio = let("div", dtype, largest, norm)
        b.assign(rounding, contraction.rounding_after(low, b.get(rounding), ratio, m))
        diagonal = let("neg", dtype, let("copysign", dtype, norm, alpha))
        away = let("sub", dtype, alpha, diagonal)
        factor = let("div", dtype, let("neg", dtype, away), diagonal)
        b.store(factors.buffer, factors.place((here,)), factor)
        with b.loop(below) as r:
            row = affine(r).plus(here).plus(at(1))
            a.set(row, here, let("div", dtype, a.get(row, here), away))
        a.set(here, here, diagonal)
        with b.loop(rows_after(low, k, n)) as c:
            column = affine(c).plus(here).plus(at(1))
            _reflect(low, a, here, below, factor, a, column)
    if m <= n:
        last = at(m - 1)
        need(let("fabs", dtype, a.get(last, last)), last)


def _upper(low: Lowering, a: Matrix, target: Stored, index: Sequence[Affine]) -> None:
    """Write the upper triangle of a matrix, and zeros below."""
    b, dtype = low.builder, a.view.dtype
    rows, columns = target.shape[-2:]
    with b.loops((rows, columns)) as inner:
        b.store(target.buffer, target.place([*index, *inner]), Const(0.0, dtype))

    def copy(column: Affine, count: Atom | int) -> None:
        with b.loop(count) as r:
            place = target.place([*index, affine(r), column])
            b.store(target.buffer, place, a.get(affine(r), column))

    square = min(a.view.shape)
    with b.loop(square) as c:
        copy(affine(c), b.let("add", INT64, c, Const(1, INT64)))
    if columns > square:
        with b.loop(columns - square) as c:
            copy(affine(c).plus(at(square)), square)


def _basis(low: Lowering, a: Matrix, factors: Stored, steps: int, q: Matrix) -> None:
    """Multiply the reflectors."""
    b, dtype = low.builder, a.view.dtype
    m, columns = q.view.shape
    low.fill(q.view, Const(0.0, dtype))
    with b.loop(columns) as k:
        q.set(affine(k), affine(k), Const(1.0, dtype))
    with b.loop(steps, reverse=True) as k:
        here = affine(k)
        factor = b.load(factors.buffer, factors.place((here,)))
        count = b.let("sub", INT64, Const(columns, INT64), k)
        with b.loop(count) as c:
            column = affine(c).plus(here)
            _reflect(low, a, here, rows_after(low, k, m), factor, q, column)


def _factors(low: Lowering, op: Operation) -> Sequence[Value]:
    x = low.computed(op.operands[0])
    m, n = x.shape[-2:]
    if op.dtype.kind != "f" or not 0 < m <= MOST_ROWS or not 0 < n <= MOST_ROWS or 0 in op.shape:
        raise NoNativeForm(f"{op.primitive.name} of larger or complex matrices")
    low.to_memory(x)
    targets = [low.target(op, place) for place in range(2)]
    a, q = work_matrix(low, m, n, op.dtype), work_matrix(low, m, op.shape[-1], op.dtype)
    steps = min(m - 1, n)
    factors = low.array((max(1, steps),), op.dtype)
    with low.builder.loops(op.shape[:-2], independent=False) as index:
        copy_matrix(low, x, index, a.view)
        _eliminate(low, a, factors, steps)
        _basis(low, a, factors, steps, q)
        store_matrix(low, targets[0], index, q.view)
        _upper(low, a, targets[1], index)
    return [layout.of_size(low, target) for target in targets]


ROWS: dict[Primitive, Row] = {qr.qr_p: _factors, qr.qr_complete_p: _factors}
"""Lowering by primitive."""
