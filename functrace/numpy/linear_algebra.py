"""Linear algebra: products, ``einsum`` and ``numpy.linalg`` on traced values.

Products are contractions (`functrace.ops.contraction`); factorizations are primitives of their own
(`functrace.ops.linalg`), and everything else is composed. Signatures and results are NumPy's, named tuples included.
``lstsq``, ``eig`` and ``eigvals`` are not here: shapes or dtypes of their results depend on values.

Floor: 6.
"""

from __future__ import annotations

import math
import operator
import warnings
from typing import Any

import numpy as np

from functrace.errors import DtypeError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import aval_of, shape_of
from functrace.numpy.layout import UNKNOWN, layout_of
from functrace.numpy.operands import (
    along,
    arrayed,
    at_least,
    axis_tuple,
    cast_to,
    flattened,
    known,
    normalize_axes,
    one_axis,
    stored,
)
from functrace.numpy.tables import FUNCTIONS, implements
from functrace.numpy.view_kinds import EinsumView
from functrace.numpy.views import copied_kind, laid_out, linked, new_array, owned
from functrace.ops import elementwise as ew
from functrace.ops import linalg
from functrace.ops.contraction import LETTERS, matmul_p
from functrace.ops.contraction import einsum as contract
from functrace.ops.indexing import index_static
from functrace.ops.reductions import kept_shape, reduce_sum
from functrace.ops.shaping import broadcast_to, convert, moveaxis, permute, reshape
from functrace.tracing.recording import Tracer, bind

SlogdetResult = type(np.linalg.slogdet(np.eye(1)))
EighResult = type(np.linalg.eigh(np.eye(1)))
SVDResult = type(np.linalg.svd(np.eye(1)))
QRResult = type(np.linalg.qr(np.eye(1)))


def _conj(x: Any) -> Any:
    return ew.conj(x) if x.dtype.kind == "c" else x


# -- products ------------------------------------------------------------------------------------------


@implements(np.matmul)
def matmul(x1: Any, x2: Any, /, out: Any = None) -> Any:
    """As ``numpy.matmul``."""
    return stored(bind(matmul_p, (arrayed(x1), arrayed(x2))), out, "matmul")


@implements(np.dot, method="dot")
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """As ``numpy.dot``: the last axis of ``a`` with the last but one of ``b``, without broadcasting of stacks."""
    a, b = arrayed(a), arrayed(b)
    if a.ndim == 0 or b.ndim == 0:
        result = ew.mul(a, b)
    elif (a.ndim <= 2 and b.ndim <= 2) or b.ndim == 1:
        result = bind(matmul_p, (a, b))
    else:
        result = tensordot(a, b, axes=(a.ndim - 1, b.ndim - 2))
    if isinstance(out, Tracer):
        laid = layout_of(out)
        if laid is None or not laid.flags.c_contiguous or (out.dtype, out.shape) != (result.dtype, shape_of(result)):
            raise DtypeError(
                f"numpy.dot takes for out= what it would return, {aval_of(result)} in C order, and this one is {out.aval}"
                + ("" if laid is not None else " in an order that is not known here"),
                fix="write out[...] = np.dot(a, b)",
            )
    return stored(result, out, "dot")


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    """As ``numpy.inner``: the last axes, without conjugation."""
    a, b = arrayed(a), arrayed(b)
    if a.ndim == 0 or b.ndim == 0:
        return ew.mul(a, b)
    result = tensordot(a, b, axes=(a.ndim - 1, b.ndim - 1))
    return result if result.shape or not isinstance(result, Tracer) else copied_kind(result, True)


@implements(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """As ``numpy.outer``: operands are flattened."""
    a, b = flattened(arrayed(a)), flattened(arrayed(b))
    return stored(ew.mul(reshape(a, (a.size, 1)), b), out, "outer")


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """As ``numpy.vdot``: operands are flattened, the first one is conjugated."""
    return bind(matmul_p, (flattened(_conj(arrayed(a))), flattened(arrayed(b))))


@implements(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """As ``numpy.tensordot``: a sum over pairs of axes, as one matrix product."""
    a, b = arrayed(a), arrayed(b)
    if isinstance(axes, int | np.integer):
        count = int(axes)
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise ShapeError(
                f"tensordot cannot contract {count} axes of {aval_of(a)} and {aval_of(b)}", fix="pass a smaller axes="
            )
        left, right = tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    else:
        left, right = axes
        left, right = axis_tuple(left, a.ndim), axis_tuple(right, b.ndim)
    if len(left) != len(right):
        raise ShapeError(f"tensordot: {len(left)} axes of a, and {len(right)} of b", fix="name the axes in pairs")
    if any(a.shape[i] != b.shape[j] for i, j in zip(left, right, strict=True)):
        raise ShapeError(
            f"tensordot cannot contract axes {left} of {aval_of(a)} with axes {right} of {aval_of(b)}: sizes differ",
            fix="name pairs of axes of equal size",
        )
    free_a = tuple(k for k in range(a.ndim) if k not in left)
    free_b = tuple(k for k in range(b.ndim) if k not in right)
    rows, columns = tuple(a.shape[k] for k in free_a), tuple(b.shape[k] for k in free_b)
    n = math.prod(a.shape[k] for k in left)
    x = reshape(permute(a, (*free_a, *left)), (math.prod(rows), n))
    y = reshape(permute(b, (*right, *free_b)), (n, math.prod(columns)))
    result = reshape(bind(matmul_p, (x, y)), (*rows, *columns))
    return result if result.shape else new_array(result)


@implements(np.kron)
def kron(a: Any, b: Any) -> Any:
    """As ``numpy.kron``."""
    a, b = arrayed(a), arrayed(b)
    rank = max(a.ndim, b.ndim)
    left, right = (1,) * (rank - a.ndim) + a.shape, (1,) * (rank - b.ndim) + b.shape
    x = reshape(a, tuple(size for n in left for size in (n, 1)))
    y = reshape(b, tuple(size for n in right for size in (1, n)))
    return reshape(ew.mul(x, y), tuple(n * m for n, m in zip(left, right, strict=True)))


@implements(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """As ``numpy.cross``: vectors of 3 (or, deprecated by NumPy, 2) components."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = arrayed(a), arrayed(b)
    if a.ndim < 1 or b.ndim < 1:
        raise ShapeError("cross needs operands with at least one axis", fix="pass vectors of 3 components")
    a = moveaxis(a, one_axis(axisa, a.ndim), destination=a.ndim - 1)
    b = moveaxis(b, one_axis(axisb, b.ndim), destination=b.ndim - 1)
    sizes = a.shape[-1], b.shape[-1]
    if not {*sizes} <= {2, 3}:
        raise ShapeError(f"cross needs vectors of 3 components, got {sizes[0]} and {sizes[1]}", fix="check axisa and axisb")
    if 2 in sizes:
        warnings.warn(
            "Arrays of 2-dimensional vectors are deprecated. Use arrays of 3-dimensional vectors instead. "
            "(deprecated in NumPy 2.0)",
            DeprecationWarning,
            stacklevel=4,
        )
    x = [index_static(a, along(a.ndim - 1, k)) for k in range(sizes[0])] + [None]
    y = [index_static(b, along(b.ndim - 1, k)) for k in range(sizes[1])] + [None]

    def minor(i: int, j: int) -> Any:
        first = None if x[i] is None or y[j] is None else ew.mul(x[i], y[j])
        second = None if x[j] is None or y[i] is None else ew.mul(x[j], y[i])
        if second is None:
            return first
        return ew.neg(second) if first is None else ew.sub(first, second)

    last = minor(0, 1)
    if sizes == (2, 2):
        return last
    result = FUNCTIONS[np.stack]([minor(1, 2), minor(2, 0), last], axis=-1)
    return moveaxis(result, result.ndim - 1, one_axis(axisc, result.ndim))


@implements(np.vecdot, np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """As ``numpy.vecdot``: products of vectors of a stack, the first one conjugated."""
    a, b = arrayed(x1), arrayed(x2)
    for x in (a, b):
        at_least(x, 1, "vecdot")
    a = moveaxis(a, one_axis(axis, a.ndim), destination=a.ndim - 1)
    b = moveaxis(b, one_axis(axis, b.ndim), destination=b.ndim - 1)
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"vecdot cannot contract {aval_of(a)} with {aval_of(b)}", fix="make the sizes equal")
    return einsum("...a,...a->...", _conj(a), b)


@implements(np.matvec)
def matvec(x1: Any, x2: Any, /) -> Any:
    """As ``numpy.matvec``: matrices of a stack times vectors of a stack."""
    a, v = arrayed(x1), arrayed(x2)
    at_least(a, 2, "matvec")
    at_least(v, 1, "matvec")
    if v.ndim == 1:
        return bind(matmul_p, (a, v))
    result = bind(matmul_p, (a, reshape(v, (*v.shape, 1))))
    return reshape(result, result.shape[:-1])


@implements(np.vecmat)
def vecmat(x1: Any, x2: Any, /) -> Any:
    """As ``numpy.vecmat``: vectors of a stack, conjugated, times matrices of a stack."""
    v, a = _conj(arrayed(x1)), arrayed(x2)
    at_least(v, 1, "vecmat")
    at_least(a, 2, "vecmat")
    if v.ndim == 1:
        return bind(matmul_p, (v, a))
    result = bind(matmul_p, (reshape(v, (*v.shape[:-1], 1, v.shape[-1])), a))
    return reshape(result, (*result.shape[:-2], result.shape[-1]))


# -- einsum --------------------------------------------------------------------------------------------


def _as_subscripts(operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return subscripts as a string, from either of the two ways of calling einsum."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), operands[1:]
    terms, values = operands[1::2], operands[: 2 * (len(operands) // 2) : 2]

    def text(axes: Any) -> str:
        return "".join("..." if k is Ellipsis else LETTERS[_sorted_letters(operator.index(k))] for k in axes)

    left = ",".join(text(axes) for axes in terms)
    return (f"{left}->{text(operands[-1])}" if len(operands) % 2 else left), values


def _sorted_letters(k: int) -> int:
    if not 0 <= k < len(LETTERS):
        raise ShapeError(f"einsum: the label {k} is not in 0 … {len(LETTERS) - 1}", fix="use smaller labels")
    return (k + 26) % 52  # A … Z sort before a … z, and labels 0, 1 … must sort as numbers


def _explicit(subscripts: str, ranks: tuple[int, ...]) -> str:
    """Return subscripts with an output, and with letters for ellipses."""
    left, arrow, out = subscripts.partition("->")
    terms = left.split(",")
    given = set(subscripts) - set("->,.")
    if not given <= set(LETTERS):
        raise ShapeError(f"einsum '{subscripts}': {min(given - set(LETTERS))!r} is not a letter", fix="use a … z, A … Z")
    if len(terms) != len(ranks):
        raise ShapeError(f"einsum '{subscripts}' names {len(terms)} operands, got {len(ranks)}", fix="name every operand")
    spare = [a for a in reversed(LETTERS) if a not in given]
    extra = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True) if "..." in term]
    widest = max(extra, default=0)
    if min(extra, default=0) < 0 or widest > len(spare):
        raise ShapeError(f"einsum '{subscripts}': an operand has too few axes for its letters", fix="check the ranks")
    stack = "".join(spare[:widest])
    for k, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        if "..." in term:
            own = rank - len(term) + 3
            terms[k] = term.replace("...", stack[widest - own :])
    if not arrow:
        letters = [c for c in left if c not in ",."]
        out = ("..." if "..." in left else "") + "".join(sorted(a for a in set(letters) if letters.count(a) == 1))
    elif stack and "..." not in out:
        raise ShapeError(
            f"einsum '{subscripts}': the output has no ellipsis for the broadcast axes", fix="write '...' in the output, too"
        )
    result = f"{','.join(terms)}->{out.replace('...', stack)}"
    if "." in result:
        raise ShapeError(f"einsum '{subscripts}': an ellipsis has three dots", fix="write '...' once per operand")
    return result


@implements(np.einsum)
def einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Any:
    """As ``numpy.einsum``; more than two operands are always contracted along an optimized path."""
    dtype = kwargs.pop("dtype", None)
    for harmless in ("order", "casting"):
        kwargs.pop(harmless, None)
    if kwargs:
        raise UnsupportedFunctionError(f"numpy.einsum has no option {min(kwargs)!r}", fix="leave it out")
    subscripts, values = _as_subscripts(operands)
    values = tuple(arrayed(x) for x in values)
    explicit = _explicit(subscripts, tuple(x.ndim for x in values))
    term, _, axes = explicit.partition("->")
    if axes and set(term) == set(axes) and out is None:  # one operand, of which NumPy returns a view, whatever dtype= says
        return linked(contract(explicit, *values), EinsumView(values[0], term, axes))
    result = contract(explicit, *[cast_to(x, dtype) for x in values])
    if out is not None:
        return stored(result, out, "einsum")
    return owned(result, UNKNOWN) if result.shape else result


@implements(np.einsum_path)
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    """As ``numpy.einsum_path``: depends on shapes only."""
    subscripts, values = _as_subscripts(operands)
    stand_ins = [np.broadcast_to(np.empty((), x.dtype), x.shape) for x in map(arrayed, values)]
    return np.einsum_path(subscripts, *stand_ins, optimize=optimize, einsum_call=einsum_call)  # type: ignore[call-overload]


# -- numpy.linalg: operands ------------------------------------------------------------------------------


def _matrices(name: str, x: Any, *, square: bool = False) -> Any:
    """Return an operand with at least two axes and a dtype that LAPACK has, as NumPy converts it."""
    x = arrayed(x)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        what = "square matrices in the last two axes" if square else "at least two axes"
        raise ShapeError(
            f"numpy.linalg.{name} needs {what}, got {aval_of(x)}",
            fix=f"pass an array of shape (..., {'n, n' if square else 'm, n'})",
        )
    return _inexact(name, x)


def _inexact(name: str, x: Any) -> Any:
    kind = x.dtype.kind
    if kind in "biu":
        return convert(x, np.float64)
    if x.dtype not in (np.float32, np.float64, np.complex64, np.complex128):
        raise DtypeError(f"numpy.linalg.{name} is not defined for {aval_of(x)}", fix="convert with x.astype(np.float64)")
    return x


@implements(np.linalg.solve)
def solve(a: Any, b: Any) -> Any:
    """As ``numpy.linalg.solve``: ``b`` is one vector if it has one axis, else a stack of matrices."""
    a, b = _matrices("solve", a, square=True), _inexact("solve", arrayed(b))
    dtype = np.result_type(a.dtype, b.dtype)
    a, b = convert(a, dtype), convert(b, dtype)
    if b.ndim == 0:
        raise ShapeError("numpy.linalg.solve needs right-hand sides, got a scalar", fix="pass a vector or matrices")
    if b.ndim > 1:
        return linalg.solve(a, b)
    x = linalg.solve(a, reshape(b, (*b.shape, 1)))
    return reshape(x, x.shape[:-1])


@implements(np.linalg.inv)
def inv(a: Any) -> Any:
    """As ``numpy.linalg.inv``."""
    return linalg.inv(_matrices("inv", a, square=True))


@implements(np.linalg.det)
def det(a: Any) -> Any:
    """As ``numpy.linalg.det``; the gradient is right for singular matrices, too."""
    return linalg.det(_matrices("det", a, square=True))


@implements(np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    """As ``numpy.linalg.slogdet``."""
    return SlogdetResult(*bind(linalg.slogdet_p, (_matrices("slogdet", a, square=True),)))


@implements(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """As ``numpy.linalg.cholesky``; the gradient is that of the symmetric part of ``a``."""
    a = _matrices("cholesky", a, square=True)
    return laid_out(linalg.adjoint(linalg.cholesky(linalg.adjoint(a)))) if upper else linalg.cholesky(a)


def _uplo(name: str, given: str) -> str:
    uplo = str(given).upper()
    if uplo not in ("L", "U"):
        raise ShapeError(f"numpy.linalg.{name}: UPLO must be 'L' or 'U', got {given!r}", fix="pass UPLO='L'")
    return uplo


@implements(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> Any:
    """As ``numpy.linalg.eigh``; the gradient is that of the symmetric part of ``a``."""
    return EighResult(*bind(linalg.eigh_p, (_matrices("eigh", a, square=True),), (_uplo("eigh", UPLO),)))


@implements(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """As ``numpy.linalg.eigvalsh``; the gradient is that of the symmetric part of ``a``."""
    return bind(linalg.eigvalsh_p, (_matrices("eigvalsh", a, square=True),), (_uplo("eigvalsh", UPLO),))


@implements(np.linalg.svdvals)
def svdvals(x: Any, /) -> Any:
    """As ``numpy.linalg.svdvals``."""
    return bind(linalg.svdvals_p, (_matrices("svdvals", x),))


@implements(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """As ``numpy.linalg.svd``; the vectors have a derivative if there are none that merely complete a basis."""
    a = _matrices("svd", a)
    if hermitian:
        raise UnsupportedFunctionError(
            "numpy.linalg.svd with hermitian=True has no implementation on traced values",
            fix="leave hermitian out, or use np.linalg.eigh",
        )
    if not compute_uv:
        return bind(linalg.svdvals_p, (a,))
    if not full_matrices or a.shape[-1] == a.shape[-2]:
        return SVDResult(*bind(linalg.svd_p, (a,), (False,)))
    # Vectors that complete a basis have no derivative; the values on their own do.
    u, _, vh = bind(linalg.svd_p, (a,), (True,))
    return SVDResult(u, bind(linalg.svdvals_p, (a,)), vh)


@implements(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """As ``numpy.linalg.qr``, in the modes ``reduced`` and ``r``."""
    a = _matrices("qr", a)
    if mode == "complete" and a.shape[-2] <= a.shape[-1]:
        mode = "reduced"
    if mode not in ("reduced", "r"):
        raise UnsupportedFunctionError(
            f"numpy.linalg.qr with mode={mode!r} has no implementation on traced values", fix="use mode='reduced'"
        )
    q, r = bind(linalg.qr_p, (a,))
    return QRResult(q, r) if mode == "reduced" else r


@implements(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Any:
    """As ``numpy.linalg.pinv``; the derivative holds where the rank does not change."""
    a = _matrices("pinv", a)
    if rtol is not np._NoValue:
        if rcond is not None:
            raise ShapeError("numpy.linalg.pinv: rtol and rcond cannot both be set", fix="pass one of them")
        rcond = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps) if rtol is None else rtol
    if isinstance(rcond, Tracer) or np.ndim(rcond):
        raise UnsupportedFunctionError(
            "numpy.linalg.pinv of traced values needs one number for rcond", fix="pass a Python float"
        )
    return bind(linalg.pinv_p, (a,), (None if rcond is None else float(rcond), bool(hermitian)))


# -- numpy.linalg: compositions --------------------------------------------------------------------------


@implements(np.linalg.matrix_power)
def matrix_power(a: Any, n: Any) -> Any:
    """As ``numpy.linalg.matrix_power``, by repeated squaring."""
    a, n = arrayed(a), operator.index(n)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(f"matrix_power needs square matrices, got {aval_of(a)}", fix="pass shape (..., n, n)")
    if n == 0:
        return broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    if n < 0:
        a, n = inv(a), -n
    result = None
    while n:
        if n & 1:
            result = a if result is None else bind(matmul_p, (result, a))
        n >>= 1
        if n:
            a = bind(matmul_p, (a, a))
    return result


@implements(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Any:
    """As ``numpy.linalg.tensorinv``: the inverse for ``tensordot`` over ``ind`` axes."""
    a = arrayed(a)
    if ind <= 0:
        raise ShapeError(f"tensorinv needs a positive ind, got {ind}", fix="pass ind=2, or the number of leading axes")
    leading, trailing = a.shape[:ind], a.shape[ind:]
    result = inv(reshape(a, (math.prod(leading), math.prod(trailing))))
    return reshape(result, (*trailing, *leading))


@implements(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """As ``numpy.linalg.tensorsolve``: solve ``tensordot(a, x, x.ndim) = b``."""
    a, b = arrayed(a), arrayed(b)
    if axes is not None:
        last = tuple(k % a.ndim for k in axes)
        a = permute(a, (*(k for k in range(a.ndim) if k not in last), *last))
    shape = a.shape[b.ndim :]
    if a.size != math.prod(shape) ** 2 or b.size != math.prod(shape):
        raise ShapeError(
            f"tensorsolve: {aval_of(a)} is not square for the right-hand side {aval_of(b)}",
            fix="prod(a.shape[b.ndim:]) must equal prod(a.shape[:b.ndim])",
        )
    return reshape(solve(reshape(a, (b.size, math.prod(shape))), flattened(b)), shape)


@implements(np.linalg.multi_dot, of_sequence=True)
def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """As ``numpy.linalg.multi_dot``: a chain of products in the cheapest order."""
    chain = [arrayed(x) for x in arrays]
    if len(chain) < 2:
        raise ShapeError("multi_dot needs at least two arrays", fix="pass a list of two or more")
    for k, x in enumerate(chain):
        allowed = (1, 2) if k in (0, len(chain) - 1) else (2,)
        if x.ndim not in allowed:
            raise ShapeError(
                f"multi_dot: operand {k} is {aval_of(x)}", fix="pass matrices; the first and last may be vectors"
            )
    rows = [x.shape[0] if x.ndim == 2 else (1 if k == 0 else x.shape[0]) for k, x in enumerate(chain)]
    sizes = (*rows, chain[-1].shape[1] if chain[-1].ndim == 2 else 1)
    return stored(_chained(chain, _best_splits(sizes), 0, len(chain) - 1), out, "linalg.multi_dot")


def _best_splits(sizes: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """Where to split each part of a matrix chain. Source: Cormen et al., Introduction to Algorithms, 15.2."""
    count = len(sizes) - 1
    cost = {(k, k): 0 for k in range(count)}
    split: dict[tuple[int, int], int] = {}
    for width in range(1, count):
        for i in range(count - width):
            j = i + width
            cost[i, j], split[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return split


def _chained(chain: list[Any], split: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return chain[i]
    k = split[i, j]
    return bind(matmul_p, (_chained(chain, split, i, k), _chained(chain, split, k + 1, j)))


@implements(np.linalg.outer)
def linalg_outer(x1: Any, x2: Any, /) -> Any:
    """As ``numpy.linalg.outer``: of vectors."""
    a, b = arrayed(x1), arrayed(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"numpy.linalg.outer needs vectors, got {aval_of(a)} and {aval_of(b)}", fix="use np.outer")
    return outer(a, b)


@implements(np.linalg.cross)
def linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """As ``numpy.linalg.cross``: of vectors of 3 components."""
    a, b = arrayed(x1), arrayed(x2)
    for x in (a, b):
        at_least(x, 1, "numpy.linalg.cross")
        if x.shape[one_axis(axis, x.ndim)] != 3:
            raise ShapeError(f"numpy.linalg.cross needs 3 components, got {aval_of(x)}", fix="check axis")
    return cross(a, b, axis=axis)


@implements(np.linalg.tensordot)
def linalg_tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """As ``numpy.linalg.tensordot``."""
    return tensordot(x1, x2, axes)


@implements(np.linalg.matmul)
def linalg_matmul(x1: Any, x2: Any, /) -> Any:
    """As ``numpy.linalg.matmul``."""
    return bind(matmul_p, (arrayed(x1), arrayed(x2)))


# -- norms ---------------------------------------------------------------------------------------------


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """As ``numpy.linalg.norm``; the derivative of every norm at 0 is 0."""
    x = arrayed(x)
    if x.dtype.kind not in "fc":
        x = convert(x, np.float64)
    if axis is None:
        if ord is None:
            axes = tuple(range(x.ndim))
            return _keep(linalg.euclidean_norm(x, axes), x.shape, axes, keepdims)
        axes = tuple(range(x.ndim))
    else:
        axes = axis_tuple(axis if isinstance(axis, tuple) else (axis,), x.ndim)
    if len(axes) == 1:
        result = _vector_norm(x, ord, axes[0])
    elif len(axes) == 2:
        result = _matrix_norm(x, ord, *axes)
    else:
        raise ShapeError(
            f"numpy.linalg.norm with ord={ord!r} is defined along one or two axes, not {len(axes)}", fix="pass axis="
        )
    return _keep(result, x.shape, axes, keepdims)


def _keep(result: Any, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Any:
    return reshape(result, kept_shape(shape, axes)) if keepdims else result


def _unknown_order(ord: Any, what: str) -> ShapeError:
    return ShapeError(
        f"numpy.linalg.norm: ord={ord!r} is not defined for {what}",
        fix="vectors take None and any number; matrices None, 'fro', 'nuc', 1, -1, 2, -2, inf, -inf",
    )


def _vector_norm(x: Any, ord: Any, axis: int) -> Any:
    if isinstance(ord, str):
        raise _unknown_order(ord, "vectors")
    if isinstance(ord, Tracer):
        raise UnsupportedFunctionError("numpy.linalg.norm needs a plain ord", fix="write the sum of powers yourself")
    if ord is None or ord == 2:
        return linalg.euclidean_norm(x, (axis,))
    size = ew.absolute(x)
    if ord == np.inf:
        return FUNCTIONS[np.max](size, axis=axis)
    if ord == -np.inf:
        return FUNCTIONS[np.min](size, axis=axis)
    if ord == 0:
        return reduce_sum(convert(ew.not_equal(x, 0), size.dtype), (axis,))
    if ord == 1:
        return reduce_sum(size, (axis,))
    total = reduce_sum(ew.power(size, float(ord)), (axis,))
    # total ** (1 / ord) has an infinite slope at 0; where all elements are 0, so are norm and derivative.
    zero = ew.equal(total, 0)
    if ord < 0:
        return ew.power(total, 1.0 / float(ord))
    return ew.where(zero, 0.0, ew.power(ew.where(zero, 1.0, total), 1.0 / float(ord)))


def _matrix_norm(x: Any, ord: Any, row: int, column: int) -> Any:
    if row == column:
        raise ShapeError("numpy.linalg.norm: the two axes of a matrix norm must differ", fix="pass two axes")
    if ord in (None, "fro", "f"):
        return linalg.euclidean_norm(x, tuple(sorted((row, column))))
    if ord in (2, -2, "nuc"):
        rest = tuple(k for k in range(x.ndim) if k not in (row, column))
        values = svdvals(permute(x, (*rest, row, column)))
        if ord == "nuc":
            return reduce_sum(values, (values.ndim - 1,))
        return (FUNCTIONS[np.max] if ord == 2 else FUNCTIONS[np.min])(values, axis=-1)
    if ord not in (1, -1, np.inf, -np.inf):
        raise _unknown_order(ord, "matrices")
    along, across = (row, column) if abs(ord) == 1 else (column, row)
    sums = reduce_sum(ew.absolute(x), (along,))
    return (FUNCTIONS[np.max] if ord > 0 else FUNCTIONS[np.min])(sums, axis=across - (across > along))


@implements(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """As ``numpy.linalg.vector_norm``: over any number of axes, as if flattened."""
    x = arrayed(x)
    if x.dtype.kind not in "fc":
        x = convert(x, np.float64)
    axes = normalize_axes(axis, x.ndim)
    if ord == 2:
        return _keep(linalg.euclidean_norm(x, axes), x.shape, axes, keepdims)
    rest = tuple(k for k in range(x.ndim) if k not in axes)
    kept = tuple(x.shape[k] for k in rest)
    flat = reshape(permute(x, (*axes, *rest)), (math.prod(x.shape[k] for k in axes), *kept))
    return _keep(_vector_norm(flat, ord, 0), x.shape, axes, keepdims)


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """As ``numpy.linalg.matrix_norm``: over the last two axes."""
    return norm(x, axis=(-2, -1), keepdims=keepdims, ord=ord)


@implements(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """As ``numpy.linalg.cond``; a singular matrix raises unless ``p`` is ``None``, 2 or -2."""
    x = _matrices("cond", x)
    if x.size == 0:
        raise ShapeError(f"cond is not defined on empty arrays, got {aval_of(x)}", fix="pass matrices with elements")
    if p in (None, 2, -2):
        values = svdvals(x)
        largest, smallest = index_static(values, (Ellipsis, 0)), index_static(values, (Ellipsis, -1))
        return ew.div(smallest, largest) if p == -2 else ew.div(largest, smallest)
    return ew.mul(norm(x, p, (-2, -1)), norm(inv(x), p, (-2, -1)))


@implements(np.linalg.matrix_rank)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """As ``numpy.linalg.matrix_rank``: an integer without derivative, so values must be known."""
    tol, rtol = [None if x is None else known(x) for x in (tol, rtol)]
    return np.linalg.matrix_rank(known(A), tol, hermitian, rtol=rtol)
