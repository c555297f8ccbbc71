"""Discrete cosine and sine transforms along one axis, and spline filters.

Note [Transposes of cosine transforms]
    These transforms are unscaled: SciPy's ``norm`` and ``orthogonalize`` are factors around them. A
    sine transform of type 1, and both of type 4, are symmetric matrices. Type 3 is the transpose of
    type 2 except for the one element that it counts once instead of twice: the first of a cosine
    transform, the last of a sine transform. A cosine transform of type 1 is symmetric once its
    first and last elements are counted twice, like the others.

Note [Transposes of spline filters]
    The filter is the inverse of the matrix that evaluates a spline at its grid points: a symmetric
    filter of 3 or 5 elements, applied to the coefficients extended beyond the edge. For half-step
    symmetric ("reflect") or periodic ("grid-wrap") extension, that matrix and its inverse are
    symmetric; for whole-step symmetric extension ("mirror") they are once the first and the last
    element have weight one half. SciPy's filter for "reflect" starts with a sum whose error is the
    power ``2 n`` of its pole: with few elements it is not symmetric, so its matrix is used.

Layer: 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import LINEAR, Operand, Primitive
from functrace.ops.contraction import matmul
from functrace.ops.elementwise import mul
from functrace.ops.shaping import moveaxis
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

KINDS = tuple([f"{name}{number}" for name in ("dct", "dst") for number in (1, 2, 3, 4)])
_OTHER = {"dct2": "dct3", "dct3": "dct2", "dst2": "dst3", "dst3": "dst2"}
EDGES = ("mirror", "reflect", "grid-wrap")
_FEW = 24
"""Elements up to which SciPy's filter for "reflect" shows its asymmetry: 0.43 ** (2 n) is rounding
then.
"""


def _cosines_eval(x: Array, kind: str, axis: int) -> Any:
    import scipy.fft

    function = scipy.fft.dct if kind.startswith("dct") else scipy.fft.dst
    return function(x, int(kind[3:]), axis=axis, norm="backward", orthogonalize=False)


def _cosines_aval(x: ShapeDtype, kind: str, axis: int) -> ShapeDtype:
    if kind not in KINDS or x.dtype.kind not in "fc":
        raise ShapeError(
            f"there is no transform {kind} of {x}", fix=f"name one of {KINDS}, and pass numbers"
        )
    if x.shape[axis] < (2 if kind == "dct1" else 1):
        raise ShapeError(
            f"{kind}: {x.shape[axis]} is no number of points", fix="transform more points"
        )
    return ShapeDtype(x.shape, x.dtype)


def _weighted(x: Array, axis: int, first: float, last: float) -> Any:
    """Multiply the first and the last element along an axis."""
    shape = shape_of(x)
    weights = np.ones(shape[axis], x.dtype.type(0).real.dtype)
    weights[0] *= first
    weights[-1] *= last
    return mul(x, weights.reshape(-1, *(1,) * (len(shape) - axis - 1)))


def _cosines_transpose(ct: Array, _x: Operand, kind: str, axis: int) -> Any:
    if kind not in _OTHER and kind != "dct1":
        return (cosines(ct, kind, axis),)
    first, last = {
        "dct1": (2.0, 2.0),
        "dct2": (2.0, 1.0),
        "dct3": (2.0, 1.0),
        "dst2": (1.0, 2.0),
        "dst3": (1.0, 2.0),
    }[kind]
    if kind in ("dct2", "dst2"):
        return (cosines(_weighted(ct, axis, first, last), _OTHER[kind], axis),)
    if kind == "dct1":
        ct = _weighted(ct, axis, first, last)
    return (_weighted(cosines(ct, _OTHER.get(kind, kind), axis), axis, 1 / first, 1 / last),)


def _cosines_flops(
    inputs: tuple[ShapeDtype, ...], _outputs: tuple[ShapeDtype, ...], params: Mapping[str, Any]
) -> float:
    axis: int = params["axis"]
    return 2.5 * inputs[0].size * math.log2(max(2, inputs[0].shape[axis]))


cosines_p = Primitive(
    "cosines",
    eval=_cosines_eval,
    aval=_cosines_aval,
    jvp=LINEAR,
    transpose=_cosines_transpose,
    batch=lambda operands, _, kind, axis: cosines(operands[0], kind, axis + 1),
    params=("kind", "axis"),
    flops=_cosines_flops,
)


def cosines(x: Value, kind: str, axis: int) -> Any:
    """Transform all points of an axis (non-negative), unscaled; ``kind`` is one of `KINDS`."""
    return bind(cosines_p, (x,), (kind, axis))


# -- splines ---------------------------------------------------------------------------------------


def _spline_eval(x: Array, order: int, kind: str, axis: int) -> Any:
    import scipy.ndimage

    return scipy.ndimage.spline_filter1d(
        x, order, axis, cast("Any", np.result_type(x, np.float64)), cast("Any", kind)
    )


def _spline_aval(x: ShapeDtype, order: int, kind: str, axis: int) -> ShapeDtype:
    if kind not in EDGES or not 2 <= order <= 5:
        raise ShapeError(
            f"there is no spline of order {order} continued by {kind!r}",
            fix=f"use orders 2 to 5, and {EDGES}",
        )
    return ShapeDtype(x.shape, np.result_type(x.dtype, np.float64))


def _spline_transpose(ct: Array, x: Operand, order: int, kind: str, axis: int) -> Any:
    if kind != "mirror" or x.shape[axis] < 2:
        return (spline_coefficients(ct, order, kind, axis),)
    found = spline_coefficients(_weighted(ct, axis, 2.0, 2.0), order, kind, axis)
    return (_weighted(found, axis, 0.5, 0.5),)


spline_coefficients_p = Primitive(
    "spline_coefficients",
    eval=_spline_eval,
    aval=_spline_aval,
    jvp=LINEAR,
    transpose=_spline_transpose,
    batch=lambda operands, _, order, kind, axis: spline_coefficients(
        operands[0], order, kind, axis + 1
    ),
    params=("order", "kind", "axis"),
    flops=lambda inputs, outputs, params: 4 * (params["order"] // 2) * inputs[0].size,
)


def spline_coefficients(x: Value, order: int, kind: str, axis: int) -> Any:
    """Return the double-precision coefficients of the spline through all points of an axis.

    Args:
        x: float64 or complex128.
        order: 2 to 5.
        kind: extension of the spline beyond the ends, one of `EDGES`.
        axis: the axis, non-negative.
    """
    size, last = shape_of(x)[axis], len(shape_of(x)) - 1
    if kind == "reflect" and 1 < size <= _FEW:
        filtered = _spline_eval(np.eye(size), order, kind, 0)
        return moveaxis(
            matmul(moveaxis(x, axis, last), np.ascontiguousarray(filtered.T)), last, axis
        )
    return bind(spline_coefficients_p, (x,), (order, kind, axis))
