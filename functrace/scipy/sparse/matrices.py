"""Sparse matrices with traced elements, and SciPy's own that take traced operands; see
`functrace.scipy.sparse`.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
import scipy.sparse

from functrace.errors import AxisError, ShapeError, UnsupportedFunctionError
from functrace.numpy.protocol.operands import HasOperators, Operand, arrayed, holds_tracer
from functrace.ops.indexing import ARRAY, gather, scatter_add
from functrace.ops.sparse import Pattern, sparse_matmul
from functrace.scipy.kinds import Given
from functrace.tracing.tracer import Tracer
from functrace.typing import Array

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_NAMED = "scipy.sparse: a matrix A with traced elements has no"
_FIX = "pass (data, indices, indptr), or (data, (row, column)) for coo, with plain positions and traced data"


class NoMethodError(UnsupportedFunctionError, AttributeError):
    """Error for a method of SciPy's matrices that matrices with traced elements do not have."""


def _refused(method: str, shown: str, fix: str) -> Any:
    """Return an operator method that raises, as matrices with traced elements do not support it."""

    def refuse(*_args: object, **_kwargs: object) -> Any:
        raise UnsupportedFunctionError(f"{_NAMED} {shown}", fix=fix)

    refuse.__name__ = method
    return refuse


_REFLECTED: dict[np.ufunc, str] = {
    np.add: "__radd__", np.subtract: "__rsub__", np.multiply: "__rmul__", np.matmul: "__rmatmul__",
}  # fmt: skip
"""Reflected operator method of each ufunc, for NumPy arrays on the left of a sparse matrix."""


def _from_operator(
    self: HasOperators,
    ufunc: np.ufunc,
    method: str,
    inputs: Sequence[Any],
    kwargs: Mapping[str, object],
) -> Any:
    """Return the reflected method if an operator of a NumPy array called the ufunc."""
    if method != "__call__" or kwargs or ufunc not in _REFLECTED or inputs[-1] is not self:
        return None
    other = inputs[0]
    return (
        None
        if isinstance(other, HasOperators) or scipy.sparse.issparse(other)
        else getattr(self, _REFLECTED[ufunc])
    )


@final
class Sparse(HasOperators):
    """A sparse matrix with a plain pattern, whose elements may be traced.

    Args:
        data: elements, shape (nz,); duplicates are added.
        pattern: columns, row offsets, and rows of the elements.
        shape: shape of the matrix, before transposition.
        turned: True if it is transposed.
        is_matrix: True for a ``…_matrix``, for which ``*`` is the matrix product.
        kept_format: SciPy's name of the format in which transforms return it; by default csr, or
            csc if it is transposed.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> positions = np.array([0, 1, 1]), np.array([0, 0, 1])
        >>> def total(data):
        ...     a = sparse.coo_array((data, positions), shape=(2, 2))
        ...     return np.sum(a @ np.array([1.0, 10.0]))
        >>> ft.grad(total)(np.array([2.0, 1.0, 3.0]))
        array([ 1.,  1., 10.])
    """

    __slots__ = ("data", "is_matrix", "kept_format", "pattern", "turned", "whole")

    def __init__(
        self,
        data: Array,
        pattern: Pattern,
        shape: tuple[int, int],
        turned: bool = False,
        is_matrix: bool = False,
        kept_format: str = "",
    ) -> None:
        self.data, self.pattern, self.whole = data, pattern, shape
        self.turned, self.is_matrix, self.kept_format = turned, is_matrix, kept_format

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(scipy.sparse.csr_matrix, name):
            raise AttributeError(f"'Sparse' object has no attribute {name!r}", name=name, obj=self)
        raise NoMethodError(
            f"scipy.sparse: a matrix with traced elements has no {name}",
            fix="use A.toarray() and NumPy's function of that; or compute with A.data, and make "
            "the matrix of the result",
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.whole
        return (columns, rows) if self.turned else (rows, columns)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """Two."""
        return 2

    @property
    def nnz(self) -> int:
        """Number of stored elements."""
        return self.data.shape[0]

    @property
    def T(self) -> Sparse:
        """The transpose, with the same elements."""
        return Sparse(self.data, self.pattern, self.whole, not self.turned, self.is_matrix)

    def __repr__(self) -> str:
        return f"Sparse({self.shape[0]} x {self.shape[1]}, {self.nnz} elements of {self.dtype})"

    def transpose(self) -> Sparse:
        """Return the transpose, with the same elements."""
        return self.T

    def conj(self) -> Sparse:
        """Return the complex conjugate."""
        return self.with_data(np.conj(self.data))

    def with_data(self, data: Array) -> Sparse:
        """Return the matrix with other elements in the same positions.

        Args:
            data: the elements, shape (nz,).
        """
        return Sparse(data, self.pattern, self.whole, self.turned, self.is_matrix, self.kept_format)

    def astype(self, dtype: DTypeLike) -> Sparse:
        """Return the matrix with elements of another dtype.

        Args:
            dtype: the dtype.
        """
        return self.with_data(self.data.astype(dtype))

    def copy(self) -> Sparse:
        """Return a matrix with the same elements."""
        return self.with_data(self.data.copy())

    def tocsr(self) -> Sparse:
        """Return the matrix with elements in row order, duplicates added."""
        (row, column), size = self.coordinates(), self.shape[1]
        places, which = np.unique(row * size + column, return_inverse=True)
        if not self.turned and np.array_equal(which, np.arange(self.nnz)):
            return self
        data = scatter_add(self.data, (ARRAY,), (which,), (len(places),))
        return from_coordinates(data, places // size, places % size, self.shape, self.is_matrix)

    def tocsc(self) -> Sparse:
        """Return the matrix with elements in column order, duplicates added."""
        return self.T.tocsr().T

    def tocoo(self) -> Sparse:
        """Return the matrix itself: its elements have rows and columns."""
        return self

    def coordinates(self) -> tuple[Any, Any]:
        """Return rows and columns of the elements."""
        index, _, row = self.pattern
        return (index, row) if self.turned else (row, index)

    # -- unsupported operations --------------------------------------------------------------------

    _ELEMENTS = "use A.toarray()[...]; or A.data, which holds the elements in the order in which they are kept"
    __getitem__ = _refused("__getitem__", "elements by position (A[i, j])", _ELEMENTS)
    __iter__ = _refused("__iter__", "rows to go through (for row in A)", _ELEMENTS)
    __setitem__ = _refused(
        "__setitem__",
        "elements to be set (A[i, j] = x)",
        "set those of A.data before the matrix is made",
    )
    _COMPARED = "compare A.toarray(), or A.data"
    __eq__ = _refused("__eq__", "comparison ==", _COMPARED)
    __ne__ = _refused("__ne__", "comparison !=", _COMPARED)
    __lt__ = _refused("__lt__", "comparison <", _COMPARED)
    __le__ = _refused("__le__", "comparison <=", _COMPARED)
    __gt__ = _refused("__gt__", "comparison >", _COMPARED)
    __ge__ = _refused("__ge__", "comparison >=", _COMPARED)
    __bool__ = _refused("__bool__", "truth value", "ask for A.nnz, or np.any(A.data)")
    __len__ = _refused("__len__", "length", "use A.shape[0], or A.nnz")
    __delitem__ = _refused("__delitem__", "elements to be deleted (del A[i])", _ELEMENTS)
    __contains__ = _refused("__contains__", "elements to look through (x in A)", _ELEMENTS)
    __round__ = _refused("__round__", "round", "round A.data, and make the matrix of that")
    __array__ = _refused(
        "__array__",
        "form of an array (np.asarray, np.dot)",
        "use A.toarray(), and A @ x for products",
    )
    __float__ = _refused("__float__", "float", "use A.data, or A[0, 0] of A.toarray()")
    _WHOLE = "use A.toarray(); or compute with A.data, where zeros stay zeros, and make the matrix of that"
    __floordiv__ = _refused("__floordiv__", "operator //", _WHOLE)
    __rfloordiv__ = _refused("__rfloordiv__", "operator //", _WHOLE)
    __mod__ = _refused("__mod__", "operator %", _WHOLE)
    __rmod__ = _refused("__rmod__", "operator %", _WHOLE)
    __divmod__ = _refused("__divmod__", "divmod", _WHOLE)
    __rdivmod__ = _refused("__rdivmod__", "divmod", _WHOLE)
    __rtruediv__ = _refused("__rtruediv__", "division of something by it (x / A)", _WHOLE)
    __rpow__ = _refused("__rpow__", "power with it as the exponent (x ** A)", _WHOLE)
    __pos__ = _refused("__pos__", "sign (+A)", _WHOLE)
    __invert__ = _refused("__invert__", "operator ~", _WHOLE)
    __and__ = _refused("__and__", "operator &", _WHOLE)
    __rand__ = _refused("__rand__", "operator &", _WHOLE)
    __or__ = _refused("__or__", "operator |", _WHOLE)
    __ror__ = _refused("__ror__", "operator |", _WHOLE)
    __xor__ = _refused("__xor__", "operator ^", _WHOLE)
    __rxor__ = _refused("__rxor__", "operator ^", _WHOLE)
    __lshift__ = _refused("__lshift__", "operator <<", _WHOLE)
    __rshift__ = _refused("__rshift__", "operator >>", _WHOLE)
    __hash__ = object.__hash__

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> Any:
        operator = _from_operator(self, ufunc, method, inputs, kwargs)
        if operator is not None:
            return operator(inputs[0])
        what = f"np.{ufunc.__name__}" if method == "__call__" else f"np.{ufunc.__name__}.{method}"
        raise UnsupportedFunctionError(
            f"{_NAMED} {what}",
            fix="use A @ x for products, abs(A), A.power(n); A.toarray(); or compute with A.data, "
            "where zeros stay zeros",
        )

    # -- products ----------------------------------------------------------------------------------

    def __matmul__(self, other: Operand | Sparse) -> Any:
        if isinstance(other, Sparse) or scipy.sparse.issparse(other):
            raise UnsupportedFunctionError(
                "the product of two sparse matrices, one of them with traced elements, has a "
                "pattern of its own",
                fix="apply one after the other, A @ (B @ x); or use A @ B.toarray()",
            )
        x: Any = arrayed(other)
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[1]:
            raise ShapeError(
                f"matmul: dimension mismatch of a sparse matrix {self.shape} and an array "
                f"{x.shape}",
                fix=f"pass shape ({self.shape[1]},) or ({self.shape[1]}, k)",
            )
        columns = x if x.ndim == 2 else x[:, None]
        found = sparse_matmul(self.data, self.pattern, columns, self.whole, backwards=self.turned)
        return found if x.ndim == 2 else found[:, 0]

    def __rmatmul__(self, other: Operand) -> Any:
        if scipy.sparse.issparse(other):
            return self @ other  # raises
        x: Any = arrayed(other)
        return np.transpose(self.T @ np.transpose(x))

    def dot(self, other: Operand) -> Any:
        """Return the product ``self @ other``.

        Args:
            other: an array, shape (n,) or (n, k).

        Returns:
            an array, shape (m,) or (m, k).

        Raises:
            ShapeError: if it does not fit.
            UnsupportedFunctionError: if it is a sparse matrix.
        """
        return self @ other

    def multiply(self, other: Operand | Sparse) -> Any:
        """Multiply element by element.

        Args:
            other: a number, an array that broadcasts to the shape, or a sparse matrix of the shape.

        Returns:
            a `Sparse`, shape (m, n).

        Raises:
            ShapeError: if a sparse matrix has another shape.
        """
        if isinstance(other, Sparse) or scipy.sparse.issparse(other):
            return self._both(of(other))
        x: Any = arrayed(other)
        if x.ndim == 0:
            return self.with_data(self.data * x)
        whole = np.broadcast_to(x, self.shape) if x.ndim < 2 or x.shape != self.shape else x
        return self.with_data(self.data * gather(whole, (ARRAY, ARRAY), self.coordinates()))

    def _both(self, other: Sparse) -> Sparse:
        """Return the elementwise product with a matrix: elements that both store."""
        if other.shape != self.shape:
            raise ShapeError(
                f"multiply: inconsistent shapes {self.shape} and {other.shape}",
                fix="multiply sparse matrices of one shape",
            )
        left, right = self.tocsr(), other.tocsr()
        (row, column), (r, c) = left.coordinates(), right.coordinates()
        size = self.shape[1]
        _, k, m = np.intersect1d(
            row * size + column, r * size + c, assume_unique=True, return_indices=True
        )
        data = gather(left.data, (ARRAY,), (k,)) * gather(right.data, (ARRAY,), (m,))
        return from_coordinates(data, row[k], column[k], self.shape, self.is_matrix)

    def power(self, n: float) -> Sparse:
        """Raise the elements to a power.

        Args:
            n: the exponent, a positive number.

        Returns:
            a `Sparse`, shape (m, n).

        Raises:
            UnsupportedFunctionError: unless it is positive: otherwise zeros would not stay zero.
        """
        if not np.isscalar(n) or not np.real(n) > 0:
            raise UnsupportedFunctionError(
                f"power of a sparse matrix by {n!r} has elements where it has none",
                fix="use A.toarray() ** n",
            )
        summed = self.tocsr()
        return summed.with_data(summed.data**n)

    def __pow__(self, n: float) -> Sparse:
        if self.is_matrix:
            raise UnsupportedFunctionError(
                "** of scipy.sparse's …_matrix is the product of matrices, which has a pattern of "
                "its own",
                fix="use A.power(n) for powers of elements; A.toarray() for products",
            )
        return self.power(n)

    def __abs__(self) -> Sparse:
        summed = self.tocsr()
        return summed.with_data(abs(summed.data))

    def __mul__(self, other: Operand | Sparse) -> Any:
        right: Any = other
        is_number = (
            not isinstance(other, Sparse)
            and not scipy.sparse.issparse(other)
            and np.ndim(right) == 0
        )
        return self.multiply(right) if is_number or not self.is_matrix else self @ right

    def __rmul__(self, other: Operand) -> Any:
        left: Any = other
        return self.multiply(left) if not self.is_matrix or np.ndim(left) == 0 else left @ self

    def __truediv__(self, other: Operand) -> Any:
        divisor: Any = arrayed(other)
        return self.multiply(1.0 / divisor)

    def __neg__(self) -> Sparse:
        return self.with_data(-self.data)

    # -- sums --------------------------------------------------------------------------------------

    def __add__(self, other: object) -> Any:
        if isinstance(other, Sparse) or scipy.sparse.issparse(other):
            right = other if isinstance(other, Sparse) else of(other)
            if right.shape != self.shape:
                raise ShapeError(
                    f"inconsistent shapes {self.shape} and {right.shape}",
                    fix="add matrices of one shape",
                )
            (r0, c0), (r1, c1) = self.coordinates(), right.coordinates()
            data = np.concatenate([self.data, right.data])
            return from_coordinates(
                data, np.concatenate([r0, r1]), np.concatenate([c0, c1]), self.shape, self.is_matrix
            )
        return self.toarray() + other

    def __radd__(self, other: object) -> Any:
        return self + other

    def __sub__(self, other: object) -> Any:
        right: Any = other
        return self + (-right)

    def __rsub__(self, other: object) -> Any:
        return -self + other

    def toarray(self) -> Any:
        """Return the matrix as a dense array."""
        return scatter_add(self.data, (ARRAY, ARRAY), self.coordinates(), self.shape)

    def todense(self) -> Any:
        """Call `toarray`.

        Raises:
            UnsupportedFunctionError: for SciPy's ``…_matrix``, which make a ``numpy.matrix``.
        """
        if self.is_matrix:
            raise UnsupportedFunctionError(
                "todense of scipy.sparse's …_matrix makes a numpy.matrix, which holds no traced "
                "values",
                fix="use A.toarray()",
            )
        return self.toarray()

    def sum(self, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Any:
        """Return the sum of all elements, of columns (0) or of rows (1).

        A ``…_matrix`` keeps two axes in sums of rows or columns.

        Args:
            axis: 0 or 1, or None for all elements.
            dtype: dtype in which elements are added; their own by default.
            out: must be None.

        Returns:
            the sum, shape (), (n,) or (m,); (1, n) or (m, 1) of a ``…_matrix``.

        Raises:
            AxisError: for another axis.
            UnsupportedFunctionError: for ``out=``.
        """
        if out is not None:
            raise UnsupportedFunctionError(
                f"{_NAMED} sum with out=", fix="leave out= away, and assign the result"
            )
        if dtype is not None:
            return self.astype(dtype).sum(axis)
        if axis is None:
            return np.sum(self.data)
        if axis not in (-2, -1, 0, 1):
            raise AxisError(
                f"axis={axis} of a sparse matrix, which has two", fix="pass 0, 1 or None"
            )
        across = 1 if axis % 2 == 0 else 0
        found = scatter_add(
            self.data, (ARRAY,), (self.coordinates()[across],), (self.shape[across],)
        )
        return np.expand_dims(found, 1 - across) if self.is_matrix else found

    def mean(
        self, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
    ) -> Any:
        """Return the sum, divided by the number of places, zeros included.

        Args:
            axis: 0 or 1, or None for all places.
            dtype: dtype in which elements are added; their own by default.
            out: must be None.

        Returns:
            the mean, shape (), (n,) or (m,); (1, n) or (m, 1) of a ``…_matrix``.

        Raises:
            AxisError: for another axis.
            UnsupportedFunctionError: for ``out=``.
        """
        rows, columns = self.shape
        return self.sum(axis, dtype, out) / (
            rows * columns if axis is None else rows if axis % 2 == 0 else columns
        )

    def diagonal(self) -> Any:
        """Return the main diagonal."""
        row, column = self.coordinates()
        kept = np.flatnonzero(row == column)
        return scatter_add(
            gather(self.data, (ARRAY,), (kept,)), (ARRAY,), (row[kept],), (min(self.shape),)
        )

    def trace(self) -> Any:
        """The sum of the main diagonal."""
        return np.sum(self.diagonal())


def coordinates_of(row: Array, column: Array, rows: int) -> tuple[Array, Pattern]:
    """Return the storage order of elements at rows and columns, and their pattern."""
    order = np.argsort(row, kind="stable")
    row, column = row[order], column[order]
    return order, (column, np.searchsorted(row, np.arange(rows + 1)).astype(np.intp), row)


def from_coordinates(
    data: Array, row: Array, column: Array, shape: tuple[int, int], is_matrix: bool = False
) -> Sparse:
    """Return the matrix with elements at rows and columns, in any order."""
    order, pattern = coordinates_of(row, column, shape[0])
    return Sparse(gather(data, (ARRAY,), (order,)), pattern, shape, is_matrix=is_matrix)


def of(matrix: object) -> Sparse:
    """Return a SciPy matrix as a `Sparse`, or a `Sparse` unchanged."""
    if isinstance(matrix, Sparse):
        return matrix
    plain: Any = matrix
    rows = plain.tocsr()
    if rows.ndim != 2:
        raise ShapeError(
            f"a sparse array of shape {rows.shape} is no matrix", fix="pass one of two axes"
        )
    count: int = rows.shape[0]
    row = np.repeat(np.arange(count), np.diff(rows.indptr))
    pattern: Pattern = (rows.indices.astype(np.intp), rows.indptr.astype(np.intp), row)
    return Sparse(
        rows.data, pattern, rows.shape, is_matrix=not isinstance(plain, scipy.sparse.sparray)
    )


def _made(kind: str, given: Given, shape: tuple[int, int] | None) -> Sparse:
    parts: Given = given
    if isinstance(given, Sparse):
        if kind not in ("csr", "csc", "coo"):
            raise UnsupportedFunctionError(
                f"scipy.sparse: a {kind} matrix cannot have traced elements", fix=_FIX
            )
        return given.tocsr() if kind == "csr" else given.tocsc() if kind == "csc" else given.copy()
    if isinstance(given, Tracer) and given.aval.ndim == 2:
        n, m = given.aval.shape
        row, column = (k.ravel() for k in np.indices((n, m)))
        elements: Any = given
        return from_coordinates(elements.reshape((n * m,)), row, column, (n, m))
    if not isinstance(given, tuple) or kind not in ("csr", "csc", "coo"):
        raise UnsupportedFunctionError(
            f"scipy.sparse: a {kind} matrix cannot be made of this with traced elements", fix=_FIX
        )
    data: Any = arrayed(parts[0])
    if kind == "coo":
        row, column = (np.asarray(k, np.intp) for k in parts[1])
        size = shape or (int(row.max(initial=-1)) + 1, int(column.max(initial=-1)) + 1)
        return from_coordinates(data, row, column, size)
    if len(parts) == 2:
        return _made("coo", parts, shape)
    index, starts = (np.asarray(k, np.intp) for k in parts[1:])
    row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    across = int(index.max(initial=-1)) + 1
    if kind == "csr":
        return Sparse(data, (index, starts, row), shape or (len(starts) - 1, across))
    whole = (shape[1], shape[0]) if shape else (len(starts) - 1, across)
    return Sparse(data, (index, starts, row), whole, turned=True)


if TYPE_CHECKING:

    class _Plain(HasOperators):
        """The methods of SciPy's matrices that `AcceptsTraced` calls."""

        def _matmul_dispatch(self, other: object) -> Any: ...
        def _rmatmul_dispatch(self, other: object) -> Any: ...
        def dot(self, other: object) -> Any: ...
        def multiply(self, other: object) -> Any: ...
        def __add__(self, other: object) -> Any: ...
        def __radd__(self, other: object) -> Any: ...
        def __sub__(self, other: object) -> Any: ...
        def __rsub__(self, other: object) -> Any: ...

else:
    _Plain = HasOperators


class AcceptsTraced(_Plain):
    """A SciPy matrix that also takes traced operands."""

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> Any:
        """Defer array operators to this class; otherwise act like SciPy's matrices."""
        operator = _from_operator(self, ufunc, method, inputs, kwargs)
        return (
            operator(inputs[0])
            if operator is not None
            else getattr(ufunc, method)(*map(_boxed, inputs), **kwargs)
        )

    def __new__(cls, *args: object, **kwargs: object) -> Any:
        """Make SciPy's own of plain arguments, and a `Sparse` of traced elements."""
        if args and (isinstance(args[0], Sparse) or any(map(holds_tracer, args))):
            given: Any = dict(zip(("arg1", "shape", "dtype"), args, strict=False)) | kwargs
            made = _made(cls.__name__[:3], given["arg1"], given.get("shape"))
            dtype: DTypeLike | None = given.get("dtype")
            return Sparse(
                made.data if dtype is None else made.data.astype(dtype),
                made.pattern,
                made.whole,
                made.turned,
                cls.__name__.endswith("matrix"),
            )
        return super().__new__(cls)

    def _matmul_dispatch(self, other: Given) -> Any:
        return of(self) @ other if holds_tracer(other) else super()._matmul_dispatch(other)

    def _rmatmul_dispatch(self, other: Given) -> Any:
        if holds_tracer(other):
            return of(self).__rmatmul__(other)
        return super()._rmatmul_dispatch(other)

    def dot(self, other: Given) -> Any:
        """Call SciPy's method; the operand may be traced.

        Args:
            other: what the matrix multiplies, shape (n,) or (n, k).
        """
        return of(self) @ other if holds_tracer(other) else super().dot(other)

    def multiply(self, other: Given) -> Any:
        """Call SciPy's method; a traced operand makes a `Sparse`.

        Args:
            other: a number, an array that broadcasts to the shape, or a sparse matrix of the shape.
        """
        return of(self).multiply(other) if holds_tracer(other) else super().multiply(other)

    def __add__(self, other: Given) -> Any:
        if holds_tracer(other) or isinstance(other, Sparse):
            return of(self) + other
        return super().__add__(other)

    def __radd__(self, other: Given) -> Any:
        return self + other if holds_tracer(other) else super().__radd__(other)

    def __sub__(self, other: Given) -> Any:
        if holds_tracer(other) or isinstance(other, Sparse):
            return of(self).__sub__(other)
        return super().__sub__(other)

    def __rsub__(self, other: Given) -> Any:
        return of(self).__rsub__(other) if holds_tracer(other) else super().__rsub__(other)


def _boxed(operand: object) -> object:
    """An object that NumPy takes for an element, if it is a matrix."""
    if not scipy.sparse.issparse(operand):
        return operand
    box = np.empty((), object)
    box[()] = operand
    return box


def _container(kind: str) -> property:
    def container(self: AcceptsTraced) -> Any:
        own: Any = globals()
        return own[f"{kind}_array" if isinstance(self, scipy.sparse.sparray) else f"{kind}_matrix"]

    return property(container)


for _kind in ("csr", "csc", "coo", "bsr", "dia"):
    setattr(AcceptsTraced, f"_{_kind}_container", _container(_kind))


class csr_array(AcceptsTraced, scipy.sparse.csr_array):
    """Sparse array by rows, like ``scipy.sparse.csr_array``; a `Sparse` of traced elements.

    Args:
        args, kwargs: (data, indices, indptr): the elements in row order, shape (nz,), their
            columns, and the row offsets, shape (m + 1,); or (data, (rows, columns)); or a dense or
            a sparse matrix. Elements may be traced, positions are plain. shape=(m, n) is the
            smallest that fits by default; dtype is that of
            the elements by default; copy counts for plain elements.

    Raises:
        UnsupportedFunctionError: if traced elements come in another form.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> matrix = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 2.0]]))
        >>> ft.grad(lambda x: np.sum(matrix @ x))(np.ones(2))
        array([1., 2.])
    """


class csc_array(AcceptsTraced, scipy.sparse.csc_array):
    """Sparse array by columns, like ``scipy.sparse.csc_array``; a `Sparse` of traced elements.

    Args:
        args, kwargs: (data, indices, indptr): the elements in column order, shape (nz,), their
            rows, and the column offsets, shape (n + 1,); or (data, (rows, columns)); or a dense or
            a sparse matrix. Elements may be traced, positions are plain. shape=(m, n) is the
            smallest that fits by default; dtype is that of
            the elements by default; copy counts for plain elements.

    Raises:
        UnsupportedFunctionError: if traced elements come in another form.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> matrix = sparse.csc_array(np.array([[1.0, 0.0], [0.0, 2.0]]))
        >>> ft.grad(lambda x: np.sum(matrix @ x))(np.ones(2))
        array([1., 2.])
    """


class coo_array(AcceptsTraced, scipy.sparse.coo_array):
    """Sparse array by coordinates, like ``scipy.sparse.coo_array``; a `Sparse` of traced elements.

    Args:
        args, kwargs: (data, (rows, columns)): the elements, shape (nz,), and their positions; or a
            dense or a sparse matrix. Elements may be traced, positions are plain. shape=(m, n) is
            the smallest that fits by default; dtype is that of
            the elements by default; copy counts for plain elements.

    Raises:
        UnsupportedFunctionError: if traced elements come in another form.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> matrix = sparse.coo_array(np.array([[1.0, 0.0], [0.0, 2.0]]))
        >>> ft.grad(lambda x: np.sum(matrix @ x))(np.ones(2))
        array([1., 2.])
    """


class bsr_array(AcceptsTraced, scipy.sparse.bsr_array):
    """Sparse array by blocks, like ``scipy.sparse.bsr_array``, of plain elements, which takes
    traced operands.

    Args:
        args, kwargs: (data, indices, indptr): the blocks, shape (nz, r, c), their columns of
            blocks, and the offsets of rows of blocks; or (data, (rows, columns)); or a dense or a
            sparse matrix; and shape=(m, n), dtype, copy.

    Raises:
        UnsupportedFunctionError: if elements are traced.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> matrix = sparse.bsr_array(np.array([[1.0, 0.0], [0.0, 2.0]]))
        >>> ft.grad(lambda x: np.sum(matrix @ x))(np.ones(2))
        array([1., 2.])
    """


class dia_array(AcceptsTraced, scipy.sparse.dia_array):
    """Sparse array by diagonals, like ``scipy.sparse.dia_array``, of plain elements, which takes
    traced operands.

    Args:
        args, kwargs: (data, offsets): the diagonals, shape (k, n), and their distances from the
            main one, shape (k,); or a dense or a sparse matrix; and shape=(m, n), dtype, copy.

    Raises:
        UnsupportedFunctionError: if elements are traced.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> matrix = sparse.dia_array(np.array([[1.0, 0.0], [0.0, 2.0]]))
        >>> ft.grad(lambda x: np.sum(matrix @ x))(np.ones(2))
        array([1., 2.])
    """


class csr_matrix(AcceptsTraced, scipy.sparse.csr_matrix):
    """Sparse matrix by rows, like ``scipy.sparse.csr_matrix``; a `Sparse` of traced elements. ``*``
    is the product of matrices.

    Args:
        args, kwargs: (data, indices, indptr): the elements in row order, shape (nz,), their
            columns, and the row offsets, shape (m + 1,); or (data, (rows, columns)); or a dense or
            a sparse matrix. Elements may be traced, positions are plain. shape=(m, n) is the
            smallest that fits by default; dtype is that of
            the elements by default; copy counts for plain elements.

    Raises:
        UnsupportedFunctionError: if traced elements come in another form.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> matrix = sparse.csr_matrix(np.array([[1.0, 0.0], [0.0, 2.0]]))
        >>> ft.grad(lambda x: np.sum(matrix @ x))(np.ones(2))
        array([1., 2.])
    """


class csc_matrix(AcceptsTraced, scipy.sparse.csc_matrix):
    """Sparse matrix by columns, like ``scipy.sparse.csc_matrix``; a `Sparse` of traced elements.
    ``*`` is the product of matrices.

    Args:
        args, kwargs: (data, indices, indptr): the elements in column order, shape (nz,), their
            rows, and the column offsets, shape (n + 1,); or (data, (rows, columns)); or a dense or
            a sparse matrix. Elements may be traced, positions are plain. shape=(m, n) is the
            smallest that fits by default; dtype is that of
            the elements by default; copy counts for plain elements.

    Raises:
        UnsupportedFunctionError: if traced elements come in another form.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> matrix = sparse.csc_matrix(np.array([[1.0, 0.0], [0.0, 2.0]]))
        >>> ft.grad(lambda x: np.sum(matrix @ x))(np.ones(2))
        array([1., 2.])
    """


class coo_matrix(AcceptsTraced, scipy.sparse.coo_matrix):
    """Sparse matrix by coordinates, like ``scipy.sparse.coo_matrix``; a `Sparse` of traced
    elements. ``*`` is the product of matrices.

    Args:
        args, kwargs: (data, (rows, columns)): the elements, shape (nz,), and their positions; or a
            dense or a sparse matrix. Elements may be traced, positions are plain. shape=(m, n) is
            the smallest that fits by default; dtype is that of
            the elements by default; copy counts for plain elements.

    Raises:
        UnsupportedFunctionError: if traced elements come in another form.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> matrix = sparse.coo_matrix(np.array([[1.0, 0.0], [0.0, 2.0]]))
        >>> ft.grad(lambda x: np.sum(matrix @ x))(np.ones(2))
        array([1., 2.])
    """


class bsr_matrix(AcceptsTraced, scipy.sparse.bsr_matrix):
    """Sparse matrix by blocks, like ``scipy.sparse.bsr_matrix``, of plain elements, which takes
    traced operands. ``*`` is the product of matrices.

    Args:
        args, kwargs: (data, indices, indptr): the blocks, shape (nz, r, c), their columns of
            blocks, and the offsets of rows of blocks; or (data, (rows, columns)); or a dense or a
            sparse matrix; and shape=(m, n), dtype, copy.

    Raises:
        UnsupportedFunctionError: if elements are traced.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> matrix = sparse.bsr_matrix(np.array([[1.0, 0.0], [0.0, 2.0]]))
        >>> ft.grad(lambda x: np.sum(matrix @ x))(np.ones(2))
        array([1., 2.])
    """


class dia_matrix(AcceptsTraced, scipy.sparse.dia_matrix):
    """Sparse matrix by diagonals, like ``scipy.sparse.dia_matrix``, of plain elements, which takes
    traced operands. ``*`` is the product of matrices.

    Args:
        args, kwargs: (data, offsets): the diagonals, shape (k, n), and their distances from the
            main one, shape (k,); or a dense or a sparse matrix; and shape=(m, n), dtype, copy.

    Raises:
        UnsupportedFunctionError: if elements are traced.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> matrix = sparse.dia_matrix(np.array([[1.0, 0.0], [0.0, 2.0]]))
        >>> ft.grad(lambda x: np.sum(matrix @ x))(np.ones(2))
        array([1., 2.])
    """
