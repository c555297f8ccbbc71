"""Lowerings of `functrace.ops.cosines`: Fourier transforms of extended arrays.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, cast, register, without_form

MOST = 512
"""Number of points up to which a spline filter is a product with a matrix."""


def _turns(x: Value, numerators: Value, denominator: int) -> Any:
    """Return ``exp(-i pi numerators / denominator)``, of the precision of an array."""
    return np.exp(-1j * np.pi * numerators / denominator).astype(
        np.complex64 if x.dtype in (np.float32, np.complex64) else np.complex128
    )


def _fft(x: Value, n: int) -> Any:
    return jnp.fft.fft(x, n)


def _dct1(x: Value) -> Any:
    n = x.shape[-1]
    return _fft(jnp.concatenate([x, x[..., -2:0:-1]], -1), 2 * n - 2)[..., :n]


def _dst1(x: Value) -> Any:
    n = x.shape[-1]
    zero = jnp.zeros_like(x[..., :1])
    whole = jnp.concatenate([zero, x, zero, -x[..., ::-1]], -1)
    return 1j * _fft(whole, 2 * n + 2)[..., 1 : n + 1]


def _dct2(x: Value) -> Any:
    n = x.shape[-1]
    found = _fft(jnp.concatenate([x, x[..., ::-1]], -1), 2 * n)[..., :n]
    return found * _turns(x, np.arange(n), 2 * n)


def _dct3(x: Value) -> Any:
    n = x.shape[-1]
    turns = _turns(x, np.arange(n), 2 * n)
    after = (x * np.conj(turns))[..., :0:-1]
    return _fft(jnp.concatenate([x * turns, jnp.zeros_like(after[..., :1]) if n > 1 else
                                 jnp.zeros_like(x * turns), after], -1), 2 * n)[..., :n]  # fmt: skip


def _dct4(x: Value) -> Any:
    n = x.shape[-1]
    if x.dtype.kind == "c":
        return _dct4(jnp.real(x)) + 1j * _dct4(jnp.imag(x))
    found = _fft(x * _turns(x, np.arange(n), 2 * n), 2 * n)[..., :n]
    return 2 * jnp.real(found * _turns(x, 2 * np.arange(n) + 1, 4 * n))


def _signs(x: Value) -> Any:
    return np.where(np.arange(x.shape[-1]) % 2, -1, 1).astype(x.dtype)


TRANSFORMS: Mapping[str, Callable[[Any], Any]] = {
    "dct1": _dct1,
    "dct2": _dct2,
    "dct3": _dct3,
    "dct4": _dct4,
    "dst1": _dst1,
    "dst2": lambda x: _dct2(x * _signs(x))[..., ::-1],
    "dst3": lambda x: _dct3(x[..., ::-1]) * _signs(x),
    "dst4": lambda x: _dct4(x[..., ::-1]) * _signs(x),
}
"""Transforms along the last axis, by kind; of real arrays the real part counts."""


@register(PRIMITIVES["cosines"])
def _cosines(op: Operation, x: Value, kind: str, axis: int) -> Any:
    wide = np.float32 if op.dtype == np.float16 else op.dtype
    x = jnp.moveaxis(cast(x, wide), axis, -1)
    return cast(jnp.moveaxis(TRANSFORMS[kind](x), -1, axis), op.dtype)


@register(PRIMITIVES["spline_coefficients"])
def _spline_coefficients(op: Operation, x: Value, order: int, kind: str, axis: int) -> Any:
    """The filter is linear: a matrix, unless the axis is long."""
    n = np.shape(x)[axis]
    if n > MOST:
        reason = f"its matrix is used for at most {MOST} points, here are {n}"
        return without_form(op, x, order, kind, axis, reason=reason)
    matrix: Any = op.primitive.eval(np.eye(n), order, kind, 0)
    found = jnp.moveaxis(cast(x, op.dtype), axis, -1) @ matrix.T
    return jnp.moveaxis(found, -1, axis)
