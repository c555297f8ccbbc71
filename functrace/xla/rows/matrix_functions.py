"""Lowerings of `functrace.ops.matrix_functions`.

``expm`` and what SciPy computes by it have a form; ``logm`` and ``sqrtm``, which need the triangular
form of Schur, run on the host, if the user says so.

Source: N. J. Higham, "The scaling and squaring method for the matrix exponential revisited" (2005).

Layer: 7.
"""

from __future__ import annotations

from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.errors import UnsupportedFunctionError
from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, cast, register, without_form
from functrace.xla.rows.linalg import solve
from functrace.xla.rows.matrices import in_one_stack, product

_LARGEST: Final = 5.371920351148152
"""Norm up to which the approximant of degree 13 is as precise as float64."""
_COEFFICIENTS: Final = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
    129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0,
    960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_SINGULAR: Final = "A singular matrix detected: slice(s) [0] are singular."
"""SciPy's message."""
_SQUARINGS: Final = 64
"""Most squarings: norms up to 1e20."""


def _expm(op: Operation, x: Value) -> Any:
    """Exponentials of a stack of matrices: an approximant, and squarings."""
    n = x.shape[-1]
    norm = jnp.max(jnp.sum(jnp.abs(x), axis=-2), axis=-1)
    count = jnp.ceil(jnp.log2(jnp.where(norm > _LARGEST, norm, _LARGEST) / _LARGEST))
    count = jnp.where(jnp.isfinite(norm), count, 0).astype(np.int32)
    op.require(
        count <= _SQUARINGS,
        UnsupportedFunctionError,
        f"expm of a matrix of norm above {_LARGEST * 2.0**_SQUARINGS:.0e} has no form in XLA",
        "scale the matrix, or jit with another backend",
    )
    scale = jnp.ldexp(jnp.ones((), norm.dtype), -count)[..., None, None]
    a, c, one = x * scale.astype(x.dtype), _COEFFICIENTS, np.eye(n, dtype=x.dtype)
    a2 = product(a, a)
    a4 = product(a2, a2)
    a6 = product(a4, a2)
    odd = product(a6, c[13] * a6 + c[11] * a4 + c[9] * a2)
    u = product(a, odd + c[7] * a6 + c[5] * a4 + c[3] * a2 + c[1] * one)
    v = product(a6, c[12] * a6 + c[10] * a4 + c[8] * a2) + c[6] * a6 + c[4] * a4 + c[2] * a2
    v = v + c[0] * one
    made = solve(op, v - u, v + u, None)

    def square(r: Value, k: Value) -> Any:
        def squared(r: Value) -> Any:
            return jnp.where((k < count)[..., None, None], product(r, r), r)

        return lax.cond(jnp.any(k < count), squared, lambda r: r, r), None

    return lax.scan(square, made, jnp.arange(_SQUARINGS, dtype=np.int32))[0]


def _parts(op: Operation, x: Value, is_hyperbolic: bool) -> tuple[Any, Any]:
    """Return cosines and sines of matrices, as SciPy computes them."""
    if is_hyperbolic:
        up, down = _expm(op, x), _expm(op, -x)
        return 0.5 * (up + down), 0.5 * (up - down)
    dtype = np.result_type(x.dtype, np.complex64)
    wide = op._replace(outputs=(op.outputs[0].__class__(op.shape, dtype),))
    up = _expm(wide, 1j * cast(x, dtype))
    if x.dtype.kind != "c":
        return up.real, up.imag
    down = _expm(wide, -1j * x)
    return 0.5 * (up + down), -0.5j * (up - down)


def _function(op: Operation, x: Value, name: str) -> Any:
    if name == "expm":
        return _expm(op, x)
    even, odd = _parts(op, x, name.endswith("hm"))
    if name.startswith("cos"):
        return even
    if name.startswith("sin"):
        return odd
    is_finite = jnp.isfinite(even) & jnp.isfinite(odd)
    op.require(is_finite, ValueError, "array must not contain infs or NaNs")
    return solve(op, even, odd, _SINGULAR)


@register(PRIMITIVES["matrix_function"])
def _matrix_function(op: Operation, x: Value, name: str) -> Any:
    if name in ("logm", "sqrtm"):
        return without_form(op, x, name)
    x = jnp.asarray(cast(x, op.dtype))
    return _function(op, x, name) if x.size else x


@register(PRIMITIVES["frechet"])
def _frechet(op: Operation, x: Value, t: Value, name: str) -> Any:
    """The upper right block of the function of [[x, t], [0, x]]."""
    if name in ("logm", "sqrtm"):
        return without_form(op, x, t, name)
    x, t = in_one_stack(op, [x, t])
    if not x.size:
        return x
    n = x.shape[-1]
    above = jnp.concatenate([x, t], -1)
    block = jnp.concatenate([above, jnp.concatenate([jnp.zeros_like(x), x], -1)], -2)
    aval = op.outputs[0].__class__(block.shape, op.dtype)
    return _function(op._replace(outputs=(aval,)), block, name)[..., :n, n:]


# -- LU --------------------------------------------------------------------------------------------


@register(PRIMITIVES["lu"])
def _lu(op: Operation, x: Value) -> Any:
    x = jnp.asarray(cast(x, op.dtype))
    if not x.size:
        return x, *[jnp.zeros(a.shape, a.dtype) for a in op.outputs[1:]]
    op.require(jnp.isfinite(x), ValueError, "array must not contain infs or NaNs")
    return tuple(lax.linalg.lu(x))


@register(PRIMITIVES["permutation_of_pivots"])
def _permutation(op: Operation, pivots: Value, rows: int) -> Any:
    pivots = jnp.asarray(pivots)
    if not pivots.size:
        return jnp.broadcast_to(jnp.arange(rows), op.shape)
    return lax.linalg.lu_pivots_to_permutation(pivots, rows)
