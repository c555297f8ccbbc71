"""Work memory of primitives: their ``scratch`` rules; see `functrace.ir.primitive.Primitive`.

A rule is called as ``scratch(inputs, outputs, params)``, with avals and the params by name, and
returns the bytes that NumPy takes at the peak, besides operands and results.

Note [Work memory of linear algebra]
    NumPy copies each matrix for LAPACK, and LAPACK has work arrays. Both come from ``malloc``, so
    that ``tracemalloc`` does not see them (before NumPy 2.5); the resident memory of the process
    does. A stack of matrices takes them once: it is computed one matrix after another. Single
    precision is computed in double, with copies of all operands and results. Sizes of work arrays
    are those that LAPACK's reference documents; small ones (a few rows) are left out.
    ``tests/executor/memory/test_resident.py`` compares with the resident memory.

Layer: 2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ops.scattering import FEWEST, LONG, TOGETHER

Avals = tuple[ShapeDtype, ...]
Bytes = Callable[[Avals, Avals, Mapping[str, Any]], float]
Inside = Callable[[int, int, int, bool], float]
"""Elements of the work arrays of one matrix: of its rows and columns, the number of right-hand
sides, and a flag: True for complex numbers."""

_HAS_BATCHES = np.lib.NumpyVersion(np.__version__) >= "2.4.0"
"""True if ``einsum`` is a product of stacks of matrices; before, it is ``tensordot``."""

TALL = 11 / 6
"""From this ratio of rows and columns on, the SVD starts with a QR factorization."""


def lapack(inside: Inside) -> Bytes:
    """Return the rule of a routine that NumPy calls for one matrix after another."""

    def count(inputs: Avals, outputs: Avals, _params: Mapping[str, Any]) -> float:
        matrix, *rest = inputs
        m, n = matrix.shape[-2:]
        sides = rest[0].shape[-1] if rest and rest[0].ndim > 1 else 1
        width = _width(matrix)
        return width * inside(m, n, sides, width == 16) + _conversions(inputs, outputs)

    return count


def _width(x: ShapeDtype) -> int:
    """Return the bytes of an element in LAPACK: double precision."""
    return 16 if x.dtype.kind == "c" else 8


def _conversions(inputs: Avals, outputs: Avals) -> int:
    """Return the bytes of operands and results in double precision, if they are in single; these
    results are converted when the operands are freed.
    """
    given = [x for x in inputs if x.dtype.kind != "b" and x.dtype.itemsize < _width(x)]
    made = [y for y in outputs if y.dtype.kind in "fc" and y.dtype.itemsize < _width(y)]
    double = sum([x.size * _width(x) for x in (*given, *made)])
    return double - sum([y.nbytes for y in made])


def inverse(m: int, n: int, _sides: int, _is_complex: bool) -> int:
    """Copies of the matrix, and of the identity."""
    return 2 * m * n


def solution(m: int, n: int, sides: int, _is_complex: bool) -> int:
    """Copies of the matrix and of the right-hand sides."""
    return m * n + max(m, n) * sides


def factorization(m: int, n: int, _sides: int, _is_complex: bool) -> int:
    """A copy of the matrix."""
    return m * n


def symmetric_eigenvectors(_m: int, n: int, _sides: int, _is_complex: bool) -> int:
    """A copy of the matrix, and the work arrays of ``syevd``."""
    return 3 * n * n + 6 * n


def eigenvectors(_m: int, n: int, _sides: int, is_complex: bool) -> int:
    """Copies of the matrix and of its vectors, which are complex, by ``geev``."""
    return 2 * n * n if is_complex else 4 * n * n


def _singular_vectors(m: int, n: int, rows: int, columns: int, is_complex: bool) -> float:
    """Copies of the matrix and of its vectors, and the work arrays of ``gesdd``."""
    k = min(m, n)
    own = (2.5 if is_complex else 3) + (max(m, n) >= TALL * k)
    return m * n + m * rows + columns * n + own * k * k


def singular_vectors(inputs: Avals, outputs: Avals, params: Mapping[str, Any]) -> float:
    """Work memory of the singular value decomposition; ``params`` may have ``full``."""

    def inside(m: int, n: int, _sides: int, is_complex: bool) -> float:
        rows, columns = (m, n) if params.get("full", False) else (min(m, n), min(m, n))
        return _singular_vectors(m, n, rows, columns, is_complex)

    return lapack(inside)(inputs, outputs, params)


def pseudo_inverse(inputs: Avals, outputs: Avals, params: Mapping[str, Any]) -> float:
    """Work memory of ``pinv``: the singular vectors, with LAPACK's work arrays, or scaled."""
    (*stack, m, n), width = inputs[0].shape, _width(inputs[0])
    k = min(m, n)
    vectors = math.prod(stack) * k * (m + n)
    if params.get("hermitian", False):
        return width * max(3 * vectors, vectors + 3 * n * n) - outputs[0].nbytes
    inside = _singular_vectors(m, n, k, k, width == 16)
    scaled = math.prod(stack) * k * m
    given = inputs[0].size if inputs[0].dtype.itemsize < width else 0
    return max(
        width * (vectors + inside + given) - outputs[0].nbytes,
        inputs[0].dtype.itemsize * (vectors + scaled),
    )


def cofactors(inputs: Avals, outputs: Avals, params: Mapping[str, Any]) -> float:
    """Work memory of cofactors: that of the inverse, then its magnitudes."""
    return max(lapack(inverse)(inputs, outputs, params), inputs[0].nbytes)


def orthogonal_factors(inputs: Avals, outputs: Avals, _params: Mapping[str, Any]) -> float:
    """Work memory of ``qr``: a copy, and LAPACK's copies while ``q`` is computed; then a mask of
    ``r``.
    """
    (x, *_), (q, r) = inputs, outputs
    width = _width(x)
    copy = x.size * width
    first = x.shape[-2] * (x.shape[-1] + q.shape[-1]) * width + q.size * width
    return max(copy + first - q.nbytes - r.nbytes, copy + r.size, 0)


def transform(inputs: Avals, outputs: Avals, _params: Mapping[str, Any]) -> int:
    """A complex copy of a real operand of a Fourier transform."""
    x, y = inputs[0], outputs[0]
    return x.size * y.dtype.itemsize if x.dtype.kind != "c" else 0


def contraction(inputs: Avals, _outputs: Avals, params: Mapping[str, Any]) -> int:
    """Copies of the operands of ``einsum`` whose axes are not in the order of a matrix product."""
    return copied_by_einsum(
        str(params["subscripts"]), inputs, [_c_strides(x.shape) for x in inputs]
    )


def copied_by_einsum(subscripts: str, inputs: Avals, strides: Sequence[tuple[int, ...]]) -> int:
    """Return the bytes of the operands that ``einsum`` copies for a matrix product.

    Args:
        subscripts: of the contraction.
        inputs: avals of the operands.
        strides: of the operands, in elements.
    """
    terms, _, out = subscripts.partition("->")
    names = terms.split(",")
    if len(names) != 2 or any(len(set(name)) != len(name) for name in names):
        return 0
    right, left = names  # NumPy takes the last operand first
    batch = [a for a in left if a in right and a in out]
    summed = [a for a in left if a in right and a not in out]
    if not _HAS_BATCHES:
        summed.sort()
    if not summed:
        return 0
    own = [a for a in left if a not in right], [a for a in right if a not in left]
    copied = 0
    for name, aval, steps, order in (
        (left, inputs[1], strides[1], (batch, own[0], summed)),
        (right, inputs[0], strides[0], (batch, summed, own[1])),
    ):
        axes = {a: (n, s) for a, n, s in zip(name, aval.shape, steps, strict=True) if n > 1}
        if not _is_matrix([[axes[a] for a in group if a in axes] for group in order]):
            copied += aval.nbytes
    return copied


def _is_matrix(groups: Sequence[Sequence[tuple[int, int]]]) -> bool:
    """Return True if axes form a matrix, or a stack of them, that BLAS reads without a copy.

    Args:
        groups: sizes and strides of the axes of the stack, of the rows and of the columns.
    """
    for group in groups:
        for (_, outer), (size, inner) in itertools.pairwise(group):
            if outer != size * inner:
                return False
    matrix = groups[1:]
    return not any(matrix) or any(group and group[-1][1] == 1 for group in matrix)


def _c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([math.prod(shape[k + 1 :]) for k in range(len(shape))])


def added_positions(inputs: Avals, outputs: Avals, _params: Mapping[str, Any]) -> int:
    """Positions of `functrace.ops.scattering.add_at`, at most, and their temporary arrays."""
    x, *arrays = inputs
    rows = max([a.size for a in arrays], default=0)
    if not rows or x.size < FEWEST or outputs[0].ndim < 2:
        return 0
    each = 8 if 1 < x.size // rows < LONG else 0
    several = (16 + x.dtype.itemsize) * min(TOGETHER, x.size)
    return several + max(25 * rows, 8 * rows + each * x.size)  # 25: three integers and a flag
