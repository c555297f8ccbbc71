"""Eigenvalues and eigenvectors of general square matrices; results are always complex.

Note [Scales of eigenvectors]
    An eigenvector may be multiplied by any number. LAPACK makes its norm 1, and its largest element
    real. Derivatives keep this normalization: they are those of NumPy's vectors.

Source: M. Giles, "Collected matrix derivative results for forward and reverse mode AD" (2008), 3.1.
See Note [Degenerate spectra] in functrace/ops/matrices.py.

Layer: 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import ZERO, Flags, Primitive, Values, absent, always
from functrace.ops import counts, work
from functrace.ops.contraction import matmul
from functrace.ops.elementwise import absolute, add, conj, div, equal, imag, mul, neg, real, where
from functrace.ops.linalg import solve
from functrace.ops.matrices import (
    as_row,
    check_square,
    diagonal_of,
    gaps_inverse,
    native_batch,
    not_linear,
)
from functrace.ops.reductions import argmax, expand_reduced, reduce_sum
from functrace.ops.shaping import broadcast_to, convert
from functrace.ops.sorting import take_along_axis
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array


def _complex(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.result_type(dtype, np.complex64)


def _eig_aval(x: ShapeDtype) -> tuple[ShapeDtype, ShapeDtype]:
    check_square("eig", x)
    dtype = _complex(x.dtype)
    return ShapeDtype(x.shape[:-1], dtype), ShapeDtype(x.shape, dtype)


def _eig_jvp(_primals: Values, outputs: Values, tangents: tuple[Array]) -> Any:
    values, vectors = outputs
    inner = solve(vectors, matmul(convert(tangents[0], vectors.dtype), vectors))
    change = matmul(vectors, mul(inner, gaps_inverse(values)))
    if not vectors.shape[-1]:
        return diagonal_of(inner), change
    # See Note [Scales of eigenvectors]: v + dv + g v has norm 1, and the element that LAPACK makes
    # real stays real.
    axis = len(shape_of(vectors)) - 2
    size = where(equal(imag(vectors), 0), absolute(vectors), -1.0)
    largest = expand_reduced(argmax(size, axis), shape_of(vectors), (axis,))
    turn = neg(
        div(
            imag(take_along_axis(change, largest, axis)),
            real(take_along_axis(vectors, largest, axis)),
        )
    )
    stretch = neg(real(reduce_sum(mul(conj(vectors), change), (axis,))))
    scale = add(mul(turn, 1j), as_row(stretch))
    return diagonal_of(inner), add(change, mul(vectors, scale))


def _eig_eval(x: Array) -> Any:
    values, vectors = np.linalg.eig(x)
    dtype = _complex(x.dtype)
    return values.astype(dtype), vectors.astype(dtype)


eig_p = Primitive(
    "eig",
    eval=_eig_eval,
    aval=_eig_aval,
    jvp=_eig_jvp,
    transpose=not_linear("eig"),
    batch=native_batch(lambda: eig_p),
    many=True,
    fails=always,
    flops=counts.cubic(25),
    scratch=work.lapack(work.eigenvectors),
)


def eig(x: Value) -> Any:
    """Eigenvalues (..., n) and eigenvectors (..., n, n), complex. See Note
    [Scales of eigenvectors].
    """
    return bind(eig_p, (x,))


def _eigvals_aval(x: ShapeDtype) -> ShapeDtype:
    check_square("eigvals", x)
    return ShapeDtype(x.shape[:-1], _complex(x.dtype))


def _eigvals_jvp(primals: Values, outputs: Values, tangents: tuple[Array]) -> Any:
    values, vectors = eig(primals[0])
    inner = solve(vectors, matmul(convert(tangents[0], vectors.dtype), vectors))
    places = bind(matching_p, (outputs[0], values))
    return take_along_axis(
        diagonal_of(inner), places, len(shape_of(values)) - 1, is_permutation=True
    )


def _eigvals_eval(x: Array) -> Any:
    return np.linalg.eigvals(x).astype(_complex(x.dtype))


eigvals_p = Primitive(
    "eigvals",
    eval=_eigvals_eval,
    aval=_eigvals_aval,
    jvp=_eigvals_jvp,
    transpose=not_linear("eigvals"),
    batch=native_batch(lambda: eigvals_p),
    fails=always,
    flops=counts.cubic(10),
    scratch=work.lapack(work.factorization),
)


def eigvals(x: Value) -> Any:
    """Eigenvalues (..., n), complex."""
    return bind(eigvals_p, (x,))


def _matching_eval(wanted: Array, values: Array) -> Any:
    if np.array_equal(wanted, values, equal_nan=True):
        n: int = wanted.shape[-1]
        return np.broadcast_to(np.arange(n), wanted.shape).copy()
    places = np.empty(wanted.shape, np.intp)
    for k in np.ndindex(wanted.shape[:-1]):
        distance = np.abs(wanted[k][:, None] - values[k])
        distance[np.isnan(distance)] = np.inf
        free = np.ones(len(distance), bool)
        for row in np.argsort(distance.min(axis=1)) if len(distance) else ():
            places[(*k, row)] = column = (
                np.argmin(np.where(free, distance[row], np.inf)) if free.any() else 0
            )
            free[column] = False
    return places


def _matching_batch(operands: Values, is_batched: Flags) -> Any:
    size = next(shape_of(x)[0] for x, b in zip(operands, is_batched, strict=True) if b)
    both = [
        x if b else broadcast_to(x, (size, *shape_of(x)))
        for x, b in zip(operands, is_batched, strict=True)
    ]
    return bind(matching_p, tuple(both))


# LAPACK computes eigenvalues with another algorithm if there are no vectors, maybe in another
# order.
matching_p = Primitive(
    "matching",
    eval=_matching_eval,
    aval=lambda wanted, values: ShapeDtype(wanted.shape, np.intp),
    jvp=ZERO,
    transpose=absent(
        because="positions are integers and have no derivative",
        instead="leave them out of the derivative",
    ),
    batch=_matching_batch,
)
"""Position of each value in a permutation of the values."""
