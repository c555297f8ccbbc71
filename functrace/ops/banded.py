"""Systems of linear equations with banded matrices: what splines through points of any spacing are found by.

A band matrix is given by its diagonals, as ``scipy.linalg.solve_banded`` takes them: ``bands[above + i - j, j] = a[i, j]``.

Floor: 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.errors import NotDifferentiableError, ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import Flags, Operand, Primitive, Tangents, Values, always, is_linear
from functrace.ops.elementwise import add, mul, neg, result_dtype, sub
from functrace.ops.grids import summed_to
from functrace.ops.indexing import embed_p, index_static
from functrace.ops.joining import concatenate
from functrace.ops.shaping import reshape
from functrace.tracing.recording import Value, bind
from functrace.typing import Array


def _eval(bands: Array, b: Array, below: int, above: int) -> Any:
    import scipy.linalg

    dtype = np.result_type(bands, b)
    stack = np.broadcast_shapes(bands.shape[:-2], b.shape[:-2])
    out = np.empty((*stack, *b.shape[-2:]), dtype)
    if not out.size:
        return out
    bands, b = (np.broadcast_to(x, stack + x.shape[-2:]) for x in (bands, b))
    for k in np.ndindex(stack):
        out[k] = scipy.linalg.solve_banded((below, above), bands[k], b[k], check_finite=False)
    return out


def _aval(bands: ShapeDtype, b: ShapeDtype, below: int, above: int) -> ShapeDtype:
    if bands.ndim < 2 or bands.ndim != b.ndim or bands.shape[-1] != b.shape[-2] or bands.shape[-2] != below + above + 1:
        raise ShapeError(
            f"solve_banded: {bands} and {b} with {below} and {above} diagonals do not fit",
            fix="pass bands of shape (below + above + 1, n), and b of shape (n, k)",
        )
    stack = np.broadcast_shapes(bands.shape[:-2], b.shape[:-2])
    return ShapeDtype((*stack, *b.shape[-2:]), result_dtype(bands, b))


def moved(x: Value, steps: int, axis: int) -> Any:
    """Move elements along an axis, counted from behind, by so many steps to higher places; zeros come in."""
    shape = shape_of(x)
    k = len(shape) + axis
    n = shape[k]
    if not steps:
        return x
    ahead = ((None, None, None),) * k
    start, stop = (0, max(n - steps, 0)) if steps > 0 else (min(-steps, n), n)
    part = index_static(x, (*ahead, (start, stop, None)))
    place = (min(steps, n), n, None) if steps > 0 else (0, max(n + steps, 0), None)
    return bind(embed_p, (part,), ((*ahead, place), shape))


def _row(bands: Value, k: int) -> Any:
    return index_static(bands, (Ellipsis, (k, k + 1, None), (None, None, None)))


def banded_product(bands: Value, x: Value, below: int, above: int) -> Any:
    """Multiply a band matrix with columns, shape (..., n, k)."""
    total = None
    for k in range(below + above + 1):
        row = _row(bands, k)
        shape = shape_of(row)
        part = moved(mul(reshape(row, (*shape[:-2], shape[-1], 1)), x), k - above, -2)
        total = part if total is None else add(total, part)
    return total


def transposed_bands(bands: Value, below: int, above: int) -> Any:
    """The diagonals of the transpose, which has ``above`` below and ``below`` above."""
    rows = [moved(_row(bands, k), k - above, -1) for k in reversed(range(below + above + 1))]
    return concatenate(rows, len(shape_of(bands)) - 2)


def _jvp(primals: Values, outputs: Values, tangents: Tangents, below: int, above: int) -> Any:
    (bands, _), (x,), (d_bands, db) = primals, outputs, tangents
    right = db
    if d_bands is not None:
        product = banded_product(d_bands, x, below, above)
        right = neg(product) if db is None else sub(db, product)
    assert right is not None  # one of the two is there
    return solve_banded(bands, right, below, above)


def _transpose(ct: Array, bands: Operand, b: Operand, below: int, above: int) -> Any:
    if is_linear(bands):
        raise NotDifferentiableError(
            "solve_banded is not linear in its matrix", fix="differentiate with functrace.vjp instead"
        )
    return None, summed_to(solve_banded(transposed_bands(bands, below, above), ct, above, below), b.shape)


def _batch(operands: Values, is_batched: Flags, below: int, above: int) -> Any:
    bands, b = (x if flag else reshape(x, (1, *shape_of(x))) for x, flag in zip(operands, is_batched, strict=True))
    return solve_banded(bands, b, below, above)


solve_banded_p = Primitive(
    "solve_banded",
    eval=_eval,
    aval=_aval,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    params=("below", "above"),
    fails=always,
    flops=lambda inputs, outputs, params: 2 * outputs[0].size * (2 * params["below"] + params["above"] + 1),
)


def solve_banded(bands: Value, b: Value, below: int, above: int) -> Any:
    """Solve with stacks of band matrices.

    Args:
        bands: float or complex, shape (..., below + above + 1, n).
        b: right-hand sides, shape (..., n, k), of as many axes.
        below, above: how many diagonals the matrix has on either side.

    Raises:
        LinAlgError: if a matrix is singular.

    Cost:
        n * below * (below + above) for the factors, and n * (2 below + above) per right-hand side, in LAPACK.
    """
    return bind(solve_banded_p, (bands, b), (below, above))
