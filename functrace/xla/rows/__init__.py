"""Lowerings of primitives to ``jax.lax``: a module for each module of `functrace.ops` and of
`functrace.control`.

Layer: 7.
"""

from collections.abc import Mapping
from typing import Final

from functrace.xla.rows import (
    banded,
    checks,
    cholesky,
    congruence,
    contraction,
    control,
    cumulative,
    eigen,
    elementwise,
    fft,
    indexing,
    joining,
    linalg,
    lstsq,
    matrix_functions,
    norms,
    qr,
    reductions,
    shaping,
    sorting,
    triangular,
)

__all__ = [
    "HOST", "REFUSED", "banded", "checks", "cholesky", "congruence", "contraction", "control", "cumulative",
    "eigen", "elementwise", "fft", "indexing", "joining", "linalg", "lstsq", "matrix_functions",
    "norms", "qr", "reductions", "shaping", "sorting", "triangular",
]  # fmt: skip

HOST: Final[Mapping[str, str]] = {
    "sylvester": "XLA has the Schur form that it needs on the CPU only",
}
"""Primitives without a form in XLA, and why: they run in NumPy, if ``host_callbacks`` names them."""

_PACKED = (
    "its arrays stay on the device",
    "jit with another backend, or use functrace.checkpoint in place of pack",
)
REFUSED: Final[Mapping[str, tuple[str, str]]] = {"pack": _PACKED, "unpack": _PACKED}
"""Primitives that never run under XLA: why, and the way out."""
