"""Linear algebra: solving, inverting, determinants and factorizations of stacks of square or
rectangular matrices.

Every primitive takes stacks like NumPy's gufuncs (matrices in the last two axes), so batching is
the primitive itself. Operands are float or complex and have at least two axes; the NumPy layer
ensures that.

Note [Functions of symmetric matrices]
    ``cholesky`` and ``eigh`` read one triangle of their operand. Their derivative is that of the
    function of the symmetric part (A + A^H) / 2, as in JAX and PyTorch: gradients are symmetric
    (Hermitian), and the two triangles share them.

Note [Phases of eigenvectors]
    A complex eigenvector may be multiplied by any number of modulus 1. LAPACK's choice follows from
    its tridiagonal form: the first element is real if the lower triangle is read, else the last
    one. Derivatives keep this phase: they are those of NumPy's vectors. Where that element is 0, it
    determines no phase, and the derivative is the one with the least rotation.

Source: M. Giles, "Collected matrix derivative results for forward and reverse mode AD" (2008); J.
Townsend, "Differentiating the singular value decomposition" (2016). See Note [Degenerate spectra]
in functrace/ops/matrices.py.

Layer: 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.errors import NotDifferentiableError
from functrace.ir.aval import ShapeDtype, aval_of, shape_of
from functrace.ir.primitive import Flags, Operand, Primitive, Tangents, Values, always, is_linear
from functrace.ops import counts, work
from functrace.ops.contraction import matmul, swap_last
from functrace.ops.elementwise import (
    absolute,
    add,
    div,
    equal,
    imag,
    less,
    mul,
    neg,
    plus,
    real,
    sign,
    sub,
    where,
)
from functrace.ops.indexing import index_static
from functrace.ops.matrices import (
    adjoint,
    aligned,
    as_column,
    as_row,
    check_square,
    conjugate,
    diagonal_of,
    gaps_inverse,
    hermitian_part,
    inverse_or_nan,
    last_two,
    mask,
    native_batch,
    not_linear,
    real_dtype,
    real_part,
    right_sides_aval,
    same_square,
    trace_of_product,
)
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import permute, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

# -- inv, solve ------------------------------------------------------------------------------------


def _inv_jvp(_primals: Values, outputs: Values, tangents: tuple[Array]) -> Any:
    (inverse,) = outputs
    return neg(matmul(matmul(inverse, tangents[0]), inverse))


inv_p = Primitive(
    "inv",
    eval=np.linalg.inv,
    aval=same_square("inv"),
    jvp=_inv_jvp,
    transpose=not_linear("inv"),
    batch=native_batch(lambda: inv_p),
    written="np.linalg.inv({0})",
    fails=always,
    flops=counts.cubic(2),
    scratch=work.lapack(work.inverse),
)


def inv(x: Value) -> Any:
    """Inverses of square matrices."""
    return bind(inv_p, (x,))


def _solve_jvp(primals: Values, outputs: Values, tangents: Tangents) -> Any:
    (a, _), (x,), (da, db) = primals, outputs, tangents
    if da is None:
        assert db is not None  # one of them is there
        return solve(a, db)
    moved = matmul(da, x)
    return neg(solve(a, moved)) if db is None else solve(a, sub(db, moved))


def _solve_transpose(ct: Array, a: Operand, b: Operand) -> Any:
    if is_linear(a):
        raise NotDifferentiableError(
            "solve is not linear in its matrix", fix="differentiate with functrace.vjp instead"
        )
    return None, solve(swap_last(a), ct)


def _solve_batch(operands: Values, is_batched: Flags) -> Any:
    (a, b), (p, _) = operands, is_batched
    left, right = shape_of(a), shape_of(b)
    if not p and len(left) == 2 and len(right) == 3:  # one matrix: one factorization
        count, n, k = right
        x = solve(a, reshape(permute(b, (1, 0, 2)), (n, count * k)))
        return permute(reshape(x, (n, count, k)), (1, 0, 2))
    a, b = aligned(operands, is_batched, (2, 2))
    return solve(a, b)


solve_p = Primitive(
    "solve",
    eval=np.linalg.solve,
    aval=lambda a, b: right_sides_aval("solve", a, b),
    jvp=_solve_jvp,
    transpose=_solve_transpose,
    batch=_solve_batch,
    written="np.linalg.solve({0}, {1})",
    fails=always,
    flops=counts.solve,
    scratch=work.lapack(work.solution),
)


def solve(a: Value, b: Value) -> Any:
    """Solve ``a x = b`` for stacks of matrices; ``b`` has at least two axes."""
    return bind(solve_p, (a, b))


# -- determinants ----------------------------------------------------------------------------------


def _det_aval(x: ShapeDtype) -> ShapeDtype:
    check_square("det", x)
    return ShapeDtype(x.shape[:-2], x.dtype)


def _det_jvp(primals: Values, _outputs: Values, tangents: tuple[Array]) -> Any:
    (x,) = primals
    return reduce_sum(mul(tangents[0], bind(cofactor_p, (x,))), last_two(x))


det_p = Primitive(
    "det",
    eval=np.linalg.det,
    aval=_det_aval,
    jvp=_det_jvp,
    transpose=not_linear("det"),
    batch=native_batch(lambda: det_p),
    written="np.linalg.det({0})",
    flops=counts.cubic(2 / 3),
    scratch=work.lapack(work.factorization),
)


def _cofactor_eval(x: Array) -> Any:
    if x.shape[-1] <= 3:
        return _small_cofactor(x)
    made, regular = _regular_cofactor(x)
    if not regular.all():
        made[~regular] = _singular_cofactor(x[~regular])
    return made


def _small_cofactor(x: Array) -> Any:
    """Cofactors of matrices of size 1, 2 and 3 by their definition, as polynomials of the
    elements.
    """
    n = x.shape[-1]
    if n < 2:
        return np.ones_like(x)
    out = np.empty(x.shape, x.dtype)
    if n == 2:
        out[..., 0, 0], out[..., 0, 1] = x[..., 1, 1], -x[..., 1, 0]
        out[..., 1, 0], out[..., 1, 1] = -x[..., 0, 1], x[..., 0, 0]
    else:
        _add_cross_products(x, x, out)
    return out


def _small_cofactor_change(x: Array, t: Array) -> Any:
    """Derivative of `_small_cofactor` in the direction ``t``: zero, linear in ``t``, or bilinear in
    ``x`` and ``t``.
    """
    shape, dtype = np.broadcast_shapes(x.shape, t.shape), np.result_type(x, t)
    n = shape[-1]
    if n < 2:
        return np.zeros(shape, dtype)
    if n == 2:
        return np.broadcast_to(_small_cofactor(t.astype(dtype, copy=False)), shape).copy()
    out, other = np.empty(shape, dtype), np.empty(shape, dtype)
    _add_cross_products(x, t, out)
    _add_cross_products(t, x, other)
    out += other
    return out


def _add_cross_products(x: Array, y: Array, out: Array) -> None:
    """Write cross products of the rows of 3 × 3 matrices to ``out``: rows k + 1 of ``x``, k + 2 of
    ``y``."""
    for i in range(3):
        a, b = x[..., (i + 1) % 3, :], y[..., (i + 2) % 3, :]
        for j in range(3):
            k, m = (j + 1) % 3, (j + 2) % 3
            np.subtract(a[..., k] * b[..., m], a[..., m] * b[..., k], out=out[..., i, j])


_WELL_CONDITIONED = 1e3
"""Bound on the condition numbers of matrices with cofactors det(x) x^-T: at most three digits are
lost."""


def _regular_cofactor(x: Array) -> tuple[Any, Any]:
    """Return cofactors det(x) x^-T, and which are accurate: 8x faster than the SVD."""
    inverse, d = _inv_or_nan_eval(x), np.asarray(np.linalg.det(x))
    with np.errstate(all="ignore"):
        condition = np.abs(x).sum(-1).max(-1) * np.abs(inverse).sum(-1).max(-1)
        regular = (condition < _WELL_CONDITIONED) & _is_normal(d)
        return d[..., None, None] * np.swapaxes(inverse, -1, -2), regular


def _is_normal(x: Array) -> Any:
    """Return True for numbers that are neither 0, subnormal, infinite nor NaN."""
    size = np.abs(x)
    return (size >= np.finfo(x.dtype).tiny) & (size <= np.finfo(x.dtype).max)


def _finite(x: Array) -> tuple[Any, Any]:
    """Replace non-finite matrices by 0, for LAPACK; return which they are."""
    is_bad = ~np.isfinite(x).all(axis=(-2, -1), keepdims=True)
    return (np.where(is_bad, x.dtype.type(0), x) if is_bad.any() else x), is_bad


def _balanced(x: Array) -> tuple[Any, Any, Any]:
    """Scale rows and columns of matrices to similar size by powers of two; return the exponents.

    Singular values are accurate relative to the greatest one: rows of 1e-40 are lost next to rows
    of 1e40.
    """
    rows = np.frexp(np.abs(x).max(axis=-1, keepdims=True, initial=0))[1]
    x = _scaled(x, -rows)
    columns = np.frexp(np.abs(x).max(axis=-2, keepdims=True, initial=0))[1]
    return _scaled(x, -columns), rows, columns


def _scaled(x: Array, exponents: Any) -> Any:
    """Multiply by powers of two, exactly, even if the powers alone are out of range."""
    if x.dtype.kind != "c":
        return np.ldexp(x, exponents)
    out = np.empty(np.broadcast_shapes(x.shape, exponents.shape), x.dtype)
    out.real, out.imag = np.ldexp(np.real(x), exponents), np.ldexp(np.imag(x), exponents)
    return out


def _singular_cofactor(x: Array) -> Any:
    x, is_bad = _finite(x)
    x, rows, columns = _balanced(x)
    # x = U S V^H gives cof(x) = det(U) det(V^H) conj(U) cof(S) conj(V^H): no division, so right for
    # singular x.
    u, s, vh = np.linalg.svd(x)
    before = np.ones_like(s)
    after = np.ones_like(s)
    before[..., 1:] = np.cumprod(s[..., :-1], axis=-1)
    after[..., :-1] = np.cumprod(s[..., :0:-1], axis=-1)[..., ::-1]
    unit = np.linalg.det(u) * np.linalg.det(vh)
    made = unit[..., None, None] * (np.conj(u) * (before * after)[..., None, :]) @ np.conj(vh)
    made = _scaled(
        made, rows.sum(-2, keepdims=True) - rows + columns.sum(-1, keepdims=True) - columns
    )
    nan: np.generic = x.dtype.type(np.nan)
    return np.where(is_bad, nan, made)


def _cofactor_jvp(primals: Values, _outputs: Values, tangents: tuple[Array]) -> Any:
    return bind(cofactor_change_p, (primals[0], tangents[0]))


cofactor_p = Primitive(
    "cofactor",
    eval=_cofactor_eval,
    aval=same_square("det"),
    jvp=_cofactor_jvp,
    transpose=not_linear("cofactor"),
    batch=native_batch(lambda: cofactor_p),
    fails=always,
    flops=counts.tall(14, 8),
    scratch=work.cofactors,
)


def _cofactor_change_eval(x: Array, t: Array) -> Any:
    if x.shape[-1] <= 3:
        return _small_cofactor_change(x, t)
    # In the basis of x = U S V^H, E = U^H t V changes adj(S) by -E_ij p_ij off the diagonal, and by
    # the sum of E_kk p_ik on it, where p_ij is the product of all singular values but the i-th and
    # j-th.
    x, is_bad = _finite(x)
    x, rows, columns = _balanced(x)
    t, is_bad_too = _finite(t)
    t = _scaled(t, -rows - columns)
    u, s, vh = np.linalg.svd(x)
    diagonal = np.eye(s.shape[-1], dtype=bool)
    left_out = diagonal[:, None, :] | diagonal[None, :, :]
    p = np.where(left_out, s.dtype.type(1), s[..., None, None, :]).prod(axis=-1) * ~diagonal
    uh, v = np.conj(np.swapaxes(u, -1, -2)), np.conj(np.swapaxes(vh, -1, -2))
    e: Array = uh @ t @ v
    on_it: Array = p @ np.diagonal(e, axis1=-2, axis2=-1)[..., None]
    inner = np.where(diagonal, on_it, -p * e)
    unit = np.linalg.det(u) * np.linalg.det(vh)
    made = np.swapaxes(unit[..., None, None] * (v @ inner @ uh), -1, -2)
    made = _scaled(
        made, rows.sum(-2, keepdims=True) - rows + columns.sum(-1, keepdims=True) - columns
    )
    nan: np.generic = made.dtype.type(np.nan)
    return np.where(is_bad | is_bad_too, nan, made)


def _cofactor_change_jvp(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    (x, t), (dx, dt) = primals, tangents
    total = None if dt is None else bind(cofactor_change_p, (x, dt))
    if dx is None:
        return total
    if x.shape[-1] <= 3:  # bilinear in x and t, and symmetric
        return plus(total, bind(cofactor_change_p, (t, dx)) if x.shape[-1] == 3 else None)
    # From the form for regular x: cof tr(x^-1 t) - cof t^T x^-T.
    inverse, cofactor, d_cofactor = inv(x), bind(cofactor_p, (x,)), bind(cofactor_change_p, (x, dx))
    d_inverse = neg(matmul(matmul(inverse, dx), inverse))
    t_turned = swap_last(t)
    change = sub(
        add(
            mul(d_cofactor, _trace_as_matrix(inverse, t)),
            mul(cofactor, _trace_as_matrix(d_inverse, t)),
        ),
        add(
            matmul(matmul(d_cofactor, t_turned), swap_last(inverse)),
            matmul(matmul(cofactor, t_turned), swap_last(d_inverse)),
        ),
    )
    return change if total is None else add(total, change)


def _trace_as_matrix(x: Array, y: Array) -> Any:
    trace = trace_of_product(x, y)
    return reshape(trace, (*shape_of(trace), 1, 1))


def _cofactor_change_batch(operands: Values, is_batched: Flags) -> Any:
    return bind(cofactor_change_p, aligned(operands, is_batched, (2, 2)))


def _cofactor_change_transpose(ct: Array, x: Operand, t: Operand) -> Any:
    # The second derivative of det is a symmetric form, and so its own transpose.
    if is_linear(x):
        raise NotDifferentiableError(
            "cofactor_change is not linear in x", fix="differentiate with functrace.vjp instead"
        )
    return None, bind(cofactor_change_p, (x, ct))


cofactor_change_p = Primitive(
    "cofactor_change",
    eval=_cofactor_change_eval,
    aval=lambda x, t: ShapeDtype(
        np.broadcast_shapes(x.shape, t.shape), np.result_type(x.dtype, t.dtype)
    ),
    jvp=_cofactor_change_jvp,
    transpose=_cofactor_change_transpose,
    batch=_cofactor_change_batch,
    fails=always,
)


def det(x: Value) -> Any:
    """Determinants. First and second derivatives are correct for singular matrices, and all of Taylor
    mode; higher ones by nested transforms need regular matrices."""
    return bind(det_p, (x,))


def _slogdet_aval(x: ShapeDtype) -> tuple[ShapeDtype, ShapeDtype]:
    check_square("slogdet", x)
    return ShapeDtype(x.shape[:-2], x.dtype), ShapeDtype(x.shape[:-2], real_dtype(x.dtype))


def _inv_or_nan_eval(x: Array) -> Any:
    if x.shape[-1] <= 3:
        with np.errstate(all="ignore"):
            cofactor = _small_cofactor(x)
            d = (x[..., :1, :] * cofactor[..., :1, :]).sum(-1, keepdims=True)
            if _is_normal(d).all():
                return np.swapaxes(cofactor, -1, -2) / d
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError:
        out = np.full_like(x, np.nan)
        for k in np.ndindex(x.shape[:-2]):
            try:
                out[k] = np.linalg.inv(x[k])
            except np.linalg.LinAlgError:
                continue
        return out


# slogdet of a singular matrix is -inf: its derivative is NaN, without an error for the stack.
inv_or_nan_p = Primitive(
    "inv_or_nan",
    eval=_inv_or_nan_eval,
    aval=same_square("slogdet"),
    jvp=_inv_jvp,
    transpose=not_linear("inv"),
    batch=native_batch(lambda: inv_or_nan_p),
    scratch=work.lapack(work.inverse),
)


def _slogdet_jvp(primals: Values, outputs: Values, tangents: tuple[Array]) -> Any:
    (x,), (unit, _) = primals, outputs
    trace = trace_of_product(bind(inv_or_nan_p, (x,)), tangents[0])
    if x.dtype.kind != "c":
        return None, trace
    return mul(unit, mul(imag(trace), 1j)), real(trace)


slogdet_p = Primitive(
    "slogdet",
    eval=lambda x: tuple(np.linalg.slogdet(x)),
    aval=_slogdet_aval,
    jvp=_slogdet_jvp,
    transpose=not_linear("slogdet"),
    batch=native_batch(lambda: slogdet_p),
    many=True,
    written="np.linalg.slogdet({0})",
    flops=counts.cubic(2 / 3),
    scratch=work.lapack(work.factorization),
)

# -- eigenvalues of symmetric matrices -------------------------------------------------------------


def _eigvalsh_aval(x: ShapeDtype, uplo: str) -> ShapeDtype:
    check_square("eigvalsh", x)
    return ShapeDtype(x.shape[:-1], real_dtype(x.dtype))


def _in_basis(vectors: Array, t: Array) -> Any:
    """V^H T V for the Hermitian part of T."""
    return matmul(matmul(adjoint(vectors), hermitian_part(t)), vectors)


def _eigvalsh_jvp(primals: Values, _outputs: Values, tangents: tuple[Array], uplo: str) -> Any:
    _, vectors = bind(eigh_p, primals, (uplo,))
    return real_part(diagonal_of(_in_basis(vectors, tangents[0])))


eigvalsh_p = Primitive(
    "eigvalsh",
    eval=lambda x, uplo: np.linalg.eigvalsh(x, uplo),
    aval=_eigvalsh_aval,
    jvp=_eigvalsh_jvp,
    transpose=not_linear("eigvalsh"),
    batch=native_batch(lambda: eigvalsh_p),
    params=("uplo",),
    written="np.linalg.eigvalsh({0}, {uplo})",
    fails=always,
    flops=counts.cubic(4 / 3),
    scratch=work.lapack(work.factorization),
)


def _eigh_aval(x: ShapeDtype, uplo: str) -> tuple[ShapeDtype, ShapeDtype]:
    check_square("eigh", x)
    return ShapeDtype(x.shape[:-1], real_dtype(x.dtype)), x


def _eigh_jvp(_primals: Values, outputs: Values, tangents: tuple[Array], uplo: str) -> Any:
    values, vectors = outputs
    inner = _in_basis(vectors, tangents[0])
    change = matmul(vectors, mul(inner, gaps_inverse(values)))
    if vectors.dtype.kind == "c" and vectors.shape[-1]:  # See Note [Phases of eigenvectors]
        row = (Ellipsis, (0, 1, None) if uplo == "L" else (-1, None, None), (None, None, None))
        fixed = real(index_static(vectors, row))
        free = less(absolute(fixed), float(np.sqrt(np.finfo(fixed.dtype).eps)))
        turn = where(free, 0.0, div(neg(imag(index_static(change, row))), where(free, 1.0, fixed)))
        change = add(change, mul(vectors, mul(turn, 1j)))
    return real_part(diagonal_of(inner)), change


eigh_p = Primitive(
    "eigh",
    eval=lambda x, uplo: tuple(np.linalg.eigh(x, uplo)),
    aval=_eigh_aval,
    jvp=_eigh_jvp,
    transpose=not_linear("eigh"),
    batch=native_batch(lambda: eigh_p),
    params=("uplo",),
    many=True,
    written="np.linalg.eigh({0}, {uplo})",
    fails=always,
    flops=counts.cubic(9),
    scratch=work.lapack(work.symmetric_eigenvectors),
)

# -- singular values -------------------------------------------------------------------------------


def _svdvals_aval(x: ShapeDtype) -> ShapeDtype:
    return ShapeDtype((*x.shape[:-2], min(x.shape[-2:])), real_dtype(x.dtype))


def _svdvals_jvp(primals: Values, outputs: Values, tangents: tuple[Array]) -> Any:
    u, _, vh = bind(svd_p, primals, (False,))
    change = real_part(diagonal_of(matmul(matmul(adjoint(u), tangents[0]), adjoint(vh))))
    return mul(
        change, sign(outputs[0])
    )  # 0 where a value is 0, like abs'(0) = 0, so that the nuclear norm has norm'(0) = 0


svdvals_p = Primitive(
    "svdvals",
    eval=lambda x: np.linalg.svd(x, compute_uv=False),
    aval=_svdvals_aval,
    jvp=_svdvals_jvp,
    transpose=not_linear("svdvals"),
    batch=native_batch(lambda: svdvals_p),
    written="np.linalg.svd({0}, compute_uv=False)",
    fails=always,
    flops=counts.tall(4, -4 / 3),
    scratch=work.lapack(work.factorization),
)


def _svd_aval(x: ShapeDtype, full: bool) -> tuple[ShapeDtype, ...]:
    *stack, m, n = x.shape
    k = min(m, n)
    return (
        ShapeDtype((*stack, m, m if full else k), x.dtype),
        ShapeDtype((*stack, k), real_dtype(x.dtype)),
        ShapeDtype((*stack, n if full else k, n), x.dtype),
    )


def _svd_jvp(primals: Values, outputs: Values, tangents: tuple[Array], full: bool) -> Any:
    (x,), (u, s, vh), (t,) = primals, outputs, tangents
    m, n = x.shape[-2:]
    if full and m != n:
        raise NotDifferentiableError(
            f"svd with full_matrices=True of {aval_of(x)}: the vectors that complete the basis "
            "have no derivative",
            fix="use np.linalg.svd(x, full_matrices=False), or np.linalg.svdvals(x) for the values "
            "alone",
        )
    uh, v = adjoint(u), adjoint(vh)
    inner = matmul(matmul(uh, t), v)
    factor = mul(
        gaps_inverse(s), div(1.0, _nonzero(add(as_row(s), as_column(s))))
    )  # 1 / (s_j^2 - s_i^2)
    left, right = mul(inner, as_row(s)), mul(inner, as_column(s))
    du = mul(add(left, adjoint(left)), factor)
    dv = mul(add(right, adjoint(right)), factor)
    per_value = as_row(inverse_or_nan(s, max(m, n)))
    if x.dtype.kind == "c":  # the phase of a pair of vectors is free; its change is in u
        phase = mask(sub(inner, adjoint(inner)), 0.5 * np.eye(s.shape[-1]))
        du = add(du, mul(phase, per_value))
    du, dv = matmul(u, du), matmul(v, dv)
    if m > n:
        rest = matmul(t, v)
        du = add(du, mul(sub(rest, matmul(u, matmul(uh, rest))), per_value))
    if n > m:
        rest = matmul(adjoint(t), u)
        dv = add(dv, mul(sub(rest, matmul(v, matmul(vh, rest))), per_value))
    return du, real_part(diagonal_of(inner)), adjoint(dv)


def _nonzero(x: Array) -> Any:
    return where(equal(x, 0), 1.0, x)


svd_p = Primitive(
    "svd",
    eval=lambda x, full: tuple(np.linalg.svd(x, full)),
    aval=_svd_aval,
    jvp=_svd_jvp,
    transpose=not_linear("svd"),
    batch=native_batch(lambda: svd_p),
    params=("full",),
    many=True,
    written="np.linalg.svd({0}, {full})",
    fails=always,
    flops=counts.tall(14, 8),
    scratch=work.singular_vectors,
)

# -- the Euclidean norm ----------------------------------------------------------------------------


def norm_eval(x: Array, axes: tuple[int, ...]) -> Any:
    """Compute the Euclidean norm of arrays."""
    squares = np.square(x) if x.dtype.kind != "c" else np.square(np.real(x)) + np.square(np.imag(x))
    return np.sqrt(np.add.reduce(squares, axis=axes))


def _norm_aval(x: ShapeDtype, axes: tuple[int, ...]) -> ShapeDtype:
    return ShapeDtype(tuple(n for k, n in enumerate(x.shape) if k not in axes), real_dtype(x.dtype))


def _norm_jvp(
    primals: Values, outputs: Values, tangents: tuple[Array], axes: tuple[int, ...]
) -> Any:
    # norm'(0) = 0: the sum is 0 there, and divided by 1.
    (x,), (norm,), (t,) = primals, outputs, tangents
    return div(real_part(reduce_sum(mul(conjugate(x), t), axes)), _nonzero(norm))


norm_p = Primitive(
    "norm",
    eval=norm_eval,
    aval=_norm_aval,
    jvp=_norm_jvp,
    transpose=not_linear("norm"),
    batch=lambda operands, _, axes: bind(norm_p, operands, (tuple(k + 1 for k in axes),)),
    params=("axes",),
    flops=counts.twice_per_input,
)


def euclidean_norm(x: Value, axes: tuple[int, ...]) -> Any:
    """sqrt(sum(abs(x)**2)) over axes (sorted, non-negative); its derivative at 0 is 0."""
    return bind(norm_p, (x,), (axes,))
