"""Sparse matrices as pytree nodes: transforms take and return them; the elements are the leaf.

A `Sparse` that leaves a transform with plain elements becomes one of SciPy's, as the function returns
it without the transform. Elements of another shape, such as those of a batch, are `SparseElements`.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import scipy.sparse

from functrace.errors import UnsupportedFunctionError
from functrace.ops.sparse import Pattern
from functrace.scipy.sparse.matrices import NoMethodError, Sparse, of
from functrace.tracing.tracer import Tracer
from functrace.tree.nodes import register
from functrace.typing import Array

FIX = "A.data holds the elements, A.with_data(data) makes the matrix of one vector of elements"
UNKNOWN = np.dtype(np.float16)
"""The dtype of floating-point numbers that SciPy's sparse arrays do not have."""


@final
class Layout:
    """The pattern and form of a sparse matrix: the static part of a pytree node.

    Args:
        pattern: columns, row offsets, and rows of the elements.
        shape: shape of the matrix, before transposition.
        turned: True if it is transposed.
        is_matrix: True for a ``…_matrix``.
        format: SciPy's name of the format.
    """

    __slots__ = ("_form", "pattern")

    def __init__(
        self,
        pattern: Pattern,
        shape: tuple[int, int],
        turned: bool,
        is_matrix: bool,
        format: str,
    ) -> None:
        format = format or ("csc" if turned else "csr")
        self.pattern, self._form = pattern, (shape, turned, is_matrix, format)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Layout)
            and self._form == other._form
            and all(
                a is b or np.array_equal(a, b)
                for a, b in zip(self.pattern, other.pattern, strict=True)
            )
        )

    def __hash__(self) -> int:
        return hash((self._form, len(self.pattern[0])))

    def __repr__(self) -> str:
        (rows, columns), turned, _, _ = self._form
        shape = (columns, rows) if turned else (rows, columns)
        return f"{shape[0]} x {shape[1]}, {len(self.pattern[0])} elements"

    def of(self, data: Array | Tracer) -> Sparse:
        """Return the matrix with some elements."""
        shape, turned, is_matrix, format = self._form
        elements: Any = data
        return Sparse(elements, self.pattern, shape, turned, is_matrix, format)


@final
class SparseElements:
    """Elements of sparse matrices with one pattern, as a transform returns them.

    Args:
        data: the elements; those of a batch have the shape (batch, nz).
        layout: the pattern.

    Example:
        >>> import numpy as np, functrace as ft
        >>> jacobian = ft.sparse_jacobian(lambda x: x[1:] * x[:-1])
        >>> batch = ft.vmap(jacobian)(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
        >>> batch.data.shape
        (2, 4)
        >>> batch.with_data(batch.data[0]).toarray()
        array([[2., 1., 0.],
               [0., 3., 2.]])
    """

    __slots__ = ("data", "layout")

    def __init__(self, data: Array, layout: Layout) -> None:
        self.data, self.layout = data, layout

    def with_data(self, data: Array) -> Any:
        """Return the matrix with some elements in these positions.

        Args:
            data: the elements, shape (nz,).

        Returns:
            one of SciPy's sparse arrays; a `Sparse` for traced elements.
        """
        return rebuilt(self.layout, (data,))

    def __repr__(self) -> str:
        return f"SparseElements({self.layout!r}; data: {self.data!r})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(scipy.sparse.csr_matrix, name):
            raise AttributeError(
                f"'SparseElements' object has no attribute {name!r}", name=name, obj=self
            )
        raise NoMethodError(f"elements of sparse matrices have no {name}", fix=FIX)

    def _refused(self, *_args: object, **_kwargs: object) -> Any:
        raise UnsupportedFunctionError("elements of sparse matrices are no matrix", fix=FIX)

    __array_ufunc__ = __array__ = __matmul__ = __rmatmul__ = __getitem__ = __len__ = _refused
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = __iter__ = _refused


def _layout(matrix: Sparse) -> Layout:
    return Layout(matrix.pattern, matrix.whole, matrix.turned, matrix.is_matrix, matrix.kept_format)


def rebuilt(layout: Layout, children: Sequence[Any]) -> Any:
    """Return the matrix with some elements: SciPy's, `Sparse` or `SparseElements`."""
    (data,) = children
    count = len(layout.pattern[0])
    if isinstance(data, Tracer):
        elements: Any = data
        return layout.of(data) if elements.shape == (count,) else SparseElements(elements, layout)
    elements = data
    if not isinstance(data, np.ndarray) or elements.shape != (count,):
        return SparseElements(elements, layout)
    return as_scipy(layout.of(elements))


def as_scipy(matrix: Sparse) -> Any:
    """Return a matrix with plain elements as SciPy's; itself for float16, which SciPy's have not."""
    if matrix.dtype == UNKNOWN:
        return matrix
    columns, starts, _ = matrix.pattern
    kind = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
    csr = scipy.sparse.csr_matrix if matrix.is_matrix else scipy.sparse.csr_array
    made = csr((matrix.data, columns.astype(kind), starts.astype(kind)), shape=matrix.whole)
    made = made.T if matrix.turned else made
    name: Any = matrix.kept_format or ("csc" if matrix.turned else "csr")
    return made.asformat(name)


def as_node(matrix: scipy.sparse.spmatrix | scipy.sparse.sparray) -> Sparse:
    """Return a matrix of SciPy's as a `Sparse` of the same format; the inverse of `as_scipy`."""
    if matrix.format == "csc":
        turned = of(matrix.T).T
        turned.kept_format = "csc"
        return turned
    made = of(matrix)
    made.kept_format = matrix.format
    return made


register(Sparse, lambda matrix: ((matrix.data,), _layout(matrix)), rebuilt)
register(SparseElements, lambda found: ((found.data,), found.layout), rebuilt)
