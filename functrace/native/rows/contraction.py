"""Products of matrices, contractions, and small linear algebra.

Layer: 7.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.native.complex_numbers import part_dtype
from functrace.native.loop_ir import ZERO, Affine, Atom, Const, DType, MatrixProduct
from functrace.native.loop_ir import at as constant
from functrace.native.lowering import TINY, Lowering, NoNativeForm, Operation, Row
from functrace.native.values import AtomArray, Scalars, Stored, Value, project, scalars
from functrace.ops import contraction as ops
from functrace.ops import grids, joining, linalg
from functrace.ops.blas import routine_address

STRAIGHT = 512
"""Multiplications of a product that is straight-line code."""
SMALL = 32 * 1024
"""Multiplications of a product that is a loop nest; larger ones are BLAS's."""
TOGETHER = 8
"""Products that are added to an element of a result at a time."""

BOOL = np.dtype(bool)


def contract(
    low: Lowering, op: Operation, a: Value, b: Value, labels: tuple[str, str, str]
) -> Value:
    """Return the contraction of two arrays.

    Args:
        low, op: the lowering and the operation.
        a, b: operands.
        labels: subscripts of the operands and of the result; those that are missing in the result
            are summed over.
    """
    left, right, out = labels
    dtype = op.dtype
    if dtype.kind not in "fiuc":
        raise NoNativeForm(f"a product of {dtype}")
    sizes = dict(zip(left, a.shape, strict=True))
    for label, size in zip(right, b.shape, strict=True):
        if sizes.setdefault(label, size) != size:
            raise NoNativeForm("a product that broadcasts")
    summed = [label for label in dict.fromkeys(left + right) if label not in out]
    shape = tuple(sizes[label] for label in out)
    if 0 in sizes.values():
        raise NoNativeForm("a product of nothing")
    count = math.prod(sizes.values())
    if count <= STRAIGHT and math.prod(shape) <= TINY:
        return _straight(low, op, a, b, labels, sizes, summed)
    if count > SMALL and dtype.kind == "f":
        found = _blas(low, op, a, b, labels)
        if found is not None:
            return found
        if count > 64 * SMALL:
            raise NoNativeForm("a large contraction")
    if count > SMALL and dtype.kind == "c":
        raise NoNativeForm("a large product of complex numbers")
    x, y = low.computed(a), low.computed(b)
    low.to_memory(x)
    low.to_memory(y)
    target = low.target(op)
    builder = low.builder
    # Innermost is the axis along which the result, or else the operands, are contiguous.
    is_dot = not out or (len(summed) == 1 and summed[0] == left[-1] and summed[0] == right[-1])
    if is_dot:
        with builder.loops([sizes[label] for label in out]) as index:
            at = dict(zip(out, index, strict=True))
            total = builder.declare(Const(dtype.type(0).item(), dtype))
            with builder.loops([sizes[label] for label in summed]) as places:
                at |= dict(zip(summed, places, strict=True))
                product = _product(low, x, y, left, right, at, dtype)
                sum_ = builder.let("add_any_order", dtype, builder.get(total), product)
                builder.assign(total, sum_)
            builder.store(target.buffer, target.place(index), builder.get(total))
        return _result(low, op, target)
    low.fill(target, Const(dtype.type(0).item(), dtype))
    _add_products(low, target, (x, y), labels, sizes, summed)
    return _result(low, op, target)


def _add_products(
    low: Lowering,
    target: Stored,
    operands: tuple[Value, Value],
    labels: tuple[str, str, str],
    sizes: dict[str, int],
    summed: Sequence[str],
) -> None:
    """Add the products of a contraction to an array, in order, in loops along the result's last axis.

    An element is loaded and stored once for `TOGETHER` products.
    """
    (left, right, out), builder, dtype = labels, low.builder, target.dtype
    *outer, last = summed or [""]
    count = sizes.get(last, 1)

    def add(at: dict[str, Affine], number: int, begin: Affine) -> None:
        with builder.loops([sizes[out[-1]]]) as columns:
            at = at | {out[-1]: columns[0]}
            place = target.place([at[label] for label in out])
            total: Atom = builder.load(target.buffer, place)
            for k in range(number):
                at[last] = begin.plus(constant(k))
                product = _product(low, *operands, left, right, at, dtype)
                total = builder.let("add", dtype, total, product)
            builder.store(target.buffer, place, total)

    loops = [*out[:-1], *outer]
    with builder.loops([sizes[label] for label in loops]) as places:
        at = dict(zip(loops, places, strict=True))
        first = count % TOGETHER
        if first:
            add(at, first, ZERO)
        if count >= TOGETHER:
            with builder.loops([count // TOGETHER]) as blocks:
                add(at, TOGETHER, constant(first).plus(blocks[0], TOGETHER))


def _result(low: Lowering, op: Operation, target: Stored) -> Value:
    if math.prod(op.shape) <= TINY:
        return Scalars(low.elements(target), op.dtype)
    return target


def _product(
    low: Lowering, a: Value, b: Value, left: str, right: str, at: dict[str, Affine], dtype: DType
) -> Atom:
    x = low.cast(low.atom(a, [at[label] for label in left]), dtype)
    y = low.cast(low.atom(b, [at[label] for label in right]), dtype)
    return low.builder.let("mul", dtype, x, y)


def _straight(
    low: Lowering,
    op: Operation,
    a: Value,
    b: Value,
    labels: tuple[str, str, str],
    sizes: dict[str, int],
    summed: Sequence[str],
) -> Value:
    left, right, out = labels
    dtype = op.dtype
    if low.is_probe:  # (the code would be long, and always has a form)
        return low.array(op.shape, dtype)
    x, y, cast, let = low.elements(a), low.elements(b), low.cast, low.builder.let
    labels_in_order = [*out, *summed]
    of_x = [labels_in_order.index(label) for label in left]
    of_y = [labels_in_order.index(label) for label in right]
    steps = list(np.ndindex(*[sizes[label] for label in summed]))
    found: list[Atom] = []
    for index in np.ndindex(*[sizes[label] for label in out]):
        total: Atom | None = None
        for inner in steps:
            at = index + inner
            first = cast(x[tuple([at[k] for k in of_x])], dtype)
            second = cast(y[tuple([at[k] for k in of_y])], dtype)
            product = let("mul", dtype, first, second)
            total = product if total is None else let("add", dtype, total, product)
        assert total is not None
        found.append(total)
    return scalars(found, op.shape, dtype)


def _blas(
    low: Lowering, op: Operation, a: Value, b: Value, labels: tuple[str, str, str]
) -> Value | None:
    """Return a product of two matrices by BLAS; ``None`` for another contraction, or if NumPy's BLAS
    cannot be called.
    """
    if routine_address("dgemm") is None or routine_address("sgemm") is None:
        return None
    left, right, out = labels
    batch = [label for label in out if label in left and label in right]
    rows = [label for label in left if label not in right]
    columns = [label for label in right if label not in left]
    inner = [label for label in left if label in right and label not in out]
    if (
        len(rows) > 1
        or len(columns) > 1
        or len(inner) != 1
        or list(out) != [*batch, *rows, *columns]
    ):
        return None
    x, y = low.stored(a), low.stored(b)
    if x.dtype != op.dtype or y.dtype != op.dtype:
        return None
    target = low.target(op)
    builder = low.builder
    with builder.loops([x.shape[left.index(label)] for label in batch]) as index:
        at = dict(zip(batch, index, strict=True))
        first = _matrix(low, x, left, at, rows, inner)
        second = _matrix(low, y, right, at, inner, columns)
        place = target.offset
        for k, position in enumerate(index):
            place = place.plus(position, target.strides[k])
        size = first[4][0], second[4][1], first[4][1]
        if target.strides and target.strides[-1] != 1:
            return None
        product = (target.buffer, place, max(size[1], 1))
        builder.body.append(MatrixProduct(first[:4], second[:4], product, size))
    return _result(low, op, target)


def _matrix(
    low: Lowering,
    x: Stored,
    labels: str,
    at: dict[str, Affine],
    rows: list[str],
    columns: list[str],
) -> tuple[Any, ...]:
    """Return a matrix as BLAS takes it: buffer, offset, leading stride, transposed, shape."""
    offset = x.offset
    for k, label in enumerate(labels):
        if label in at:
            offset = offset.plus(at[label], x.strides[k])

    def axis(names: list[str]) -> tuple[int, int]:
        return (
            (x.shape[labels.index(names[0])], x.strides[labels.index(names[0])])
            if names
            else (1, 0)
        )

    (n, down), (m, across) = axis(rows), axis(columns)
    if (across == 1 or m == 1) and (down >= m or n == 1):
        return x.buffer, offset, max(down, m, 1), False, (n, m)
    if (down == 1 or n == 1) and (across >= n or m == 1):
        return x.buffer, offset, max(across, n, 1), True, (n, m)
    made = low.array((n, m), x.dtype)
    view = Stored(x.buffer, offset, (down, across), (n, m))
    low.copy(made, view)
    return made.buffer, ZERO, m, False, (n, m)


def _matmul(low: Lowering, op: Operation) -> Value:
    a, b = op.operands
    first, second = len(a.shape), len(b.shape)
    if min(first, second) == 0:
        return low.elementwise(
            lambda inner, x, y: inner.builder.let("mul", op.dtype, inner.cast(x, op.dtype), inner.cast(y, op.dtype)),
            [a, b], op.shape, op.dtype,
        )  # fmt: skip
    letters = "abcdefgh"
    left = "k" if first == 1 else letters[: first - 2][::-1] + "mk"
    right = "k" if second == 1 else letters[: second - 2][::-1] + "kn"
    if op.primitive is ops.dot_p and second > 2:
        raise NoNativeForm("dot of stacks")
    stack = (left if first >= second else right)[:-2] if max(first, second) > 2 else ""
    out = stack + ("m" if first > 1 else "") + ("n" if second > 1 else "")
    shapes: list[dict[str, int]] = []
    for value, labels in ((a, left), (b, right)):
        sizes = dict(zip(labels, value.shape, strict=True))
        shapes.append(sizes)
    if any(
        label in sizes and sizes[label] != size
        for sizes in shapes
        for label, size in zip(stack, op.shape, strict=False)
    ):
        return _in_loops(low, op, [a, b], [left, right], out)
    return contract(low, op, a, b, (left, right, out))


def _einsum(low: Lowering, op: Operation) -> Value:
    subscripts = op.params[0]
    given, _, out = subscripts.partition("->")
    parts = given.split(",")
    if "." in subscripts or " " in subscripts:
        raise NoNativeForm("einsum with an ellipsis")
    sizes: dict[str, set[int]] = {}
    for part, x in zip(parts, op.operands, strict=True):
        for label, size in zip(part, x.shape, strict=True):
            sizes.setdefault(label, set()).add(size)
    is_plain = all(len(set(p)) == len(p) for p in parts) and all(
        len(found) == 1 for found in sizes.values()
    )
    if len(parts) == 2 and is_plain:
        return contract(low, op, op.operands[0], op.operands[1], (parts[0], parts[1], out))
    return _in_loops(low, op, op.operands, parts, out)


def _in_loops(
    low: Lowering, op: Operation, operands: Sequence[Value], parts: Sequence[str], out: str
) -> Value:
    """Return the contraction of any number of arrays, whose axes may repeat or broadcast."""
    dtype = op.dtype
    if dtype.kind not in "fiuc":
        raise NoNativeForm(f"a product of {dtype}")
    sizes: dict[str, int] = {}
    for part, x in zip(parts, operands, strict=True):
        for label, size in zip(part, x.shape, strict=True):
            if sizes.get(label, 1) in (1, size) or size == 1:
                sizes[label] = max(sizes.get(label, 1), size) if size else 0
            else:
                raise NoNativeForm("a product of other sizes")
    if 0 in sizes.values() or math.prod(sizes.values()) > SMALL:
        raise NoNativeForm("a large contraction")
    given = [low.computed(x) for x in operands]
    for x in given:
        low.to_memory(x)
    target, b = low.target(op), low.builder
    summed = [label for label in sizes if label not in out]
    with b.loops([sizes[label] for label in out]) as index:
        total = b.declare(Const(dtype.type(0).item(), dtype))
        with b.loops([sizes[label] for label in summed]) as inner:
            places = dict(zip((*out, *summed), (*index, *inner), strict=True))
            product: Atom | None = None
            for part, x in zip(parts, given, strict=True):
                place = [
                    ZERO if size == 1 else places[label]
                    for label, size in zip(part, x.shape, strict=True)
                ]
                atom = low.cast(low.atom(x, place), dtype)
                product = atom if product is None else b.let("mul", dtype, product, atom)
            assert product is not None
            b.assign(total, b.let("add_any_order", dtype, b.get(total), product))
        b.store(target.buffer, target.place(index), b.get(total))
    return _result(low, op, target)


def _convolve(low: Lowering, op: Operation) -> Value:
    x, y = (low.computed(one) for one in op.operands)
    dtype = op.dtype
    if dtype.kind not in "fiuc" or 0 in (*x.shape, *y.shape) or not op.shape:
        raise NoNativeForm("a convolution of nothing")
    if x.shape[-1] * y.shape[-1] > SMALL:
        raise NoNativeForm("a large convolution")
    for one in (x, y):
        low.to_memory(one)
    target, b = low.target(op), low.builder
    low.fill(target, Const(dtype.type(0).item(), dtype))
    stack = op.shape[:-1]
    with b.loops(stack, independent=False) as index, b.loops((x.shape[-1],)) as (i,):
        before = project(index, x.shape[:-1]), project(index, y.shape[:-1])
        left = low.cast(low.atom(x, [*before[0], i]), dtype)
        with b.loops((y.shape[-1],)) as (j,):
            right = low.cast(low.atom(y, [*before[1], j]), dtype)
            place = target.place([*index, i.plus(j)])
            product = b.let("mul", dtype, left, right)
            total = b.let("add", dtype, b.load(target.buffer, place), product)
            b.store(target.buffer, place, total)
    return _result(low, op, target)


def _convolve_grids(low: Lowering, op: Operation) -> Value:
    (x, y), (stack, part) = op.operands, op.params
    if len(op.shape) - stack != 1:
        raise NoNativeForm("a convolution along several axes")
    if part == "full":
        return _convolve(low, op)
    x, y = (low.computed(one) for one in (x, y))
    dtype, count = op.dtype, y.shape[-1]
    if dtype.kind not in "fiuc" or 0 in op.shape:
        raise NoNativeForm("a convolution of nothing")
    if op.shape[-1] * count > SMALL:
        raise NoNativeForm("a large convolution")
    for one in (x, y):
        low.to_memory(one)
    target, b = low.target(op), low.builder
    with b.loops(op.shape) as index:
        before = project(index[:-1], x.shape[:-1]), project(index[:-1], y.shape[:-1])
        last = index[-1].plus(constant(count - 1))
        total = b.declare(Const(dtype.type(0).item(), dtype))
        with b.loops((count,)) as (j,):
            left = low.cast(low.atom(x, [*before[0], last.plus(j, -1)]), dtype)
            right = low.cast(low.atom(y, [*before[1], j]), dtype)
            product = b.let("mul", dtype, left, right)
            b.assign(total, b.let("add_any_order", dtype, b.get(total), product))
        b.store(target.buffer, target.place(index), b.get(total))
    return _result(low, op, target)


# -- small linear algebra --------------------------------------------------------------------------

MOST_ROWS = 6
"""Rows of matrices that are eliminated in straight-line code."""


NEAR_ZERO = 16
"""Units of rounding of a column's largest element, times the number of rows, up to which a pivot may
be zero in LAPACK."""


def size_of(low: Lowering, x: Atom) -> Atom:
    """Return the size of a number by which LAPACK chooses pivots."""
    let = low.builder.let
    if x.dtype.kind != "c":
        return let("fabs", x.dtype, x)
    kind = part_dtype(x.dtype)
    return let("add", kind, *[let("fabs", kind, let(part, kind, x)) for part in ("real", "imag")])


def larger(low: Lowering, x: Atom, y: Atom) -> Atom:
    """Return the larger one of two sizes; the first one if one of them is nan."""
    let = low.builder.let
    return let("select", x.dtype, let("greater", BOOL, y, x), y, x)


def rounding_of(dtype: DType, rows: int) -> Const:
    """Return how much of a column's largest element elimination may round away."""
    return Const(NEAR_ZERO * rows * float(np.finfo(dtype).eps), dtype)


def need_pivot(low: Lowering, size: Atom, largest: Atom, rounding: Atom) -> None:
    """Return to NumPy's form if a pivot may be zero in LAPACK, which rounds differently, and decides
    if a matrix is singular.

    Args:
        low: the lowering.
        size: of the pivot.
        largest: size of the largest element of its column, before the elimination.
        rounding: how much of it may be rounded away.
    """
    let = low.builder.let
    limit = let("mul", size.dtype, largest, rounding)
    low.builder.fail(let("not", BOOL, let("greater", BOOL, size, limit)), 1)


def rounding_after(low: Lowering, rounding: Atom, ratio: Atom, rows: int) -> Atom:
    """Return how much may be rounded away after a pivot, which is divided by.

    Args:
        low: the lowering.
        rounding: how much before.
        ratio: of the largest element of its column to the pivot.
        rows: of the matrix.
    """
    dtype = ratio.dtype
    grown = low.builder.let("mul", dtype, ratio, rounding_of(dtype, rows))
    return larger(low, rounding, grown)


def unless_zero(low: Lowering, pivot: Atom) -> Atom:
    """Return a pivot, but 1 for a zero: all elements below it are zeros, too."""
    let, dtype = low.builder.let, pivot.dtype
    is_zero = let("equal", BOOL, pivot, Const(0.0, dtype))
    return let("select", dtype, is_zero, Const(1.0, dtype), pivot)


def _eliminated(
    low: Lowering, rows: list[list[Atom]], dtype: DType, *, is_regular: bool = True
) -> tuple[list[list[Atom]], Atom]:
    """Return the rows after Gaussian elimination with row exchanges, and the sign of the exchanges;
    fails if a pivot may be zero, unless the matrix need not be regular.
    """
    let, n = low.builder.let, len(rows)
    sign: Atom = Const(1.0, dtype)
    rounding: Atom = rounding_of(dtype, n)
    largest = [
        functools.reduce(
            lambda x, y: larger(low, x, y), [let("fabs", dtype, row[k]) for row in rows]
        )
        for k in range(n if is_regular else 0)
    ]
    for k in range(n):
        for r in range(k + 1, n):  # bring the largest pivot up, one comparison at a time
            below, pivot = (let("fabs", dtype, rows[j][k]) for j in (r, k))
            swaps = let("greater", BOOL, below, pivot)
            first, second = rows[k], rows[r]
            pairs = list(zip(first[k:], second[k:], strict=True))
            rows[k] = [*first[:k], *[let("select", dtype, swaps, y, x) for x, y in pairs]]
            rows[r] = [*second[:k], *[let("select", dtype, swaps, x, y) for x, y in pairs]]
            sign = let("select", dtype, swaps, let("neg", dtype, sign), sign)
        pivot = rows[k][k]
        if is_regular:
            size = let("fabs", dtype, pivot)
            need_pivot(low, size, largest[k], rounding)
            if k > 0:  # (the first pivot is the largest element of its column)
                ratio = let("div", dtype, largest[k], size)
                rounding = rounding_after(low, rounding, ratio, n)
        elif k < n - 1:
            pivot = unless_zero(low, pivot)
        for r in range(k + 1, n):
            factor = let("div", dtype, rows[r][k], pivot)
            for c in range(k + 1, len(rows[k])):
                step = let("mul", dtype, factor, rows[k][c])
                rows[r][c] = let("sub", dtype, rows[r][c], step)
    return rows, sign


def is_few(op: Operation) -> bool:
    """Return True if the matrix of an operation is eliminated in straight-line code."""
    matrix = op.operands[0].shape
    return len(matrix) == 2 and matrix[0] <= MOST_ROWS and op.dtype.kind == "f"


def _square(low: Lowering, op: Operation, value: Value) -> AtomArray:
    """Return the elements of a small matrix."""
    if not is_few(op):
        raise NoNativeForm(f"{op.primitive.name} of larger matrices")
    atoms = low.elements(value).ravel()
    return scalars([low.cast(x, op.dtype) for x in atoms], value.shape, op.dtype).atoms


def _solved(low: Lowering, a: AtomArray, b: AtomArray, dtype: DType) -> Any:
    """Return the solution of ``a x = b`` for small matrices; fails if a pivot may be zero."""
    let, n = low.builder.let, len(a)
    rows, _ = _eliminated(low, [[*a[k], *b[k]] for k in range(n)], dtype)
    x = np.empty(b.shape, object)
    for column in range(b.shape[1]):
        for k in reversed(range(n)):
            value = rows[k][n + column]
            for j in range(k + 1, n):
                step = let("mul", dtype, rows[k][j], x[j, column])
                value = let("sub", dtype, value, step)
            x[k, column] = let("div", dtype, value, rows[k][k])
    return x


def solve_few(low: Lowering, op: Operation) -> Value:
    """Return the solution of few equations, in straight-line code."""
    a, b = op.operands
    left = _square(low, op, a)
    right = low.elements(b)
    matrix = right.reshape(len(left), -1)
    return Scalars(_solved(low, left, matrix, op.dtype).reshape(op.shape), op.dtype)


def inverse_few(low: Lowering, op: Operation) -> Value:
    """Return the inverse of a small matrix, in straight-line code."""
    a = _square(low, op, op.operands[0])
    n, dtype = len(a), op.dtype
    unit = scalars(
        [Const(float(i == j), dtype) for i in range(n) for j in range(n)], (n, n), dtype
    ).atoms
    return Scalars(_solved(low, a, unit, dtype), dtype)


def determinant_few(low: Lowering, op: Operation) -> Value:
    """Return the determinant of a small matrix, in straight-line code."""
    a = _square(low, op, op.operands[0])
    rows, total = _eliminated(low, [list(row) for row in a], op.dtype, is_regular=False)
    for k in range(len(rows)):
        total = low.builder.let("mul", op.dtype, total, rows[k][k])
    return scalars([total], op.shape, op.dtype)


def signed_logarithm(low: Lowering, pivot: Atom, sign: Atom, total: Atom) -> tuple[Atom, Atom]:
    """Return the sign of a determinant and the logarithm of its size, with one more pivot.

    Args:
        low: the lowering.
        pivot: the pivot; not zero.
        sign, total: those of the pivots before.
    """
    let, dtype, kind = low.builder.let, pivot.dtype, total.dtype
    if dtype.kind == "c":
        size = let("absolute", kind, pivot)
        parts = [let("div", kind, let(part, kind, pivot), size) for part in ("real", "imag")]
        sign = let("mul", dtype, sign, let("complex", dtype, *parts))
    else:
        size = let("fabs", kind, pivot)
        is_negative = let("less", BOOL, pivot, Const(0.0, dtype))
        sign = let("select", dtype, is_negative, let("neg", dtype, sign), sign)
    return sign, let("add", kind, total, let("log", kind, size))


def signed_logarithm_few(low: Lowering, op: Operation) -> tuple[Value, Value]:
    """Return the sign of a determinant and the logarithm of its size, in straight-line code."""
    a, dtype = _square(low, op, op.operands[0]), op.dtype
    rows, sign = _eliminated(low, [list(row) for row in a], dtype)
    total: Atom = Const(0.0, dtype)
    for k, row in enumerate(rows):
        sign, total = signed_logarithm(low, row[k], sign, total)
    return scalars([sign], (), dtype), scalars([total], (), dtype)


def _cofactor(low: Lowering, op: Operation) -> Value:
    a, dtype, let = _square(low, op, op.operands[0]), op.dtype, low.builder.let
    n = len(a)
    if not 0 < n <= 3:
        raise NoNativeForm("cofactors of larger matrices")
    found: list[Atom] = [Const(1.0, dtype)]
    if n == 2:
        found = [a[1, 1], let("neg", dtype, a[1, 0]), let("neg", dtype, a[0, 1]), a[0, 0]]
    elif n == 3:
        turns = [(i, (i + 1) % 3, (i + 2) % 3) for i in range(3)]
        found = [
            let(
                "sub",
                dtype,
                let("mul", dtype, a[r, c], a[s, d]),
                let("mul", dtype, a[r, d], a[s, c]),
            )
            for _, r, s in turns
            for _, c, d in turns
        ]
    return scalars(found, op.shape, dtype)


COMPLEX = (
    ops.matmul_p, ops.dot_p, ops.matmul_in_parts_p, ops.einsum_p, joining.convolve_p,
    grids.convolve_grids_p,
)  # fmt: skip
"""Primitives whose native form takes complex numbers."""

ROWS: dict[Primitive, Row] = {
    ops.matmul_p: _matmul,
    ops.dot_p: _matmul,
    ops.matmul_in_parts_p: _matmul,
    ops.einsum_p: _einsum,
    joining.convolve_p: _convolve,
    grids.convolve_grids_p: _convolve_grids,
    linalg.cofactor_p: _cofactor,
}
"""Lowering by primitive."""
