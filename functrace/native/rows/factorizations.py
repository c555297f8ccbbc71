"""Linear equations, determinants and Cholesky factors of stacks of matrices, in loops.

Elimination exchanges rows as LAPACK does. What LAPACK refuses (a singular matrix, one that is not
positive definite) fails, so that NumPy raises. So does what LAPACK, which rounds differently, may
refuse: a pivot is compared with the rounding of its column.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, final

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.native.complex_numbers import part_dtype
from functrace.native.loop_ir import INT64, ZERO, Affine, Atom, Const, DType, Scalar, affine, at
from functrace.native.lowering import TINY, Lowering, NoNativeForm, Operation, Row
from functrace.native.rows import contraction, layout
from functrace.native.values import Stored, Value, project
from functrace.ops import cholesky, linalg, triangular

BOOL = np.dtype(bool)
MOST_ROWS: Final = 64
"""Rows of matrices up to which the loops here are used; LAPACK has blocks for larger ones."""


@final
class Matrix(NamedTuple):
    """A matrix in memory, and the builder's operations on its elements."""

    low: Lowering
    view: Stored

    def get(self, row: Affine, column: Affine) -> Atom:
        """Read an element."""
        return self.low.builder.load(self.view.buffer, self.view.place((row, column)))

    def set(self, row: Affine, column: Affine, value: Atom) -> None:
        """Write an element."""
        self.low.builder.store(self.view.buffer, self.view.place((row, column)), value)

    def subtract(self, row: Affine, column: Affine, factor: Atom, value: Atom) -> None:
        """Subtract a product from an element."""
        dtype, let = self.view.dtype, self.low.builder.let
        product = let("mul", dtype, factor, value)
        self.set(row, column, let("sub", dtype, self.get(row, column), product))


def _need(op: Operation, a: Value) -> int:
    """Return the rows of matrices; raises for large ones."""
    n = a.shape[-1]
    if op.dtype.kind not in "fc" or not 0 < n <= MOST_ROWS or a.shape[-2] != n or 0 in op.shape:
        raise NoNativeForm(f"{op.primitive.name} of larger matrices")
    return n


def copy_matrix(low: Lowering, x: Value, index: Sequence[Affine], to: Stored) -> None:
    """Copy the matrix at an index of a stack, converted to a dtype."""
    b = low.builder
    stack = x.shape[: len(x.shape) - len(to.shape)]
    before = project(index, stack) if stack else ()
    with b.loops(to.shape) as inner:
        atom = low.cast(low.atom(x, [*before, *inner]), to.dtype)
        b.store(to.buffer, to.place(inner), atom)


def rows_after(low: Lowering, counter: Scalar, size: int) -> Atom:
    """Return how many rows follow a row."""
    return low.builder.let("sub", INT64, Const(size - 1, INT64), counter)


def size_of_columns(low: Lowering, a: Matrix) -> Stored:
    """Return the size of the largest element of each column."""
    b, dtype = low.builder, a.view.dtype
    found = low.array(a.view.shape[1:], part_dtype(dtype) if dtype.kind == "c" else dtype)
    low.fill(found, Const(0.0, found.dtype))
    with b.loop(a.view.shape[0]) as r, b.loop(a.view.shape[1]) as c:
        place = found.place((affine(c),))
        size = contraction.size_of(low, a.get(affine(r), affine(c)))
        b.store(found.buffer, place, contraction.larger(low, b.load(found.buffer, place), size))
    return found


def _factor(
    low: Lowering, a: Matrix, right: Sequence[Matrix] = (), *, is_regular: bool = True
) -> Scalar:
    """Eliminate in place, and in right-hand sides; returns the mutable sign of the exchanges. Fails if
    a pivot may be zero, unless the matrix need not be regular.
    """
    b, dtype, n = low.builder, a.view.dtype, a.view.shape[0]
    let = b.let
    columns = size_of_columns(low, a) if is_regular else None
    kind = part_dtype(dtype) if dtype.kind == "c" else dtype
    rounding = b.declare(contraction.rounding_of(kind, n))
    sign = b.declare(Const(1.0, dtype))
    with b.loop(n) as k:
        here = affine(k)
        best, place = b.declare(contraction.size_of(low, a.get(here, here))), b.declare(k)
        with b.loop(rows_after(low, k, n)) as c:
            row = let("add", INT64, let("add", INT64, k, c), Const(1, INT64))
            size = contraction.size_of(low, a.get(affine(row), here))
            largest = b.get(best)
            is_larger = let("greater", BOOL, size, largest)
            b.assign(best, let("select", size.dtype, is_larger, size, largest))
            b.assign(place, let("select", INT64, is_larger, row, b.get(place)))
        if columns is not None:
            size, before = b.get(best), b.get(rounding)
            largest = b.load(columns.buffer, columns.place((here,)))
            contraction.need_pivot(low, size, largest, before)
            ratio = let("div", kind, largest, size)
            b.assign(rounding, contraction.rounding_after(low, before, ratio, n))
        pivot_row = b.get(place)
        there = affine(pivot_row)
        for matrix in (a, *right):
            with b.loop(matrix.view.shape[1]) as c:
                x, y = matrix.get(here, affine(c)), matrix.get(there, affine(c))
                matrix.set(here, affine(c), y)
                matrix.set(there, affine(c), x)
        moved, old = let("not_equal", BOOL, pivot_row, k), b.get(sign)
        b.assign(sign, let("select", dtype, moved, let("neg", dtype, old), old))
        pivot = a.get(here, here)
        if not is_regular:
            pivot = contraction.unless_zero(low, pivot)
        with b.loop(rows_after(low, k, n)) as r:
            row = affine(r).plus(here).plus(at(1))
            factor = let("div", dtype, a.get(row, here), pivot)
            with b.loop(rows_after(low, k, n)) as c:
                column = affine(c).plus(here).plus(at(1))
                a.subtract(row, column, factor, a.get(here, column))
            for matrix in right:
                with b.loop(matrix.view.shape[1]) as c:
                    matrix.subtract(row, affine(c), factor, matrix.get(here, affine(c)))
    return sign


def _substitute(low: Lowering, a: Matrix, x: Matrix, *, lower: bool, unit: bool) -> None:
    """Solve for a triangular matrix, in place of the right-hand sides."""
    b, dtype, n = low.builder, a.view.dtype, a.view.shape[0]
    with b.loop(n, reverse=not lower) as k:
        here = affine(k)
        pivot = Const(1.0, dtype) if unit else a.get(here, here)
        if not unit:
            b.fail(b.let("equal", BOOL, pivot, Const(0.0, dtype)), 1)
        with b.loop(x.view.shape[1]) as c:
            if not unit:
                x.set(here, affine(c), b.let("div", dtype, x.get(here, affine(c)), pivot))
        with b.loop(rows_after(low, k, n) if lower else k) as r:
            row = affine(r).plus(here).plus(at(1)) if lower else affine(r)
            factor = a.get(row, here)
            with b.loop(x.view.shape[1]) as c:
                x.subtract(row, affine(c), factor, x.get(here, affine(c)))


def work_matrix(low: Lowering, rows: int, columns: int, dtype: DType) -> Matrix:
    """Return a new matrix."""
    return Matrix(low, low.array((rows, columns), dtype))


def _solve(low: Lowering, op: Operation) -> Value:
    a, b = (low.computed(x) for x in op.operands)
    is_vector = len(b.shape) == 1
    if contraction.is_few(op) and len(b.shape) <= 2 and math.prod(b.shape) <= TINY:
        return contraction.solve_few(low, op)
    n = _need(op, a)
    columns = 1 if is_vector else op.shape[-1]
    for x in (a, b):
        low.to_memory(x)
    target = low.target(op)
    left, right = work_matrix(low, n, n, op.dtype), work_matrix(low, n, columns, op.dtype)
    stack = op.shape[: len(op.shape) - (1 if is_vector else 2)]
    column = Stored(right.view.buffer, ZERO, (1,), (n,))
    with low.builder.loops(stack, independent=False) as index:
        copy_matrix(low, a, index, left.view)
        copy_matrix(low, b, index, column if is_vector else right.view)
        _factor(low, left, [right])
        _substitute(low, left, right, lower=False, unit=False)
        store_matrix(low, target, index, column if is_vector else right.view)
    return layout.of_size(low, target)


def store_matrix(low: Lowering, target: Stored, index: Sequence[Affine], x: Stored) -> None:
    """Write a matrix to an index of a stack."""
    with low.builder.loops(x.shape) as inner:
        atom = low.builder.load(x.buffer, x.place(inner))
        low.builder.store(target.buffer, target.place([*index, *inner]), atom)


def _inverse(low: Lowering, op: Operation) -> Value:
    a = low.computed(op.operands[0])
    if contraction.is_few(op):
        return contraction.inverse_few(low, op)
    n, b = _need(op, a), low.builder
    low.to_memory(a)
    target = low.target(op)
    left, right = work_matrix(low, n, n, op.dtype), work_matrix(low, n, n, op.dtype)
    with b.loops(op.shape[:-2], independent=False) as index:
        copy_matrix(low, a, index, left.view)
        low.fill(right.view, Const(0.0, op.dtype))
        with b.loop(n) as k:
            right.set(affine(k), affine(k), Const(1.0, op.dtype))
        _factor(low, left, [right])
        _substitute(low, left, right, lower=False, unit=False)
        store_matrix(low, target, index, right.view)
    return layout.of_size(low, target)


def _determinant(low: Lowering, op: Operation) -> Value:
    a = low.computed(op.operands[0])
    if contraction.is_few(op):
        return contraction.determinant_few(low, op)
    n, b = _need(op, a), low.builder
    low.to_memory(a)
    target = low.target(op)
    left = work_matrix(low, n, n, op.dtype)
    with b.loops(op.shape, independent=False) as index:
        copy_matrix(low, a, index, left.view)
        total = _factor(low, left, is_regular=False)
        with b.loop(n) as k:
            now = b.let("mul", op.dtype, b.get(total), left.get(affine(k), affine(k)))
            b.assign(total, now)
        b.store(target.buffer, target.place(index), b.get(total))
    return layout.of_size(low, target)


def _signed_logarithm(low: Lowering, op: Operation) -> Sequence[Value]:
    a = low.computed(op.operands[0])
    if contraction.is_few(op):
        return contraction.signed_logarithm_few(low, op)
    n, b = _need(op, a), low.builder
    low.to_memory(a)
    targets = [low.target(op, place) for place in range(2)]
    left = work_matrix(low, n, n, op.dtype)
    with b.loops(op.shape, independent=False) as index:
        copy_matrix(low, a, index, left.view)
        variables = [_factor(low, left), b.declare(Const(0.0, targets[1].dtype))]
        with b.loop(n) as k:
            pivot = left.get(affine(k), affine(k))
            found = contraction.signed_logarithm(low, pivot, *map(b.get, variables))
            for variable, atom in zip(variables, found, strict=True):
                b.assign(variable, atom)
        for target, variable in zip(targets, variables, strict=True):
            b.store(target.buffer, target.place(index), b.get(variable))
    return [layout.of_size(low, target) for target in targets]


def _cholesky(low: Lowering, op: Operation) -> Value:
    a = low.computed(op.operands[0])
    n, b, dtype = _need(op, a), low.builder, op.dtype
    let, is_complex = b.let, dtype.kind == "c"
    kind = part_dtype(dtype) if is_complex else dtype
    low.to_memory(a)
    target = low.target(op)
    made, given = work_matrix(low, n, n, dtype), work_matrix(low, n, n, dtype)
    with b.loops(op.shape[:-2], independent=False) as index:
        copy_matrix(low, a, index, given.view)
        low.fill(made.view, Const(0.0, dtype))
        rounding = b.declare(contraction.rounding_of(kind, n))
        with b.loop(n) as j:
            here = affine(j)

            def rest(row: Affine, here: Affine = here, j: Scalar = j) -> Atom:
                """Return what the columns before leave of an element."""
                left = b.declare(given.get(row, here))
                with b.loop(j) as k:
                    other = made.get(here, affine(k))
                    if is_complex:
                        other = let("conj", dtype, other)
                    product = let("mul", dtype, made.get(row, affine(k)), other)
                    b.assign(left, let("sub", dtype, b.get(left), product))
                return b.get(left)

            def real(atom: Atom) -> Atom:
                return let("real", kind, atom) if is_complex else atom

            square = real(rest(here))
            largest = let("fabs", kind, real(given.get(here, here)))
            before = b.get(rounding)
            contraction.need_pivot(low, square, largest, before)
            pivot = let("sqrt", kind, square)
            ratio = let("div", kind, largest, square)
            b.assign(rounding, contraction.rounding_after(low, before, ratio, n))
            made.set(here, here, low.cast(pivot, dtype))
            with b.loop(rows_after(low, j, n)) as r:
                row = affine(r).plus(here).plus(at(1))
                left = rest(row)
                if is_complex:
                    parts = [let(part, kind, left) for part in ("real", "imag")]
                    divided = [let("div", kind, part, pivot) for part in parts]
                    made.set(row, here, let("complex", dtype, *divided))
                else:
                    made.set(row, here, let("div", dtype, left, pivot))
        store_matrix(low, target, index, made.view)
    return layout.of_size(low, target)


def _solve_triangular(low: Lowering, op: Operation) -> Value:
    a, b = (low.computed(x) for x in op.operands)
    lower, unit = op.params
    n, dtype = _need(op, a), op.dtype
    for x in (a, b):
        low.to_memory(x)
    target = low.target(op)
    left, right = work_matrix(low, n, n, dtype), work_matrix(low, n, b.shape[-1], dtype)
    with low.builder.loops(op.shape[:-2], independent=False) as index:
        copy_matrix(low, a, index, left.view)
        copy_matrix(low, b, index, right.view)
        _substitute(low, left, right, lower=lower, unit=unit)
        store_matrix(low, target, index, right.view)
    return layout.of_size(low, target)


ROWS: dict[Primitive, Row] = {
    linalg.solve_p: _solve,
    linalg.inv_p: _inverse,
    linalg.inv_or_nan_p: _inverse,
    linalg.det_p: _determinant,
    linalg.slogdet_p: _signed_logarithm,
    cholesky.cholesky_p: _cholesky,
    triangular.solve_triangular_p: _solve_triangular,
}
"""Lowering by primitive."""
