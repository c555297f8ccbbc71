"""Products of arrays and ``einsum``, on top of `functrace.ops.contraction`.

Layer: 3.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib import NumpyVersion

from functrace.errors import DtypeError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import aval_of, shape_of
from functrace.numpy.arrays.layout import UNKNOWN, layout_of
from functrace.numpy.arrays.view_kinds import EinsumView
from functrace.numpy.arrays.views import copied_kind, linked, new_array, owned
from functrace.numpy.protocol.operands import (
    Arrayed,
    Operand,
    Out,
    along,
    arrayed,
    at_least,
    axis_tuple,
    cast_to,
    exact_axis,
    flattened,
    one_axis,
    stored,
)
from functrace.numpy.protocol.tables import FUNCTIONS, implements
from functrace.ops import elementwise as ew
from functrace.ops.contraction import LETTERS, matmul_p
from functrace.ops.contraction import einsum as contract
from functrace.ops.indexing import index_static
from functrace.ops.shaping import moveaxis, permute, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Tracer


def _conj(x: Arrayed) -> Any:
    return ew.conj(x) if x.dtype.kind == "c" else x


# -- products --------------------------------------------------------------------------------------


@implements(np.matmul)
def matmul(x1: Operand, x2: Operand, /, out: Out = None) -> Any:
    """As ``numpy.matmul``."""
    return stored(bind(matmul_p, (arrayed(x1), arrayed(x2))), out, "matmul")


@implements(np.dot, method="dot")
def dot(a: Operand, b: Operand, out: Out = None) -> Any:
    """As ``numpy.dot``: contract the last axis of ``a`` with the last but one of ``b``."""
    a, b = arrayed(a), arrayed(b)
    if a.ndim == 0 or b.ndim == 0:
        result = ew.mul(a, b)
    elif (a.ndim <= 2 and b.ndim <= 2) or b.ndim == 1:
        result = bind(matmul_p, (a, b))
    else:
        result = tensordot(a, b, axes=(a.ndim - 1, b.ndim - 2))
    if isinstance(out, Tracer):
        laid = layout_of(out)
        if (
            laid is None
            or not laid.flags.c_contiguous
            or (out.dtype, out.shape) != (result.dtype, shape_of(result))
        ):
            raise DtypeError(
                f"numpy.dot: out= must be {aval_of(result)} in C order, not {out.aval}"
                + ("" if laid is not None else " in an unknown order"),
                fix="write out[...] = np.dot(a, b)",
            )
    return stored(result, out, "dot")


@implements(np.inner, scalars=True)
def inner(a: Operand, b: Operand, /) -> Any:
    """As ``numpy.inner``: contract the last axes, without conjugation."""
    a, b = arrayed(a), arrayed(b)
    if a.ndim == 0 or b.ndim == 0:
        return ew.mul(a, b)
    result = tensordot(a, b, axes=(a.ndim - 1, b.ndim - 1))
    return result if result.shape or not isinstance(result, Tracer) else copied_kind(result, True)


@implements(np.outer)
def outer(a: Operand, b: Operand, out: Out = None) -> Any:
    """As ``numpy.outer``: operands are flattened."""
    a, b = flattened(arrayed(a)), flattened(arrayed(b))
    return stored(ew.mul(reshape(a, (a.size, 1)), b), out, "outer")


@implements(np.vdot)
def vdot(a: Operand, b: Operand, /) -> Any:
    """As ``numpy.vdot``: operands are flattened, the first one conjugated."""
    return bind(matmul_p, (flattened(_conj(arrayed(a))), flattened(arrayed(b))))


@implements(np.tensordot)
def tensordot(a: Operand, b: Operand, axes: int | Iterable[Any] = 2) -> Any:
    """As ``numpy.tensordot``: contract pairs of axes, as one matrix product."""
    a, b = arrayed(a), arrayed(b)
    if isinstance(axes, int | np.integer):
        count = int(axes)
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise ShapeError(
                f"tensordot cannot contract {count} axes of {aval_of(a)} and {aval_of(b)}",
                fix="pass a smaller axes=",
            )
        left, right = tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    else:
        of_a, of_b = [exact_axis(tuple(k) if np.ndim(k) else k) for k in axes]
        left, right = axis_tuple(of_a, a.ndim), axis_tuple(of_b, b.ndim)
    if len(left) != len(right):
        raise ShapeError(
            f"tensordot: {len(left)} axes of a, and {len(right)} of b", fix="name the axes in pairs"
        )
    if any(a.shape[i] != b.shape[j] for i, j in zip(left, right, strict=True)):
        raise ShapeError(
            f"tensordot cannot contract axes {left} of {aval_of(a)} with axes {right} of "
            f"{aval_of(b)}: sizes differ",
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
def kron(a: Operand, b: Operand) -> Any:
    """As ``numpy.kron``."""
    a, b = arrayed(a), arrayed(b)
    rank = max(a.ndim, b.ndim)
    left, right = (1,) * (rank - a.ndim) + a.shape, (1,) * (rank - b.ndim) + b.shape
    x = reshape(a, tuple(size for n in left for size in (n, 1)))
    y = reshape(b, tuple(size for n in right for size in (1, n)))
    return reshape(ew.mul(x, y), tuple(n * m for n, m in zip(left, right, strict=True)))


_CROSS_SIZES = frozenset({3} if NumpyVersion(np.__version__) >= "2.5.0" else {2, 3})
"""Numbers of components that ``numpy.cross`` takes."""


@implements(np.cross)
def cross(
    a: Operand,
    b: Operand,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Any:
    """As ``numpy.cross``: vectors of 3 components (or 2, deprecated by NumPy, until NumPy 2.4)."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = arrayed(a), arrayed(b)
    if a.ndim < 1 or b.ndim < 1:
        raise ShapeError(
            "cross needs operands with at least one axis", fix="pass vectors of 3 components"
        )
    a = moveaxis(a, one_axis(axisa, a.ndim), destination=a.ndim - 1)
    b = moveaxis(b, one_axis(axisb, b.ndim), destination=b.ndim - 1)
    sizes = a.shape[-1], b.shape[-1]
    if not {*sizes} <= _CROSS_SIZES:
        raise ShapeError(
            f"cross needs vectors of 3 components, got {sizes[0]} and {sizes[1]}",
            fix="check axisa and axisb",
        )
    if 2 in sizes:
        warnings.warn(
            "Arrays of 2-dimensional vectors are deprecated. Use arrays of 3-dimensional vectors "
            "instead. "
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
def vecdot(x1: Operand, x2: Operand, /, *, axis: int = -1) -> Any:
    """As ``numpy.vecdot``: products of stacked vectors, the first one conjugated."""
    a, b = arrayed(x1), arrayed(x2)
    for x in (a, b):
        at_least(x, 1, "vecdot")
    a = moveaxis(a, one_axis(axis, a.ndim), destination=a.ndim - 1)
    b = moveaxis(b, one_axis(axis, b.ndim), destination=b.ndim - 1)
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(
            f"vecdot cannot contract {aval_of(a)} with {aval_of(b)}", fix="make the sizes equal"
        )
    return einsum("...a,...a->...", _conj(a), b)


@implements(np.matvec)
def matvec(x1: Operand, x2: Operand, /) -> Any:
    """As ``numpy.matvec``: stacked matrices times stacked vectors."""
    a, v = arrayed(x1), arrayed(x2)
    at_least(a, 2, "matvec")
    at_least(v, 1, "matvec")
    if v.ndim == 1:
        return bind(matmul_p, (a, v))
    result = bind(matmul_p, (a, reshape(v, (*v.shape, 1))))
    return reshape(result, result.shape[:-1])


@implements(np.vecmat)
def vecmat(x1: Operand, x2: Operand, /) -> Any:
    """As ``numpy.vecmat``: stacked vectors, conjugated, times stacked matrices."""
    v, a = _conj(arrayed(x1)), arrayed(x2)
    at_least(v, 1, "vecmat")
    at_least(a, 2, "vecmat")
    if v.ndim == 1:
        return bind(matmul_p, (v, a))
    result = bind(matmul_p, (reshape(v, (*v.shape[:-1], 1, v.shape[-1])), a))
    return reshape(result, (*result.shape[:-2], result.shape[-1]))


# -- einsum ----------------------------------------------------------------------------------------


def _as_subscripts(operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return subscripts as a string, for both calling conventions of einsum."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), operands[1:]
    terms, values = operands[1::2], operands[: 2 * (len(operands) // 2) : 2]

    def text(axes: Sequence[int]) -> str:
        return "".join(
            "..." if k is Ellipsis else LETTERS[_sorted_letters(operator.index(k))] for k in axes
        )

    left = ",".join(text(axes) for axes in terms)
    return (f"{left}->{text(operands[-1])}" if len(operands) % 2 else left), values


def _sorted_letters(k: int) -> int:
    if not 0 <= k < len(LETTERS):
        raise ShapeError(
            f"einsum: the label {k} is not in 0 … {len(LETTERS) - 1}", fix="use smaller labels"
        )
    return (k + 26) % 52  # A … Z sort before a … z, and labels 0, 1 … must sort as numbers


def explicit_subscripts(subscripts: str, ranks: tuple[int, ...]) -> str:
    """Return subscripts with an explicit output, and letters for ellipses."""
    left, arrow, out = subscripts.partition("->")
    terms = left.split(",")
    given = set(subscripts) - set("->,.")
    if not given <= set(LETTERS):
        raise ShapeError(
            f"einsum '{subscripts}': {min(given - set(LETTERS))!r} is not a letter",
            fix="use a … z, A … Z",
        )
    if len(terms) != len(ranks):
        raise ShapeError(
            f"einsum '{subscripts}' names {len(terms)} operands, got {len(ranks)}",
            fix="name every operand",
        )
    spare = [a for a in reversed(LETTERS) if a not in given]
    extra = [
        rank - len(term.replace("...", ""))
        for term, rank in zip(terms, ranks, strict=True)
        if "..." in term
    ]
    widest = max(extra, default=0)
    if min(extra, default=0) < 0 or widest > len(spare):
        raise ShapeError(
            f"einsum '{subscripts}': an operand has too few axes for its letters",
            fix="check the ranks",
        )
    stack = "".join(spare[:widest])
    for k, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        if "..." in term:
            own = rank - len(term) + 3
            terms[k] = term.replace("...", stack[widest - own :])
    if not arrow:
        letters = [c for c in left if c not in ",."]
        out = ("..." if "..." in left else "") + "".join(
            sorted(a for a in set(letters) if letters.count(a) == 1)
        )
    elif stack and "..." not in out:
        raise ShapeError(
            f"einsum '{subscripts}': the output has no ellipsis for the broadcast axes",
            fix="write '...' in the output, too",
        )
    result = f"{','.join(terms)}->{out.replace('...', stack)}"
    if "." in result:
        raise ShapeError(
            f"einsum '{subscripts}': an ellipsis has three dots", fix="write '...' once per operand"
        )
    return result


@implements(np.einsum)
def einsum(*operands: Any, out: Out = None, optimize: object = False, **kwargs: Any) -> Any:
    """As ``numpy.einsum``; more than two operands are always contracted along an optimized path."""
    dtype, casting, _ = (
        kwargs.pop("dtype", None),
        kwargs.pop("casting", "safe"),
        kwargs.pop("order", None),
    )
    if kwargs:
        raise UnsupportedFunctionError(
            f"numpy.einsum has no option {min(kwargs)!r}", fix="leave it out"
        )
    subscripts, values = _as_subscripts(operands)
    values = tuple(arrayed(x) for x in values)
    explicit = explicit_subscripts(subscripts, tuple(x.ndim for x in values))
    term, _, axes = explicit.partition("->")
    if axes and set(term) == set(axes) and out is None:  # NumPy returns a view, whatever dtype= is
        return linked(contract(explicit, *values), EinsumView(values[0], term, axes))
    result = contract(explicit, *[cast_to(x, dtype, casting) for x in values])
    if out is not None:
        return stored(result, out, "einsum")
    return owned(result, UNKNOWN) if result.shape else result


@implements(np.einsum_path)
def einsum_path(*operands: object, optimize: object = "greedy", einsum_call: bool = False) -> Any:
    """As ``numpy.einsum_path``: depends on shapes only."""
    subscripts, values = _as_subscripts(operands)
    stand_ins = [np.broadcast_to(np.empty((), x.dtype), x.shape) for x in map(arrayed, values)]
    return np.einsum_path(subscripts, *stand_ins, optimize=optimize, einsum_call=einsum_call)  # type: ignore[call-overload]


@implements(np.linalg.multi_dot, of_sequence=True)
def multi_dot(arrays: Iterable[Operand], *, out: Out = None) -> Any:
    """As ``numpy.linalg.multi_dot``: a chain of products in the cheapest order."""
    chain = [arrayed(x) for x in arrays]
    if len(chain) < 2:
        raise ShapeError("multi_dot needs at least two arrays", fix="pass a list of two or more")
    for k, x in enumerate(chain):
        allowed = (1, 2) if k in (0, len(chain) - 1) else (2,)
        if x.ndim not in allowed:
            raise ShapeError(
                f"multi_dot: operand {k} is {aval_of(x)}",
                fix="pass matrices; the first and last may be vectors",
            )
    rows = [
        x.shape[0] if x.ndim == 2 else (1 if k == 0 else x.shape[0]) for k, x in enumerate(chain)
    ]
    sizes = (*rows, chain[-1].shape[1] if chain[-1].ndim == 2 else 1)
    return stored(_chained(chain, _best_splits(sizes), 0, len(chain) - 1), out, "linalg.multi_dot")


def _best_splits(sizes: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """Split a matrix chain optimally. Source: Cormen et al., Introduction to Algorithms, 15.2."""
    count = len(sizes) - 1
    cost = {(k, k): 0 for k in range(count)}
    split: dict[tuple[int, int], int] = {}
    for width in range(1, count):
        for i in range(count - width):
            j = i + width
            cost[i, j], split[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return split


def _chained(chain: list[Any], split: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return chain[i]
    k = split[i, j]
    return bind(matmul_p, (_chained(chain, split, i, k), _chained(chain, split, k + 1, j)))


@implements(np.linalg.outer)
def linalg_outer(x1: Operand, x2: Operand, /) -> Any:
    """As ``numpy.linalg.outer``: of vectors."""
    a, b = arrayed(x1), arrayed(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(
            f"numpy.linalg.outer needs vectors, got {aval_of(a)} and {aval_of(b)}",
            fix="use np.outer",
        )
    return outer(a, b)


@implements(np.linalg.cross)
def linalg_cross(x1: Operand, x2: Operand, /, *, axis: int = -1) -> Any:
    """As ``numpy.linalg.cross``: of vectors of 3 components."""
    a, b = arrayed(x1), arrayed(x2)
    for x in (a, b):
        at_least(x, 1, "numpy.linalg.cross")
        if x.shape[one_axis(axis, x.ndim)] != 3:
            raise ShapeError(
                f"numpy.linalg.cross needs 3 components, got {aval_of(x)}", fix="check axis"
            )
    return cross(a, b, axis=axis)


@implements(np.linalg.tensordot)
def linalg_tensordot(x1: Operand, x2: Operand, /, *, axes: int | Iterable[Any] = 2) -> Any:
    """As ``numpy.linalg.tensordot``."""
    return tensordot(x1, x2, axes)


@implements(np.linalg.matmul)
def linalg_matmul(x1: Operand, x2: Operand, /) -> Any:
    """As ``numpy.linalg.matmul``."""
    return bind(matmul_p, (arrayed(x1), arrayed(x2)))
