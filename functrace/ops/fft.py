"""Discrete Fourier transforms along one axis: ``fft``, ``ifft``, ``rfft``, ``irfft``.

Parameters are those of NumPy's functions: ``n`` (the axis is cut or padded to it first), the axis
(non-negative), and ``norm``, one of `NORMS`. All four are linear, and each other's transposes.

Note [Transposes of real transforms]
    ``fft`` and ``ifft`` are symmetric matrices, their own transposes. ``rfft`` gives half of a
    spectrum, whose other half is its mirror image, and ``irfft`` reads such a half: it counts every
    frequency twice except the first and, if ``n`` is even, the last one, whose imaginary parts it
    ignores. So the transpose of ``irfft`` is the conjugate of ``rfft`` with these frequencies
    doubled, and the transpose of ``rfft`` is ``irfft`` of the conjugate with the same ones halved.
    For odd ``n`` the last frequency is doubled, too.

Layer: 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import LINEAR, Flags, Operand, Primitive, Values
from functrace.ops import work
from functrace.ops.elementwise import conj, mul
from functrace.ops.indexing import embed_p, index_static
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

Norm = Literal["backward", "ortho", "forward"]
NORMS: dict[Norm, Norm] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""For each norm, the norm that gives the inverse transform the same scale."""


def _aval(function: Callable[..., Any], length: Callable[[int], int]) -> Callable[..., ShapeDtype]:
    def aval(x: ShapeDtype, n: int, axis: int, norm: Norm) -> ShapeDtype:
        if n < 1:
            raise ShapeError(
                f"{function.__name__}: {n} is no number of points",
                fix="transform at least one point",
            )
        dtype = function(np.zeros(1, x.dtype), 1).dtype
        return ShapeDtype((*x.shape[:axis], length(n), *x.shape[axis + 1 :]), dtype)

    return aval


def _flops(
    inputs: tuple[ShapeDtype, ...], outputs: tuple[ShapeDtype, ...], params: Mapping[str, Any]
) -> float:
    """5 n log2 n per transform, the usual count of split-radix algorithms; half if real."""
    n: int = params["n"]
    axis: int = params["axis"]
    rows = math.prod(outputs[0].shape) // max(1, outputs[0].shape[axis])
    real = inputs[0].dtype.kind != "c" or outputs[0].dtype.kind != "c"
    return (2.5 if real else 5) * rows * n * math.log2(max(n, 2))


def _resized(x: Array, size: int, axis: int) -> Any:
    """Truncate an axis, or pad it with zeros."""
    shape = shape_of(x)
    part = (*((None, None, None),) * axis, (None, min(size, shape[axis]), None))
    if size <= shape[axis]:
        return x if size == shape[axis] else index_static(x, part)
    whole = (*shape[:axis], size, *shape[axis + 1 :])
    return bind(embed_p, (x,), ((*part[:-1], (None, shape[axis], None)), whole))


def _weighted(x: Array, n: int, axis: int, weight: float) -> Any:
    """Scale frequencies that count twice. See Note [Transposes of real transforms]."""
    weights = np.full(n // 2 + 1, weight, x.dtype.type(0).real.dtype)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return mul(x, weights.reshape(-1, *(1,) * (len(shape_of(x)) - axis - 1)))


def _conj(x: Array) -> Any:
    return conj(x) if x.dtype.kind == "c" else x


def _symmetric(primitive_of: Callable[[], Primitive]) -> Any:
    def transpose(ct: Array, x: Operand, n: int, axis: int, norm: Norm) -> Any:
        return (_resized(bind(primitive_of(), (ct,), (n, axis, norm)), x.shape[axis], axis),)

    return transpose


def _rfft_transpose(ct: Array, x: Operand, n: int, axis: int, norm: Norm) -> Any:
    back = bind(irfft_p, (_weighted(_conj(ct), n, axis, 0.5),), (n, axis, NORMS[norm]))
    return (_resized(back, x.shape[axis], axis),)


def _irfft_transpose(ct: Array, x: Operand, n: int, axis: int, norm: Norm) -> Any:
    back = _weighted(conj(bind(rfft_p, (ct,), (n, axis, NORMS[norm]))), n, axis, 2.0)
    return (_resized(back, x.shape[axis], axis),)


def _along_next(primitive_of: Callable[[], Primitive]) -> Any:
    def batch(operands: Values, _is_batched: Flags, n: int, axis: int, norm: Norm) -> Any:
        return bind(primitive_of(), operands, (n, axis + 1, norm))

    return batch


fft_p = Primitive(
    "fft",
    eval=lambda x, n, axis, norm: np.fft.fft(x, n, axis, norm),
    aval=_aval(np.fft.fft, lambda n: n),
    jvp=LINEAR,
    transpose=_symmetric(lambda: fft_p),
    batch=_along_next(lambda: fft_p),
    params=("n", "axis", "norm"),
    written="np.fft.fft({0}, {n}, {axis}, {norm})",
    flops=_flops,
    scratch=work.transform,
)
ifft_p = Primitive(
    "ifft",
    eval=lambda x, n, axis, norm: np.fft.ifft(x, n, axis, norm),
    aval=_aval(np.fft.ifft, lambda n: n),
    jvp=LINEAR,
    transpose=_symmetric(lambda: ifft_p),
    batch=_along_next(lambda: ifft_p),
    params=("n", "axis", "norm"),
    written="np.fft.ifft({0}, {n}, {axis}, {norm})",
    flops=_flops,
    scratch=work.transform,
)
rfft_p = Primitive(
    "rfft",
    eval=lambda x, n, axis, norm: np.fft.rfft(x, n, axis, norm),
    aval=_aval(np.fft.rfft, lambda n: n // 2 + 1),
    jvp=LINEAR,
    transpose=_rfft_transpose,
    batch=_along_next(lambda: rfft_p),
    params=("n", "axis", "norm"),
    written="np.fft.rfft({0}, {n}, {axis}, {norm})",
    flops=_flops,
)
irfft_p = Primitive(
    "irfft",
    eval=lambda x, n, axis, norm: np.fft.irfft(x, n, axis, norm),
    aval=_aval(np.fft.irfft, lambda n: n),
    jvp=LINEAR,
    transpose=_irfft_transpose,
    batch=_along_next(lambda: irfft_p),
    params=("n", "axis", "norm"),
    written="np.fft.irfft({0}, {n}, {axis}, {norm})",
    flops=_flops,
)


def fourier(primitive: Primitive, x: Value, n: int, axis: int, norm: Norm) -> Any:
    """Transform ``n`` points of an axis (non-negative), padded with zeros if necessary."""
    return bind(primitive, (x,), (n, axis, norm))
