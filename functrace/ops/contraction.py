"""Contractions: products summed over shared axes, ``matmul`` and ``einsum``.

Both are linear in each operand, and their transposes are contractions again. ``matmul`` takes every
combination of ranks that NumPy's does (vectors, matrices, stacks that broadcast). ``einsum`` takes
explicit subscripts without an ellipsis; more than two operands are contracted pairwise along a path
from opt_einsum, so that derivatives are pairwise, too, and every intermediate is computed once.

Layer: 2.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype, broadcast_shapes, shape_of
from functrace.ir.primitive import Flags, Operand, Primitive, Tangents, Values, is_linear
from functrace.ir.tape import Spec
from functrace.ops import counts, work
from functrace.ops.elementwise import add, mul, plus, where
from functrace.ops.shaping import broadcast_to, convert, permute, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Tracer, Value
from functrace.typing import Array

Shape = tuple[int, ...]


def swap_last(x: Value) -> Any:
    """Return ``x`` with its last two axes swapped."""
    rank = len(shape_of(x))
    return permute(x, (*range(rank - 2), rank - 1, rank - 2))


# -- matmul ----------------------------------------------------------------------------------------


def _matmul_aval(x: Spec, y: Spec) -> ShapeDtype:
    for spec in (x, y):
        if isinstance(spec, type) or not spec.shape:
            what = (
                f"a Python {spec.__name__}" if isinstance(spec, type) else f"the 0-d array {spec}"
            )
            raise ShapeError(
                f"matmul needs operands with at least one axis, got {what}", fix="use * for scalars"
            )
    n, m = x.shape[-1], y.shape[-2 if y.ndim > 1 else 0]  # type: ignore[union-attr]
    if n != m:
        raise ShapeError(
            f"matmul cannot contract {x} with {y}: sizes {n} and {m} differ",
            fix="the last axis of the left operand must be as long as the last but one (or the "
            "only one) of the right; "
            "x.mT swaps the last two axes",
        )
    try:
        stack = broadcast_shapes(x.shape[:-2], y.shape[:-2])  # type: ignore[union-attr]
    except ValueError:
        raise ShapeError(
            f"matmul cannot broadcast the stacks of {x} and {y}",
            fix="make the leading sizes equal, or 1; x[:, None] adds an axis",
        ) from None
    shape = (*stack, *x.shape[-2:-1], *(y.shape[-1:] if y.ndim > 1 else ()))  # type: ignore[union-attr]
    return ShapeDtype(shape, np.matmul.resolve_dtypes((x.dtype, y.dtype, None))[-1])  # type: ignore[union-attr]


def _matmul_jvp(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    (x, y), (a, b) = primals, tangents
    return plus(None if a is None else matmul(a, y), None if b is None else matmul(x, b))


def _matmul_transpose(ct: Array, x: Operand, y: Operand) -> Any:
    if is_linear(x):
        return _to_left(ct, x.shape, y), None
    return None, _to_right(ct, x, y.shape)


def _to_left(ct: Array, left: Shape, y: Operand) -> Any:
    """Cotangent of the left operand, up to a sum over broadcast axes."""
    right, out = shape_of(y), shape_of(ct)
    if len(right) == 1:
        return mul(reshape(ct, (*out, 1)), y)
    if len(left) == 1:
        if len(right) == 2:
            return matmul(y, ct)
        return reshape(matmul(y, reshape(ct, (*out, 1))), right[:-1])
    if (
        len(left) == 2 and len(right) > 2
    ):  # one matrix for a whole stack: sum over the stack inside the product
        stack = math.prod(right[:-2])
        return contract(
            "abc,adc->bd", reshape(ct, (stack, *out[-2:])), reshape(y, (stack, *right[-2:]))
        )
    return matmul(ct, swap_last(y))


def _to_right(ct: Array, x: Operand, right: Shape) -> Any:
    """Cotangent of the right operand, up to a sum over broadcast axes."""
    left, out = shape_of(x), shape_of(ct)
    if len(left) == 1:
        if len(right) == 1:
            return mul(x, ct)
        return mul(reshape(x, (*left, 1)), reshape(ct, (*out[:-1], 1, out[-1])))
    if len(right) == 1:
        rows = math.prod(out)
        return matmul(reshape(ct, (rows,)), reshape(x, (rows, left[-1])))
    if len(right) == 2:
        rows = math.prod(left[:-1])
        return matmul(swap_last(reshape(x, (rows, left[-1]))), reshape(ct, (rows, out[-1])))
    return matmul(swap_last(x), ct)


def _matmul_batch(operands: Values, is_batched: Flags) -> Any:
    (x, y), (b, c) = operands, is_batched
    left, right = shape_of(x), shape_of(y)
    p, q = len(left) - b, len(right) - c  # ranks of one example
    if not c and q <= 2:
        return matmul(x, y)
    if not b and p == 1:
        return matmul(y, x) if q == 1 else matmul(x, y)
    if not b and p == 2 and q == 1:
        return matmul(y, swap_last(x))
    rank = max(p, q, 2)
    x = reshape(x, _as_matrices(left, b, p, rank, (1,), ()))
    y = reshape(y, _as_matrices(right, c, q, rank, (), (1,)))
    out = matmul(x, y)
    full = shape_of(out)
    return reshape(
        out, (*full[:-2], *(full[-2:-1] if p > 1 else ()), *(full[-1:] if q > 1 else ()))
    )


def _as_matrices(
    shape: Shape, batched: bool, rank: int, wanted: int, before: Shape, after: Shape
) -> Shape:
    """Shape of an operand with vectors as matrices, and the batch axis in front of
    ``wanted`` axes.
    """
    example = shape[1:] if batched else shape
    if rank == 1:
        example = (*before, *example, *after)
    return (shape[0], *(1,) * (wanted - len(example)), *example) if batched else example


matmul_p = Primitive(
    "matmul",
    eval=np.matmul,
    aval=_matmul_aval,
    jvp=_matmul_jvp,
    transpose=_matmul_transpose,
    batch=_matmul_batch,
    written="{0} @ {1}",
    flops=counts.matmul,
    fresh=lambda aval: aval.ndim <= 2,
)


def matmul(x: Value, y: Value) -> Any:
    """Matrix product, with NumPy's meaning of ranks and stacks."""
    return bind(matmul_p, (x, y))


def _dot_aval(x: Spec, y: Spec) -> ShapeDtype:
    made = _matmul_aval(x, y)
    if any(not isinstance(spec, type) and spec.ndim > 2 for spec in (x, y)):
        raise ShapeError(
            f"dot takes vectors and matrices, got {x} and {y}", fix="use matmul for stacks"
        )
    return made


def _allocates(_aval: ShapeDtype) -> bool:
    return True


dot_p = replace(
    matmul_p,
    name="dot",
    eval=np.dot,
    aval=_dot_aval,
    written="np.dot({0}, {1})",
    fresh=_allocates,
    warns="matmul",
)
"""``matmul`` of vectors and matrices by ``np.dot``, which has lower overhead
(`functrace.passes.matmul_selection`)."""

matmul_in_parts_p = replace(matmul_p, name="matmul_in_parts")
"""``matmul`` of large matrices, or of stacks, split among threads
(`functrace.executor.parallel.matmul`)."""


# -- einsum ----------------------------------------------------------------------------------------

_BLAS_DTYPES = frozenset(map(np.dtype, "fdFD"))
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SMALL = 2**14
"""Multiplications up to which NumPy's own loop is faster than BLAS with its 20 us of Python."""
_FEW_LOOPS = 2**10
"""Inner loops up to which NumPy's own loop is faster: each costs 20 to 40 ns plus its
multiplications."""


def _split(subscripts: str) -> tuple[list[str], str]:
    left, out = subscripts.split("->")
    return left.split(","), out


@functools.lru_cache(4096)
def _sizes(subscripts: str, shapes: tuple[Shape, ...]) -> dict[str, int]:
    """Size by letter; raises `ShapeError` where two sizes are not equal (and neither is a broadcast
    1).
    """
    terms, out = _split(subscripts)
    if len(terms) != len(shapes):
        raise ShapeError(
            f"einsum '{subscripts}' names {len(terms)} operands, got {len(shapes)}",
            fix="name every operand",
        )
    sizes: dict[str, int] = {}
    for k, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        if len(term) != len(shape):
            raise ShapeError(
                f"einsum '{subscripts}': operand {k} has the shape {list(shape)}, and '{term}' "
                f"names {len(term)} axes",
                fix="name every axis of the operand with one letter, or use an ellipsis",
            )
        own: dict[str, int] = {}
        for letter, n in zip(term, shape, strict=True):
            if own.setdefault(letter, n) != n:
                raise ShapeError(
                    f"einsum '{subscripts}': '{letter}' is {own[letter]} and {n} in operand {k}",
                    fix="make the sizes equal",
                )
        for letter, n in own.items():
            known = sizes.get(letter, 1)
            if known != 1 and n not in (1, known):
                raise ShapeError(
                    f"einsum '{subscripts}': '{letter}' is {known} before, and {n} in operand {k} "
                    f"of shape {list(shape)}",
                    fix="make the sizes equal, or use another letter",
                )
            sizes[letter] = n if known == 1 else known
    if len(set(out)) != len(out) or not set(out) <= set(sizes):
        raise ShapeError(
            f"einsum '{subscripts}': the output must name letters of the operands, each once",
            fix="write the output letters after '->'",
        )
    return sizes


def _einsum_eval(*arguments: Any) -> Any:
    *operands, subscripts, optimize = arguments
    result = np.einsum(subscripts, *operands, optimize=optimize)
    # With one operand NumPy may return a view ("ab->ba", "aa->a"), but a result must be unshared.
    return result if len(operands) > 1 else np.array(result)[()]


def _einsum_aval(*arguments: Any) -> ShapeDtype:
    *specs, subscripts, _ = arguments
    sizes = _sizes(subscripts, tuple(s.shape for s in specs))
    return ShapeDtype(
        tuple(sizes[a] for a in _split(subscripts)[1]), np.result_type(*(s.dtype for s in specs))
    )


def _einsum_jvp(
    primals: Values, _outputs: Values, tangents: Tangents, subscripts: str, _optimize: bool
) -> Any:
    total = None
    for k, tangent in enumerate(tangents):
        if tangent is not None:
            term = contract(subscripts, *primals[:k], tangent, *primals[k + 1 :])
            total = term if total is None else add(total, term)
    return total


def _einsum_transpose(ct: Array, *arguments: Any) -> Any:
    *operands, subscripts, _ = arguments
    terms, out = _split(subscripts)
    results: list[Any] = [None] * len(operands)
    for k, operand in enumerate(operands):
        if is_linear(operand):
            others = [j for j in range(len(operands)) if j != k]
            names = [out, *(terms[j] for j in others)]
            core = "".join(a for a in dict.fromkeys(terms[k]) if any(a in name for name in names))
            part = contract(f"{','.join(names)}->{core}", ct, *(operands[j] for j in others))
            results[k] = _spread(part, core, terms[k], operand.shape)
    return tuple(results)


def _spread(x: Array, core: str, term: str, shape: Shape) -> Any:
    """Broadcast ``x``, with axes ``core``, to the axes ``term``; repeated letters get zeros off the
    diagonal.
    """
    first = [term.index(a) == k for k, a in enumerate(term)]
    x = reshape(
        x,
        tuple(n if new and a in core else 1 for a, n, new in zip(term, shape, first, strict=True)),
    )
    x = broadcast_to(x, shape)
    if all(first):
        return x
    diagonal = np.ones(shape, bool)
    for k, a in enumerate(term):
        if not first[k]:
            places = np.indices((shape[k], shape[k]), sparse=True)
            row, column = (1,) * len(shape), (1,) * len(shape)
            row, column = _with(row, term.index(a), shape[k]), _with(column, k, shape[k])
            diagonal &= places[0].reshape(row) == places[1].reshape(column)
    return where(diagonal, x, 0.0)


def _with(shape: Shape, k: int, n: int) -> Shape:
    return (*shape[:k], n, *shape[k + 1 :])


def _einsum_batch(operands: Values, is_batched: Flags, subscripts: str, _optimize: bool) -> Any:
    terms, out = _split(subscripts)
    fresh = next((a for a in LETTERS if a not in subscripts), None)
    if fresh is None:
        raise ShapeError("einsum under vmap: all 52 letters are in use", fix="use fewer axes")
    left = ",".join(
        fresh + term if batched else term for term, batched in zip(terms, is_batched, strict=True)
    )
    return contract(f"{left}->{fresh}{out}", *operands)


einsum_p = Primitive(
    "einsum",
    eval=_einsum_eval,
    aval=_einsum_aval,
    jvp=_einsum_jvp,
    transpose=_einsum_transpose,
    batch=_einsum_batch,
    params=("subscripts", "optimize"),
    flops=counts.einsum,
    scratch=work.contraction,
)


@functools.lru_cache(4096)
def _canonical(subscripts: str) -> str:
    """Return the subscripts with letters a, b, c … by first appearance, for caching."""
    names = {
        a: LETTERS[k] for k, a in enumerate(dict.fromkeys(c for c in subscripts if c not in ",->"))
    }
    return "".join(names.get(c, c) for c in subscripts)


@functools.lru_cache(4096)
def _as_matmul(subscripts: str) -> tuple[bool, bool, bool] | None:
    """Recognize a product of two (stacks of) matrices: ``(swap x, swap y, swap the result)``, or
    None.

    >>> _as_matmul("abc,acd->abd"), _as_matmul("ab,cb->ca"), _as_matmul("abc,abc->a")
    ((False, False, False), (False, True, True), None)
    """
    terms, out = _split(subscripts)
    if len(terms) != 2 or {len(t) for t in terms} != {len(out)} or len(out) < 2:
        return None
    (x, y), stack = terms, out[:-2]
    letters = set(stack + x[-2:] + y[-2:])
    if not x.startswith(stack) or not y.startswith(stack) or len(letters) != len(out) + 1:
        return None
    row, column = set(x[-2:]) - set(y), set(y[-2:]) - set(x)
    if len(row) != 1 or len(column) != 1 or row | column != set(out[-2:]):
        return None
    return x[-1] in row, y[-2] in column, out[-2] in column


@functools.lru_cache(4096)
def _is_optimized(subscripts: str, shapes: tuple[Shape, ...]) -> bool:
    """Decide whether NumPy contracts through BLAS: many multiplications, or many short
    inner loops.
    """
    sizes = _sizes(subscripts, shapes)
    total = math.prod(sizes.values())
    terms, out = _split(subscripts)
    inner = 1
    for ends in zip(*(reversed(term) for term in (*terms, out) if term)):
        if len(set(ends)) > 1:
            inner = max(inner, *(sizes[a] for a in ends)) if inner == 1 else inner
            break
        inner *= sizes[ends[0]]
    return total > _SMALL or total > _FEW_LOOPS * inner


def contract(subscripts: str, *operands: Value) -> Any:
    """Apply one contraction to any number of operands; sizes must be equal (no broadcast 1).

    Products of matrices are `matmul`, all else is `einsum_p`.
    """
    subscripts = _canonical(subscripts)
    if len(operands) == 2 and all(getattr(x, "dtype", None) in _BLAS_DTYPES for x in operands):
        swaps = _as_matmul(subscripts)
        if swaps is not None:
            _sizes(subscripts, tuple(map(shape_of, operands)))  # raises if they are inconsistent
            x, y = [swap_last(x) if swapped else x for x, swapped in zip(operands, swaps)]
            return matmul(swap_last(y), swap_last(x)) if swaps[2] else matmul(x, y)
    optimize = len(operands) > 1 and _is_optimized(subscripts, tuple(map(shape_of, operands)))
    return bind(einsum_p, operands, (subscripts, optimize))


@functools.lru_cache(1024)
def _pairwise(
    subscripts: str, shapes: tuple[Shape, ...]
) -> tuple[tuple[tuple[int, ...], str], ...]:
    """Return the steps (positions removed, subscripts) of a contraction; results are appended."""
    import opt_einsum

    terms, out = _split(subscripts)
    path: Sequence[Sequence[int]]
    path, _ = opt_einsum.contract_path(subscripts, *shapes, shapes=True)
    steps: list[tuple[tuple[int, ...], str]] = []
    for taken in path:
        used = [terms[k] for k in taken]
        terms = [t for k, t in enumerate(terms) if k not in taken]
        needed = set(out).union(*terms)
        result = (
            out if not terms else "".join(a for a in dict.fromkeys("".join(used)) if a in needed)
        )
        steps.append((tuple(taken), f"{','.join(used)}->{result}"))
        terms.append(result)
    return tuple(steps)


def einsum(subscripts: str, *operands: Array | Tracer) -> Any:
    """Contract operands by explicit subscripts such as ``'ab,bc->ac'`` (no ellipsis).

    An axis of size 1 broadcasts, as in NumPy. More than two operands are contracted pairwise.

    Raises:
        ShapeError: if sizes of one letter differ, or the numbers of letters and axes.
    """
    sizes = _sizes(subscripts, tuple(map(shape_of, operands)))
    terms, out = _split(subscripts)
    values = list(operands)
    for k, term in enumerate(terms):
        shape = shape_of(values[k])
        kept = [j for j, a in enumerate(term) if shape[j] == sizes[a]]
        if len(kept) < len(term):
            values[k] = reshape(values[k], tuple(shape[j] for j in kept))
            terms[k] = "".join(term[j] for j in kept)
    subscripts = _canonical(f"{','.join(terms)}->{out}")
    if len(values) <= 2:
        return contract(subscripts, *values)
    dtype = np.result_type(*(v.dtype for v in values))
    values = [convert(v, dtype) for v in values]
    for taken, step in _pairwise(subscripts, tuple(map(shape_of, values))):
        used = [values[k] for k in taken]
        values = [v for k, v in enumerate(values) if k not in taken]
        values.append(contract(step, *used))
    return values[0]
