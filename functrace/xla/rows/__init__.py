"""Lowerings of primitives to ``jax.lax``: a module for each module of `functrace.ops` and of
`functrace.control`.

Layer: 7.
"""

from collections.abc import Mapping
from typing import Final

from functrace.xla.rows import (
    banded,
    bessel,
    checks,
    cholesky,
    congruence,
    contraction,
    control,
    convolution,
    cosines,
    cumulative,
    edges,
    eigen,
    elementwise,
    fft,
    gamma_slope,
    grids,
    indexing,
    joining,
    linalg,
    lstsq,
    matrix_functions,
    norms,
    qr,
    random,
    reductions,
    segments,
    shaping,
    sorting,
    sparse,
    special,
    triangular,
    windows,
)

__all__ = [
    "HOST", "REFUSED", "banded", "bessel", "checks", "cholesky", "congruence",
    "contraction", "control", "convolution", "cosines", "cumulative", "edges", "eigen",
    "elementwise", "fft", "gamma_slope", "grids", "indexing", "joining", "linalg", "lstsq",
    "matrix_functions", "norms", "qr", "random", "reductions", "segments", "shaping",
    "sorting", "sparse", "special", "triangular", "windows",
]  # fmt: skip

_REJECTION = "NumPy draws by rejection, so the number of words that it takes depends on them"

HOST: Final[Mapping[str, str]] = {
    "callback": "it is a Python function",
    "draw": "SciPy's samplers draw by rejection",
    "observe": "it is a Python function",
    "quantile_of_integers": "JAX has no such function",
    "random_binomial": _REJECTION,
    "random_exponential": _REJECTION,
    "random_integers": _REJECTION,
    "random_loggamma": _REJECTION,
    "random_multinomial": _REJECTION,
    "random_normal": _REJECTION,
    "random_poisson": _REJECTION,
    "random_wald": _REJECTION,
    "sparse_solve": "the shapes of sparse factors depend on the values",
    **special.HOST,
    "sylvester": "XLA has the Schur form that it needs on the CPU only",
}
"""Primitives without a form in XLA, and why: they run in NumPy, if ``host_callbacks`` names them."""

_PACKED = (
    "its arrays stay on the device",
    "jit with another backend, or use functrace.checkpoint in place of pack",
)
_SCHEDULED = (
    "the schedule of a loop with checkpoint= runs step by step in Python",
    "omit checkpoint=, or checkpoint the body: scan(functrace.checkpoint(f), ...)",
)
REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    "pack": _PACKED,
    "unpack": _PACKED,
    "checkpointed_forward": _SCHEDULED,
    "checkpointed_reverse": _SCHEDULED,
}
"""Primitives that never run under XLA: why, and the way out."""
