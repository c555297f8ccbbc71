"""Structured matrices from vectors (Toeplitz, circulant, companion …), products and solves.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from functrace.errors import ShapeError
from functrace.numpy.protocol.operands import arrayed
from functrace.scipy.dispatch import on_traced
from functrace.scipy.kinds import np_linalg
from functrace.scipy.linalg.dense import right_sides, together
from functrace.scipy.operands import Inexact, Nested, Numeric, Operand, Shaped, X
from functrace.typing import Array


@on_traced(scipy.linalg.toeplitz)
def toeplitz(
    c: Shaped[X, "*#b m"] | Nested, r: Shaped[X, "*#b n"] | Nested | None = None
) -> Shaped[Array, "*b m n"]:
    """Toeplitz matrix, with constant diagonals, from its first column and its first row, like
    ``scipy.linalg.toeplitz``.

    Args:
        c: the first column, shape (..., m).
        r: the first row, shape (..., n), whose first element is not read; the conjugate of c by
            default.

    Returns:
        the matrix, shape (..., m, n), in the common dtype of c and r.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> ft.jit(linalg.toeplitz)(np.array([1.0, 2.0, 3.0]))
        array([[1., 2., 3.],
               [2., 1., 2.],
               [3., 2., 1.]])
    """
    column: Any = arrayed(c)
    row: Any = np.conj(column) if r is None else arrayed(r)
    m: int = column.shape[-1]
    n: int = row.shape[-1]
    stack = np.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    column, row = np.broadcast_to(column, (*stack, m)), np.broadcast_to(row, (*stack, n))
    values = np.concatenate([column[..., ::-1], row[..., 1:]], axis=-1)
    return np.take(values, np.arange(m)[::-1, None] + np.arange(n), axis=-1)


@on_traced(scipy.linalg.block_diag)
def block_diag(*arrs: Shaped[X, "..."] | Nested) -> Shaped[Array, "*b m n"]:
    """Block diagonal matrix, like ``scipy.linalg.block_diag``; vectors are rows, and stacks
    broadcast.

    Args:
        arrs: the blocks, shapes (..., m_i, n_i), (n_i,) for one row, or () for one element.

    Returns:
        the matrix, shape (..., sum of m_i, sum of n_i), in the common dtype of the blocks.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> ft.jit(linalg.block_diag)(np.eye(1), 2.0 * np.eye(2))
        array([[1., 0., 0.],
               [0., 2., 0.],
               [0., 0., 2.]])
    """
    blocks: list[Any] = [np.atleast_2d(arrayed(x)) for x in arrs]
    stack = np.broadcast_shapes(*[x.shape[:-2] for x in blocks])
    width = sum(x.shape[-1] for x in blocks)
    rows: list[Any] = []
    before = 0
    for x in blocks:
        x = np.broadcast_to(x, (*stack, *x.shape[-2:]))
        sides = (before, width - before - x.shape[-1])
        rows.append(np.pad(x, [*[(0, 0)] * (x.ndim - 1), sides]))
        before += x.shape[-1]
    return np.concatenate(rows, axis=-2)


@on_traced(scipy.linalg.circulant)
def circulant(c: Shaped[X, "*b n"] | Nested) -> Shaped[Array, "*b n n"]:
    """Circulant matrix, like ``scipy.linalg.circulant``: each column is the one before, rotated by
    one.

    Args:
        c: the first column, shape (..., n).

    Returns:
        the matrix, shape (..., n, n), in the dtype of c.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> ft.jit(linalg.circulant)(np.arange(3.0))
        array([[0., 2., 1.],
               [1., 0., 2.],
               [2., 1., 0.]])
    """
    column: Any = arrayed(c)
    n: int = column.shape[-1]
    return np.take(column, (np.arange(n)[:, None] - np.arange(n)) % n, axis=-1)


@on_traced(scipy.linalg.hankel)
def hankel(
    c: Shaped[X, "*#b m"] | Nested, r: Shaped[X, "*#b n"] | Nested | None = None
) -> Shaped[Array, "*b m n"]:
    """Hankel matrix, with constant anti-diagonals, from its first column and its last row, like
    ``scipy.linalg.hankel``.

    Args:
        c: the first column, shape (..., m).
        r: the last row, shape (..., n), whose first element is not read; zeros by default.

    Returns:
        the matrix, shape (..., m, n), in the common dtype of c and r.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> ft.jit(linalg.hankel)(np.array([1.0, 2.0, 3.0]))
        array([[1., 2., 3.],
               [2., 3., 0.],
               [3., 0., 0.]])
    """
    column: Any = arrayed(c)
    row: Any = np.zeros_like(column) if r is None else arrayed(r)
    m: int = column.shape[-1]
    n: int = row.shape[-1]
    stack = np.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    column, row = np.broadcast_to(column, (*stack, m)), np.broadcast_to(row, (*stack, n))
    values = np.concatenate([column, row[..., 1:]], axis=-1)
    return np.take(values, np.arange(m)[:, None] + np.arange(n), axis=-1)


@on_traced(scipy.linalg.companion)
def companion(a: Numeric[X, "*b n"] | Nested) -> Numeric[Array, "*b m m"]:
    """Companion matrix of a polynomial, like ``scipy.linalg.companion``: the polynomial is its
    characteristic polynomial, up to a factor.

    Args:
        a: coefficients, the highest power first, shape (..., n); the first one is not 0.

    Returns:
        the matrix, shape (..., n - 1, n - 1), in the dtype of a, integers as float64.

    Raises:
        ShapeError: if there are fewer than two coefficients.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> ft.jit(linalg.companion)(np.array([1.0, -3.0, 2.0]))
        array([[ 3., -2.],
               [ 1.,  0.]])
    """
    coefficients: Any = arrayed(a)
    n = coefficients.shape[-1]
    if n < 2:
        raise ShapeError(
            "The length of `a` along the last axis must be at least 2.",
            fix="pass two coefficients or more",
        )
    first = -coefficients[..., 1:] / coefficients[..., :1]
    rest = np.broadcast_to(
        np.eye(n - 2, n - 1, dtype=first.dtype), (*first.shape[:-1], n - 2, n - 1)
    )
    return np.concatenate([first[..., None, :], rest], axis=-2)


@on_traced(scipy.linalg.fiedler)
def fiedler(a: Numeric[X, "*b n"] | Nested) -> Numeric[Array, "*b n n"]:
    """Absolute differences of all pairs of elements, like ``scipy.linalg.fiedler``.

    Args:
        a: numbers, shape (..., n).

    Returns:
        the symmetric matrix ``abs(a[i] - a[j])``, shape (..., n, n), in the real dtype of a.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> ft.jit(linalg.fiedler)(np.array([1.0, 3.0, 4.0]))
        array([[0., 2., 3.],
               [2., 0., 1.],
               [3., 1., 0.]])
    """
    values: Any = arrayed(a)
    return np.abs(values[..., :, None] - values[..., None, :])


@on_traced(scipy.linalg.leslie)
def leslie(
    f: Numeric[X, "*#b n"] | Nested, s: Numeric[X, "*#b m"] | Nested
) -> Numeric[Array, "*b n n"]:
    """Leslie matrix of a population, like ``scipy.linalg.leslie``: births in the first row,
    survivors below the diagonal.

    Args:
        f: births of each age, shape (..., n).
        s: fraction of each age but the last that survives, shape (..., n - 1).

    Returns:
        the matrix, shape (..., n, n), in the common dtype of f and s.

    Raises:
        ShapeError: if s is not one shorter than f.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> ft.jit(linalg.leslie)(np.array([0.1, 2.0]), np.array([0.5]))
        array([[0.1, 2. ],
               [0.5, 0. ]])
    """
    births, survivors = together(arrayed(f), arrayed(s))
    n = births.shape[-1]
    if survivors.shape[-1] != n - 1:
        raise ShapeError(
            f"leslie of {n} births takes {n - 1} survivors, got {survivors.shape[-1]}",
            fix="pass one less",
        )
    stack = np.broadcast_shapes(births.shape[:-1], survivors.shape[:-1])
    below = survivors[..., :, None] * np.eye(n - 1, n, dtype=births.dtype)
    rows = (
        np.broadcast_to(births[..., None, :], (*stack, 1, n)),
        np.broadcast_to(below, (*stack, n - 1, n)),
    )
    return np.concatenate(rows, axis=-2)


@on_traced(scipy.linalg.convolution_matrix)
def convolution_matrix(
    a: Numeric[X, "*b m"] | Nested, n: int, mode: str = "full"
) -> Numeric[Array, "*b k {n}"]:
    """Matrix that convolves a vector of n elements with ``a``, like
    ``scipy.linalg.convolution_matrix``.

    Args:
        a: the kernel, shape (..., m).
        n: number of columns.
        mode: "full" for all places where the kernel and the vector overlap, "same" for as many as
            the longer one has, "valid" for those with complete overlap.

    Returns:
        the matrix, in the dtype of a: shape (..., k, n) with k = m + n - 1 for "full", max(m, n)
            for "same", and max(m, n) - min(m, n) + 1 for "valid".

    Raises:
        ShapeError: if mode is none of these.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> ft.jit(lambda a: linalg.convolution_matrix(a, 2))(np.array([1.0, 2.0]))
        array([[1., 0.],
               [2., 1.],
               [0., 2.]])
    """
    values: Any = arrayed(a)
    if mode not in ("full", "valid", "same"):
        raise ShapeError(
            "'mode' argument must be one of ('full', 'valid', 'same')",
            fix="leave it out for 'full'",
        )
    m: int = values.shape[-1]
    height, width = m + n - 1, n
    place = np.arange(height)[:, None] - np.arange(width)
    whole = np.where(
        (place >= 0) & (place < m), np.take(values, np.clip(place, 0, m - 1), axis=-1), 0
    )
    if mode == "full":
        return whole
    trim = min(n, m) - 1
    first, last = (trim, trim) if mode == "valid" else ((trim + 1) // 2, trim - (trim + 1) // 2)
    if mode == "same":
        first, last = trim // 2, trim - trim // 2
    return whole[..., first : height - last, :]


@on_traced(scipy.linalg.khatri_rao)
def khatri_rao(
    a: Numeric[X, "*#b m k"] | Nested, b: Numeric[X, "*#b n k"] | Nested
) -> Numeric[Array, "*b r k"]:
    """Kronecker products column by column, like ``scipy.linalg.khatri_rao``.

    Args:
        a: shape (..., m, k).
        b: shape (..., n, k).

    Returns:
        the products, shape (..., m n, k), in the common dtype of a and b.

    Raises:
        ShapeError: if the numbers of columns differ.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> ft.jit(linalg.khatri_rao)(np.eye(2), np.ones((1, 2)))
        array([[1., 0.],
               [0., 1.]])
    """
    x, y = (np.atleast_2d(arrayed(v)) for v in (a, b))
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            "The number of columns for both arrays should be equal.",
            fix="pass shapes (m, k) and (n, k)",
        )
    product = x[..., :, None, :] * y[..., None, :, :]
    return product.reshape(*product.shape[:-3], -1, product.shape[-1])


# -- solving and multiplying -----------------------------------------------------------------------


def _first_row(c_or_cr: Operand) -> tuple[Any, Any]:
    column, row = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    column = np.ravel(arrayed(column))
    return column, np.conj(column) if row is None else np.ravel(arrayed(row))


@on_traced(scipy.linalg.solve_toeplitz)
def solve_toeplitz(
    c_or_cr: Numeric[X, "n"] | Nested,
    b: Numeric[X, "n"] | Numeric[X, "*b n k"] | Nested,
    check_finite: bool = True,
) -> Inexact[Array, "*b n"] | Inexact[Array, "*b n k"]:
    """Solve a Toeplitz system, like ``scipy.linalg.solve_toeplitz``, by LU of the matrix: n**3
    flops, where Levinson's recursion has n**2.

    Args:
        c_or_cr: the first column, shape (n,), or a tuple of it and the first row, shape (n,), which
            is the conjugate of the column by default.
        b: right-hand sides, shape (n,) for one, (..., n, k) for k columns.
        check_finite: accepted for SciPy's signature; it has no effect on traced values.

    Returns:
        the solution, shape (n,) for a vector b and (..., n, k) for columns; in the common dtype of
        the arguments, integers as float64.

    Raises:
        ShapeError: if shapes do not fit.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> column = np.array([2.0, 1.0])
        >>> np.round(ft.grad(lambda x: np.sum(linalg.solve_toeplitz(column, x)))(np.array([1.0, 2.0])), 4)
        array([0.3333, 0.3333])
    """
    columns, is_vector = right_sides(b)
    matrix, columns = together(toeplitz(*_first_row(c_or_cr)), columns)
    x = np_linalg.solve(matrix, columns)
    return x[..., 0] if is_vector else x


@on_traced(scipy.linalg.matmul_toeplitz)
def matmul_toeplitz(
    c_or_cr: Numeric[X, "m"] | Nested,
    x: Numeric[X, "n *k"] | Nested,
    check_finite: bool = False,
    workers: int | None = None,
) -> Numeric[Array, "m *k"]:
    """Product with a Toeplitz matrix, like ``scipy.linalg.matmul_toeplitz``, by FFT of length m + n
    - 1.

    Args:
        c_or_cr: the first column, shape (m,), or a tuple of it and the first row, shape (n,), which
            is the conjugate of the column by default.
        x: what the matrix multiplies, shape (n, ...).
        check_finite, workers: accepted for SciPy's signature; they have no effect on traced values.

    Returns:
        the product, shape (m, ...), floating or complex.

    Raises:
        ShapeError: if x does not have n rows.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> np.round(ft.jit(linalg.matmul_toeplitz)(np.array([1.0, 2.0]), np.array([1.0, 2.0])), 4)
        array([5., 4.])
    """
    column, row = _first_row(c_or_cr)
    at: Any = arrayed(x)
    columns = at.reshape(at.shape[0], -1)
    m, n = column.shape[0], row.shape[0]
    if columns.shape[0] != n:
        raise ShapeError(
            f"matmul_toeplitz of {n} columns and {columns.shape[0]} rows",
            fix="pass x of shape (n, ...)",
        )
    ring = np.concatenate([column, row[:0:-1]])
    dtype = np.result_type(ring.dtype, columns.dtype)
    ring, columns = ring.astype(dtype), columns.astype(dtype)
    if dtype.kind == "c":
        found = np.fft.ifft(
            np.fft.fft(ring)[:, None] * np.fft.fft(columns, n=m + n - 1, axis=0), axis=0
        )[:m]
    else:
        spectrum = np.fft.rfft(ring)[:, None] * np.fft.rfft(columns, n=m + n - 1, axis=0)
        found = np.fft.irfft(spectrum, n=m + n - 1, axis=0)[:m]
    return found.reshape(m, *at.shape[1:])


@on_traced(scipy.linalg.solve_circulant)
def solve_circulant(
    c: Numeric[X, "..."] | Nested,
    b: Numeric[X, "..."] | Nested,
    singular: str = "raise",
    tol: float | None = None,
    caxis: int = -1,
    baxis: int = 0,
    outaxis: int = 0,
) -> Numeric[Array, "..."]:
    """Solve a regular circulant system by FFT, like ``scipy.linalg.solve_circulant`` with
    ``singular="raise"``.

    Args:
        c: first columns of circulant matrices, of n elements along caxis.
        b: right-hand sides, of n elements along baxis.
        singular: "raise"; a singular matrix is not detected, and divides by 0.
        tol: accepted for SciPy's signature; it has no effect on traced values.
        caxis: the axis of c with the elements of a column.
        baxis: the axis of b with the elements of a right-hand side.
        outaxis: the axis of the result with the elements of a solution.

    Returns:
        solutions, of n elements along outaxis; the other axes of c and b broadcast. Real if c and b
        are, otherwise complex.

    Raises:
        ShapeError: if singular="lstsq", which depends on which eigenvalues are 0, or shapes do not
            fit.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> column = np.array([2.0, 1.0])
        >>> np.round(ft.grad(lambda x: np.sum(linalg.solve_circulant(column, x)))(np.array([1.0, 2.0])), 4)
        array([0.3333, 0.3333])
    """
    if singular != "raise":
        raise ShapeError(
            "solve_circulant of traced values takes singular='raise' only",
            fix="use circulant and pinv",
        )
    ring, right = np.atleast_1d(arrayed(c)), np.atleast_1d(arrayed(b))
    if ring.shape[caxis] != right.shape[baxis]:
        raise ShapeError(
            f"Shapes of c {ring.shape} and b {right.shape} are incompatible",
            fix="make both as long",
        )
    spectrum = np.fft.fft(np.moveaxis(ring, caxis, -1), axis=-1)
    found = np.fft.ifft(np.fft.fft(np.moveaxis(right, baxis, -1), axis=-1) / spectrum, axis=-1)
    is_real = ring.dtype.kind != "c" and right.dtype.kind != "c"
    return np.moveaxis(np.real(found) if is_real else found, -1, outaxis)
