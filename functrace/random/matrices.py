"""Distributions of vectors and matrices: correlated normal vectors, and orthogonal matrices.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, SupportsIndex

import numpy as np
from jaxtyping import UInt64

from functrace.errors import ArgumentError, ShapeError
from functrace.ir.aval import shape_of
from functrace.random.arguments import (
    DtypeLike,
    Float,
    Inexact,
    Nested,
    Real,
    ShapeLike,
    X,
    float_dtype,
    joint_shape,
    parameter,
    sizes,
)
from functrace.random.continuous import normal
from functrace.random.keys import one_key
from functrace.typing import Array

_cholesky: Callable[[Any], Any] = np.linalg.cholesky  # whose own type says nothing about `Any`


def multivariate_normal(
    key: UInt64[X, "2"],
    mean: Real[X, "*#shape n"] | Nested,
    cov: Real[X, "*#shape n n"] | Nested,
    shape: ShapeLike | None = None,
    dtype: DtypeLike = None,
    method: Literal["cholesky", "eigh", "svd"] = "cholesky",
) -> Float[Array, "*shape n"]:
    """Draw normal vectors with a mean and a covariance, differentiable by both.

    Args:
        key: uint64, shape (2,).
        mean: shape (…, n).
        cov: shape (…, n, n), symmetric and positive definite (for ``eigh`` and ``svd``,
            semidefinite).
        shape: shape of the result without its last axis; by default the broadcast shape of the
            other axes of mean and covariance.
        dtype: dtype of the result, float64 by default.
        method: factorization of the covariance.

    Returns:
        an array of shape (*shape, n).

    Raises:
        LinAlgError: if the covariance is not positive definite, with ``cholesky``.
        ArgumentError: if ``method`` is not one of the three.
        ShapeError: if mean, covariance and shape do not fit.
        DtypeError: if ``key`` is not a key, or ``dtype`` not supported.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> multivariate_normal(ft.random.key(0), np.zeros(2), np.array([[1.0, 0.5], [0.5, 1.0]]))
        array([-0.20597403, -0.21457001])

    Cost:
        one factorization of the covariance, n**3 / 3 flops by ``cholesky``, and a product per
        vector.
    """
    name = "multivariate_normal"
    dtype = float_dtype(dtype, name)
    middle, matrix = parameter(mean, dtype, name), parameter(cov, dtype, name)
    if not shape_of(middle) or shape_of(matrix)[-2:] != shape_of(middle)[-1:] * 2:
        raise ShapeError(
            f"random.{name}: a mean of shape {shape_of(middle)} and a covariance of shape "
            f"{shape_of(matrix)}",
            fix="pass (…, n) and (…, n, n)",
        )
    stack = joint_shape(name, shape, shape_of(middle)[:-1], shape_of(matrix)[:-2])
    drawn = normal(one_key(key, name), (*stack, *shape_of(middle)[-1:]), dtype)
    if method == "cholesky":
        factor = _cholesky(matrix)
    elif method == "eigh":
        values, vectors = np.linalg.eigh(matrix)
        factor = vectors * np.sqrt(values)[..., None, :]
    elif method == "svd":
        vectors, values, _ = np.linalg.svd(matrix)
        factor = vectors * np.sqrt(values)[..., None, :]
    else:
        raise ArgumentError(
            f"random.{name}: method {method!r} is unknown", fix="pass 'cholesky', 'eigh' or 'svd'"
        )
    return middle + np.matmul(factor, drawn[..., None])[..., 0]


def orthogonal(
    key: UInt64[X, "2"],
    n: SupportsIndex,
    shape: ShapeLike = (),
    dtype: DtypeLike = None,
    m: SupportsIndex | None = None,
) -> Inexact[Array, "*shape {n} m"]:
    """Draw orthogonal (unitary) matrices, uniformly distributed.

    Args:
        key: uint64, shape (2,).
        n: number of rows.
        shape: shape of the stack of matrices.
        dtype: float or complex; float64 by default.
        m: number of columns, ``n`` by default. Otherwise the columns are orthonormal, or the rows,
            if these are fewer.

    Returns:
        an array of shape (*shape, n, m).

    Raises:
        DtypeError, ShapeError: if ``key`` is not a key, ``dtype`` not supported, or parameters do
            not fit.

    Example:
        >>> import functrace as ft
        >>> ft.random.orthogonal(ft.random.key(0), 2).round(4)
        array([[-0.5793,  0.8151],
               [-0.8151, -0.5793]])

    Cost:
        a QR factorization per matrix.

    Source:
        Mezzadri, "How to generate random matrices from the classical compact groups" (2007).
    """
    dtype = float_dtype(dtype, "orthogonal", "fc")
    (rows,) = sizes(n, "orthogonal")
    (columns,) = (rows,) if m is None else sizes(m, "orthogonal")
    most, least = max(rows, columns), min(rows, columns)
    q, r = np.linalg.qr(
        normal(one_key(key, "orthogonal"), (*sizes(shape, "orthogonal"), most, least), dtype)
    )
    turns = np.diagonal(r, axis1=-2, axis2=-1)
    q = q * (turns / np.abs(turns))[..., None, :]
    return np.swapaxes(q, -1, -2) if rows < columns else q
