"""Sparse matrices from others, also traced: ``kron``, ``hstack``, ``vstack``, ``block_diag``.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from functrace.errors import ShapeError
from functrace.numpy.protocol.operands import holds_tracer
from functrace.scipy.kinds import Given
from functrace.scipy.sparse.matrices import Sparse, csr_array, from_coordinates, of


def _is_traced(*parts: object) -> bool:
    return any(isinstance(x, Sparse) or holds_tracer(x) for x in parts)


def _part(x: Given) -> Sparse:
    if isinstance(x, Sparse) or scipy.sparse.issparse(x):
        return of(x)
    rows: Any = csr_array
    return of(rows(x if holds_tracer(x) else np.atleast_2d(np.asarray(x))))


def kron(A: object, B: object, format: str | None = None) -> Any:
    """Kronecker product of two matrices, like ``scipy.sparse.kron``.

    Args:
        A, B: sparse or dense matrices, shapes (m, n) and (p, q), whose elements may be traced.
        format: format of the result, if all are plain; matrices with traced elements have only one.

    Returns:
        a sparse matrix, shape (m p, n q): SciPy's if all are plain, otherwise a `Sparse`.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> sparse.kron(sparse.csr_array(np.eye(2)), sparse.csr_array(np.ones((1, 2)))).toarray()
        array([[1., 1., 0., 0.],
               [0., 0., 1., 1.]])
    """
    if not _is_traced(A, B):
        return scipy.sparse.kron(A, B, format)
    a, b = _part(A), _part(B)
    (r0, c0), (r1, c1) = a.coordinates(), b.coordinates()
    rows, columns = (r0[:, None] * b.shape[0] + r1).ravel(), (c0[:, None] * b.shape[1] + c1).ravel()
    data = np.reshape(a.data[:, None] * b.data, (len(rows),))
    return from_coordinates(
        data, rows, columns, (a.shape[0] * b.shape[0], a.shape[1] * b.shape[1]), _is_matrix(A, B)
    )


def _is_matrix(*parts: object) -> bool:
    """Return True if SciPy makes a ``…_matrix`` of these: none of them is a sparse array."""
    return not any(
        isinstance(x, scipy.sparse.sparray) or (isinstance(x, Sparse) and not x.is_matrix)
        for x in parts
    )


def _placed(name: str, parts: Sequence[Any], down: bool, across: bool) -> Any:
    """Stack matrices vertically (``down``), horizontally (``across``), or diagonally."""
    made = [_part(x) for x in parts]
    if not (down and across) and len({x.shape[1 if down else 0] for x in made}) > 1:
        raise ShapeError(
            f"scipy.sparse.{name}: matrices of shapes {', '.join(str(x.shape) for x in made)} do "
            "not fit",
            fix=f"pass matrices with as many {'columns' if down else 'rows'}",
        )
    rows: list[Any] = []
    columns: list[Any] = []
    r, c = 0, 0
    for x in made:
        row, column = x.coordinates()
        rows.append(row + r)
        columns.append(column + c)
        r, c = r + down * x.shape[0], c + across * x.shape[1]
    shape = (r if down else made[0].shape[0], c if across else made[0].shape[1])
    data = np.concatenate([x.data for x in made])
    return from_coordinates(
        data, np.concatenate(rows), np.concatenate(columns), shape, _is_matrix(*parts)
    )


def vstack(blocks: Sequence[Given], format: str | None = None, dtype: Given = None) -> Any:
    """Stack matrices vertically, like ``scipy.sparse.vstack``.

    Args:
        blocks: sparse or dense matrices, shapes (m_i, n), whose elements may be traced.
        format: format of the result, if all are plain; matrices with traced elements have only one.
        dtype: dtype of the elements; the common one by default.

    Returns:
        a sparse matrix, shape (sum of m_i, n): SciPy's if all are plain, otherwise a `Sparse`.

    Raises:
        ShapeError: if they have different numbers of columns.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> sparse.vstack([sparse.csr_array(np.eye(2)), sparse.csr_array(np.ones((1, 2)))]).toarray()
        array([[1., 0.],
               [0., 1.],
               [1., 1.]])
    """
    if not _is_traced(*blocks):
        return scipy.sparse.vstack(blocks, format, dtype)
    made = _placed("vstack", blocks, True, False)
    return made if dtype is None else made.astype(dtype)


def hstack(blocks: Sequence[Given], format: str | None = None, dtype: Given = None) -> Any:
    """Stack matrices horizontally, like ``scipy.sparse.hstack``.

    Args:
        blocks: sparse or dense matrices, shapes (m, n_i), whose elements may be traced.
        format: format of the result, if all are plain; matrices with traced elements have only one.
        dtype: dtype of the elements; the common one by default.

    Returns:
        a sparse matrix, shape (m, sum of n_i): SciPy's if all are plain, otherwise a `Sparse`.

    Raises:
        ShapeError: if they have different numbers of rows.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> sparse.hstack([sparse.csr_array(np.eye(2)), sparse.csr_array(np.ones((2, 1)))]).toarray()
        array([[1., 0., 1.],
               [0., 1., 1.]])
    """
    if not _is_traced(*blocks):
        return scipy.sparse.hstack(blocks, format, dtype)
    made = _placed("hstack", blocks, False, True)
    return made if dtype is None else made.astype(dtype)


def block_diag(mats: Sequence[Given], format: str | None = None, dtype: Given = None) -> Any:
    """Matrix with matrices on its diagonal, like ``scipy.sparse.block_diag``.

    Args:
        mats: sparse or dense matrices, shapes (m_i, n_i), whose elements may be traced.
        format: format of the result, if all are plain; matrices with traced elements have only one.
        dtype: dtype of the elements; the common one by default.

    Returns:
        a sparse matrix, shape (sum of m_i, sum of n_i): SciPy's if all are plain, otherwise a
        `Sparse`.

    Raises:
        ShapeError: if a sparse array among them has another number of axes than two.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> sparse.block_diag([np.eye(1), 2.0 * np.eye(2)]).toarray()
        array([[1., 0., 0.],
               [0., 2., 0.],
               [0., 0., 2.]])
    """
    if not _is_traced(*mats):
        return scipy.sparse.block_diag(mats, format, dtype)
    made = _placed("block_diag", mats, True, True)
    return made if dtype is None else made.astype(dtype)


_functions: list[Any] = [kron, vstack, hstack, block_diag]
for _function in _functions:
    _function.of_scipy = getattr(scipy.sparse, _function.__name__)  # as `on_traced` does
