"""Polynomials as coefficients, highest first: ``poly``, ``polyval``, ``polyfit`` ….

``numpy.poly1d`` calls these functions. It drops leading zeros, so traced coefficients must be
concrete; so do ``polymul`` and the remainder of ``polydiv``. The classes and functions of
``numpy.polynomial`` convert arguments by ``numpy.asarray``, which raises for traced values.

Layer: 3.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from functrace.errors import ConcretizationError, DtypeError, ShapeError
from functrace.numpy.arrays.masked import NeedsConcreteValues
from functrace.numpy.functions.factorizations import eigvals, real_eigvals
from functrace.numpy.functions.joining import concatenate
from functrace.numpy.functions.linear_algebra import fitted, inv, residuals
from functrace.numpy.functions.shaping import atleast_1d
from functrace.numpy.protocol.operands import Arrayed, Operand, arrayed, known
from functrace.numpy.protocol.tables import FUNCTIONS, implements
from functrace.ops import eigen
from functrace.ops import elementwise as ew
from functrace.ops.contraction import matmul
from functrace.ops.indexing import index_static
from functrace.ops.joining import convolve, stack
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import convert, permute, reshape
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import has_value


def _coefficients(p: Operand | np.poly1d) -> Arrayed:
    """Return the coefficients of a polynomial as a vector."""
    if isinstance(p, np.poly1d):
        return p.coeffs
    return atleast_1d(arrayed(p))


def _vector(p: Arrayed) -> Arrayed:
    if len(p.shape) != 1:
        raise ShapeError(
            f"Polynomial must be 1d only, not of shape {p.shape}",
            fix="pass a vector of coefficients",
        )
    return p


def _as_given(result: Arrayed, *given: object) -> Any:
    """Return a ``poly1d`` if an argument is one, else the coefficients."""
    return np.poly1d(result) if any(isinstance(p, np.poly1d) for p in given) else result


def _nonzero_part(p: Arrayed, name: str, fix: str) -> tuple[int, int]:
    """Return the range of coefficients from the first to the last nonzero one.

    Raises:
        ConcretizationError: if the coefficients are abstract.
    """
    try:
        places = np.flatnonzero(known(p))
    except ConcretizationError as error:
        raise ConcretizationError(
            f"the number of coefficients of numpy.{name} depends on which are 0, which is not "
            "known here",
            made=error.made,
            fix=fix,
        ) from error
    return (int(places[0]), int(places[-1]) + 1) if places.size else (0, 0)


def _part(p: Arrayed, start: int | None, stop: int | None) -> Any:
    return index_static(p, ((start, stop, None),))


# -- roots -----------------------------------------------------------------------------------------


@implements(np.poly)
def poly(seq_of_zeros: Operand) -> Any:
    """As ``numpy.poly``: polynomial with these roots, or characteristic polynomial of a matrix.

    Raises:
        ConcretizationError: for abstract complex roots: the dtype of the result depends on them.
    """
    zeros = atleast_1d(arrayed(seq_of_zeros))
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] != 0:
        is_real = zeros.dtype.kind != "c"
        dtype = np.result_type(zeros.dtype, np.float32 if zeros.dtype.kind in "fc" else np.float64)
        made = _with_roots(eigen.eigvals(convert(zeros, dtype)))
        if is_real:  # its roots are real, or in conjugate pairs
            return convert(ew.positive(ew.real(made)), dtype)
    elif zeros.ndim == 1:
        zeros = convert(zeros, np.mintypecode(zeros.dtype.char))
        if not zeros.shape[0]:
            return 1.0
        made = _with_roots(zeros)
    else:
        raise ShapeError(
            "input must be 1d or non-empty square 2d array.", fix="pass a vector of roots"
        )
    if made.dtype.kind != "c":
        return made
    try:
        values = known(eigvals(zeros) if zeros.ndim == 2 else zeros)
    except ConcretizationError as error:
        raise ConcretizationError(
            "whether numpy.poly of complex roots is real depends on their values, which are not "
            "known here",
            made=error.made,
            fix="multiply the factors: functools.reduce(np.convolve, [np.stack([1.0, -root]) for "
            "root in roots])",
        ) from error
    in_pairs = np.all(np.sort(values) == np.sort(values.conjugate()))
    return ew.positive(ew.real(made)) if in_pairs else made


def _with_roots(zeros: Arrayed) -> Any:
    made: Any = np.ones(1, zeros.dtype)
    for k in range(zeros.shape[0]):
        factor = stack([np.ones((), zeros.dtype), ew.neg(index_static(zeros, (k,)))], 0)
        made = convolve(made, factor)
    return made


@implements(np.roots)
def roots(p: Operand) -> Any:
    """As ``numpy.roots``: eigenvalues of the companion matrix; no derivative at multiple roots.

    Raises:
        ConcretizationError: if the coefficients are abstract: the number of roots depends on them.
    """
    x: Any = _coefficients(p)
    if x.ndim != 1:
        raise ShapeError("Input must be a rank-1 array.", fix="pass a vector of coefficients")
    if x.shape[0] <= 1:
        return np.array([])
    fix = "compute np.linalg.eigvals of the companion matrix, with .astype(complex)"
    start, stop = _nonzero_part(x, "roots", fix)
    if start == stop:
        return np.array([])
    at_zero = x.shape[0] - stop
    x = _part(x, start, stop)
    if x.dtype.kind not in "fc":
        x = convert(x, np.float64)
    n = x.shape[0]
    if n == 1:
        return np.zeros(at_zero)
    first = ew.div(ew.neg(_part(x, 1, None)), index_static(x, (0,)))
    companion = concatenate([reshape(first, (1, n - 1)), np.eye(n - 2, n - 1, dtype=x.dtype)])
    found = real_eigvals(companion)
    return concatenate([found, np.zeros(at_zero, found.dtype)])


# -- arithmetic ------------------------------------------------------------------------------------


@implements(np.polyval)
def polyval(p: Operand, x: Operand) -> Any:
    """As ``numpy.polyval``: by Horner's rule."""
    p = p.coeffs if isinstance(p, np.poly1d) else arrayed(p)
    x = x if isinstance(x, np.poly1d) else arrayed(x)
    total: Any = 0 if isinstance(x, np.poly1d) else np.zeros_like(x)
    for k in range(p.shape[0]):
        total = total * x + index_static(p, (k,))
    return total


def _extended(a1: Operand, a2: Operand) -> tuple[Any, Any]:
    x, y = _coefficients(a1), _coefficients(a2)
    missing = y.shape[0] - x.shape[0]
    if missing > 0:
        x = concatenate([np.zeros(missing, x.dtype), x])
    elif missing < 0:
        y = concatenate([np.zeros(-missing, y.dtype), y])
    return x, y


@implements(np.polyadd)
def polyadd(a1: Operand, a2: Operand) -> Any:
    """As ``numpy.polyadd``."""
    return _as_given(ew.add(*_extended(a1, a2)), a1, a2)


@implements(np.polysub)
def polysub(a1: Operand, a2: Operand) -> Any:
    """As ``numpy.polysub``."""
    return _as_given(ew.sub(*_extended(a1, a2)), a1, a2)


@implements(np.polymul)
def polymul(a1: Operand, a2: Operand) -> Any:
    """As ``numpy.polymul``, which drops leading zeros.

    Raises:
        ConcretizationError: if the coefficients are abstract.
    """
    parts = []
    for p in (a1, a2):
        p = _vector(_coefficients(p))
        start, stop = _nonzero_part(
            p, "polymul", "use np.convolve(a1, a2), which keeps leading zeros"
        )
        parts.append(_part(p, start, None) if stop else np.zeros(1, p.dtype))
    return _as_given(convolve(*parts), a1, a2)


@implements(np.polydiv)
def polydiv(u: Operand, v: Operand) -> tuple[Any, Any]:
    """As ``numpy.polydiv``: quotient and remainder, without leading zeros of the remainder.

    For abstract values, any use of the remainder raises `ConcretizationError`.
    """
    x, y = ew.add(_coefficients(u), 0.0), ew.add(_coefficients(v), 0.0)
    dtype = np.result_type(x.dtype, y.dtype)
    m, n = x.shape[0] - 1, y.shape[0] - 1
    scale = ew.div(1.0, index_static(y, (0,)))
    rest: Any = convert(x, dtype)
    quotient = []
    for k in range(m - n + 1):
        factor = ew.mul(scale, index_static(rest, (k,)))
        quotient.append(convert(factor, dtype))
        part = ew.sub(_part(rest, k, k + n + 1), ew.mul(factor, y))
        rest = concatenate(
            [_part(rest, None, k), convert(part, dtype), _part(rest, k + n + 1, None)]
        )
    q = stack(quotient, 0) if quotient else np.zeros(1, dtype)
    if not has_value(rest):
        fix = "use the quotient q alone, and u - np.convolve(q, v) for the remainder with its leading zeros"
        what = "the number of coefficients of the remainder of numpy.polydiv depends on which are 0, which is not known here"
        return q, NeedsConcreteValues(
            "the remainder of numpy.polydiv", ConcretizationError(what, fix=fix)
        )
    values = np.polydiv(known(x), known(y))[1]  # NumPy's test for 0 depends on the last bits
    start = m + 1 - len(values)
    rest = _part(rest, start, None)
    return _as_given(q, u, v), _as_given(rest, u, v)


@implements(np.polyder)
def polyder(p: Operand, m: int = 1) -> Any:
    """As ``numpy.polyder``."""
    m = int(m)
    if m < 0:
        raise ShapeError("Order of derivative must be positive (see polyint)", fix="use np.polyint")
    made: Any = _vector(p.coeffs if isinstance(p, np.poly1d) else arrayed(p))
    for _ in range(m):
        made = ew.mul(_part(made, None, -1), np.arange(made.shape[0] - 1, 0, -1))
    return _as_given(made, p)


@implements(np.polyint)
def polyint(p: Operand, m: int = 1, k: Operand | None = None) -> Any:
    """As ``numpy.polyint``; differentiable in the coefficients and in the constants ``k``."""
    m = int(m)
    if m < 0:
        raise ShapeError("Order of integral must be positive (see polyder)", fix="use np.polyder")
    constants: Any = np.zeros(m) if k is None else atleast_1d(arrayed(k))
    if constants.shape[0] == 1 and m > 1:
        constants = (
            FUNCTIONS[np.repeat](constants, m)
            if isinstance(constants, Tracer)
            else np.repeat(constants, m)
        )
    if constants.shape[0] < m:
        raise ShapeError(
            "k must be a scalar or a rank-1 array of length 1 or >m.",
            fix="pass one constant per integral",
        )
    made: Any = _vector(p.coeffs if isinstance(p, np.poly1d) else arrayed(p))
    for j in range(m):
        made = concatenate(
            [ew.div(made, np.arange(made.shape[0], 0, -1)), _part(constants, j, j + 1)]
        )
    return _as_given(made, p)


# -- fitting ---------------------------------------------------------------------------------------


def _measured(x: Operand, name: str, ranks: tuple[int, ...]) -> Arrayed:
    made = arrayed(x) + 0.0
    if made.ndim not in ranks:
        raise DtypeError(
            f"polyfit: expected {name}, got shape {made.shape}", fix="check the shapes"
        )
    return made


@implements(np.polyfit)
def polyfit(
    x: Operand,
    y: Operand,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Operand | None = None,
    cov: bool | str = False,
) -> Any:
    """As ``numpy.polyfit``: least squares; differentiable in ``x``, ``y`` and ``w``."""
    order = int(deg) + 1
    if deg < 0:
        raise ShapeError("expected deg >= 0", fix="pass a degree of at least 0")
    at, to = _measured(x, "1D vector for x", (1,)), _measured(y, "1D or 2D array for y", (1, 2))
    if not at.shape[0]:
        raise DtypeError("expected non-empty vector for x", fix="pass points")
    if at.shape[0] != to.shape[0]:
        raise DtypeError("expected x and y to have same length", fix="pass one value per point")
    limit: float = at.shape[0] * float(np.finfo(at.dtype).eps) if rcond is None else rcond
    left: Any = FUNCTIONS[np.vander](at, order)
    right: Any = to
    if w is not None:
        weights = _measured(w, "a 1-d array for weights", (1,))
        if weights.shape[0] != to.shape[0]:
            raise DtypeError(
                "expected w and y to have the same length", fix="pass one weight per point"
            )
        across = reshape(weights, (weights.shape[0], 1))
        left = convert(ew.mul(left, across), left.dtype)
        right = convert(ew.mul(right, across if right.ndim == 2 else weights), right.dtype)
    scale = ew.sqrt(reduce_sum(ew.mul(left, left), (0,)))
    left = ew.div(left, scale)
    c, rest, rank, s = fitted(left, right, limit)
    c = ew.div(c, reshape(scale, (order, 1)) if right.ndim == 2 else scale)
    if full:
        return c, residuals(rest, rank, order, c.dtype), rank, s, limit
    _warn_of(rank, order)
    if not cov:
        return c
    base = ew.div(
        inv(matmul(permute(left, (1, 0)), left)), ew.mul(reshape(scale, (order, 1)), scale)
    )
    factor: Any = 1
    if cov != "unscaled":
        if at.shape[0] <= order:
            raise ShapeError(
                "the number of data points must exceed order to scale the covariance matrix",
                fix="pass cov='unscaled'",
            )
        factor = ew.div(rest, at.shape[0] - order)
    if to.ndim == 2:
        base = reshape(base, (*base.shape, 1))
    return c, ew.mul(base, factor)


def _warn_of(rank: Arrayed, order: int) -> None:
    if has_value(rank) and int(known(rank)) != order:
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=5)
